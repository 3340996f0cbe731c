//! Comparisons, conditions, choices.

use super::{as_is, binary, binary_op, like, math};
use crate::Tensor;
use crate::element::{Operand, Value};
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use crate::tensor::broadcast::{Pair, broadcast_shapes, common_device, fit, valid};
use kiln_ir::{DType, Op, UOp};
use std::cmp::Ordering;

macro_rules! comparisons {
    ($($(#[doc = $doc:literal])+ $name:ident $compare:expr, outside $below:expr, $above:expr;)*) => {
        /// Comparisons: bool tensors of the broadcast shape. Only `ne` is true with NaN. A number that the dtype does not
        /// reach is compared as the number that it is.
        #[allow(clippy::should_implement_trait)] // these give tensors
        impl Tensor { $(
            $(#[doc = $doc])+
            ///
            /// # Errors
            /// Shapes that do not broadcast, other devices.
            #[must_use]
            #[track_caller]
            pub fn $name(&self, other: impl Operand) -> Tensor {
                let (other, compare) =
                    reached(self, other.into_value(), [$below, $compare, $above]);
                binary(stringify!($name), self.into_value(), other, as_is, compare)
            }
        )* }
    };
}

comparisons! {
    /// Where both are equal.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2]).eq(2).to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    eq |a, b| a.eq_(b), outside never, never;
    /// Where they differ.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2]).ne(2).to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ne |a, b| a.ne_(b), outside always, always;
    /// Where this is less.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2]).lt(2).to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    lt less, outside less, at_most;
    /// Where this is greater.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2]).gt(1).to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    gt greater, outside at_least, greater;
    /// Where this is less or both are equal.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2]).le(1).to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    le at_most, outside less, at_most;
    /// Where this is greater or both are equal.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2]).ge(2).to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ge at_least, outside at_least, greater;
}

type Compare = fn(&UOp, &UOp) -> UOp;

/// `value` in the dtype that it meets `lhs` in, and how to compare with it: the second way, or if it is the end of what
/// the dtype reaches, as `value` is below that or above, the first or the last.
fn reached(lhs: &Tensor, value: Value, [below, within, above]: [Compare; 3]) -> (Value, Compare) {
    let (value, side) = value.saturated(&lhs.into_value());
    let compare = match side {
        Ordering::Less => below,
        Ordering::Equal => within,
        Ordering::Greater => above,
    };
    (value, compare)
}

fn never(a: &UOp, _: &UOp) -> UOp {
    a.lt(a)
}

fn always(a: &UOp, b: &UOp) -> UOp {
    never(a, b).not()
}

fn less(a: &UOp, b: &UOp) -> UOp {
    a.lt(b)
}

fn greater(a: &UOp, b: &UOp) -> UOp {
    b.lt(a)
}

fn at_least(a: &UOp, b: &UOp) -> UOp {
    at_most(b, a)
}

/// `a <= b`: for floats not the opposite of `b < a`, because of NaN.
pub(super) fn at_most(a: &UOp, b: &UOp) -> UOp {
    if a.dtype().is_float() { a.lt(b) | a.eq_(b) } else { b.lt(a).not() }
}

/// Conditions.
impl Tensor {
    /// True where the value is 0 or false.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0, 2]).logical_not().to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn logical_not(&self) -> Tensor {
        self.map("logical_not", |_| Ok(DType::Bool), UOp::not)
    }

    /// Every bit inverted; of bool, the opposite. Same as `!`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0, 5]).bitwise_not().to_vec::<i32>()?, [-1, -6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Floats.
    #[must_use]
    #[track_caller]
    pub fn bitwise_not(&self) -> Tensor {
        self.map("bitwise_not", super::bits, UOp::not)
    }

    /// True where the value is NaN.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0, f64::NAN]).isnan().to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn isnan(&self) -> Tensor {
        self.map("isnan", as_is, |x| x.ne_(x))
    }

    /// True where the value is infinite.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0, f64::INFINITY]).isinf().to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn isinf(&self) -> Tensor {
        self.map("isinf", super::as_float, |x| math::abs(x).eq_(&like(x, f64::INFINITY)))
    }
}

/// Choices.
impl Tensor {
    /// Where this bool tensor is true `a`, elsewhere `b`, in their common dtype.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([1, -2]);
    /// assert_eq!(t.lt(0).where_(0, &t).to_vec::<i32>()?, [1, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A condition that is not bool, shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn where_(&self, a: impl Operand, b: impl Operand) -> Tensor {
        let values = [self.into_value(), a.into_value(), b.into_value()];
        self.lift("where_", choose(&values))
    }

    /// This, with `value` where `mask` is true.
    ///
    /// ```
    /// let t = kiln::Tensor::from([1, -2]);
    /// assert_eq!(t.masked_fill(&t.lt(0), 9).to_vec::<i32>()?, [1, 9]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A mask that is not bool, shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, value: impl Operand) -> Tensor {
        let values = [mask.into_value(), value.into_value(), self.into_value()];
        self.lift("masked_fill", choose(&values))
    }

    /// No less than `low`, no more than `high`; of integers, as far as the dtype reaches. Between two numbers the gradient is
    /// that of what lies inside, bounds not included, as in PyTorch; bounds that are tensors share it as
    /// [`maximum`](Tensor::maximum) does.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 5, 9]).clamp(2, 6).to_vec::<i32>()?, [2, 5, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn clamp(&self, low: impl Operand, high: impl Operand) -> Tensor {
        let _method = outermost("clamp");
        let (low, high) = (low.into_value(), high.into_value());
        let numbers = matches!((&low, &high), (Value::Scalar(..), Value::Scalar(..)));
        if numbers && self.dtype().is_float() {
            return self.lift("clamp", self.between(&low, &high));
        }
        let bounded = binary_op("maximum", Op::Max, self.into_value(), low);
        binary_op("minimum", Op::Min, bounded.into_value(), high)
    }

    /// The floats bounded by two numbers. Those that are not inside have no gradient.
    fn between(&self, low: &Value, high: &Value) -> Result<UOp, Fault> {
        let x = self.value()?;
        let (low, high) = (low.node(x.dtype())?, high.node(x.dtype())?);
        let inside = low.lt(&x).and(&x.lt(&high));
        Ok(inside.where_(&x, &x.maximum(&low).minimum(&high).detach()))
    }
}

/// `values[0] ? values[1] : values[2]`.
fn choose([condition, a, b]: &[Value; 3]) -> Result<UOp, Fault> {
    valid([condition, a, b])?;
    let Value::Tensor(mask) = condition else { return refuse!("the condition is not a tensor") };
    if mask.dtype() != DType::Bool {
        return refuse!("wants a bool condition, not {}", mask.dtype());
    }
    common_device([condition, a, b])?;
    let pair = Pair::new(a, b, as_is)?;
    let mask = mask.value()?;
    let inner = broadcast_shapes(pair.lhs.shape(), pair.rhs.shape())?;
    let shape = broadcast_shapes(mask.shape(), &inner)?;
    Ok(fit(&mask, &shape).where_(&fit(&pair.lhs, &shape), &fit(&pair.rhs, &shape)))
}
