//! Part of pass `decompose`: what the formulas share: polynomials, the bits of floats, small functions of them.

use kiln_ir::{Const, DType, Op, UOp};

/// How the formulas here add products: by `MulAdd`, or rounding twice where that is not an instruction.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    pub(super) fused: bool,
}

impl Sums {
    /// `a * b + c`.
    pub(super) fn mul_add(self, a: &UOp, b: &UOp, c: &UOp) -> UOp {
        if self.fused { UOp::ternary(Op::MulAdd, a, b, c) } else { a * b + c }
    }

    /// `x - whole * (c.0 + c.1)`.
    pub(super) fn less_multiple(self, x: &UOp, whole: &UOp, c: (f64, f64)) -> UOp {
        let most = self.mul_add(whole, &x.const_like(-c.0), x);
        self.mul_add(whole, &x.const_like(-c.1), &most)
    }

    /// `c[0] + x (c[1] + x (c[2] + ..))`.
    pub(super) fn polynomial(self, x: &UOp, c: &[f64]) -> UOp {
        let (last, rest) = c.split_last().expect("a coefficient");
        let add = |sum: UOp, &c: &f64| self.mul_add(&sum, x, &x.const_like(c));
        rest.iter().rev().fold(x.const_like(*last), add)
    }
}

/// How f32 and f64 are laid out, as far as the functions here take them apart.
pub(super) struct Format {
    /// The signed integer of the same size.
    pub(super) int: DType,
    /// Bits of the mantissa that are stored.
    pub(super) mantissa: i64,
    /// What is added to the exponent.
    pub(super) bias: i64,
    /// Adding it to a float of at most `2^(mantissa - 2)` in size leaves the nearest integer in the low bits.
    pub(super) rounder: f64,
}

impl Format {
    pub(super) fn of(x: &UOp) -> Format {
        match x.dtype() {
            DType::F32 => Format { int: DType::I32, mantissa: 23, bias: 127, rounder: 12582912.0 },
            DType::F64 => {
                Format { int: DType::I64, mantissa: 52, bias: 1023, rounder: 6755399441055744.0 }
            }
            other => unreachable!("{other} is computed in f32"),
        }
    }

    /// The bits of the float constant `value`, as a number.
    pub(super) fn bits(&self, value: f64) -> i64 {
        match self.int {
            DType::I32 => (value as f32).to_bits() as i64,
            _ => value.to_bits() as i64,
        }
    }
}

/// One of two numbers, by the type of `x`.
pub(super) fn by_type<T>(x: &UOp, for_f32: T, for_f64: T) -> T {
    if x.dtype() == DType::F32 { for_f32 } else { for_f64 }
}

/// The integer nearest to `x`, as a float and as a signed integer. `x` is small (see [`Format::rounder`]) or NaN.
pub(super) fn nearest(x: &UOp) -> (UOp, UOp) {
    let format = Format::of(x);
    let rounder = x.const_like(format.rounder);
    let moved = x + &rounder;
    let int = moved.bitcast(format.int) - format.bits(format.rounder);
    (moved - rounder, int)
}

/// The small integer `i` as a float of the type that `like` has.
pub(super) fn small_to_float(i: &UOp, like: &UOp) -> UOp {
    let format = Format::of(like);
    (i + format.bits(format.rounder)).bitcast(like.dtype()) - like.const_like(format.rounder)
}

/// The value clamped to `lo..=hi`; NaN stays.
pub(super) fn clamp(x: &UOp, lo: f64, hi: f64) -> UOp {
    x.maximum(&x.const_like(lo)).minimum(&x.const_like(hi))
}

pub(super) fn abs(x: &UOp) -> UOp {
    let format = Format::of(x);
    let all = by_type(x, i32::MAX as i64, i64::MAX);
    (x.bitcast(format.int) & all).bitcast(x.dtype())
}

pub(super) fn shl(x: &UOp, amount: i64) -> UOp {
    UOp::binary(Op::Shl, x, &x.const_like(amount))
}

pub(super) fn shr(x: &UOp, amount: i64) -> UOp {
    UOp::binary(Op::Shr, x, &x.const_like(amount))
}

pub(super) fn div(a: &UOp, b: &UOp) -> UOp {
    UOp::binary(Op::Div, a, b)
}

pub(super) fn trunc(x: &UOp) -> UOp {
    UOp::unary(Op::Trunc, x)
}

/// The constant that a scalar or every lane of a vector is.
pub(super) fn constant(x: &UOp) -> Option<Const> {
    if x.op() == Op::Splat { x.src(0).as_const() } else { x.as_const() }
}
