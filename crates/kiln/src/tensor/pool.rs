//! Pooling: one value of each window along the last axes.

use super::Tensor;
use super::elementwise::{like, quotient};
use super::pool_options::{Pool, PoolOptions};
use super::reduce::wide_sum;
use super::shape_args::PairArg;
use super::window::{inside_axes, pad_last, padded_with, slide_last};
use crate::defaults::OrFloat;
use crate::error::Fault;
use crate::origin::outermost;
use kiln_ir::arg::{ReduceOp, Shape};
use kiln_ir::{DType, UOp};

/// Methods over so many axes.
macro_rules! pools {
    ($($n:literal $axes:literal $from:literal $to:literal $max:ident $avg:ident $lp:ident;)*) => {
        /// Pooling over the last one to three axes.
        impl Tensor { $(
            #[doc = concat!("The largest of each window of `[.., ", $axes, "]`. A kernel alone means windows side by side. What is around")]
            /// the input is less than anything.
            ///
            /// ```
            /// use kiln::{PoolOptions, Tensor};
            #[doc = concat!("let x = Tensor::ones(", $from, ");")]
            #[doc = concat!("assert_eq!(x.", stringify!($max), "(2).shape(), ", $to, ");")]
            #[doc = concat!("assert_eq!(x.", stringify!($max), "(PoolOptions::new(3).stride(2).padding(1)).shape(), ", $to, ");")]
            /// ```
            ///
            /// # Errors
            /// Fewer axes, a kernel that does not fit, settings for another number of axes.
            #[must_use]
            #[track_caller]
            pub fn $max(&self, pool: impl Into<PoolOptions>) -> Tensor {
                self.lift(stringify!($max), largest(self, &pool.into(), $n))
            }

            #[doc = concat!("The mean of each window of `[.., ", $axes, "]`. A kernel alone means windows side by side.")]
            ///
            /// ```
            /// use kiln::{PoolOptions, Tensor};
            #[doc = concat!("let x = Tensor::ones(", $from, ");")]
            #[doc = concat!("assert_eq!(x.", stringify!($avg), "(2).shape(), ", $to, ");")]
            #[doc = concat!("assert_eq!(x.", stringify!($avg), "(PoolOptions::new(3).stride(2).padding(1)).shape(), ", $to, ");")]
            /// ```
            ///
            /// # Errors
            /// Fewer axes, a kernel that does not fit, settings for another number of axes.
            #[must_use]
            #[track_caller]
            pub fn $avg(&self, pool: impl Into<PoolOptions>) -> Tensor {
                self.lift(stringify!($avg), mean(self, &pool.into(), $n))
            }

            #[doc = concat!("The root of degree `p` of the sum of powers of each window of `[.., ", $axes, "]`.")]
            ///
            /// ```
            #[doc = concat!("let y = kiln::Tensor::ones(", $from, ").", stringify!($lp), "(1.0, 2);")]
            #[doc = concat!("assert_eq!(y.shape(), ", $to, ");")]
            /// ```
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($avg), "`](Tensor::", stringify!($avg), ").")]
            #[must_use]
            #[track_caller]
            pub fn $lp(&self, p: f64, pool: impl Into<PoolOptions>) -> Tensor {
                let _method = outermost(stringify!($lp));
                let pool: PoolOptions = pool.into();
                let count = pool.frame($n).map_or(1, |f| f.windows.iter().map(|w| w.size).product());
                let sum = self.pow(p).$avg(pool).mul(count);
                // the root rises without bound at 0, where the gradient is 0 as PyTorch's
                let is_zero = sum.eq(0.0);
                is_zero.where_(0.0, is_zero.where_(1.0, sum).pow(1.0 / p))
            }
        )* }
    };
}

pools! {
    1 "length" "[1, 4]" "[1, 2]" max_pool1d avg_pool1d lp_pool1d;
    2 "height, width" "[1, 4, 4]" "[1, 2, 2]" max_pool2d avg_pool2d lp_pool2d;
    3 "depth, height, width" "[1, 4, 4, 4]" "[1, 2, 2, 2]" max_pool3d avg_pool3d lp_pool3d;
}

