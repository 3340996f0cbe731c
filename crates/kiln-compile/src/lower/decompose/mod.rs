//! Rewrites what machines do not have into what they all have: transcendental functions into polynomials, flooring
//! division into the machine's, saturating casts into clamps, arithmetic on narrow floats into f32.
//!
//! What comes out is exact IR arithmetic (every op rounds once, nothing contracts), so all devices give the same bits, but
//! for those without `MulAdd`: there the formulas round its product too.
//! It holds no transcendental op, no `FloorDiv` or `FloorMod`, no shift past the width, no cast from a float that is
//! outside of the integer's range, no cast to bool, and no arithmetic on f16, bf16 or bool but `And`, `Or`, `Xor`, `Not`.

mod convert;
mod double;
mod exp;
mod integer;
mod log;
mod narrow;
mod pow;
mod remainder;
mod sigmoid;
mod tanh;
mod trig;

use crate::target::Target;
use kiln_ir::uop::{Srcs, mapped, rebuild, toposort};
use kiln_ir::{Const, DType, Op, UOp};
use narrow::{Wide, is_narrow};
use rustc_hash::FxHashMap;

/// The graph in ops that every language can print. The same for all targets, but for products that are added: some have no
/// fused multiply-add.
pub fn decompose(root: &UOp, target: &Target) -> UOp {
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut wide = Wide::over(Sums { fused: target.fma });
    for node in toposort(root) {
        let srcs = mapped(&node, &done);
        let new = node_in_machine_ops(&node, srcs, &mut wide);
        done.insert(node, new);
    }
    done[root].clone()
}

fn node_in_machine_ops(node: &UOp, srcs: Srcs, wide: &mut Wide) -> UOp {
    if node.op() == Op::Cast {
        return convert::cast(&srcs[0], node.dtype(), wide);
    }
    if node.op().is_alu() && srcs.iter().any(|s| is_narrow(s.dtype())) {
        return narrow::arithmetic(node, srcs, wide);
    }
    arithmetic(node, srcs, wide.sums)
}

/// The node over `srcs`, none of which is a narrow float (nor is the node one).
fn arithmetic(node: &UOp, srcs: Srcs, sums: Sums) -> UOp {
    match (node.op(), srcs.as_slice()) {
        (op, [x]) if op.is_transcendental() => transcendental(op, x, sums),
        (Op::Pow, [a, b]) => pow::pow(a, b, sums),
        (Op::FloorDiv, [a, b]) if a.dtype().is_float() => remainder::floor_div(a, b, sums),
        (Op::FloorMod, [a, b]) if a.dtype().is_float() => remainder::floor_mod(a, b, sums),
        (Op::FloorDiv, [a, b]) => integer::floor_div(a, b),
        (Op::FloorMod, [a, b]) => integer::floor_mod(a, b),
        (Op::Shl, [a, b]) => integer::shl(a, b),
        (Op::Shr, [a, b]) => integer::shr(a, b),
        (op, [a, b]) if op.is_alu() && a.dtype() == DType::Bool => bools(op, a, b),
        _ => rebuild(node, srcs),
    }
}

fn transcendental(op: Op, x: &UOp, sums: Sums) -> UOp {
    match op {
        Op::Exp => exp::exp(x, sums),
        Op::Exp2 => exp::exp2(x, sums),
        Op::Log => log::log(x, sums),
        Op::Log2 => log::log2(x, sums),
        Op::Sin => trig::sin(x, sums),
        Op::Cos => trig::cos(x, sums),
        Op::Tanh => tanh::tanh(x, sums),
        Op::Expm1 => exp::expm1(x, sums),
        Op::Log1p => log::log1p(x, sums),
        Op::Sigmoid => sigmoid::sigmoid(x, sums),
        _ => unreachable!("{op} is not transcendental"),
    }
}

/// Arithmetic and comparisons of bools, as logic.
fn bools(op: Op, a: &UOp, b: &UOp) -> UOp {
    match op {
        Op::Add | Op::Max => a | b,
        Op::Mul | Op::Min => a & b,
        Op::CmpNe => a ^ b,
        Op::CmpEq => UOp::unary(Op::Not, &(a ^ b)),
        Op::CmpLt => UOp::unary(Op::Not, a) & b,
        _ => UOp::binary(op, a, b),
    }
}

