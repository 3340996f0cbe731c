//! The modified Bessel functions of order 0 and 1: power series, and far out the asymptotic one (NIST Digital Library of
//! Mathematical Functions, 10.25 and 10.40).

use super::gamma::{by_slope, polynomial};
use crate::Tensor;
use kiln_ir::arg::Derivative;
use kiln_ir::derivative;
use std::f64::consts::PI;

/// From here on the asymptotic series is exact.
const FAR: f64 = 20.0;
/// From here on `e^(x / 2)` is infinite in every type.
const BEYOND: f64 = 2000.0;
const NEAR_TERMS: usize = 46;
const FAR_TERMS: usize = 22;

/// `(x / 2)^order` times the sum of `(x^2 / 4)^k / (k! (k + order)!)`, of what is at most `FAR`.
fn near(x: &Tensor, order: usize) -> Tensor {
    let mut term = 1.0;
    let terms = (0..NEAR_TERMS).map(|k| {
        let this = term;
        term /= ((k + 1) * (k + 1 + order)) as f64;
        this
    });
    let sum = polynomial(&(x * 0.5).square(), &terms.collect::<Vec<f64>>());
    if order == 0 { sum } else { sum * (x * 0.5) }
}

/// `e^x / sqrt(2 pi x)` times a series in `1 / x`, of what is at least `FAR` and at most `BEYOND`.
fn far(x: &Tensor, order: usize) -> Tensor {
    let mut term = 1.0;
    let terms = (0..FAR_TERMS).map(|k| {
        let this = term;
        let odd = (2 * k + 1) as f64;
        term *= (odd * odd - 4.0 * (order * order) as f64) / (8.0 * (k + 1) as f64);
        this
    });
    let series = polynomial(&x.reciprocal(), &terms.collect::<Vec<f64>>());
    // in two steps, of which none overflows before the product does
    let root = (x * 0.5).exp();
    &root * (&root * series / (x * (2.0 * PI)).sqrt())
}

fn bessel(x: &Tensor, order: usize) -> Tensor {
    let size = x.abs();
    let is_far = size.ge(FAR);
    is_far.where_(far(&size.maximum(FAR).minimum(BEYOND), order), near(&size.minimum(FAR), order))
}

/// Bessel functions; integers become floats first.
impl Tensor {
    /// The modified Bessel function of the first kind, of order 0.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([0.0, 1.0]).i0();
    /// assert!((t.to_vec::<f64>()?[1] - 1.266_065_877_752_008_4).abs() < 1e-12);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn i0(&self) -> Tensor {
        self.special("i0", |x| bessel(x, 0), I0)
    }

    /// That of order 1.
    #[track_caller]
    fn i1(&self) -> Tensor {
        self.special("i0", |x| bessel(x, 1).copysign(x), I1)
    }
}

const I0: Derivative = derivative!("i0", |y, g| by_slope(y, g, |x, _, _| x.i1()));
const I1: Derivative = derivative!("i1", |y, g| by_slope(y, g, slope_of_i1));

/// `i0(x) - i1(x) / x`, which is 1/2 at 0.
fn slope_of_i1(x: &Tensor, i1: &Tensor, _: usize) -> Tensor {
    let is_zero = x.eq(0.0);
    is_zero.where_(0.5, x.i0() - i1 / is_zero.where_(1.0, x))
}