/// Pooling over two axes, with all settings in a row.
impl Tensor {
    /// The largest of each window; padding is less than anything. Each argument is a number or a pair.
    ///
    /// ```
    /// let t = kiln::Tensor::arange(16).reshape([4, 4]);
    /// assert_eq!(t.max_pool2d_with(3, 1, 1, 0).to_vec::<i32>()?, [10, 11, 14, 15]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes, a kernel that does not fit.
    #[must_use]
    #[track_caller]
    pub fn max_pool2d_with(
        &self,
        kernel: impl PairArg,
        stride: impl PairArg,
        dilation: impl PairArg,
        padding: impl PairArg,
    ) -> Tensor {
        let pool = PoolOptions::new(kernel.pair()).stride(stride.pair());
        let pool = pool.dilation(dilation.pair()).padding(padding.pair());
        self.lift("max_pool2d", largest(self, &pool, 2))
    }

    /// The mean of each window; padding counts as zeros. Each argument is a number or a pair.
    ///
    /// ```
    /// let t = kiln::Tensor::ones([2, 2]);
    /// assert_eq!(t.avg_pool2d_with(2, 2, 1).to_vec::<f32>()?, [0.25; 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes, a kernel that does not fit.
    #[must_use]
    #[track_caller]
    pub fn avg_pool2d_with(
        &self,
        kernel: impl PairArg,
        stride: impl PairArg,
        padding: impl PairArg,
    ) -> Tensor {
        let pool = PoolOptions::new(kernel.pair()).stride(stride.pair()).padding(padding.pair());
        self.lift("avg_pool2d", mean(self, &pool, 2))
    }
}

/// The windows, with what is less than anything around.
pub(super) fn least_around(x: &UOp, pool: &Pool) -> Result<UOp, Fault> {
    let least = ReduceOp::Max.identity(x.dtype());
    let zeros = pad_last(x, &pool.frame.sides)?;
    let x = match zeros == *x {
        true => zeros,
        false => {
            padded_with(x, least, |x| pad_last(x, &pool.frame.sides).unwrap_or_else(|_| x.clone()))
        }
    };
    slide_last(&x, &pool.frame.windows)
}

fn largest(x: &Tensor, options: &PoolOptions, n: usize) -> Result<UOp, Fault> {
    let x = x.value()?;
    let pool = options.pool(x.shape(), n)?;
    Ok(least_around(&x, &pool)?.reduce(ReduceOp::Max, inside_axes(x.shape().len(), n)))
}

fn mean(x: &Tensor, options: &PoolOptions, n: usize) -> Result<UOp, Fault> {
    let (device, x) = (x.device(), x.value()?);
    let pool = options.pool(x.shape(), n)?;
    let dtype = x.dtype().or_float();
    let wide = x.cast(dtype.accumulator());
    let seen = slide_last(&pad_last(&wide, &pool.frame.sides)?, &pool.frame.windows)?;
    let sum = wide_sum(&seen, &inside_axes(x.shape().len(), n));
    let whole: usize = pool.frame.windows.iter().map(|w| w.size).product();
    let is_whole = pool.counts_padding && pool.past.iter().all(|&p| p == 0);
    let count = match pool.divisor {
        Some(divisor) => like(&sum, divisor),
        None if is_whole => like(&sum, whole),
        None => counted(&pool, x.shape(), device, n)?.cast(sum.dtype()).expand(sum.shape().clone()),
    };
    Ok(quotient(&sum, &count).cast(dtype))
}

/// How many elements of each window count, with axes of length 1 before.
fn counted(pool: &Pool, shape: &[usize], device: &crate::Device, n: usize) -> Result<UOp, Fault> {
    let first = shape.len() - n;
    let mut count = Tensor::ones_with(vec![1usize; shape.len()], (DType::I32, device));
    for (i, w) in pool.frame.windows.iter().enumerate() {
        let [before, after] = pool.frame.sides[i];
        let length = shape[first + i];
        let windows = w.count(length + before + after);
        let start = Tensor::arange_with(windows, device).mul(w.stride as i64).sub(before as i64);
        // how many elements of each window lie before `end`
        let below = |end: i64| {
            let distance = start.neg().add(end + w.dilation as i64 - 1);
            distance.floor_div(w.dilation as i64).clamp(0, w.size as i64)
        };
        let along = match pool.counts_padding {
            true => below((length + after - pool.past[i]) as i64),
            false => below(length as i64).sub(below(0)),
        };
        let mut aligned = Shape::from_elem(1, shape.len());
        aligned[first + i] = windows;
        count = count.mul(along.reshape(&aligned[..]));
    }
    Ok(count.value()?)
}
