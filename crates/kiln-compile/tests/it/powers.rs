//! Powers and remainders of floats: formulas of two operands.

use crate::flat::Flat;
use crate::ulp::worst_f32;
use kiln_compile::lower::decompose::decompose;
use kiln_compile::target::Target;
use kiln_ir::uop::toposort;
use kiln_ir::{Const, DType, Op, UOp, eval};
use rustc_hash::FxHashMap;

fn targets() -> [Target; 2] {
    [true, false].map(|fma| Target { fma, ..Target::interp() })
}

const EXPONENTS: [f64; 12] =
    [-3.7, 0.3, 1.0 / 3.0, 2.5, 17.0, -0.001, 100.25, 1e-30, 5.0, -2.0, 1e7, -9.0];

#[test]
fn powers_of_f32_are_nearly_the_nearest() {
    let x = UOp::var(0, DType::F32, 0, 0);
    for target in targets() {
        for e in EXPONENTS.map(|e| e as f32 as f64) {
            let of_base =
                Flat::new(&decompose(&UOp::binary(Op::Pow, &x, &x.const_like(e)), &target));
            let inputs = (0..=u32::MAX).step_by(400_009);
            let (worst, at) = worst_f32(&of_base, |x| x.powf(e), inputs.clone());
            assert!(worst <= 0.51, "{} ^ {e}: {worst} ulp", f32::from_bits(at));
            let of_exponent =
                Flat::new(&decompose(&UOp::binary(Op::Pow, &x.const_like(e), &x), &target));
            let (worst, at) = worst_f32(&of_exponent, |x| e.powf(x), inputs);
            assert!(worst <= 0.51, "{e} ^ {}: {worst} ulp", f32::from_bits(at));
        }
    }
}

/// Of what `seed` says, of all sizes.
fn random(seed: u64) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(seed | 1)
}

#[test]
fn powers_of_f64_are_near_the_library() {
    let x = UOp::var(0, DType::F64, 0, 0);
    let ordinary = |r: u64| (r as f64 / u64::MAX as f64 * 40.0).to_bits();
    let inputs: Vec<u64> = (1..4000).map(random).flat_map(|r| [r, ordinary(r)]).collect();
    for target in targets() {
        for e in EXPONENTS {
            let program =
                Flat::new(&decompose(&UOp::binary(Op::Pow, &x, &x.const_like(e)), &target));
            for (&x, y) in inputs.iter().zip(program.run(&inputs)) {
                let (x, y) = (f64::from_bits(x), f64::from_bits(y));
                let right = x.powf(e);
                let same = y == right || (y.is_nan() && right.is_nan());
                let apart = y.to_bits().abs_diff(right.to_bits());
                assert!(same || apart <= 2, "{x} ^ {e}: {y}, not {right}");
            }
        }
    }
}

/// The value of an expression over two variables.
fn value(order: &[UOp], vars: [Const; 2]) -> Const {
    let mut known: FxHashMap<&UOp, Const> = FxHashMap::default();
    for node in order {
        let srcs: Vec<Const> = node.srcs().iter().map(|s| known[s]).collect();
        let value = match node.op() {
            Op::Const => node.as_const(),
            Op::Var => Some(vars[node.arg().slot().expect("slot")]),
            Op::Bitcast => eval::bitcast(srcs[0], node.src(0).dtype(), node.dtype()),
            op => eval::eval(op, node.dtype(), &srcs),
        };
        known.insert(node, value.expect("a value"));
    }
    known[order.last().expect("a root")]
}

fn operands(dtype: DType) -> Vec<Const> {
    let bits = (1..24).map(|i| eval::from_bits(random(i + 77) >> (64 - dtype.bits()), dtype));
    let plain = [0.0, 1.0, 3.0, 0.1, 5.5, 1e9, 987767.94, 3.06, f64::INFINITY, 6e-8, 65504.0];
    let both = plain.into_iter().flat_map(|x| [x, -x]).chain([f64::NAN, f64::MAX, 5e-324]);
    both.map(|x| Const::Float(x).cast(dtype)).chain(bits).collect()
}

#[test]
fn float_division_that_rounds_down_means_the_same_on_machines() {
    for target in targets() {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            let [x, y] = [0, 1].map(|slot| UOp::var(slot, dtype, 0, 0));
            for op in [Op::FloorDiv, Op::FloorMod] {
                let order = toposort(&decompose(&UOp::binary(op, &x, &y), &target));
                for a in operands(dtype) {
                    for b in operands(dtype) {
                        let right = eval::eval(op, dtype, &[a, b]).expect("a float");
                        let got = value(&order, [a, b]);
                        let [x, y] = [got, right].map(|c| eval::to_bits(c, dtype));
                        let nan = [got, right].map(|c| c.as_f64().is_nan()) == [true; 2];
                        assert!(nan || x == y, "{op} {dtype} {a} {b}: {got}, not {right}");
                    }
                }
            }
        }
    }
}
