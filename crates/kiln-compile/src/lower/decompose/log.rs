//! Part of pass `decompose`: logarithms. Exponent and mantissa are separated; the mantissa `m` goes into the odd series
//! in `(m - 1) / (m + 1)`.

use super::exp::{LN2_F32, LN2_F64};
use super::pieces::{Format, Sums, abs, by_type, div, shl, shr, small_to_float};
use kiln_ir::{DType, UOp};

/// `(ln((1 + s) / (1 - s)) - 2 s) / s^3` in `z = s^2`, for mantissas between `sqrt(1/2)` and `sqrt(2)`.
const SERIES_F32: [f64; 4] = [0.666666666, 0.400001222, 0.285507786, 0.233316145];
const SERIES_F64: [f64; 7] = [
    0.666666666666667,
    0.3999999999989889,
    0.28571428626253836,
    0.22222211089379496,
    0.1818289243253687,
    0.15331611722055008,
    0.14617807153417325,
];

/// `ln(2)` and `1 / ln(2)` in two parts: products with the first are exact.
const LOG2_E_F32: (f64, f64) = (1.4423828125, 0.00031222838896340733);
const LOG2_E_F64: (f64, f64) = (1.4426937103271484, 1.33056181496986e-06);

/// `ln(x) = exponent * ln(2) + ln(1 + f)`, where `ln(1 + f) = f - half_square + correction`.
struct Parts {
    exponent: UOp,
    f: UOp,
    half_square: UOp,
    correction: UOp,
}

/// The natural logarithm.
pub(super) fn log(x: &UOp, sums: Sums) -> UOp {
    let p = parts(x, sums);
    let small = p.correction.clone();
    at_the_edges(x, &natural(x, &p, &small, sums))
}

/// `exponent * ln(2) + f - half_square + small`.
fn natural(x: &UOp, p: &Parts, small: &UOp, sums: Sums) -> UOp {
    let (ln2, ln2_rest) = by_type(x, LN2_F32, LN2_F64);
    let small = sums.mul_add(&p.exponent, &x.const_like(ln2_rest), small);
    let rest = &p.f - (&p.half_square - small);
    sums.mul_add(&p.exponent, &x.const_like(ln2), &rest)
}

/// The logarithm to base 2. `ln(1 + f)` is kept in two parts, the first of half the bits, so that the product with
/// `1 / ln(2)` loses nothing before the last addition.
pub(super) fn log2(x: &UOp, sums: Sums) -> UOp {
    let p = parts(x, sums);
    let (log2_e, log2_e_rest) = by_type(x, LOG2_E_F32, LOG2_E_F64);
    let (log2_e, log2_e_rest) = (&x.const_like(log2_e), &x.const_like(log2_e_rest));
    let high = &upper_half(&(&p.f - &p.half_square));
    let low = &(p.f - high - p.half_square + p.correction);
    let main = &(high * log2_e);
    let rest = sums.mul_add(low, log2_e, &((low + high) * log2_e_rest));
    let sum = &(&p.exponent + main);
    let lost = p.exponent - sum + main;
    at_the_edges(x, &(rest + lost + sum))
}

/// `ln(1 + x)`. The sum's exponent and mantissa, and what the addition lost. A small `x` is the mantissa less 1 itself.
pub(super) fn log1p(x: &UOp, sums: Sums) -> UOp {
    let sum = &(x + 1);
    let (exponent, f) = split(sum);
    let unmoved = &exponent.eq_(&exponent.const_like(0));
    let p = parts_of(x, exponent.clone(), unmoved.where_(x, &f), sums);
    let back = sum - 1;
    let lost = x - back;
    let share = unmoved.where_(&x.const_like(0.0), &div(&lost, sum));
    let y = natural(x, &p, &(&p.correction + share), sums);
    let tiny = abs(x).lt(&x.const_like(by_type(x, 2f64.powi(-26), 2f64.powi(-55))));
    tiny.where_(x, &at_the_edges(sum, &y))
}

fn parts(x: &UOp, sums: Sums) -> Parts {
    let (exponent, f) = split(x);
    parts_of(x, exponent, f, sums)
}

/// Those of `2^exponent (1 + f)`.
fn parts_of(x: &UOp, exponent: UOp, f: UOp, sums: Sums) -> Parts {
    let s = &div(&f, &(&f + 2));
    let z = &(s * s);
    let half_square = &f * &f * x.const_like(0.5);
    let series = sums.polynomial(z, by_type(x, &SERIES_F32, &SERIES_F64));
    let correction = s * sums.mul_add(z, &series, &half_square);
    Parts { exponent: small_to_float(&exponent, x), f, half_square, correction }
}

/// The integer exponent and the mantissa less 1. Subnormals are made normal first.
pub(super) fn split(x: &UOp) -> (UOp, UOp) {
    let Format { int, mantissa, .. } = Format::of(x);
    let tiny = &x.lt(&x.const_like(by_type(x, f32::MIN_POSITIVE as f64, f64::MIN_POSITIVE)));
    let normal = tiny.where_(&(x * x.const_like(((1i64 << mantissa) as f64) * 4.0)), x);
    let bits = &normal.bitcast(int);
    let above = bits - Format::of(x).bits(std::f64::consts::FRAC_1_SQRT_2);
    let exponent = shr(&above, mantissa);
    let m = (bits - shl(&exponent, mantissa)).bitcast(x.dtype());
    let moved = &exponent - (mantissa + 2);
    (tiny.where_(&moved, &exponent), m - 1)
}

fn upper_half(x: &UOp) -> UOp {
    let mask = by_type(x, -1 << 12, -1 << 32);
    (x.bitcast(Format::of(x).int) & mask).bitcast(x.dtype())
}

/// 0 has the logarithm `-inf`, negative numbers have none, and infinity and NaN have themselves.
fn at_the_edges(x: &UOp, y: &UOp) -> UOp {
    debug_assert!(matches!(x.dtype(), DType::F32 | DType::F64));
    let zero = &x.const_like(0.0);
    let upper = x.lt(&x.const_like(f64::INFINITY)).where_(y, x);
    let lower = x.eq_(zero).where_(&x.const_like(f64::NEG_INFINITY), &x.const_like(f64::NAN));
    zero.lt(x).where_(&upper, &lower)
}
