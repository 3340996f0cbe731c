//! Normalization.

use super::Tensor;
use super::autocast::full;
use super::broadcast::{broadcast_binary, one_device};
use super::elementwise::counted;
use super::shape_args::AxesArg;
use crate::defaults::OrFloat;
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::arg::Shape;
use kiln_ir::{Op, UOp};

/// Normalization.
impl Tensor {
    /// Less the mean and over the root of the variance along axes, with 1e-5 added to the variance; no weights.
    ///
    /// ```
    /// let t = kiln::Tensor::from([1.0f32, 1.0]).layernorm(-1);
    /// assert_eq!(t.to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn layernorm(&self, axes: impl AxesArg) -> Tensor {
        self.layernorm_with(axes, 1e-5)
    }

    /// As [`layernorm`](Tensor::layernorm), with `eps` added to the variance.
    ///
    /// ```
    /// let t = kiln::Tensor::from([1.0f32, -1.0]).layernorm_with(-1, 0.0);
    /// assert_eq!(t.to_vec::<f32>()?, [1.0, -1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn layernorm_with(&self, axes: impl AxesArg, eps: f64) -> Tensor {
        let _method = outermost("layernorm");
        let dtype = self.dtype().or_float();
        let x = self.cast(dtype.accumulator());
        let centred = &x - x.mean_keepdim(&axes);
        let variance = centred.square().mean_keepdim(&axes);
        let scaled = centred.mul(variance.add(eps).rsqrt());
        scaled.cast(full(dtype))
    }

    /// Over the root of the mean square along axes, with 1e-6 added to it; no weights.
    ///
    /// ```
    /// let t = kiln::Tensor::from([3.0f32, -3.0]).rmsnorm(-1);
    /// assert!((t.to_vec::<f32>()?[1] + 1.0).abs() < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn rmsnorm(&self, axes: impl AxesArg) -> Tensor {
        self.rmsnorm_with(axes, 1e-6)
    }

    /// As [`rmsnorm`](Tensor::rmsnorm), with `eps` added to the mean square.
    ///
    /// ```
    /// let t = kiln::Tensor::from([2.0f32, -2.0]).rmsnorm_with(-1, 0.0);
    /// assert_eq!(t.to_vec::<f32>()?, [1.0, -1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn rmsnorm_with(&self, axes: impl AxesArg, eps: f64) -> Tensor {
        let _method = outermost("rmsnorm");
        let dtype = self.dtype().or_float();
        let x = self.cast(dtype.accumulator());
        let scale = x.square().mean_keepdim(&axes).add(eps).rsqrt();
        x.mul(scale).cast(full(dtype))
    }

    /// Each element divided by `(k + alpha m)^beta`, where `m` is the mean of the squares of `size` neighbours along axis 1
    /// (Krizhevsky et al., 2012).
    ///
    /// ```
    /// let y = kiln::Tensor::ones([1, 2, 1]).local_response_norm(1, 3.0, 1.0, 1.0);
    /// assert_eq!(y.to_vec::<f32>()?, [0.25, 0.25]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than three axes, a size of 0.
    #[must_use]
    #[track_caller]
    pub fn local_response_norm(&self, size: usize, alpha: f64, beta: f64, k: f64) -> Tensor {
        let _method = outermost("local_response_norm");
        if self.ndim() < 3 || size == 0 {
            let why = format!("wants three axes and a size, not {:?} and {size}", self.shape());
            return self.refused("local_response_norm", why.into());
        }
        let mut pads = vec![(0, 0); self.ndim()];
        pads[1] = (size / 2, (size - 1) / 2);
        let mean = self.square().pad(pads).unfold(1, size, 1).mean(-1);
        self.div(mean.mul(alpha).add(k).pow(beta))
    }

    /// `(x - mean) * (invstd * weight) + bias`, with statistics and weights along axis 1.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let (x, mean, invstd) = (Tensor::ones([2, 1]), Tensor::ones([1]), Tensor::ones([1]));
    /// assert_eq!(x.batchnorm(None, None, &mean, &invstd).to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Statistics or weights that are not as long as axis 1.
    #[must_use]
    #[track_caller]
    pub fn batchnorm(
        &self,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        mean: &Tensor,
        invstd: &Tensor,
    ) -> Tensor {
        let _method = outermost("batchnorm");
        let others = || [mean, invstd].into_iter().chain(weight).chain(bias);
        // nodes, not tensors: networks have many of these, and every tensor is a storage
        let normalized = || -> Result<UOp, Fault> {
            Tensor::all_valid([self].into_iter().chain(others()))?;
            one_device([self].into_iter().chain(others()))?;
            let dtype = counted(self.common_dtype(mean))?;
            let along = |t: &Tensor| along_channels(t, self.shape());
            let centred =
                broadcast_binary(Op::Sub, &self.value()?.cast(dtype), &along(mean)?.cast(dtype))?;
            let scale = match weight {
                Some(weight) => broadcast_binary(Op::Mul, &along(invstd)?, &along(weight)?)?,
                None => along(invstd)?,
            };
            let scaled = broadcast_binary(Op::Mul, &centred, &scale)?;
            match bias {
                Some(bias) => broadcast_binary(Op::Add, &scaled, &along(bias)?),
                None => Ok(scaled),
            }
        };
        self.lift("batchnorm", normalized())
    }
}

/// A number for each channel, as it broadcasts to `shape`: `[1, channels, 1, 1]` for `[batch, channels, height, width]`.
fn along_channels(t: &Tensor, shape: &[usize]) -> Result<UOp, Fault> {
    let channels = shape.get(1).copied().unwrap_or(1);
    if t.numel() != channels {
        return refuse!(
            "wants {channels} statistics and weights for {shape:?}, not {:?}",
            t.shape()
        );
    }
    let axis = |a| if a == 1 { channels } else { 1 };
    Ok(t.value()?.reshape((0..shape.len()).map(axis).collect::<Shape>()))
}
