//! Norms: how long vectors are.

use super::Tensor;
use super::autocast::full;
use super::elementwise::{like, quotient};
use super::reduce::{kept_shape, wide_sum};
use super::shape_args::{AxesArg, axes};
use crate::defaults::OrFloat;
use crate::error::Fault;
use crate::origin::outermost;
use kiln_ir::arg::{Axes, ReduceOp};
use kiln_ir::{DType, Op, UOp};

/// The distance from 0, where the slope is 0.
fn size(x: &UOp) -> UOp {
    let zero = &like(x, 0);
    x.lt(zero).where_(&-x, &zero.lt(x).where_(x, &(x.detach() * zero + x.detach().maximum(zero))))
}

/// `x^(1 / p)`, with no slope at 0: vectors of zeros have no direction.
fn root(x: &UOp, p: f64) -> UOp {
    let (zero, one) = (like(x, 0), like(x, 1));
    let none = x.eq_(&zero);
    let inside = none.where_(&one, x);
    let root = if p == 2.0 { UOp::unary(Op::Sqrt, &inside) } else { inside.pow(&like(x, 1.0 / p)) };
    none.where_(&zero, &root)
}

fn norm(x: &UOp, p: f64, axes: &Axes) -> UOp {
    let x = x.cast(x.dtype().or_float().accumulator());
    match p {
        0.0 => wide_sum(&x.ne_(&like(&x, 0)).cast(x.dtype()), axes),
        1.0 => wide_sum(&size(&x), axes),
        2.0 => root(&wide_sum(&(&x * &x), axes), p),
        f64::INFINITY => size(&x).reduce(ReduceOp::Max, axes.clone()),
        f64::NEG_INFINITY => size(&x).reduce(ReduceOp::Min, axes.clone()),
        _ => root(&wide_sum(&size(&x).pow(&like(&x, p)), axes), p),
    }
}

/// Norms.
impl Tensor {
    /// The `p`-norm along axes: the `p`-th root of the sum of `|x|^p`. 2 is the length, infinity the largest size, 0 the number
    /// of elements that are not 0. A zero vector has no gradient.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3.0f32, 4.0]).norm(2.0, ..).item::<f32>()?, 5.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice; an infinite `p` along an empty axis.
    #[must_use]
    #[track_caller]
    pub fn norm(&self, p: f64, axes: impl AxesArg) -> Tensor {
        self.normed(p, axes, false)
    }

    /// As [`norm`](Tensor::norm), leaving the axes with length 1.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::ones([2, 3]).norm_keepdim(2.0, 1).shape(), [2, 1]);
    /// ```
    ///
    /// # Errors
    /// As [`norm`](Tensor::norm).
    #[must_use]
    #[track_caller]
    pub fn norm_keepdim(&self, p: f64, axes: impl AxesArg) -> Tensor {
        self.normed(p, axes, true)
    }

    #[track_caller]
    fn normed(&self, p: f64, arg: impl AxesArg, keep: bool) -> Tensor {
        let compute = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let axes = axes(arg, x.shape().len())?;
            if p.is_infinite() && axes.iter().any(|&a| x.shape()[a] == 0) {
                return Err(
                    format!("an empty axis of {:?} has no largest element", x.shape()).into()
                );
            }
            let result = norm(&x, p, &axes).cast(full(x.dtype().or_float()));
            Ok(if keep { result.reshape(kept_shape(x.shape(), &axes)) } else { result })
        };
        self.lift("norm", compute())
    }

    /// Divided by the [`norm`](Tensor::norm) along axes, or by 1e-12 if that is larger.
    ///
    /// ```
    /// let t = kiln::Tensor::from([3.0f32, 4.0]).normalize(2.0, 0);
    /// assert_eq!(t.to_vec::<f32>()?, [0.6, 0.8]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`norm`](Tensor::norm).
    #[must_use]
    #[track_caller]
    pub fn normalize(&self, p: f64, arg: impl AxesArg) -> Tensor {
        let compute = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let axes = axes(arg, x.shape().len())?;
            let dtype: DType = x.dtype().or_float();
            let wide = x.cast(dtype.accumulator());
            let length = norm(&wide, p, &axes).reshape(kept_shape(x.shape(), &axes));
            let length = length.maximum(&like(&length, 1e-12));
            Ok(quotient(&wide, &length.expand(x.shape().clone())).cast(dtype))
        };
        self.lift("normalize", compute())
    }

    /// The [`softmax`](Tensor::softmax) of the negative values: the smallest has the largest share.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2]).softmin(-1).to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn softmin(&self, axes: impl AxesArg) -> Tensor {
        let _method = outermost("softmin");
        self.neg().softmax(axes)
    }
}
