//! Reductions along axes. `sum(1)`, `sum([0, 2])`, `sum(-1)`, `sum(..)`; the `_keepdim` forms leave axes of length 1.

use super::Tensor;
use super::autocast::full;
use super::elementwise::{like, quotient};
use super::shape_args::{AxesArg, axes, only_axis};
use crate::defaults::OrFloat;
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::arg::{Axes, ReduceOp, Shape};
use kiln_ir::{DType, Op, UOp};

/// A reduction over checked axes, as a function on nodes.
type Reducer = fn(&UOp, &Axes) -> Result<UOp, Fault>;

/// The node's sum, in its accumulator's dtype.
pub(super) fn wide_sum(x: &UOp, axes: &Axes) -> UOp {
    x.cast(x.dtype().sum_dtype().accumulator()).reduce(ReduceOp::Add, Axes::from_slice(axes))
}

fn sum(x: &UOp, axes: &Axes) -> Result<UOp, Fault> {
    Ok(wide_sum(x, axes).cast(full(x.dtype().sum_dtype())))
}

fn prod(x: &UOp, axes: &Axes) -> Result<UOp, Fault> {
    let dtype = full(x.dtype().sum_dtype());
    Ok(x.cast(dtype.accumulator()).reduce(ReduceOp::Mul, axes.clone()).cast(dtype))
}

fn extreme(x: &UOp, op: ReduceOp, axes: &Axes) -> Result<UOp, Fault> {
    match axes.iter().find(|&&a| x.shape()[a] == 0) {
        Some(a) => refuse!("axis {a} of {:?} is empty and has none", x.shape()),
        None => Ok(x.reduce(op, axes.clone())),
    }
}

fn max(x: &UOp, axes: &Axes) -> Result<UOp, Fault> {
    extreme(x, ReduceOp::Max, axes)
}

fn min(x: &UOp, axes: &Axes) -> Result<UOp, Fault> {
    extreme(x, ReduceOp::Min, axes)
}

fn any(x: &UOp, axes: &Axes) -> Result<UOp, Fault> {
    Ok(x.cast(DType::Bool).reduce(ReduceOp::Add, axes.clone()))
}

fn all(x: &UOp, axes: &Axes) -> Result<UOp, Fault> {
    Ok(x.cast(DType::Bool).reduce(ReduceOp::Mul, axes.clone()))
}

/// How many elements each result combines.
fn count(x: &UOp, axes: &Axes) -> usize {
    axes.iter().map(|&a| x.shape()[a]).product()
}

/// The mean in the accumulator's dtype, axes kept.
fn wide_mean_kept(x: &UOp, axes: &Axes) -> UOp {
    let x = x.cast(x.dtype().or_float().accumulator());
    let sum = wide_sum(&x, axes);
    let mean = quotient(&sum, &like(&sum, count(&x, axes)));
    mean.reshape(kept_shape(x.shape(), axes))
}

fn mean(x: &UOp, axes: &Axes) -> Result<UOp, Fault> {
    let shape = dropped_shape(x.shape(), axes);
    Ok(wide_mean_kept(x, axes).reshape(shape).cast(x.dtype().or_float()))
}

/// The sum of squared distances from the mean, over the count less `correction`.
fn variance(x: &UOp, axes: &Axes, correction: usize) -> UOp {
    let wide = x.cast(x.dtype().or_float().accumulator());
    let distance = &wide - wide_mean_kept(x, axes).expand(x.shape().clone());
    let sum = wide_sum(&(&distance * &distance), axes);
    quotient(&sum, &like(&sum, count(x, axes).saturating_sub(correction)))
}

fn var(x: &UOp, axes: &Axes) -> Result<UOp, Fault> {
    Ok(variance(x, axes, 1).cast(x.dtype().or_float()))
}

fn std(x: &UOp, axes: &Axes) -> Result<UOp, Fault> {
    Ok(root(&variance(x, axes, 1)).cast(x.dtype().or_float()))
}

/// The square root, whose gradient at 0 is 0: equal values do not spread whichever moves a little.
fn root(x: &UOp) -> UOp {
    let (none, zero) = (x.eq_(&like(x, 0)), like(x, 0));
    none.where_(&zero, &UOp::unary(Op::Sqrt, &none.where_(&like(x, 1), x)))
}

