//! Part of pass `decompose`: sine and cosine of radians. The angle is reduced to its quadrant and a rest; the rest goes
//! into a polynomial in f64.

use super::pieces::{Sums, abs, nearest, shl, shr, trunc};
use kiln_ir::{DType, Op, UOp};
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, TAU};

/// `(sin(r) - r) / r^3` and `(cos(r) - 1 + r^2 / 2) / r^4` in `z = r^2`, for `|r| <= pi / 4`: enough for f32, for f64.
const SIN: [&[f64]; 2] = [
    &[-0.16666666663844049, 0.008333331870341349, -0.00019840084376422702, 2.724962008007533e-06],
    &[
        -0.16666666666666666,
        0.008333333333330936,
        -0.00019841269836740532,
        2.7557316093198404e-06,
        -2.5051129896450185e-08,
        1.5917988979397435e-10,
    ],
];
const COS: [&[f64]; 2] = [
    &[0.04166666465348879, -0.001388830186756237, 2.454768977246003e-05],
    &[
        0.041666666666666664,
        -0.0013888888888887389,
        2.48015872987544e-05,
        -2.755731726587808e-07,
        2.087614504941318e-09,
        -1.138254464534925e-11,
    ],
];

/// `1 / (2 pi)` in parts of 27 bits, whose products with an f32 are exact in f64. The last part is a full f64.
const TURNS: [f64; 7] = [
    0.15915494225919247,
    8.327028649945944e-10,
    4.038449399282663e-18,
    7.0940550210363e-26,
    2.3430015963521592e-34,
    3.9750282186544356e-42,
    4.026781963297056e-50,
];

/// `pi / 2` in parts of 33 bits, whose products with a number of 20 bits are exact. The last part is a full f64.
const QUARTER: [f64; 3] = [1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21];

/// The upper 21 bits of `pi / 2`, and what is left of it.
const QUARTER_SHORT: (f64, f64) = (1.570796012878418, 3.139164786504813e-07);

/// Two zero words and then `2 / pi` in words of 32 bits.
const TWO_OVER_PI: [u32; 39] = [
    0, 0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab,
    0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5,
    0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff,
    0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7,
    0xebe5f17b, 0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046,
];

/// `x = quadrant * pi / 2 + rest`, the quadrant known up to multiples of 4, as an i64.
struct Angle {
    quadrant: UOp,
    rest: UOp,
}

/// `sin(x)`. The zeros keep their sign.
pub(super) fn sin(x: &UOp, sums: Sums) -> UOp {
    let y = of_angle(x, 0, sums);
    x.eq_(&x.const_like(0.0)).where_(x, &y)
}

/// `cos(x)`.
pub(super) fn cos(x: &UOp, sums: Sums) -> UOp {
    of_angle(x, 1, sums)
}

/// The sine of `x` plus so many quadrants.
fn of_angle(x: &UOp, quadrants: i64, sums: Sums) -> UOp {
    let is_f64 = x.dtype() == DType::F64;
    let Angle { quadrant, rest } = if is_f64 { reduce_f64(x) } else { reduce_f32(x) };
    let (sine, cosine) = sin_cos(&rest, is_f64 as usize, sums);
    let quadrant = &(quadrant + quadrants);
    let even = (quadrant & 1).eq_(&quadrant.const_like(0));
    let bits = even.where_(&sine, &cosine).bitcast(DType::I64);
    let sign = shl(&shr(quadrant, 1), 63);
    (bits ^ sign).bitcast(DType::F64).cast(x.dtype())
}

/// Both functions of an angle of at most 45 degrees. The cosine adds what `1 - z / 2` lost.
fn sin_cos(r: &UOp, precision: usize, sums: Sums) -> (UOp, UOp) {
    let z = &(r * r);
    let sine = sums.mul_add(&(r * z), &sums.polynomial(z, SIN[precision]), r);
    let half = &(z * z.const_like(0.5));
    let most = &(z.const_like(1.0) - half);
    let lost = z.const_like(1.0) - most - half;
    let rest = sums.mul_add(&(z * z), &sums.polynomial(z, COS[precision]), &lost);
    let cosine = most + rest;
    (sine, cosine)
}

/// Whole turns are dropped part by part: each product with a part is exact, and so is its fraction. The first sum only
/// finds the quadrant; with that taken off the first fraction, the second sum cancels as early as it can, and stays
/// exact where little is left. One path for all sizes, in arithmetic that vectorizes.
fn reduce_f32(x: &UOp) -> Angle {
    let x = &x.cast(DType::F64);
    let fraction = |part: f64| {
        let turns = x * x.const_like(part);
        &turns - trunc(&turns)
    };
    let [first, others @ ..] = TURNS.map(fraction);
    let add = |start: UOp| others.iter().fold(start, |sum, f| sum + f);
    let (whole, quadrant) = nearest(&(add(first.clone()) * 4));
    let rest = add(first - whole * x.const_like(0.25)) * x.const_like(TAU);
    Angle { quadrant, rest }
}

