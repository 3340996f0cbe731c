//! The error function: a series near 0, and elsewhere `e^-x^2` times a polynomial.

use super::inverse::{magnitude, series};
use super::{as_float, like, quotient, wide};
use crate::Tensor;
use kiln_ir::{DType, Op, UOp};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// `e^(x^2) erfc(x) / t` as a polynomial of `t = 2 / (2 + x)`, for every `x` from 0 on: interpolated at Chebyshev points,
/// relative error below 2e-9 (f32) and 2e-17 (f64).
const NARROW: &[f64] = &[
    0.2820947920034086,
    0.28209471553609405,
    0.24683683353185504,
    0.17623899714294328,
    0.08428571845716021,
    -0.00559183696300206,
    -0.06577722275082298,
    0.024762004544162507,
    -0.2800418715171064,
    0.5878506987145729,
    -0.5104317601878906,
    0.21373257947257884,
    -0.03605364879141343,
];

/// The same for f64.
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

/// Up to here the series is short.
const SMALL: f64 = 1.0;

/// `2 / sqrt(pi) (x - x^3 / 3 + x^5 / 10 - ..)` of at most 1.
fn erf_of_small(x: &UOp) -> UOp {
    let count = if x.dtype() == DType::F64 { 20 } else { 12 };
    let mut power = FRAC_2_SQRT_PI;
    let coefficients: Vec<f64> = (0..count)
        .map(|k| {
            let term = power / f64::from(2 * k + 1);
            power /= -f64::from(k + 1);
            term
        })
        .collect();
    x * series(&(x * x), &coefficients)
}

/// `e^-x^2`, with the square as that of a short number, which is exact, and the rest.
fn bell(x: &UOp) -> UOp {
    let scale = if x.dtype() == DType::F64 { 134_217_729.0 } else { 4097.0 };
    let large = &(x * like(x, scale)).detach();
    let short = &(large - &(large - x.detach()));
    let rest = (x - short) * (x + short);
    UOp::unary(Op::Exp, &-&(short * short)) * UOp::unary(Op::Exp, &-&rest)
}

/// The complement of a positive number, where what is past the end is 0.
fn erfc_of(size: &UOp) -> UOp {
    let (end, table) = if size.dtype() == DType::F64 { (28.0, WIDE) } else { (11.0, NARROW) };
    let end = like(size, end);
    // the slope of what is infinite would be infinity times 0
    let inside = end.lt(size).where_(&end, size);
    let t = quotient(&like(size, 2), &(&inside + like(size, 2)));
    bell(&inside) * (&t * series(&t, table))
}

fn erf(x: &UOp) -> UOp {
    let (size, negative) = magnitude(x);
    let (is_large, one) = (like(x, SMALL).lt(&size), like(x, 1));
    let small = erf_of_small(&is_large.where_(&one, x));
    let large = &one - erfc_of(&is_large.where_(&size, &one));
    let large = negative.where_(&-&large, &large);
    is_large.where_(&large, &small)
}

fn erfc(x: &UOp) -> UOp {
    let (size, negative) = magnitude(x);
    let (is_large, one) = (like(x, 0.5).lt(&size), like(x, 1));
    let small = &one - erf_of_small(&is_large.where_(&one, x));
    let large = erfc_of(&is_large.where_(&size, &one));
    let large = negative.where_(&(like(x, 2) - &large), &large);
    is_large.where_(&large, &small)
}

/// The share of the normal distribution below `x`, times `x`.
fn gelu_erf(x: &UOp) -> UOp {
    // far out the share is 0 or 1, and x may be infinite
    let (zero, end) = (like(x, 0), like(x, -40));
    let share = erfc(&(x * like(x, -FRAC_1_SQRT_2))) * like(x, 0.5);
    x.lt(&end).where_(&(&zero * x.detach().maximum(&end)), &(end.lt(x).where_(x, &zero) * share))
}

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
