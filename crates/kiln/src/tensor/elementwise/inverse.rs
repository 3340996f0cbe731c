//! Inverse trigonometric functions: series of a reduced argument, long enough for the last place, of which the gradients
//! are the derivatives.

use super::{as_float, binary, like, quotient, wide};
use crate::Tensor;
use crate::element::Operand;
use kiln_ir::{DType, Op, UOp};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

/// `c0 + c1 z + ..`, each step rounded once where machines do that.
pub(super) fn series(z: &UOp, coefficients: &[f64]) -> UOp {
    let (last, rest) = coefficients.split_last().expect("a term");
    let first = like(z, *last);
    rest.iter().rev().fold(first, |sum, &c| sum.mul_add(z, &like(z, c)))
}

/// How many terms of a series it takes, for the derivative too, where terms shrink by `ratio`.
fn terms(dtype: DType, ratio: f64) -> usize {
    let bits = if dtype == DType::F64 { 58.0 } else { 28.0 };
    (bits / -ratio.log2()).ceil() as usize
}

/// The arcsine of at most a half: `x + x^3 / 6 + ..`
fn asin_of_small(x: &UOp) -> UOp {
    let mut coefficients = vec![1.0];
    for k in 1..terms(x.dtype(), 0.25) {
        let (k, last) = (k as f64, coefficients[k - 1]);
        let ratio = (2.0 * k - 1.0) * (2.0 * k - 1.0) / (2.0 * k * (2.0 * k + 1.0));
        coefficients.push(last * ratio);
    }
    let z = &(x * x);
    x + x * (z * series(z, &coefficients[1..]))
}

/// The arctangent of at most `tan(pi / 8)`: `x - x^3 / 3 + ..`
fn atan_of_small(x: &UOp) -> UOp {
    let term = |k: usize| f64::from(1 - 2 * (k as i32 % 2)) / (2 * k + 1) as f64;
    let coefficients: Vec<f64> = (1..=terms(x.dtype(), 0.1716)).map(term).collect();
    let z = &(x * x);
    x + x * (z * series(z, &coefficients))
}

/// `x` without its sign, and whether it had one; at 0 the slope is 1.
pub(super) fn magnitude(x: &UOp) -> (UOp, UOp) {
    let negative = x.lt(&like(x, 0));
    (negative.where_(&-x, x), negative)
}

/// Past a half: `pi / 2 - 2 asin(sqrt((1 - x) / 2))`.
fn asin(x: &UOp) -> UOp {
    let (size, negative) = magnitude(x);
    let (half, zero) = (like(x, 0.5), like(x, 0));
    let is_large = half.lt(&size);
    let root = UOp::unary(Op::Sqrt, &is_large.where_(&((like(x, 1) - &size) * &half), &half));
    let small = asin_of_small(&is_large.where_(&root, &is_large.where_(&zero, &size)));
    let large = like(x, FRAC_PI_2) - &small * like(x, 2);
    let angle = is_large.where_(&large, &small);
    negative.where_(&-&angle, &angle)
}

/// `pi / 2 - asin(x)`, and past a half what is left of it, so that little is exact.
fn acos(x: &UOp) -> UOp {
    let (size, negative) = magnitude(x);
    let (half, two) = (like(x, 0.5), like(x, 2));
    let is_large = half.lt(&size);
    let root = UOp::unary(Op::Sqrt, &is_large.where_(&((like(x, 1) - &size) * &half), &half));
    let small = asin_of_small(&is_large.where_(&root, x));
    let twice = &small * two;
    let large = negative.where_(&(like(x, PI) - &twice), &twice);
    is_large.where_(&large, &(like(x, FRAC_PI_2) - small))
}

/// The arctangent of a positive quotient in two steps: to at most 1, and to at most `tan(pi / 8)`.
fn atan_of(size: &UOp) -> UOp {
    let (one, zero) = (like(size, 1), like(size, 0));
    let is_large = like(size, 1.0 + 2f64.sqrt()).lt(size);
    let is_middle = like(size, 2f64.sqrt() - 1.0).lt(size);
    let above = is_large.where_(&like(size, -1), &is_middle.where_(&(size - &one), size));
    let below = is_large.where_(size, &is_middle.where_(&(size + &one), &one));
    let (right, eighth) = (like(size, FRAC_PI_2), like(size, FRAC_PI_4));
    let base = is_large.where_(&right, &is_middle.where_(&eighth, &zero));
    base + atan_of_small(&quotient(&above, &below))
}

