//! How far decomposed functions are from the truth, in units of the last place.

use crate::flat::Flat;
use kiln_compile::lower::decompose::decompose;
use kiln_compile::target::Target;
use kiln_ir::{DType, Op, UOp};

/// What a function is measured against.
pub(crate) type Truth = fn(f64) -> f64;

/// The functions, with what they are measured against and the bounds in units of the last place of f32 and f64.
pub(crate) const FUNCTIONS: [(Op, Truth, f64); 10] = [
    (Op::Exp, f64::exp, 4.0),
    (Op::Exp2, f64::exp2, 2.0),
    (Op::Log, f64::ln, 4.0),
    (Op::Log2, f64::log2, 2.0),
    (Op::Sin, f64::sin, 2.0),
    (Op::Cos, f64::cos, 4.0),
    (Op::Tanh, f64::tanh, 4.0),
    (Op::Expm1, f64::exp_m1, 2.0),
    (Op::Log1p, f64::ln_1p, 2.0),
    (Op::Sigmoid, sigmoid, 4.0),
];

fn sigmoid(x: f64) -> f64 {
    let power = (-x.abs()).exp();
    (if x < 0.0 { power } else { 1.0 }) / (1.0 + power)
}

/// The program of `op` on one variable of type `dtype`.
pub(crate) fn program(op: Op, dtype: DType) -> Flat {
    program_for(op, dtype, &Target::interp())
}

/// The program for a target.
pub(crate) fn program_for(op: Op, dtype: DType, target: &Target) -> Flat {
    let x = UOp::var(0, dtype, 0, 0);
    Flat::new(&decompose(&UOp::unary(op, &x), target))
}

/// The worst error over the f32 inputs with these bits, and the bits of the input that has it.
pub(crate) fn worst_f32(
    program: &Flat,
    truth: impl Fn(f64) -> f64,
    inputs: impl Iterator<Item = u32>,
) -> (f64, u32) {
    let mut worst = (0.0, 0);
    let mut inputs = inputs.peekable();
    while inputs.peek().is_some() {
        let block: Vec<u64> = inputs.by_ref().take(1024).map(u64::from).collect();
        for (&x, y) in block.iter().zip(program.run(&block)) {
            let error = error_f32(f32::from_bits(y as u32), truth(f32::from_bits(x as u32) as f64));
            if error > worst.0 {
                worst = (error, x as u32);
            }
        }
    }
    worst
}

/// The distance in units that f32 has at the truth. Values that f32 rounds to infinity count as infinite.
pub(crate) fn error_f32(y: f32, truth: f64) -> f64 {
    let nearest = truth as f32;
    if nearest.is_nan() || y.is_nan() || nearest.is_infinite() || y.is_infinite() {
        let same = nearest == y || (nearest.is_nan() && y.is_nan());
        return if same { 0.0 } else { f64::INFINITY };
    }
    let size = truth.abs().max(f32::MIN_POSITIVE as f64);
    let exponent = (size.to_bits() >> 52) as i64 - 1023;
    let unit = f64::from_bits(((exponent - 23 + 1023) as u64) << 52);
    (y as f64 - truth).abs() / unit
}
