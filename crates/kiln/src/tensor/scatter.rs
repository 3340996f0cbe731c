//! Values with some elements replaced by, or combined with, others: indexed stores, one for each integer of the index.

use super::Tensor;
use super::gather::{each, sections};
use super::points::Points;
use super::shape_args::Int;
use super::view::View;
use crate::element::{Operand, Value};
use crate::error::{Caller, Fault, refuse};
use kiln_ir::arg::{ReduceOp, Shape, SliceAxis};
use kiln_ir::{Op, UOp};

/// How [`scatter_reduce`](Tensor::scatter_reduce) combines what lands on one element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// `"sum"`.
    Sum,
    /// `"prod"`.
    Prod,
    /// `"mean"`; of integers rounded down.
    Mean,
    /// `"amin"`: the smallest; NaN if one is.
    Amin,
    /// `"amax"`: the largest; NaN if one is.
    Amax,
}

/// A [`Reduction`] or its name.
pub trait ReductionArg {
    #[doc(hidden)]
    fn reduction(&self) -> Result<Reduction, String>;
}

impl ReductionArg for Reduction {
    fn reduction(&self) -> Result<Reduction, String> {
        Ok(*self)
    }
}

impl ReductionArg for &str {
    fn reduction(&self) -> Result<Reduction, String> {
        Ok(match *self {
            "sum" => Reduction::Sum,
            "prod" => Reduction::Prod,
            "mean" => Reduction::Mean,
            "amin" => Reduction::Amin,
            "amax" => Reduction::Amax,
            other => return Err(format!("{other:?} is none of sum, prod, mean, amin, amax")),
        })
    }
}

/// Copies that differ at positions. The tensor itself stays as it is: `t.assign(t.scatter(..))` writes. Positions are as
/// for reading: negative ones count from the end, one that is not there is an error.
impl Tensor {
    /// This with each element of `value` at the place along `axis` that the integer of `index` beside it says; along the
    /// other axes it is where the integer is. Of several for one place the last counts. What is past `index`'s shape in
    /// `value` is not used; a number is written to all places.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// let y = t.scatter(1, &Tensor::from([[2], [0]]), &Tensor::from([[7], [8]]));
    /// assert_eq!(y.to_vec::<i32>()?, [1, 2, 7, 8, 5, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An index that is no integer, out of range, on another device, or not shaped to lie inside; a value that is
    /// smaller than the index, of another device, or a float for integers.
    #[must_use]
    #[track_caller]
    pub fn scatter(&self, axis: impl Int, index: &Tensor, value: impl Operand) -> Tensor {
        let (value, caller) = (value.into_value(), Caller::of("scatter"));
        let scatter = || {
            let (base, points) =
                self.landing(|view| each(view, axis, index, self.device(), caller))?;
            Ok(points.written(&base, &self.landed(&value, &points.shape)?))
        };
        self.lift("scatter", scatter())
    }

    /// This with the elements of `value` combined at places as [`scatter`](Tensor::scatter) has them: their sum, product,
    /// mean, smallest or largest, with what was there before or, unless `include_self`, without.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let (t, index) = (Tensor::from([1.0, 2.0, 3.0]), Tensor::from([0, 0, 2]));
    /// let values = Tensor::from([10.0, 20.0, 30.0]);
    /// let sums = t.scatter_reduce(0, &index, &values, "sum", true);
    /// assert_eq!(sums.to_vec::<f64>()?, [31.0, 2.0, 33.0]);
    /// let means = t.scatter_reduce(0, &index, &values, "mean", false);
    /// assert_eq!(means.to_vec::<f64>()?, [15.0, 2.0, 30.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`scatter`](Tensor::scatter), and a name that is no reduction's.
    #[must_use]
    #[track_caller]
    pub fn scatter_reduce(
        &self,
        axis: impl Int,
        index: &Tensor,
        value: impl Operand,
        reduction: impl ReductionArg,
        include_self: bool,
    ) -> Tensor {
        let (value, caller) = (value.into_value(), Caller::of("scatter_reduce"));
        let scatter = || {
            let reduction = reduction.reduction()?;
            let (base, points) =
                self.landing(|view| each(view, axis, index, self.device(), caller))?;
            let value = self.landed(&value, &points.shape)?;
            Ok(match points.shape.contains(&0) {
                true => base,
                false => combined(&base, &value, &points.at_ground(), reduction, include_self),
            })
        };
        self.lift("scatter_reduce", scatter())
    }