fn atan(x: &UOp) -> UOp {
    let (size, negative) = magnitude(x);
    let angle = atan_of(&size);
    // 0 keeps its sign
    let angle = x.eq_(&like(x, 0)).where_(x, &angle);
    negative.where_(&-&angle, &angle)
}

/// NaN with the gradient NaN where `outside` is true; `x` must be negative there. Elsewhere 1, with the gradient 0. (A
/// product by NaN would give the gradient 0 * NaN elsewhere.)
pub(super) fn undefined(x: &UOp, outside: &UOp) -> UOp {
    UOp::unary(Op::Sqrt, &outside.where_(x, &like(x, 1)))
}

/// Whether the sign bit is set.
pub(super) fn is_negative(x: &UOp) -> UOp {
    let bits = match x.dtype().size() {
        8 => DType::I64,
        4 => DType::I32,
        _ => DType::I16,
    };
    let bits = x.detach().bitcast(bits);
    bits.lt(&like(&bits, 0))
}

/// The angle of the point `(x, y)`: that of the smaller coordinate over the larger, and the quadrant. Coordinates that are
/// both 0 or both infinite have the angle of the limit that IEEE chose.
fn atan2(y: &UOp, x: &UOp) -> UOp {
    let ((rise, down), (run, left)) =
        ((magnitude(y).0, is_negative(y)), (magnitude(x).0, is_negative(x)));
    let steep = run.lt(&rise);
    let (small, large) = (steep.where_(&run, &rise), steep.where_(&rise, &run));
    let (one, zero) = (like(x, 1), like(x, 0));
    let infinite = small.eq_(&like(x, f64::INFINITY));
    let origin = large.eq_(&zero);
    let (small, large) = (infinite.where_(&one, &small), (infinite | origin).where_(&one, &large));
    let angle = atan_of(&quotient(&small, &large));
    let angle = steep.where_(&(like(x, FRAC_PI_2) - &angle), &angle);
    let angle = left.where_(&(like(x, PI) - &angle), &angle);
    let angle = down.where_(&-&angle, &angle);
    (x.ne_(x) | y.ne_(y)).where_(&(x + y), &angle)
}

/// Angles; integers become f32 first.
impl Tensor {
    /// The arcsine in radians; NaN outside of -1 to 1.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32, 1.0]).asin().to_vec::<f32>()?, [0.0, std::f32::consts::FRAC_PI_2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn asin(&self) -> Tensor {
        self.map("asin", as_float, |x| wide(x, asin))
    }

    /// The arccosine in radians; NaN outside of -1 to 1.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.0f32, -1.0]).acos().to_vec::<f32>()?, [0.0, std::f32::consts::PI]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn acos(&self) -> Tensor {
        self.map("acos", as_float, |x| wide(x, acos))
    }

    /// The arctangent in radians.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32, 1.0]).atan().to_vec::<f32>()?, [0.0, std::f32::consts::FRAC_PI_4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn atan(&self) -> Tensor {
        self.map("atan", as_float, |x| wide(x, atan))
    }

    /// The angle of the points whose `y` are here and whose `x` are in `other`, from -pi to pi.
    ///
    /// ```
    /// let y = kiln::Tensor::from([0.0f32, 1.0, -0.0]);
    /// let x = kiln::Tensor::from([2.0f32, 0.0, -1.0]);
    /// let pi = std::f32::consts::PI;
    /// assert_eq!(y.atan2(&x).to_vec::<f32>()?, [0.0, pi / 2.0, -pi]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn atan2(&self, other: impl Operand) -> Tensor {
        binary("atan2", self.into_value(), other.into_value(), as_float, |y, x| {
            let wide = y.dtype().accumulator();
            atan2(&y.cast(wide), &x.cast(wide)).cast(y.dtype())
        })
    }
}