pub(super) fn kept_shape(shape: &[usize], axes: &Axes) -> Shape {
    shape.iter().enumerate().map(|(i, &n)| if axes.contains(&i) { 1 } else { n }).collect()
}

fn dropped_shape(shape: &[usize], axes: &Axes) -> Shape {
    shape.iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, &n)| n).collect()
}

impl Tensor {
    #[track_caller]
    fn reduced(&self, op: &'static str, arg: impl AxesArg, keep: bool, f: Reducer) -> Tensor {
        let reduce = || {
            let x = self.value()?;
            let axes = axes(arg, self.ndim())?;
            let result = f(&x, &axes)?;
            Ok(if keep { result.reshape(kept_shape(self.shape(), &axes)) } else { result })
        };
        self.lift(op, reduce())
    }
}

macro_rules! reductions {
    ($($(#[doc = $doc:literal])+ $name:ident $keepdim:ident $dtype:literal $item:literal $example:literal;)*) => {
        /// Reductions.
        impl Tensor { $(
            $(#[doc = $doc])+
            #[doc = concat!("\n\nThe dtype is ", $dtype, ".")]
            #[doc = concat!("\n\n```\nlet t = kiln::Tensor::from([[1.0f32, 2.0], [3.0, 5.0]]);")]
            #[doc = concat!("assert_eq!(t.", stringify!($name), "(0).to_vec::<", $item, ">()?, ", $example, ");")]
            #[doc = "# Ok::<(), kiln::Error>(())\n```"]
            ///
            /// # Errors
            /// An axis that is not there or is named twice.
            #[must_use]
            #[track_caller]
            pub fn $name(&self, axes: impl AxesArg) -> Tensor {
                self.reduced(stringify!($name), axes, false, $name)
            }

            #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), "), leaving the axes with length 1.")]
            #[doc = concat!("\n\n```\nlet t = kiln::Tensor::ones([2, 3]);")]
            #[doc = concat!("assert_eq!(t.", stringify!($keepdim), "(1).shape(), [2, 1]);\n```")]
            ///
            /// # Errors
            /// An axis that is not there or is named twice.
            #[must_use]
            #[track_caller]
            pub fn $keepdim(&self, axes: impl AxesArg) -> Tensor {
                self.reduced(stringify!($keepdim), axes, true, $name)
            }
        )* }
    };
}

reductions! {
    /// The sum along axes.
    sum sum_keepdim "the tensor's, with 8- and 16-bit integers and bool widened to 32 bits" "f32" "[4.0f32, 7.0]";
    /// The product along axes.
    prod prod_keepdim "the tensor's, with 8- and 16-bit integers and bool widened to 32 bits" "f32" "[3.0f32, 10.0]";
    /// The largest along axes; NaN if one is. Empty axes have none, which is an error.
    max max_keepdim "the tensor's" "f32" "[3.0f32, 5.0]";
    /// The smallest along axes; NaN if one is. Empty axes have none, which is an error.
    min min_keepdim "the tensor's" "f32" "[1.0f32, 2.0]";
    /// The mean along axes.
    mean mean_keepdim "the tensor's if it is a float, else f32" "f32" "[2.0f32, 3.5]";
    /// The variance along axes, over the count less one.
    var var_keepdim "the tensor's if it is a float, else f32" "f32" "[2.0f32, 4.5]";
    /// The standard deviation along axes: the root of [`var`](Tensor::var).
    std std_keepdim "the tensor's if it is a float, else f32" "f32" "[2.0f32.sqrt(), 4.5f32.sqrt()]";
    /// Whether some element along axes is not 0.
    any any_keepdim "bool" "bool" "[true, true]";
    /// Whether every element along axes is not 0.
    all all_keepdim "bool" "bool" "[true, true]";
}

/// Variants.
impl Tensor {
    /// The variance along axes, over the count less `correction` (0 for that of a whole population).
    ///
    /// ```
    /// let t = kiln::Tensor::from([1.0f32, 3.0]);
    /// assert_eq!(t.var_with(0, 0).item::<f32>()?, 1.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn var_with(&self, axes_arg: impl AxesArg, correction: usize) -> Tensor {
        let reduce = || {
            let x = self.value()?;
            let axes = axes(axes_arg, self.ndim())?;
            Ok(variance(&x, &axes, correction).cast(x.dtype().or_float()))
        };
        self.lift("var_with", reduce())
    }

    /// As [`var_with`](Tensor::var_with), leaving the axes with length 1.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::ones([2, 3]).var_keepdim_with(1, 0).shape(), [2, 1]);
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn var_keepdim_with(&self, axes_arg: impl AxesArg, correction: usize) -> Tensor {
        let _method = outermost("var_keepdim_with");
        let kept = axes(&axes_arg, self.ndim()).map(|axes| kept_shape(self.shape(), &axes));
        let variance = self.var_with(axes_arg, correction);
        kept.map_or(variance.clone(), |shape| variance.reshape(shape))
    }
}

/// `0, 1, ..` along `axis` in every element of `shape`, i32.
pub(super) fn positions(shape: &[usize], axis: usize) -> UOp {
    UOp::positions_along(shape, axis)
}

/// The position of the first element along `axis` that `best` marks, i32.
pub(super) fn first_position(x: &UOp, axis: usize, op: ReduceOp) -> Result<UOp, Fault> {
    let axes = Axes::from_slice(&[axis]);
    let best = extreme(x, op, &axes)?;
    let best = best.reshape(kept_shape(x.shape(), &axes)).expand(x.shape().clone());
    // where there is a NaN it is the extreme, and equal to nothing
    let equal = x.eq_(&best);
    let hit = if x.dtype().is_float() { equal | x.ne_(x) } else { equal };
    let n = x.shape()[axis];
    let none = UOp::constant(n, DType::I32);
    Ok(hit.where_(&positions(x.shape(), axis), &none).reduce(ReduceOp::Min, axes))
}

/// Positions.
impl Tensor {
    /// The position of the first largest element along one axis, i32; NaN counts as largest. `..` counts through all
    /// elements.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3, 7, 7]).argmax(0).item::<i32>()?, 1);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// More than one axis, one that is not there, an empty one.
    #[must_use]
    #[track_caller]
    pub fn argmax(&self, axis: impl AxesArg) -> Tensor {
        self.position("argmax", axis, ReduceOp::Max)
    }

    /// As [`argmax`](Tensor::argmax), leaving the axis with length 1; `..` leaves all of them.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3]).argmax_keepdim(1).shape(), [2, 1]);
    /// ```
    ///
    /// # Errors
    /// As [`argmax`](Tensor::argmax).
    #[must_use]
    #[track_caller]
    pub fn argmax_keepdim(&self, axis: impl AxesArg) -> Tensor {
        let _method = outermost("argmax_keepdim");
        let kept = axes(&axis, self.ndim()).map(|axes| kept_shape(self.shape(), &axes));
        let position = self.argmax(axis);
        kept.map_or(position.clone(), |shape| position.reshape(shape))
    }

    /// The position of the first smallest element along one axis, i32; NaN counts as smallest. `..` counts through all
    /// elements.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3, 7, 1]).argmin(0).item::<i32>()?, 2);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// More than one axis, one that is not there, an empty one.
    #[must_use]
    #[track_caller]
    pub fn argmin(&self, axis: impl AxesArg) -> Tensor {
        self.position("argmin", axis, ReduceOp::Min)
    }

    /// As [`argmin`](Tensor::argmin), leaving the axis with length 1; `..` leaves all of them.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3]).argmin_keepdim(1).shape(), [2, 1]);
    /// ```
    ///
    /// # Errors
    /// As [`argmin`](Tensor::argmin).
    #[must_use]
    #[track_caller]
    pub fn argmin_keepdim(&self, axis: impl AxesArg) -> Tensor {
        let _method = outermost("argmin_keepdim");
        let kept = axes(&axis, self.ndim()).map(|axes| kept_shape(self.shape(), &axes));
        let position = self.argmin(axis);
        kept.map_or(position.clone(), |shape| position.reshape(shape))
    }

    #[track_caller]
    fn position(&self, op: &'static str, arg: impl AxesArg, best: ReduceOp) -> Tensor {
        let flat = arg.numbers().is_none();
        let t = if flat { self.flatten() } else { self.clone() };
        let find = || {
            let x = t.value()?;
            first_position(&x, only_axis(arg, t.ndim())?, best)
        };
        self.lift(op, find())
    }
}