fn reduce_f64(x: &UOp) -> Angle {
    let size = &abs(x);
    let small = &size.lt(&x.const_like(1048576.0));
    let finite = size.lt(&x.const_like(f64::INFINITY));
    let (near, far) = (reduce_small(x), reduce_large(x));
    let far_rest = finite.where_(&far.rest, &x.const_like(f64::NAN));
    Angle {
        quadrant: small.where_(&near.quadrant, &far.quadrant),
        rest: small.where_(&near.rest, &far_rest),
    }
}

/// Below `2^20`: the multiple of `pi / 2` is taken off in three parts, the first two without any error.
fn reduce_small(x: &UOp) -> Angle {
    let part = |i: usize| x.const_like(QUARTER[i]);
    let (whole, quadrant) = nearest(&(x * x.const_like(FRAC_2_PI)));
    let first = &(x - &whole * part(0));
    let second = &(&whole * part(1));
    let sum = &(first - second);
    // what the subtraction lost, whichever of its operands was the larger
    let back = &(sum + second);
    let lost = first - back - (second - (back - sum));
    let rest = sum + (lost - whole * part(2));
    Angle { quadrant, rest }
}

/// From `2^20` on, in integers: the mantissa times those bits of `2 / pi` that decide the quadrant (those before give
/// whole turns) and 128 after them, because a float may come within `2^-62` of a multiple of `pi / 2`.
fn reduce_large(x: &UOp) -> Angle {
    let bits = &x.bitcast(DType::U64);
    let exponent = shr(&shl(bits, 1), 53) - (1023 + 20);
    let mantissa = &((bits & ((1i64 << 52) - 1)) | (1i64 << 52));
    let words = product(mantissa, &window(&exponent));
    // past half a quadrant, count from the next one down: the complement is the negative, but for the last bit
    let past_half = &shr(&words[1], 31);
    let flip = &(past_half * 0xffff_ffff);
    let part = |i: usize| {
        let scale = 0.5f64.powi(32 * i as i32);
        (&words[i] ^ flip).cast(DType::F64) * x.const_like(scale)
    };
    let (top, below) = (&part(1), part(2) + (part(3) + part(4)));
    let (most, less) = QUARTER_SHORT;
    let low = top * x.const_like(less) + below * x.const_like(FRAC_PI_2);
    let size = top * x.const_like(most) + low;
    let negative = shr(bits, 63) ^ past_half;
    let rest = (size.bitcast(DType::U64) ^ shl(&negative, 63)).bitcast(DType::F64);
    let quadrant = (&words[0] + past_half).bitcast(DType::I64);
    let backwards = shr(bits, 63).ne_(&bits.const_like(0));
    let minus = quadrant.const_like(0) - &quadrant;
    Angle { quadrant: backwards.where_(&minus, &quadrant), rest }
}

/// Seven words of `2 / pi` from bit `exponent` on. There is no memory to look them up in: each bit of the word's number
/// halves the choice, which takes fewer selects than words exist.
fn window(exponent: &UOp) -> Vec<UOp> {
    let mut words: Vec<UOp> = TWO_OVER_PI.iter().map(|&w| exponent.const_like(w)).collect();
    for bit in [4, 3, 2, 1, 0] {
        let on = (shr(exponent, 5 + bit) & 1).ne_(&exponent.const_like(0));
        let jump = 1usize << bit;
        words = (0..words.len() - jump).map(|i| on.where_(&words[i + jump], &words[i])).collect();
    }
    let shift = &(exponent & 31);
    let pairs = words.windows(2).map(|w| shl(&w[0], 32) | &w[1]);
    pairs.map(|pair| shr(&UOp::binary(Op::Shl, &pair, shift), 32)).collect()
}

/// The words of `mantissa * window` that weigh `2^0`, `2^-32` .. `2^-128`; multiples of `2^32` are dropped.
fn product(mantissa: &UOp, window: &[UOp]) -> Vec<UOp> {
    let (high, low) = (&shr(mantissa, 32), &(mantissa & 0xffff_ffff));
    let word = |p: UOp| p & 0xffff_ffff;
    let mut carry = mantissa.const_like(0);
    let mut words: Vec<UOp> = (0..5)
        .rev()
        .map(|i| {
            let whole = word(low * &window[i]) + word(high * &window[i + 1]);
            let above = shr(&(low * &window[i + 1]), 32) + shr(&(high * &window[i + 2]), 32);
            let sum = whole + above + &carry;
            carry = shr(&sum, 32);
            word(sum)
        })
        .collect();
    words.reverse();
    words
}
