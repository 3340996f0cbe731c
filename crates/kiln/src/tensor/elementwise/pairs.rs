//! Functions of two and three numbers.

use super::inverse::magnitude;
use super::{Typing, as_float, as_is, binary, counted, like, math, quotient};
use crate::Tensor;
use crate::element::{Operand, Value};
use crate::error::Error;
use crate::origin::outermost;
use kiln_ir::{DType, Op, UOp};

/// `f` of two floats, narrow ones in f32.
#[track_caller]
fn wide_binary(
    op: &'static str,
    lhs: Value,
    rhs: Value,
    f: impl FnOnce(&UOp, &UOp) -> UOp,
) -> Tensor {
    let typing: Typing = as_float;
    binary(op, lhs, rhs, typing, |a, b| {
        let wide = a.dtype().accumulator();
        f(&a.cast(wide), &b.cast(wide)).cast(a.dtype())
    })
}

/// Whether rounding the quotient down and toward 0 give different remainders.
fn is_other_side(x: &UOp, remainder: &UOp) -> UOp {
    let zero = like(x, 0);
    remainder.ne_(&zero) & x.lt(&zero).ne_(&remainder.lt(&zero))
}

/// The remainder with the sign of `x`, exact.
fn fmod(x: &UOp, y: &UOp) -> UOp {
    if x.dtype().is_float() {
        let ((size, negative), (divisor, _)) = (magnitude(x), magnitude(y));
        let rest = size.floormod(&divisor);
        let rest = x.eq_(&like(x, 0)).where_(&(x * like(x, 1)), &rest);
        let rest = y.ne_(y).where_(y, &y.eq_(&like(y, 0)).where_(&like(y, f64::NAN), &rest));
        // 0 has the sign of x
        let minus = &rest * like(x, -1);
        return negative.where_(&minus, &rest);
    }
    let rest = x.floormod(y);
    is_other_side(x, &rest).where_(&(&rest - y), &rest)
}

fn div_trunc(x: &UOp, y: &UOp) -> UOp {
    if x.dtype().is_float() {
        // a narrow quotient could round up to an integer
        let wide = x.dtype().accumulator();
        return UOp::unary(Op::Trunc, &quotient(&x.cast(wide), &y.cast(wide))).cast(x.dtype());
    }
    let (down, rest) = (x.floordiv(y), x.floormod(y));
    is_other_side(x, &rest).where_(&(&down + like(x, 1)), &down)
}

/// Division that rounds toward 0.
impl Tensor {
    /// The quotient without what is behind the point; of integers by zero, 0.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([7, -7]).div_trunc(2).to_vec::<i32>()?, [3, -3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn div_trunc(&self, other: impl Operand) -> Tensor {
        binary("div_trunc", self.into_value(), other.into_value(), counted, div_trunc)
    }

    /// The remainder with the sign of this, exact; of integers by zero, 0.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([7, -7]).fmod(4).to_vec::<i32>()?, [3, -3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn fmod(&self, other: impl Operand) -> Tensor {
        binary("fmod", self.into_value(), other.into_value(), counted, fmod)
    }
}

/// The larger, and what `e` to the negative distance of the smaller adds. Infinities are not apart from themselves.
pub(in crate::tensor) fn logaddexp(a: &UOp, b: &UOp) -> UOp {
    let swap = a.lt(b);
    let (most, least) = (swap.where_(b, a), swap.where_(a, b));
    let is_limit = a.eq_(b) & math::abs(a).eq_(&like(a, f64::INFINITY));
    let zero = &like(a, 0);
    let distance = is_limit.where_(zero, &least) - is_limit.where_(zero, &most);
    let sum = &most + UOp::unary(Op::Log1p, &UOp::unary(Op::Exp, &distance));
    // a NaN on either side
    is_limit.where_(&most, &a.ne_(a).where_(a, &sum))
}

/// The larger side times what the other adds, so that no square overflows.
fn hypot(a: &UOp, b: &UOp) -> UOp {
    let (a, b) = (magnitude(a).0, magnitude(b).0);
    let (zero, infinity) = (like(&a, 0), like(&a, f64::INFINITY));
    let swap = a.lt(&b);
    let (most, least) = (swap.where_(&b, &a), swap.where_(&a, &b));
    let is_plain = most.eq_(&zero) | most.eq_(&infinity);
    let ratio = is_plain.where_(&zero, &quotient(&least, &is_plain.where_(&like(&a, 1), &most)));
    let length = &most * UOp::unary(Op::Sqrt, &(&ratio * &ratio + like(&a, 1)));
    let length = (a.ne_(&a) | b.ne_(&b)).where_(&(&a + &b), &length);
    // two zeros have the length 0, whatever their signs
    (a.eq_(&infinity) | b.eq_(&infinity)).where_(&infinity, &(length + like(&a, 0)))
}

fn xlogy(x: &UOp, y: &UOp) -> UOp {
    let zero = like(x, 0);
    let none = x.eq_(&zero) & y.eq_(y);
    // no logarithm of these is a number that 0 can be multiplied by
    let flat = &none & &(zero.lt(y) & y.lt(&like(y, f64::INFINITY))).not();
    let log = UOp::unary(Op::Log, &flat.where_(&like(y, 1), y));
    let product = x * log;
    none.where_(&(&product + zero), &product)
}

