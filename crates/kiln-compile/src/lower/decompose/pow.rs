//! Part of pass `decompose`: `x^y = 2^(y log2 |x|)`, with enough places of the logarithm for any exponent: f32 in f64,
//! f64 in two parts.

use super::double::Double;
use super::exp::{Biases, biased, nearest_power, one, scale};
use super::pieces::{Format, Sums, abs, by_type, clamp, div, small_to_float, trunc};
use super::{exp, log};
use kiln_ir::{DType, Op, UOp};
use std::f64::consts::LOG2_E;

/// `(atanh(s) / s - 1) / s^2` in `s^2`, for mantissas between `sqrt(1/2)` and `sqrt(2)`: enough for f32.
const ATANH: [f64; 5] = [
    0.33333333333687726,
    0.19999999398424337,
    0.1428587731786638,
    0.11095697246587528,
    0.09681388418373767,
];

/// `((atanh(s) / s - 1) / s^2 - 1 / 3) / s^2` in `s^2`.
const ATANH_TAIL: [f64; 8] = [
    0.2,
    0.14285714285714682,
    0.11111111110827943,
    0.09090909167696401,
    0.07692297481259215,
    0.06667402346923655,
    0.05853118169745603,
    0.05861589311938259,
];

/// `1 / 3` and `2 / ln(2)` in two parts.
const THIRD: (f64, f64) = (0.3333333333333333, 1.850371707708594e-17);
const TWICE_LOG2_E: (f64, f64) = (2.0 * LOG2_E, 4.0710547481862066e-17);

/// `(2^r - 1) / r` for `|r| <= 1 / 2`: enough for f32.
const EXP2: [f64; 7] = [
    std::f64::consts::LN_2,
    0.2402265092256076,
    0.05550410883930555,
    0.00961805662050108,
    0.001333350234150156,
    0.00015461467905285986,
    1.529734162283227e-05,
];

/// `x^y`, with IEEE's special cases.
pub(super) fn pow(x: &UOp, y: &UOp, sums: Sums) -> UOp {
    let of_size = if x.dtype() == DType::F32 { by_f64(x, y, sums) } else { by_parts(x, y, sums) };
    let is_one = y.eq_(&y.const_like(0.0)) | abs(x).eq_(&one(x));
    with_sign(x, y, &is_one.where_(&one(x), &of_size))
}

/// `|x|^y` of f32.
fn by_f64(x: &UOp, y: &UOp, sums: Sums) -> UOp {
    let (x, y) = (&abs(x).cast(DType::F64), y.cast(DType::F64));
    let (exponent, f) = log::split(x);
    let s = &div(&f, &(&f + 2));
    let z = &(s * s);
    let series = sums.mul_add(z, &sums.polynomial(z, &ATANH), &one(x));
    let log2 =
        sums.mul_add(&(s * series), &x.const_like(2.0 * LOG2_E), &small_to_float(&exponent, x));
    let power = &clamp(&(log_at_the_edges(x, &log2) * y), -200.0, 200.0);
    let (whole, n) = nearest_power(power, 1.0, Biases::One, sums);
    let r = &(power - whole);
    let part = sums.mul_add(r, &sums.polynomial(r, &EXP2), &one(x));
    (part * biased(&n, x)).cast(DType::F32)
}

/// `|x|^y` of f64.
fn by_parts(x: &UOp, y: &UOp, sums: Sums) -> UOp {
    let x = &abs(x);
    let log2 = log2_in_parts(x, sums);
    let power = Double::product(&log_at_the_edges(x, &log2.high), y, sums);
    let low = sums.mul_add(&log2.low, y, &power.low);
    // what is infinite has no low part
    let finite = abs(&power.high).lt(&x.const_like(4096.0));
    exp2_of_parts(&power.high, &finite.where_(&low, &x.const_like(0.0)), sums)
}

/// `2^(high + low)`.
fn exp2_of_parts(high: &UOp, low: &UOp, sums: Sums) -> UOp {
    let high = &clamp(high, -1080.0, 1030.0);
    let (whole, n) = nearest_power(high, 1.0, Biases::Two, sums);
    let r = Double::sum(&(high - whole), low);
    let lost = r.low * high.const_like(std::f64::consts::LN_2);
    let part = one(high) + sums.mul_add(&r.high, &sums.polynomial(&r.high, &exp::EXP2_F64), &lost);
    scale(&part, &n)
}

/// `log2(x)` of a positive f64, to some 65 bits: the first terms of the series in two parts.
fn log2_in_parts(x: &UOp, sums: Sums) -> Double {
    let (exponent, f) = log::split(x);
    let s = quotient_by_next(&f, sums);
    let z = s.times(&s, sums);
    let tail = Double::product(&z.high, &sums.polynomial(&z.high, &ATANH_TAIL), sums);
    let third = Double::constant(x, THIRD);
    let series = Double::sum(&third.high, &tail.high).plus(&(third.low + tail.low));
    let rest = s.times(&z.times(&series, sums), sums);
    let atanh = Double::sum(&s.high, &rest.high).plus(&(s.low + rest.low));
    let log2 = atanh.times(&Double::constant(x, TWICE_LOG2_E), sums);
    Double::sum(&small_to_float(&exponent, x), &log2.high).plus(&log2.low)
}

/// `f / (f + 2)`.
fn quotient_by_next(f: &UOp, sums: Sums) -> Double {
    let divisor = Double::sum(&f.const_like(2.0), f);
    let high = div(f, &divisor.high);
    let product = Double::product(&high, &divisor.high, sums);
    let rest = f - &product.high - product.low - &high * divisor.low;
    let low = div(&rest, &divisor.high);
    Double { high, low }
}

/// The logarithms of 0, infinity and NaN.
fn log_at_the_edges(x: &UOp, log2: &UOp) -> UOp {
    let finite = x.lt(&x.const_like(f64::INFINITY)).where_(log2, x);
    x.eq_(&x.const_like(0.0)).where_(&x.const_like(f64::NEG_INFINITY), &finite)
}

/// The sign of an odd power of what is negative; others of a negative number are NaN where they are not whole.
fn with_sign(x: &UOp, y: &UOp, of_size: &UOp) -> UOp {
    let Format { int, .. } = Format::of(x);
    let zero = &x.const_like(0.0);
    let whole = &trunc(y).eq_(y);
    let half = &(y * y.const_like(0.5));
    let odd = whole & trunc(half).ne_(half);
    let sign = x.bitcast(int) & by_type(x, i32::MIN as i64, i64::MIN);
    let bits = of_size.bitcast(int) ^ odd.where_(&sign, &sign.const_like(0));
    let negative = x.lt(zero) & x.const_like(f64::NEG_INFINITY).lt(x);
    let none = negative & UOp::unary(Op::Not, whole);
    none.where_(&x.const_like(f64::NAN), &bits.bitcast(x.dtype()))
}