    /// This with the sections of `value` added to those at the positions along `axis` that `index`, of one axis, holds.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([[1, 2], [3, 4]]);
    /// let y = t.index_add(0, &Tensor::from([1, 1]), &Tensor::from([[10, 20], [30, 40]]));
    /// assert_eq!(y.to_vec::<i32>()?, [1, 2, 43, 64]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An index that is no integer, out of range, on another device, or of more axes; a value that does not fit.
    #[must_use]
    #[track_caller]
    pub fn index_add(&self, axis: impl Int, index: &Tensor, value: impl Operand) -> Tensor {
        let (value, caller) = (value.into_value(), Caller::of("index_add"));
        let add = || {
            let (base, points) =
                self.landing(|view| sections(view, axis, index, self.device(), caller))?;
            let value = self.fitting(&value, &points.shape)?;
            Ok(match points.shape.contains(&0) {
                true => base,
                false => base.update_with(Some(ReduceOp::Add), &value, &points.at_ground()),
            })
        };
        self.lift("index_add", add())
    }

    /// This value, and points of it.
    fn landing(
        &self,
        points: impl FnOnce(&View) -> Result<Points, Fault>,
    ) -> Result<(UOp, Points), Fault> {
        let base = self.value()?;
        let points = points(&View::whole(self.shape(), self.dtype()))?;
        Ok((base, points))
    }

    /// The part of `value` that has an integer beside it.
    fn landed(&self, value: &Value, shape: &Shape) -> Result<UOp, Fault> {
        let node = self.typed(value)?;
        if let Value::Scalar(..) = value {
            return Ok(node.broadcast_to(shape));
        }
        let covers = |(&has, &wants): (&usize, &usize)| has >= wants;
        if node.shape().len() != shape.len() || !node.shape().iter().zip(shape).all(covers) {
            return refuse!("value of {:?} does not cover the index of {shape:?}", node.shape());
        }
        Ok(node.slice(&shape.iter().map(|&n| SliceAxis::full(n)).collect::<Vec<_>>()))
    }
}

/// `base` with `value` combined at the positions `at`.
fn combined(base: &UOp, value: &UOp, at: &UOp, how: Reduction, include_base: bool) -> UOp {
    let op = match how {
        Reduction::Mean => return mean(base, value, at, include_base),
        Reduction::Sum => ReduceOp::Add,
        Reduction::Prod => ReduceOp::Mul,
        Reduction::Amin => ReduceOp::Min,
        Reduction::Amax => ReduceOp::Max,
    };
    started(base, at, op, include_base).update_with(Some(op), value, at)
}

/// What is combined with: `base`, or at the positions what changes nothing.
fn started(base: &UOp, at: &UOp, op: ReduceOp, include_base: bool) -> UOp {
    match include_base {
        true => base.clone(),
        false => filled(base, op.identity(base.dtype()), at),
    }
}

/// `base` with `value` at the positions `at`.
fn filled(base: &UOp, value: impl Into<kiln_ir::Const>, at: &UOp) -> UOp {
    base.update(&UOp::constant(value, base.dtype()).broadcast_to(at.shape()), at)
}

/// The sum over the count, where anything landed; of integers rounded down.
fn mean(base: &UOp, value: &UOp, at: &UOp, include_base: bool) -> UOp {
    let wide = base.dtype().sum_dtype().accumulator();
    let combine = Some(ReduceOp::Add);
    let start = started(&base.cast(wide), at, ReduceOp::Add, include_base);
    let sum = start.update_with(combine, &value.cast(wide), at);
    let ones = |shape: &Shape| UOp::constant(1, wide).broadcast_to(shape);
    let before = ones(base.shape());
    let before = if include_base { before } else { filled(&before, 0, at) };
    let count = before.update_with(combine, &ones(at.shape()), at);
    let mean =
        if wide.is_float() { UOp::binary(Op::Div, &sum, &count) } else { sum.floordiv(&count) };
    mean.cast(base.dtype())
}
