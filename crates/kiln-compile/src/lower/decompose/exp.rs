//! Part of pass `decompose`: `e^x` and `2^x`, as the nearest power of two times a polynomial of the rest.

use super::pieces::{Format, Sums, abs, by_type, clamp, constant, shl, shr};
use kiln_ir::{Op, UOp};

/// `(e^r - 1 - r) / r^2` for `|r| <= ln(2) / 2`.
const EXP_F32: [f64; 5] = [0.5, 0.166665767, 0.0416665542, 0.00836323288, 0.00139262508];
const EXP_F64: [f64; 10] = [
    0.5,
    0.16666666666666435,
    0.04166666666660402,
    0.008333333333499681,
    0.0013888888926773656,
    0.00019841269466837184,
    2.48015087074604e-05,
    2.75576404100821e-06,
    2.762517809216278e-07,
    2.4978502198125157e-08,
];

/// `(2^r - 1) / r` for `|r| <= 1 / 2`.
const EXP2_F32: [f64; 6] =
    [0.693147188, 0.240226508, 0.0555035711, 0.00961808256, 0.00133908634, 0.000154531629];
pub(super) const EXP2_F64: [f64; 11] = [
    std::f64::consts::LN_2,
    0.2402265069591013,
    0.055504108664820084,
    0.00961812910759412,
    0.0013333558146774562,
    0.0001540353045711211,
    1.5252733493181755e-05,
    1.3215435282302033e-06,
    1.017819954994099e-07,
    7.073783249499593e-09,
    4.434774500587064e-10,
];

/// `ln(2)` in two parts; the first has so few bits that its product with an exponent is exact.
pub(super) const LN2_F32: (f64, f64) = (0.693145751953125, 1.4286068203094173e-06);
pub(super) const LN2_F64: (f64, f64) = (0.6931471805598903, 5.497923018708371e-14);

/// `e^x`. Outside of the bounds the result is infinite or 0 anyway.
pub(super) fn exp(x: &UOp, sums: Sums) -> UOp {
    if is_at_most_zero(x) {
        return exp_of_at_most_zero(x, sums);
    }
    let x = &by_type(x, clamp(x, -104.0, 89.0), clamp(x, -746.0, 710.0));
    let Parts { less, power } = exp_parts(x, Biases::Two, sums);
    scale(&(one(x) - less), &power)
}

/// The same, with the whole power in one factor: what is far below 1 is computed larger by a power of two that brings every
/// exponent among those of normal floats, and made as small as it is last.
pub(super) fn exp_of_at_most_zero(x: &UOp, sums: Sums) -> UOp {
    let x = &x.maximum(&x.const_like(by_type(x, -104.0, -746.0)));
    let Parts { less, power } = exp_parts(x, Biases::AndHalf, sums);
    let larger = (one(x) - less) * biased(&power, x);
    larger * x.const_like((-half_bias(&Format::of(x)) as f64).exp2())
}

/// Whether a value says that it is at most 0.
fn is_at_most_zero(x: &UOp) -> bool {
    let bound = |y: &UOp| constant(y).is_some_and(|c| c.as_f64() <= 0.0);
    x.op() == Op::Min && x.srcs().iter().any(bound)
}

/// `2^x`.
pub(super) fn exp2(x: &UOp, sums: Sums) -> UOp {
    let x = &by_type(x, clamp(x, -151.0, 129.0), clamp(x, -1076.0, 1025.0));
    let (whole, power) = nearest_power(x, 1.0, Biases::Two, sums);
    let r = &(x - whole);
    let part = sums.mul_add(r, &sums.polynomial(r, by_type(x, &EXP2_F32, &EXP2_F64)), &one(x));
    scale(&part, &power)
}

/// `1 - e^x`, which is exact to the last places where `x` is small, and a zero that is not `x`. The whole power must be a
/// normal float.
pub(super) fn one_less_exp(x: &UOp, sums: Sums) -> UOp {
    let Parts { less, power } = exp_parts(x, Biases::One, sums);
    let power = &biased(&power, x);
    sums.mul_add(power, &less, &minus(&(power - one(x))))
}

/// `e^x - 1`. Half of it is computed, so that the power is a normal float up to the largest result. A tiny `x` is its
/// own result: halving it could lose a bit.
pub(super) fn expm1(x: &UOp, sums: Sums) -> UOp {
    let tiny = abs(x).lt(&x.const_like(by_type(x, 2f64.powi(-26), 2f64.powi(-55))));
    let inside = &by_type(x, clamp(x, -20.0, 89.0), clamp(x, -40.0, 710.0));
    let Parts { less, power } = exp_parts(inside, Biases::LessOne, sums);
    let power = &biased(&power, x);
    let half = sums.mul_add(&minus(power), &less, &(power - x.const_like(0.5)));
    tiny.where_(x, &(&half + &half))
}

/// `e^x = (1 - less) 2^n`, where `n` is what [`nearest_power`] gives.
struct Parts {
    less: UOp,
    power: UOp,
}

/// The parts for an `x` that is clamped. Of a zero, `less` is the other: negations stand where they keep signs.
fn exp_parts(x: &UOp, biases: Biases, sums: Sums) -> Parts {
    let (whole, power) = nearest_power(x, std::f64::consts::LOG2_E, biases, sums);
    let r = &sums.less_multiple(x, &whole, by_type(x, LN2_F32, LN2_F64));
    let tail = r * sums.polynomial(r, by_type(x, &EXP_F32, &EXP_F64));
    Parts { less: sums.mul_add(&minus(&tail), r, &minus(r)), power }
}

/// How often the bias of an exponent is added to a power of two.
pub(super) enum Biases {
    One,
    /// One, of the power's half.
    LessOne,
    Two,
    /// One, and [`half_bias`].
    AndHalf,
}

/// Half of the bias of an exponent, rounded up.
fn half_bias(format: &Format) -> i64 {
    (format.bias + 1) / 2
}

/// The integer nearest to `x * unit`, as a float and with its biases in the low bits of an integer. Of one with two biases
/// half is biased once, and halves are all that [`scale`] needs. `x` is small, or NaN.
pub(super) fn nearest_power(x: &UOp, unit: f64, biases: Biases, sums: Sums) -> (UOp, UOp) {
    let format = Format::of(x);
    let bias = match biases {
        Biases::One => format.bias,
        Biases::LessOne => format.bias - 1,
        Biases::Two => 2 * format.bias,
        Biases::AndHalf => format.bias + half_bias(&format),
    };
    let rounder = x.const_like(format.rounder + bias as f64);
    let moved = match unit {
        1.0 => x + &rounder,
        _ => sums.mul_add(x, &x.const_like(unit), &rounder),
    };
    let power = moved.bitcast(format.int);
    (moved - rounder, power)
}

/// `part * 2^n` in two factors, because the whole power may be larger or smaller than any normal float.
pub(super) fn scale(part: &UOp, power: &UOp) -> UOp {
    let half = &shr(power, 1);
    part * biased(half, part) * biased(&(power - half), part)
}

/// The float of the type of `like` whose exponent is, with its bias, in the low bits of `i`.
pub(super) fn biased(i: &UOp, like: &UOp) -> UOp {
    shl(i, Format::of(like).mantissa).bitcast(like.dtype())
}

pub(super) fn minus(x: &UOp) -> UOp {
    UOp::unary(Op::Neg, x)
}

pub(super) fn one(like: &UOp) -> UOp {
    like.const_like(1.0)
}
