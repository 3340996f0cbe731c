//! Reductions made of others: counts, sums without NaN, spreads, distances between neighbours.

use super::Tensor;
use super::shape_args::{AxesArg, Int};
use crate::defaults::OrFloat;
use crate::origin::outermost;
use kiln_ir::DType;

/// Extremes and counts.
impl Tensor {
    /// Same as [`max`](Tensor::max).
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3, 7]).amax(0).item::<i32>()?, 7);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`max`](Tensor::max).
    #[must_use]
    #[track_caller]
    pub fn amax(&self, axes: impl AxesArg) -> Tensor {
        let _method = outermost("amax");
        self.max(axes)
    }

    /// Same as [`min`](Tensor::min).
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3, 7]).amin(0).item::<i32>()?, 3);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`min`](Tensor::min).
    #[must_use]
    #[track_caller]
    pub fn amin(&self, axes: impl AxesArg) -> Tensor {
        let _method = outermost("amin");
        self.min(axes)
    }

    /// The smallest and the largest along axes.
    ///
    /// ```
    /// let (low, high) = kiln::Tensor::from([3, 7, 5]).aminmax(..);
    /// assert_eq!((low.item::<i32>()?, high.item::<i32>()?), (3, 7));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`max`](Tensor::max).
    #[must_use]
    #[track_caller]
    pub fn aminmax(&self, axes: impl AxesArg) -> (Tensor, Tensor) {
        let _method = outermost("aminmax");
        (self.min(&axes), self.max(&axes))
    }

    /// How many elements along axes are not 0, i64.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3, 0, 5]).count_nonzero(..).item::<i64>()?, 2);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn count_nonzero(&self, axes: impl AxesArg) -> Tensor {
        let _method = outermost("count_nonzero");
        self.ne(0).cast(DType::I64).sum(axes)
    }

    /// The sum along axes of what is not NaN.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3.0, f64::NAN]).nansum(..).item::<f64>()?, 3.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn nansum(&self, axes: impl AxesArg) -> Tensor {
        let _method = outermost("nansum");
        self.masked_fill(&self.isnan(), 0).sum(axes)
    }

    /// The mean along axes of what is not NaN; NaN where nothing is.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3.0, f64::NAN, 5.0]).nanmean(..).item::<f64>()?, 4.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn nanmean(&self, axes: impl AxesArg) -> Tensor {
        let _method = outermost("nanmean");
        let (dtype, nan) = (self.dtype().or_float(), self.isnan());
        let wide = self.cast(dtype.accumulator());
        let count = nan.logical_not().cast(dtype.accumulator()).sum(&axes);
        wide.masked_fill(&nan, 0).sum(axes).div(count).cast(dtype)
    }
}

