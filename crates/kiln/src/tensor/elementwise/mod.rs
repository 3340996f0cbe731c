//! Arithmetic, element by element.

mod activation;
mod bessel;
mod compare;
mod divisors;
mod error_function;
mod exponents;
mod gamma;
mod inverse_error;
mod gates;
mod hyperbolic;
mod inverse;
mod math;
mod pairs;
mod parts;
mod round;
mod scale;

pub(super) use pairs::logaddexp;

use super::Tensor;
use super::autocast::full;
use super::broadcast::Pair;
use crate::defaults::OrFloat;
use crate::element::{Operand, Value};
use crate::engine;
use crate::error::{Fault, refuse};
use kiln_ir::dtype::Const;
use kiln_ir::{DType, Op, UOp};

/// What an op makes of the operands' common dtype.
type Typing = fn(DType) -> Result<DType, Fault>;

pub(super) fn as_is(dtype: DType) -> Result<DType, Fault> {
    Ok(dtype)
}

pub(super) fn as_float(dtype: DType) -> Result<DType, Fault> {
    Ok(dtype.or_float())
}

/// What a narrow float loses too much by.
pub(super) fn as_full(dtype: DType) -> Result<DType, Fault> {
    Ok(full(dtype.or_float()))
}

fn integer(dtype: DType) -> Result<DType, Fault> {
    if dtype.is_int() { Ok(dtype) } else { refuse!("wants integers, not {dtype}") }
}

fn bits(dtype: DType) -> Result<DType, Fault> {
    if dtype.is_float() { refuse!("wants integers or bool, not {dtype}") } else { Ok(dtype) }
}

/// `combine` of two operands brought together.
#[track_caller]
pub(super) fn binary(
    op: &'static str,
    lhs: Value,
    rhs: Value,
    typing: Typing,
    combine: impl FnOnce(&UOp, &UOp) -> UOp,
) -> Tensor {
    match Pair::new(&lhs, &rhs, typing) {
        Ok(pair) => Tensor::lift_on(op, &pair.device, Ok(combine(&pair.lhs, &pair.rhs))),
        Err(fault) => Tensor::broken(fault.at(op)),
    }
}

/// One op of the table on two operands.
#[track_caller]
pub(super) fn binary_op(name: &'static str, op: Op, lhs: Value, rhs: Value) -> Tensor {
    let typing: Typing = match op {
        Op::Div => as_float,
        Op::And | Op::Or | Op::Xor => bits,
        Op::Shl | Op::Shr => integer,
        // `true - true` has no meaning among bools
        Op::Sub => |d| Ok(if d == DType::Bool { DType::I32 } else { d }),
        _ => as_is,
    };
    let rhs = match op {
        // what no integer reaches bounds nothing, or bounds it to the last that there is
        Op::Max | Op::Min if !lhs.common_dtype(&rhs).is_float() => rhs.saturated(&lhs).0,
        _ => rhs,
    };
    binary(name, lhs, rhs, typing, |a, b| UOp::binary(op, a, b))
}

/// No arithmetic on bools: they count.
pub(super) fn counted(dtype: DType) -> Result<DType, Fault> {
    Ok(if dtype == DType::Bool { DType::I32 } else { dtype })
}

