//! `e^x` and `2^x`: the nearest power of two times a polynomial on what is left.

use super::{Format, by_type, clamp, polynomial, shl, shr};
use kiln_ir::UOp;

/// `(e^r - 1 - r) / r^2` for `|r| <= ln(2) / 2`.
const EXP_F32: [f64; 5] = [0.5, 0.166665767, 0.0416665542, 0.00836323288, 0.00139262508];
const EXP_F64: [f64; 11] = [
    0.5,
    0.1666666666666667,
    0.04166666666666667,
    0.008333333333326084,
    0.0013888888888883711,
    0.0001984126987500228,
    2.480158732567746e-05,
    2.755725517000089e-06,
    2.755727347871858e-07,
    2.5105312729622103e-08,
    2.09147553258932e-09,
];

/// `(2^r - 1) / r` for `|r| <= 1 / 2`.
const EXP2_F32: [f64; 6] =
    [0.693147188, 0.240226508, 0.0555035711, 0.00961808256, 0.00133908634, 0.000154531629];
const EXP2_F64: [f64; 12] = [
    std::f64::consts::LN_2,
    0.24022650695910072,
    0.055504108664821625,
    0.00961812910762848,
    0.001333355814640647,
    0.00015403530393370734,
    1.5252733841556773e-05,
    1.3215486808705563e-06,
    1.0178057087733941e-07,
    7.0548973041554995e-09,
    4.4558179083360645e-10,
    2.5729324177362305e-11,
];

/// `ln(2)` in two parts; the first has so few bits that its product with an exponent is exact.
const LN2_F32: (f64, f64) = (0.693145751953125, 1.4286068203094173e-06);
const LN2_F64: (f64, f64) = (0.6931471805598903, 5.497923018708371e-14);

/// `e^x`. Outside of the bounds the result is infinite or 0 anyway.
pub(super) fn exp(x: &UOp) -> UOp {
    let x = &by_type(x, clamp(x, -104.0, 89.0), clamp(x, -746.0, 710.0));
    let (part, power) = exp_parts(x);
    scale(&part, &power)
}

/// `2^x`.
pub(super) fn exp2(x: &UOp) -> UOp {
    let x = &by_type(x, clamp(x, -151.0, 129.0), clamp(x, -1076.0, 1025.0));
    let (whole, power) = nearest_power(x);
    let r = &(x - whole);
    let part = r * polynomial(r, by_type(x, &EXP2_F32, &EXP2_F64)) + 1;
    scale(&part, &power)
}

/// `e^x` as a number near 1 and the power of two of [`nearest_power`], for an `x` that is clamped.
pub(super) fn exp_parts(x: &UOp) -> (UOp, UOp) {
    let (ln2, ln2_rest) = by_type(x, LN2_F32, LN2_F64);
    let (whole, power) = nearest_power(&(x * x.const_like(std::f64::consts::LOG2_E)));
    let r = &(x - &whole * x.const_like(ln2) - &whole * x.const_like(ln2_rest));
    let tail = r * r * polynomial(r, by_type(x, &EXP_F32, &EXP_F64));
    (r + tail + 1, power)
}

/// The integer nearest to `x`, as a float and as the low bits of an integer, where twice the bias of an exponent is added
/// to it: so half of that is biased once, and halves are all that [`scale`] needs. `x` is small, or NaN.
fn nearest_power(x: &UOp) -> (UOp, UOp) {
    let format = Format::of(x);
    let rounder = x.const_like(format.rounder + 2.0 * format.bias as f64);
    let moved = x + &rounder;
    let power = moved.bitcast(format.int);
    (moved - rounder, power)
}

/// `part * 2^n` in two factors, because the whole power may be larger or smaller than any normal float.
fn scale(part: &UOp, power: &UOp) -> UOp {
    let half = &shr(power, 1);
    part * biased(half, part) * biased(&(power - half), part)
}

/// `part * 2^n` where that power is a normal float.
pub(super) fn scale_within(part: &UOp, power: &UOp) -> UOp {
    part * biased(&(power - Format::of(part).bias), part)
}

/// The float of the type of `like` whose exponent is, with its bias, in the low bits of `i`.
fn biased(i: &UOp, like: &UOp) -> UOp {
    shl(i, Format::of(like).mantissa).bitcast(like.dtype())
}