/// Spread.
impl Tensor {
    /// The standard deviation along axes, over the count less `correction` (0 for that of a whole population).
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.0f32, 3.0]).std_with(0, 0).item::<f32>()?, 1.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn std_with(&self, axes: impl AxesArg, correction: usize) -> Tensor {
        let _method = outermost("std_with");
        let variance = self.cast(self.dtype().or_float().accumulator()).var_with(axes, correction);
        let none = variance.eq(0.0);
        // equal values do not spread whichever moves a little
        let root = variance.masked_fill(&none, 1.0).sqrt().masked_fill(&none, 0.0);
        root.cast(self.dtype().or_float())
    }

    /// [`var`](Tensor::var) and [`mean`](Tensor::mean) along axes.
    ///
    /// ```
    /// let (var, mean) = kiln::Tensor::from([1.0f32, 3.0]).var_mean(0, 1);
    /// assert_eq!((var.item::<f32>()?, mean.item::<f32>()?), (2.0, 2.0));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn var_mean(&self, axes: impl AxesArg, correction: usize) -> (Tensor, Tensor) {
        let _method = outermost("var_mean");
        (self.var_with(&axes, correction), self.mean(&axes))
    }

    /// [`std`](Tensor::std) and [`mean`](Tensor::mean) along axes.
    ///
    /// ```
    /// let (std, mean) = kiln::Tensor::from([1.0f32, 3.0]).std_mean(0, 0);
    /// assert_eq!((std.item::<f32>()?, mean.item::<f32>()?), (1.0, 2.0));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn std_mean(&self, axes: impl AxesArg, correction: usize) -> (Tensor, Tensor) {
        let _method = outermost("std_mean");
        (self.std_with(&axes, correction), self.mean(&axes))
    }

    /// How the rows of a matrix, each a variable, vary together, over the count less one; one axis is one variable.
    ///
    /// ```
    /// let t = kiln::Tensor::from([[1.0f32, 3.0], [2.0, 0.0]]);
    /// assert_eq!(t.cov().to_vec::<f32>()?, [2.0, -2.0, -2.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// More than two axes.
    #[must_use]
    #[track_caller]
    pub fn cov(&self) -> Tensor {
        let _method = outermost("cov");
        if self.ndim() > 2 {
            let why = format!("wants at most two axes, not {:?}", self.shape());
            return self.refused("cov", why.into());
        }
        let rows = self.atleast_2d();
        let count = rows.shape().get(1).map_or(0, |n| n.saturating_sub(1));
        let apart = rows.sub(rows.mean_keepdim(-1));
        let sums = apart.times(&apart.transpose(0, 1)).div(count as f64);
        if self.ndim() < 2 { sums.reshape(()) } else { sums }
    }

    /// [`cov`](Tensor::cov) over the standard deviations: correlations between -1 and 1.
    ///
    /// ```
    /// let t = kiln::Tensor::from([[1.0f32, 3.0], [2.0, 0.0]]);
    /// assert!((t.corrcoef().to_vec::<f32>()?[1] + 1.0).abs() < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// More than two axes.
    #[must_use]
    #[track_caller]
    pub fn corrcoef(&self) -> Tensor {
        let _method = outermost("corrcoef");
        // squares of numbers that a narrow dtype holds may not fit it
        let dtype = self.dtype().or_float();
        let cov = self.cast(dtype.accumulator()).cov();
        if cov.ndim() == 0 {
            return cov.div(&cov).cast(dtype);
        }
        let spread = cov.diagonal(0, 0, 1).sqrt();
        cov.div(spread.unsqueeze(1)).div(spread).clamp(-1.0, 1.0).cast(dtype)
    }
}

/// Neighbours.
impl Tensor {
    /// The distance of each element along `axis` to the next, `n` times.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 4, 9, 16]).diff(2, 0).to_vec::<i32>()?, [2, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn diff(&self, n: usize, axis: impl Int) -> Tensor {
        let _method = outermost("diff");
        let axis = match self.axis_length(axis) {
            Ok((axis, _)) => axis,
            Err(fault) => return Tensor::broken(fault.at("diff")),
        };
        let mut result = self.copy();
        for _ in 0..n.min(self.shape()[axis]) {
            let count = result.shape()[axis].saturating_sub(1);
            let (next, here) = (result.piece(axis, 1, count), result.piece(axis, 0, count));
            result = if self.dtype() == DType::Bool { next.ne(here) } else { next.sub(here) };
        }
        result
    }

    /// The integral along `axis` by trapezoids `dx` wide.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.0, 2.0, 3.0]).trapezoid(2.0, 0).item::<f64>()?, 8.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn trapezoid(&self, dx: f64, axis: impl Int) -> Tensor {
        let _method = outermost("trapezoid");
        match self.axis_length(axis) {
            Ok((axis, n)) => {
                let count = n.saturating_sub(1);
                self.piece(axis, 1, count).add(self.piece(axis, 0, count)).sum(axis).mul(dx * 0.5)
            }
            Err(fault) => Tensor::broken(fault.at("trapezoid")),
        }
    }
}
