//! What accumulates along an axis other than sums: products in log of the length steps, each of which reaches twice as far
//! back, and the positions of extremes.

use super::Tensor;
use super::autocast::full;
use super::elementwise::like;
use super::order::rank;
use super::reduce::positions;
use super::scan::running_max;
use super::shape_args::{Int, axis};
use crate::defaults::OrFloat;
use crate::error::Fault;
use crate::origin::outermost;
use kiln_ir::arg::{Axes, PadAxis, Shape, SliceAxis};
use kiln_ir::{DType, Op, UOp};

/// `x`, of which `axis` is the last of two, moved on by `by`; what comes in is 0.
fn delayed(x: &UOp, by: usize) -> UOp {
    let mut slices: Vec<SliceAxis> = x.shape().iter().map(|&n| SliceAxis::full(n)).collect();
    slices[1].len -= by;
    x.slice(&slices).pad(&[PadAxis::default(), PadAxis { before: by, between: 0, after: 0 }])
}

/// Where there is an element `by` places before.
fn has_one_before(x: &UOp, by: usize) -> UOp {
    let place = positions(x.shape(), 1);
    place.lt(&like(&place, by)).not()
}

/// `f` of rows, `[rows, n]`, on the elements along an axis.
fn along(x: &UOp, axis: usize, f: impl FnOnce(&UOp) -> UOp) -> UOp {
    let (rank, n) = (x.shape().len(), x.shape()[axis]);
    if x.numel() == 0 {
        return x.clone();
    }
    let mut last: Axes = (0..rank).collect();
    last.swap(axis, rank - 1);
    let moved = x.permute(last.clone());
    let rows = f(&moved.reshape(Shape::from_slice(&[x.numel() / n, n])));
    rows.reshape(moved.shape().clone()).permute(last)
}

/// `combine` of each element and all before it, which is associative.
fn scanned(x: &UOp, combine: impl Fn(&UOp, &UOp) -> UOp) -> UOp {
    let (mut x, n, mut by) = (x.clone(), x.shape()[1], 1);
    while by < n {
        let before = delayed(&x, by);
        // what has nothing before it is combined with itself, for a gradient without harm, and not used
        let there = has_one_before(&x, by);
        let combined = combine(&there.where_(&before, &like(&x, 1)), &x);
        x = there.where_(&combined, &x).contiguous();
        by *= 2;
    }
    x
}

/// The larger of the logarithms and what the other adds to it.
fn added_logs(a: &UOp, b: &UOp) -> UOp {
    super::elementwise::logaddexp(a, b)
}

/// The positions of the largest, or smallest, so far; of equals the last, and NaN is the largest and the smallest.
fn best_so_far(x: &UOp, op: Op) -> UOp {
    let columns = x.reshape(Shape::from_slice(&[x.shape()[0], x.shape()[1], 1]));
    let rank = if op == Op::Max { rank(&columns) } else { rank_from_largest(&columns) };
    let rank = (rank ^ i64::MIN).bitcast(DType::U64);
    let is_best = rank.eq_(&running_max(&rank));
    let place = positions(rank.shape(), 1);
    let place = is_best.where_(&place, &like(&place, 0)).contiguous();
    running_max(&place).reshape(x.shape().clone())
}

/// An integer for each element, in their order turned around, but for NaN, which is above everything.
fn rank_from_largest(x: &UOp) -> UOp {
    let turned = rank(x) ^ -1;
    match x.dtype().is_float() {
        true => x.ne_(x).where_(&like(&turned, i64::MAX), &turned),
        false => turned,
    }
}

/// Accumulation.
impl Tensor {
    /// Running products along `axis`; the dtype is that of [`prod`](Tensor::prod).
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2, 3]).cumprod(0).to_vec::<i32>()?, [1, 2, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn cumprod(&self, on: impl Int) -> Tensor {
        let scan = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let (axis, dtype) = (axis(on, x.shape().len())?, full(x.dtype().sum_dtype()));
            let wide = x.cast(dtype.accumulator());
            Ok(along(&wide, axis, |x| scanned(x, |a, b| a * b)).cast(dtype))
        };
        self.lift("cumprod", scan())
    }

    /// The logarithm of the running sums of `e^x` along `axis`, without overflow; integers become f32.
    ///
    /// ```
    /// let y = kiln::Tensor::from([0.0f32, 0.0]).logcumsumexp(0).to_vec::<f32>()?;
    /// assert!((y[1] - 2.0f32.ln()).abs() < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn logcumsumexp(&self, on: impl Int) -> Tensor {
        let scan = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let (axis, dtype) = (axis(on, x.shape().len())?, x.dtype().or_float());
            let wide = x.cast(dtype.accumulator());
            Ok(along(&wide, axis, |x| scanned(x, added_logs)).cast(dtype))
        };
        self.lift("logcumsumexp", scan())
    }

    /// The largest element so far along `axis`, and its position, i32: of equal ones the last. From a NaN on it is NaN.
    ///
    /// ```
    /// let (values, positions) = kiln::Tensor::from([1, 3, 2, 3]).cummax(0);
    /// assert_eq!(values.to_vec::<i32>()?, [1, 3, 3, 3]);
    /// assert_eq!(positions.to_vec::<i32>()?, [0, 1, 1, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn cummax(&self, axis: impl Int) -> (Tensor, Tensor) {
        let _method = outermost("cummax");
        self.so_far("cummax", axis, Op::Max)
    }

    /// The smallest element so far along `axis`, and its position, i32: of equal ones the last. From a NaN on it is NaN.
    ///
    /// ```
    /// let (values, positions) = kiln::Tensor::from([3, 1, 2]).cummin(0);
    /// assert_eq!(values.to_vec::<i32>()?, [3, 1, 1]);
    /// assert_eq!(positions.to_vec::<i32>()?, [0, 1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn cummin(&self, axis: impl Int) -> (Tensor, Tensor) {
        let _method = outermost("cummin");
        self.so_far("cummin", axis, Op::Min)
    }

    #[track_caller]
    fn so_far(&self, op: &'static str, on: impl Int, best: Op) -> (Tensor, Tensor) {
        let scan = || -> Result<UOp, Fault> {
            let x = self.value()?.detach();
            let axis = axis(on, x.shape().len())?;
            let x = if x.dtype() == DType::Bool { x.cast(DType::U8) } else { x };
            Ok(along(&x, axis, |x| best_so_far(x, best)).cast(DType::I32))
        };
        let places = self.lift(op, scan());
        (self.gather(on, &places), places)
    }
}