/// How the formulas here add products: by `MulAdd`, or rounding twice where that is not an instruction.
#[derive(Clone, Copy)]
struct Sums {
    fused: bool,
}

impl Sums {
    /// `a * b + c`.
    fn mul_add(self, a: &UOp, b: &UOp, c: &UOp) -> UOp {
        if self.fused { UOp::ternary(Op::MulAdd, a, b, c) } else { a * b + c }
    }

    /// `x - whole * (c.0 + c.1)`.
    fn less_multiple(self, x: &UOp, whole: &UOp, c: (f64, f64)) -> UOp {
        let most = self.mul_add(whole, &x.const_like(-c.0), x);
        self.mul_add(whole, &x.const_like(-c.1), &most)
    }

    /// `c[0] + x (c[1] + x (c[2] + ..))`.
    fn polynomial(self, x: &UOp, c: &[f64]) -> UOp {
        let (last, rest) = c.split_last().expect("a coefficient");
        let add = |sum: UOp, &c: &f64| self.mul_add(&sum, x, &x.const_like(c));
        rest.iter().rev().fold(x.const_like(*last), add)
    }
}

/// How f32 and f64 are laid out, as far as the functions here take them apart.
struct Format {
    /// The signed integer of the same size.
    int: DType,
    /// Bits of the mantissa that are stored.
    mantissa: i64,
    /// What is added to the exponent.
    bias: i64,
    /// Adding it to a float of at most `2^(mantissa - 2)` in size leaves the nearest integer in the low bits.
    rounder: f64,
}

impl Format {
    fn of(x: &UOp) -> Format {
        match x.dtype() {
            DType::F32 => Format { int: DType::I32, mantissa: 23, bias: 127, rounder: 12582912.0 },
            DType::F64 => {
                Format { int: DType::I64, mantissa: 52, bias: 1023, rounder: 6755399441055744.0 }
            }
            other => unreachable!("{other} is computed in f32"),
        }
    }

    /// The bits of the float constant `value`, as a number.
    fn bits(&self, value: f64) -> i64 {
        match self.int {
            DType::I32 => (value as f32).to_bits() as i64,
            _ => value.to_bits() as i64,
        }
    }
}

/// One of two numbers, by the type of `x`.
fn by_type<T>(x: &UOp, for_f32: T, for_f64: T) -> T {
    if x.dtype() == DType::F32 { for_f32 } else { for_f64 }
}

/// The integer nearest to `x`, as a float and as a signed integer. `x` is small (see [`Format::rounder`]) or NaN.
fn nearest(x: &UOp) -> (UOp, UOp) {
    let format = Format::of(x);
    let rounder = x.const_like(format.rounder);
    let moved = x + &rounder;
    let int = moved.bitcast(format.int) - format.bits(format.rounder);
    (moved - rounder, int)
}

/// The small integer `i` as a float of the type that `like` has.
fn small_to_float(i: &UOp, like: &UOp) -> UOp {
    let format = Format::of(like);
    (i + format.bits(format.rounder)).bitcast(like.dtype()) - like.const_like(format.rounder)
}

/// The value clamped to `lo..=hi`; NaN stays.
fn clamp(x: &UOp, lo: f64, hi: f64) -> UOp {
    x.maximum(&x.const_like(lo)).minimum(&x.const_like(hi))
}

fn abs(x: &UOp) -> UOp {
    let format = Format::of(x);
    let all = by_type(x, i32::MAX as i64, i64::MAX);
    (x.bitcast(format.int) & all).bitcast(x.dtype())
}

fn shl(x: &UOp, amount: i64) -> UOp {
    UOp::binary(Op::Shl, x, &x.const_like(amount))
}

fn shr(x: &UOp, amount: i64) -> UOp {
    UOp::binary(Op::Shr, x, &x.const_like(amount))
}

fn div(a: &UOp, b: &UOp) -> UOp {
    UOp::binary(Op::Div, a, b)
}

fn trunc(x: &UOp) -> UOp {
    UOp::unary(Op::Trunc, x)
}

/// The constant that a scalar or every lane of a vector is.
fn constant(x: &UOp) -> Option<Const> {
    if x.op() == Op::Splat { x.src(0).as_const() } else { x.as_const() }
}
