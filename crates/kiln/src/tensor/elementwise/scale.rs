//! Bounds, scales and other functions of one number.

use super::inverse::{magnitude, series, undefined};
use super::{as_float, as_is, binary, binary_op, like, quotient, wide};
use crate::Tensor;
use crate::element::{Operand, Value};
use crate::origin::outermost;
use kiln_ir::{DType, Op, UOp};
use std::f64::consts::PI;

/// `1 - z / 6 + z^2 / 120 - ..` of `(pi x)^2`: near 0, where the slope would be a difference of large numbers.
fn sinc_of_small(x: &UOp) -> UOp {
    let count = if x.dtype() == DType::F64 { 14 } else { 9 };
    let mut term = 1.0;
    let coefficients: Vec<f64> = (1..=count)
        .map(|k| {
            let last = term;
            term /= -f64::from(2 * k * (2 * k + 1));
            last
        })
        .collect();
    let angle = x * like(x, PI);
    series(&(&angle * &angle), &coefficients)
}

/// `sin(pi x) / (pi x)`; whole turns are taken off before the product rounds.
fn sinc(x: &UOp) -> UOp {
    let half = like(x, 0.5);
    let is_small = magnitude(x).0.lt(&half);
    let outer = is_small.where_(&half, x);
    let whole = UOp::unary(Op::Trunc, &(&outer * &half).detach()) * like(x, 2);
    let sine = UOp::unary(Op::Sin, &((&outer - whole) * like(x, PI)));
    let far = quotient(&sine, &(outer * like(x, PI)));
    is_small.where_(&sinc_of_small(&is_small.where_(x, &half)), &far)
}

/// `log(x / (1 - x))`; around a half, where that is near 0, by its distance from there.
fn logit(x: &UOp) -> UOp {
    let (one, two) = (like(x, 1), like(x, 2));
    let is_middle = like(x, 0.25).lt(x) & x.lt(&like(x, 0.75));
    let inner = is_middle.where_(x, &like(x, 0.5));
    let near = UOp::unary(Op::Log1p, &quotient(&(&inner * two - &one), &(&one - &inner)));
    let outside = x.lt(&like(x, 0)) | one.lt(x);
    let outer = (&is_middle | &outside).where_(&like(x, 0.2), x);
    let far = UOp::unary(Op::Log, &outer) - UOp::unary(Op::Log1p, &-&outer);
    outside.where_(&undefined(&(x * (&one - x)), &outside), &is_middle.where_(&near, &far))
}

/// Scales.
impl Tensor {
    /// Degrees as radians.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([180.0f32]).deg2rad().to_vec::<f32>()?, [std::f32::consts::PI]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn deg2rad(&self) -> Tensor {
        self.map("deg2rad", as_float, |x| wide(x, |x| x * like(x, PI / 180.0)))
    }

    /// Radians as degrees.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([std::f32::consts::PI]).rad2deg().to_vec::<f32>()?, [180.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn rad2deg(&self) -> Tensor {
        self.map("rad2deg", as_float, |x| wide(x, |x| x * like(x, 180.0 / PI)))
    }

    /// `sin(pi x) / (pi x)`, and 1 at 0.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32, 1.0]).sinc().to_vec::<f32>()?[0], 1.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn sinc(&self) -> Tensor {
        self.map("sinc", as_float, |x| wide(x, sinc))
    }

    /// `log(x / (1 - x))`: what [`sigmoid`](Tensor::sigmoid) makes `x` of. NaN outside of 0 to 1.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.5f32, 1.0]).logit().to_vec::<f32>()?, [0.0, f32::INFINITY]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn logit(&self) -> Tensor {
        self.map("logit", as_float, |x| wide(x, logit))
    }
}

/// Bounds.
impl Tensor {
    /// Same as [`clamp`](Tensor::clamp).
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 5, 9]).clip(2, 6).to_vec::<i32>()?, [2, 5, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn clip(&self, low: impl Operand, high: impl Operand) -> Tensor {
        let _method = outermost("clip");
        self.clamp(low, high)
    }

    /// No less than `low`. Of a number the gradient is that of what is above it, as [`clamp`](Tensor::clamp) has it.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 5]).clamp_min(2).to_vec::<i32>()?, [2, 5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn clamp_min(&self, low: impl Operand) -> Tensor {
        self.bounded("clamp_min", low.into_value(), Op::Max, |x, low| low.lt(x))
    }

    /// No more than `high`. Of a number the gradient is that of what is below it, as [`clamp`](Tensor::clamp) has it.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 5]).clamp_max(2).to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn clamp_max(&self, high: impl Operand) -> Tensor {
        self.bounded("clamp_max", high.into_value(), Op::Min, |x, high| x.lt(high))
    }

    #[track_caller]
    fn bounded(
        &self,
        op: &'static str,
        bound: Value,
        end: Op,
        inside: impl FnOnce(&UOp, &UOp) -> UOp,
    ) -> Tensor {
        let _method = outermost(op);
        let bounded = binary_op(op, end, self.into_value(), bound.clone());
        if matches!(bound, Value::Tensor(_)) || !bounded.dtype().is_float() {
            return bounded;
        }
        let inside = binary(op, self.into_value(), bound, as_is, inside);
        inside.where_(self, bounded.detach())
    }
}