macro_rules! binary_methods {
    ($($(#[doc = $doc:literal])+ $name:ident $op:ident;)*) => {
        /// Two operands, brought to their common dtype and broadcast as NumPy does.
        #[allow(clippy::should_implement_trait)] // these take any operand and never panic
        impl Tensor { $(
            $(#[doc = $doc])+
            ///
            /// # Errors
            /// Shapes that do not broadcast, other devices, a dtype that the operation does not have.
            #[must_use]
            #[track_caller]
            pub fn $name(&self, other: impl Operand) -> Tensor {
                binary_op(stringify!($name), Op::$op, self.into_value(), other.into_value())
            }
        )* }
    };
}

binary_methods! {
    /// The sum; "or" for bools. Same as `+`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2]).add(1).to_vec::<i32>()?, [2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    add Add;
    /// The difference. Same as `-`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2]).sub(1).to_vec::<i32>()?, [0, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    sub Sub;
    /// The product; "and" for bools. Same as `*`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2]).mul(3).to_vec::<i32>()?, [3, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    mul Mul;
    /// The quotient, of integers as f32. Same as `/`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2]).div(2).to_vec::<f32>()?, [0.5, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    div Div;
    /// The larger; NaN if either is. A number that the integers do not reach counts as the last one that they do.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 5]).maximum(3).to_vec::<i32>()?, [3, 5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    maximum Max;
    /// The smaller; NaN if either is. A number that the integers do not reach counts as the last one that they do.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 5]).minimum(3).to_vec::<i32>()?, [1, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    minimum Min;
    /// Bits that both have. Same as `&`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([6, 5]).bitwise_and(3).to_vec::<i32>()?, [2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    bitwise_and And;
    /// Bits that either has. Same as `|`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([6, 5]).bitwise_or(1).to_vec::<i32>()?, [7, 5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    bitwise_or Or;
    /// Bits that one of both has. Same as `^`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([6, 5]).bitwise_xor(1).to_vec::<i32>()?, [7, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    bitwise_xor Xor;
    /// Bits moved up; 0 past the width. Same as `<<`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([6, 5]).lshift(1).to_vec::<i32>()?, [12, 10]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    lshift Shl;
    /// Bits moved down, the sign repeated. Same as `>>`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([6, -5]).rshift(1).to_vec::<i32>()?, [3, -3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    rshift Shr;
}

/// Division that rounds down.
impl Tensor {
    /// The quotient rounded down; of integers by zero, 0. Of floats it is NumPy's: what the exact remainder leaves, divided.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([7, -7]).floor_div(2).to_vec::<i32>()?, [3, -4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn floor_div(&self, other: impl Operand) -> Tensor {
        binary("floor_div", self.into_value(), other.into_value(), counted, UOp::floordiv)
    }

    /// The remainder with the divisor's sign; of integers by zero, 0. Of floats it is exact, however large the quotient,
    /// but for the rounding where it takes the divisor's sign. Same as `%`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([7, -7]).modulo(4).to_vec::<i32>()?, [3, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn modulo(&self, other: impl Operand) -> Tensor {
        binary("modulo", self.into_value(), other.into_value(), counted, UOp::floormod)
    }
}

/// Dtypes and copies.
impl Tensor {
    /// The values converted to `dtype`: floats to integers truncate and saturate, integers wrap, bool is "not zero".
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// assert_eq!(Tensor::from([1.5, -2.5]).cast(DType::I32).to_vec::<i32>()?, [1, -2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Tensor {
        self.lift("cast", self.value().map(|x| x.cast(dtype)).map_err(Fault::from))
    }

    /// New storage with the same value.
    ///
    /// ```
    /// let a = kiln::Tensor::from([1, 2]);
    /// let b = a.copy();
    /// a.assign(0);
    /// assert_eq!(b.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn copy(&self) -> Tensor {
        self.lift("copy", self.value().map_err(Fault::from))
    }

    /// The same value in memory of its own, row-major, once it is realized. What is in memory already, as it is, shares that
    /// until one of the two is written.
    ///
    /// ```
    /// let t = kiln::Tensor::from([[1, 2], [3, 4]]).permute([1, 0]).contiguous();
    /// assert_eq!(t.to_vec::<i32>()?, [1, 3, 2, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn contiguous(&self) -> Tensor {
        let value = self.value().map(|x| if engine::is_in_memory(&x) { x } else { x.contiguous() });
        self.lift("contiguous", value.map_err(Fault::from))
    }

    /// `change` of this tensor's value, brought to the dtype that `typing` makes of its own.
    #[track_caller]
    pub(super) fn map(
        &self,
        op: &'static str,
        typing: impl FnOnce(DType) -> Result<DType, Fault>,
        change: impl FnOnce(&UOp) -> UOp,
    ) -> Tensor {
        let typed = || Ok(self.value()?.cast(typing(self.dtype())?));
        let result: Result<UOp, Fault> = typed();
        self.lift(op, result.map(|x| change(&x)))
    }
}

/// `f` of floats, the narrow ones in f32: the result rounds once.
pub(super) fn wide(x: &UOp, f: impl FnOnce(&UOp) -> UOp) -> UOp {
    f(&x.cast(x.dtype().accumulator())).cast(x.dtype())
}

/// A constant beside `x`.
pub(super) fn like(x: &UOp, value: impl Into<Const>) -> UOp {
    UOp::constant(value, x.dtype())
}

/// `a / b` of float nodes.
pub(super) fn quotient(a: &UOp, b: &UOp) -> UOp {
    UOp::binary(Op::Div, a, b)
}