/// Logarithms and lengths; integers become f32 first.
impl Tensor {
    /// `log(e^a + e^b)`, without overflow.
    ///
    /// ```
    /// let y: f32 = kiln::Tensor::from(100.0f32).logaddexp(100.0).item()?;
    /// assert!((y - 100.693_15).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn logaddexp(&self, other: impl Operand) -> Tensor {
        wide_binary("logaddexp", self.into_value(), other.into_value(), logaddexp)
    }

    /// `sqrt(a^2 + b^2)`, without overflow.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3e30f32]).hypot(4e30).to_vec::<f32>()?, [5e30]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn hypot(&self, other: impl Operand) -> Tensor {
        wide_binary("hypot", self.into_value(), other.into_value(), hypot)
    }

    /// `x * log(y)`, which is 0 where `x` is, unless `y` is NaN.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32, 2.0]).xlogy(&kiln::Tensor::from([0.0f32, 1.0])).to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn xlogy(&self, other: impl Operand) -> Tensor {
        wide_binary("xlogy", self.into_value(), other.into_value(), xlogy)
    }
}

/// A value as a tensor, a number in the dtype that it has beside `t`.
#[track_caller]
fn beside(t: &Tensor, value: impl Operand) -> Tensor {
    let value = value.into_value();
    let dtype = t.into_value().common_dtype(&value);
    match value {
        Value::Tensor(t) => t,
        Value::Scalar(c, _) => Tensor::lift_on("full", t.device(), Ok(UOp::constant(c, dtype))),
    }
}

/// Sums of products, step by step, each rounded.
impl Tensor {
    /// Between this, at a weight of 0, and `end`, at 1; exact at both.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.0, 2.0]).lerp(3.0, 0.5).to_vec::<f64>()?, [2.0, 2.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn lerp(&self, end: impl Operand, weight: impl Operand) -> Tensor {
        let _method = outermost("lerp");
        let (end, weight) = (beside(self, end), beside(self, weight));
        let way = end.sub(self);
        let from_start = self.add(way.mul(&weight));
        let from_end = end.sub(way.mul(weight.neg().add(1)));
        weight.abs().lt(0.5).where_(from_start, from_end)
    }

    /// `self + value * a * b`.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([1.0]).addcmul(&Tensor::from([2.0]), &Tensor::from([3.0]), 0.5);
    /// assert_eq!(t.to_vec::<f64>()?, [4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn addcmul(&self, a: &Tensor, b: &Tensor, value: impl Operand) -> Tensor {
        let _method = outermost("addcmul");
        self.add(a.mul(b).mul(value))
    }

    /// `self + value * a / b`.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([1.0]).addcdiv(&Tensor::from([3.0]), &Tensor::from([2.0]), 2.0);
    /// assert_eq!(t.to_vec::<f64>()?, [4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn addcdiv(&self, a: &Tensor, b: &Tensor, value: impl Operand) -> Tensor {
        let _method = outermost("addcdiv");
        self.add(a.div(b).mul(value))
    }
}

/// Conditions: bool tensors. A number counts as true unless it is 0.
impl Tensor {
    /// Where both are true.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0, 2]).logical_and(true).to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn logical_and(&self, other: impl Operand) -> Tensor {
        binary("logical_and", self.into_value(), other.into_value(), as_is, |a, b| {
            UOp::binary(Op::And, &a.cast(DType::Bool), &b.cast(DType::Bool))
        })
    }

    /// Where one or both are true.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0, 2]).logical_or(false).to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn logical_or(&self, other: impl Operand) -> Tensor {
        binary("logical_or", self.into_value(), other.into_value(), as_is, |a, b| {
            UOp::binary(Op::Or, &a.cast(DType::Bool), &b.cast(DType::Bool))
        })
    }

    /// Where one of both is true.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0, 2]).logical_xor(true).to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn logical_xor(&self, other: impl Operand) -> Tensor {
        binary("logical_xor", self.into_value(), other.into_value(), as_is, |a, b| {
            a.cast(DType::Bool).ne_(&b.cast(DType::Bool))
        })
    }

    /// Where the distance is at most `absolute + relative * |other|`, or both are equal. NaN is close to nothing.
    ///
    /// ```
    /// let t = kiln::Tensor::from([1.0, 1.1]);
    /// assert_eq!(t.isclose(1.0, 1e-5, 1e-8).to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn isclose(&self, other: impl Operand, relative: f64, absolute: f64) -> Tensor {
        let typing: Typing =
            |dtype| Ok(if dtype.is_float() { dtype.accumulator() } else { DType::F64 });
        binary("isclose", self.into_value(), other.into_value(), typing, |a, b| {
            let allowed = math::abs(b) * like(b, relative) + like(b, absolute);
            let distance = math::abs(&(a - b));
            let finite = distance.lt(&like(b, f64::INFINITY));
            a.eq_(b) | (finite & allowed.lt(&distance).not())
        })
    }

    /// Whether everything is [close](Tensor::isclose). Computes both.
    ///
    /// ```
    /// assert!(kiln::Tensor::from([1.0, 2.0]).allclose(&kiln::Tensor::from([1.0, 2.0 + 1e-9]), 1e-5, 1e-8)?);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices; whatever computing gives.
    #[track_caller]
    pub fn allclose(
        &self,
        other: impl Operand,
        relative: f64,
        absolute: f64,
    ) -> Result<bool, Error> {
        let _method = outermost("allclose");
        self.isclose(other, relative, absolute).all(..).item()
    }
}
