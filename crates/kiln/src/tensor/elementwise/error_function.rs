//! The error function: a series near 0, and elsewhere `e^-x^2` times a polynomial.

use super::inverse::{magnitude, series};
use super::{as_float, like, quotient, wide};
use crate::Tensor;
use kiln_ir::arg::Derivative;
use kiln_ir::derivative;
use kiln_ir::derivative::of_one;
use kiln_ir::{DType, Op, UOp};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// `e^(x^2) erfc(x) / t` as a polynomial of `t = 2 / (2 + x)`, for `x` from 1/2 to 11: Remez' exchange, relative error
/// below 8e-11.
const NARROW: &[f64] = &[
    0.28209614876882166,
    0.2820482042239442,
    0.24753870632790215,
    0.17008697162330735,
    0.11915942060031973,
    -0.14050115078703296,
    0.30058422645431104,
    -0.6818275211533305,
    0.6849121852150161,
    -0.3262825984008352,
    0.0621899103574403,
];

/// The same for f64 and every `x` from 0 on: interpolated at Chebyshev points, relative error below 2e-17.
const WIDE: &[f64] = &[
    0.28209479177387814,
    0.2820947917738782,
    0.24683294280215703,
    0.17630924485298594,
    0.08374689192804452,
    -0.004407764543588303,
    -0.056748455995697104,
    -0.05346704755398396,
    -0.0034322141005098607,
    0.04564218895484562,
    0.088435626642348,
    -0.23935884170256636,
    1.1424953750204543,
    -5.254522500244715,
    17.703016168543957,
    -48.133435480445456,
    106.36261888959112,
    -186.80128195320407,
    257.7381637721756,
    -278.50618917672614,
    234.98542054314845,
    -153.53035569144134,
    76.33006104656775,
    -27.96879874024238,
    7.133039763276184,
    -1.1323023121626274,
    0.08432814131144084,
];

/// The half of that for f32 and every `x` from 0 on: Remez' exchange, relative error below 4e-9.
const SHARE: &[f64] = &[
    0.14104505847390936,
    0.14110737988334332,
    0.12278019905904743,
    0.09170341505947166,
    0.03138844240596038,
    0.008308187022204965,
    0.003974624364833407,
    -0.16056937074277502,
    0.20128782588201055,
    -0.09959977758968258,
    0.018574018118389345,
];

/// From here on `e^-x^2` is 0 in f32, in f64.
const BELL_END: [f64; 2] = [11.0, 28.0];

/// The same of `e^(-x^2 / 2)`.
const NORMAL_END: [f64; 2] = [16.0, 40.0];

/// Up to here the series is short.
const SMALL: f64 = 1.0;

/// `erf(x) / x` as a polynomial of `x^2` up to 1, for f32: Remez' exchange, relative error below 4e-11.
const SMALL_NARROW: &[f64] = &[
    1.128379167058023,
    -0.3761263843465831,
    0.11283781974218418,
    -0.026865400048958512,
    0.00522094545262167,
    -0.0008482829141447437,
    0.0001125695010384238,
    -9.641522464181215e-06,
];

/// `2 / sqrt(pi) (x - x^3 / 3 + x^5 / 10 - ..)` of at most 1.
fn erf_of_small(x: &UOp) -> UOp {
    let square = &(x * x);
    match x.dtype() {
        DType::F64 => x * series(square, &taylor(20)),
        _ => x * series(square, SMALL_NARROW),
    }
}

fn taylor(count: u32) -> Vec<f64> {
    let mut power = FRAC_2_SQRT_PI;
    let term = |k: u32| {
        let term = power / f64::from(2 * k + 1);
        power /= -f64::from(k + 1);
        term
    };
    (0..count).map(term).collect()
}

/// `e^(-by x^2)`; `by` is a power of two. The square is rounded. It loses little: `e^-(square + lost) = e^-square (1 - lost)`.
/// The loss is found from the square of a short number, which is exact, and the rest.
fn bell(x: &UOp, by: f64) -> UOp {
    let scale = if x.dtype() == DType::F64 { 134_217_729.0 } else { 4097.0 };
    let large = &(x * like(x, scale)).detach();
    let short = &(large - &(large - x.detach()));
    let square = &(x * x);
    let lost = (short * short - square) + (x - short) * (x + short);
    let most = UOp::unary(Op::Exp, &(square * like(x, -by)));
    &most - &most * (lost * like(x, by))
}

/// A positive number, or where `e^-x^2` is 0 already: the square of an infinite number minus itself is NaN.
fn within(size: &UOp, [narrow, wide]: [f64; 2]) -> UOp {
    let end = like(size, if size.dtype() == DType::F64 { wide } else { narrow });
    end.lt(size).where_(&end, size)
}

/// A number, or where `e^-x^2` is 0 already.
fn bounded(x: &UOp) -> UOp {
    let (size, negative) = magnitude(x);
    let size = within(&size, BELL_END);
    negative.where_(&-&size, &size)
}

