//! The inverse of the error function: a polynomial (M. Giles, Approximating the erfinv function, 2010), and three of Halley's
//! steps in f64.

use super::gamma::{by_slope, polynomial};
use crate::Tensor;
use kiln_ir::arg::Derivative;
use kiln_ir::derivative;
use std::f64::consts::{FRAC_2_SQRT_PI, PI};

/// Of `w - 2.5`, where `w = -log(1 - x^2)` is below 5.
const MIDDLE: [f64; 9] = [
    1.501_409_41,
    0.246_640_727,
    -0.004_177_681_64,
    -0.001_253_725_03,
    0.000_218_580_87,
    -4.391_506_54e-6,
    -3.523_387_7e-6,
    3.432_739_39e-7,
    2.810_226_36e-8,
];
/// Of `sqrt(w) - 3` elsewhere.
const TAIL: [f64; 9] = [
    2.832_976_82,
    1.001_674_06,
    0.009_438_870_47,
    -0.007_622_461_3,
    0.005_739_507_73,
    -0.003_673_428_44,
    0.001_349_343_22,
    0.000_100_950_558,
    -0.000_200_214_257,
];

/// About the inverse of a number from 0 to 1.
fn about(x: &Tensor) -> Tensor {
    let w = -((1.0 - x) * (x + 1.0)).log();
    let tail = polynomial(&(w.sqrt() - 3.0), &TAIL);
    w.lt(5.0).where_(polynomial(&(&w - 2.5), &MIDDLE), tail) * x
}

/// A step from `y` towards what has the error function `x`. Near 1 its complement has more digits.
fn closer(y: &Tensor, x: &Tensor) -> Tensor {
    let off = x.lt(0.5).where_(y.erf() - x, (1.0 - x) - y.erfc());
    let step = off * (FRAC_2_SQRT_PI.recip()) * y.square().exp();
    y - &step / (y * &step + 1.0)
}

fn erfinv(x: &Tensor) -> Tensor {
    let size = x.abs();
    let inside = size.lt(1.0).where_(&size, 0.0);
    let y = (0..3).fold(about(&inside), |y, _| closer(&y, &inside));
    let edge = size.eq(1.0).where_(f64::INFINITY, f64::NAN);
    size.lt(1.0).where_(y, edge).copysign(x)
}

/// What the error function was of.
impl Tensor {
    /// The number whose [`erf`](Tensor::erf) this is; infinite at 1 and -1, NaN outside. Integers become floats first.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([0.5]).erfinv();
    /// assert!((t.erf().to_vec::<f64>()?[0] - 0.5).abs() < 1e-15);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn erfinv(&self) -> Tensor {
        self.special("erfinv", erfinv, ERFINV)
    }
}

const ERFINV: Derivative =
    derivative!("erfinv", |y, g| by_slope(y, g, |_, y, _| y.square().exp() * (PI.sqrt() / 2.0)));