/// The complement of a positive number, where what is past the end is 0.
fn erfc_of(size: &UOp) -> UOp {
    let table = if size.dtype() == DType::F64 { WIDE } else { NARROW };
    let inside = within(size, BELL_END);
    let t = quotient(&like(size, 2), &(&inside + like(size, 2)));
    bell(&inside, 1.0) * (&t * series(&t, table))
}

/// `2 / sqrt(pi) e^-x^2`, the slope of the error function.
fn slope(x: &UOp) -> UOp {
    bell(&bounded(x), 1.0) * like(x, FRAC_2_SQRT_PI)
}

fn erf(x: &UOp) -> UOp {
    erf_of(x).with_derivative(ERF, [x.clone()])
}

fn erfc(x: &UOp) -> UOp {
    complement(x).with_derivative(ERFC, [x.clone()])
}

fn erf_of(x: &UOp) -> UOp {
    let (size, negative) = magnitude(x);
    let (is_large, one) = (like(x, SMALL).lt(&size), like(x, 1));
    let small = erf_of_small(&is_large.where_(&one, x));
    let large = &one - erfc_of(&is_large.where_(&size, &one));
    let large = negative.where_(&-&large, &large);
    is_large.where_(&large, &small)
}

fn complement(x: &UOp) -> UOp {
    let (size, negative) = magnitude(x);
    let (is_large, one) = (like(x, 0.5).lt(&size), like(x, 1));
    let small = &one - erf_of_small(&is_large.where_(&one, x));
    let large = erfc_of(&is_large.where_(&size, &one));
    let large = negative.where_(&(like(x, 2) - &large), &large);
    is_large.where_(&large, &small)
}

/// `x` times the share of the normal distribution below `x`. Of a positive `x` the share above is less than a half: `x` minus
/// `x` times that loses nothing.
fn gelu_erf(x: &UOp) -> UOp {
    let size = &within(&magnitude(x).0, NORMAL_END);
    let y = x.maximum(&like(x, 0)) - size * share_above(size);
    y.with_derivative(GELU, [x.clone()])
}

/// The share of the normal distribution above a number from 0 on: half the complement of the error function at `size / sqrt(2)`.
fn share_above(size: &UOp) -> UOp {
    let share = match size.dtype() {
        // the polynomial of so many terms loses places near 0
        DType::F64 => complement(&(size * like(size, FRAC_1_SQRT_2))) * like(size, 0.5),
        _ => {
            let one = like(size, 1);
            let t = quotient(&one, &size.mul_add(&like(size, FRAC_1_SQRT_2 / 2.0), &one));
            bell(size, 0.5) * (&t * series(&t, SHARE))
        }
    };
    share.with_derivative(SHARE_ABOVE, [size.clone()])
}

/// The height of the normal distribution.
fn density(x: &UOp) -> UOp {
    bell(x, 0.5) * like(x, FRAC_2_SQRT_PI * FRAC_1_SQRT_2 / 2.0)
}

/// The share below `x`, and `x` times the share's slope.
fn gelu_slope(x: &UOp) -> UOp {
    let (size, negative) = magnitude(x);
    let size = &within(&size, NORMAL_END);
    let above = share_above(size) - size * density(size);
    negative.where_(&above, &(like(x, 1) - &above))
}

const ERF: Derivative = derivative!("erf", |y, g| of_one(g * slope(y.src(1))));
const ERFC: Derivative = derivative!("erfc", |y, g| of_one(-&(g * slope(y.src(1)))));
const SHARE_ABOVE: Derivative =
    derivative!("share_above", |y, g| of_one(-&(g * density(y.src(1)))));
const GELU: Derivative = derivative!("gelu_erf", |y, g| of_one(g * gelu_slope(y.src(1))));

/// Integrals of the bell curve; integers become f32 first.
impl Tensor {
    /// The error function: `2 / sqrt(pi)` times the integral of `e^-t^2` from 0 to `x`. Off by less than 3 units in the last
    /// place in f32, 4 in f64.
    ///
    /// ```
    /// let y: f32 = kiln::Tensor::from(1.0f32).erf().item()?;
    /// assert!((y - 0.8427008).abs() < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn erf(&self) -> Tensor {
        self.map("erf", as_float, |x| wide(x, erf))
    }

    /// `1 - erf(x)`, to the last places where that is small too.
    ///
    /// ```
    /// let y: f32 = kiln::Tensor::from(3.0f32).erfc().item()?;
    /// assert!((y / 2.2090497e-5 - 1.0).abs() < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn erfc(&self) -> Tensor {
        self.map("erfc", as_float, |x| wide(x, erfc))
    }

    /// The Gaussian error linear unit as it is defined: `x` times the share of the normal distribution below `x`.
    /// [`gelu`](Tensor::gelu) is its approximation by `tanh`.
    ///
    /// ```
    /// let y: f32 = kiln::Tensor::from(1.0f32).gelu_erf().item()?;
    /// assert!((y - 0.8413447).abs() < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn gelu_erf(&self) -> Tensor {
        self.map("gelu_erf", as_float, |x| wide(x, gelu_erf))
    }
}
