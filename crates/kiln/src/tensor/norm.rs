//! Normalization and attention.

use super::Tensor;
use super::shape_args::AxesArg;
use crate::DType;
use crate::defaults::OrFloat;
use crate::error::refuse;
use crate::origin::outermost;

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
        scaled.cast(dtype)
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
        x.mul(scale).cast(dtype)
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

    /// `(x - mean) * invstd * weight + bias`, with statistics and weights along axis 1.
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
        let mut shape = vec![1; self.ndim()];
        if let Some(channels) = self.shape().get(1) {
            shape[1] = *channels;
        }
        let mut x = self.sub(mean.reshape(&shape)).mul(invstd.reshape(&shape));
        if let Some(weight) = weight {
            x = x.mul(weight.reshape(&shape));
        }
        if let Some(bias) = bias {
            x = x.add(bias.reshape(&shape));
        }
        x
    }
}

/// Attention.
impl Tensor {
    /// `softmax(query key^T / sqrt(width) + mask) value` over the last two axes; this is the query. A bool mask is
    /// true where a key may be seen, and gives the others a weight of zero; so does a mask of -infinity, which is added. A query
    /// that sees no key gives zeros, and has no part in any gradient. `is_causal` leaves keys after the query's
    /// position out altogether, with their values: what is not a number there changes nothing.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let q = Tensor::ones([1, 2, 4]);
    /// let y = q.scaled_dot_product_attention(&q, &q, None, true);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0; 8]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`matmul`](Tensor::matmul); fewer than two axes; a mask that does not broadcast.
    #[must_use]
    #[track_caller]
    pub fn scaled_dot_product_attention(
        &self,
        key: &Tensor,
        value: &Tensor,
        mask: Option<&Tensor>,
        is_causal: bool,
    ) -> Tensor {
        let _method = outermost("scaled_dot_product_attention");
        let operands = [self, key, value].into_iter().chain(mask);
        if let Err(fault) = Tensor::all_valid(operands) {
            return Tensor::broken(fault.at("scaled_dot_product_attention"));
        }
        if self.ndim() < 2 || key.ndim() < 2 {
            let few = refuse!("wants two axes, query {:?}, key {:?}", self.shape(), key.shape());
            return Tensor::or_broken("scaled_dot_product_attention", few);
        }
        let scale = 1.0 / (*self.shape().last().expect("two axes") as f64).sqrt();
        let key = key.transpose(-2, -1);
        let (rows, keys) = (self.shape()[self.ndim() - 2], key.shape()[key.ndim() - 1]);
        let seen = is_causal.then(|| {
            let [row, column] = [rows, keys].map(|n| Tensor::arange_with(n, self.device()));
            column.le(row.reshape([rows, 1]))
        });
        let scores = match &seen {
            None => self.matmul(&key),
            Some(seen) => self.matmul_where(&key, &seen.reshape([rows, keys, 1])),
        };
        let mut scores = scores.mul(scale);
        if let Some(mask) = mask {
            scores = match mask.dtype() {
                DType::Bool => mask.where_(&scores, f64::NEG_INFINITY),
                _ => scores.add(mask),
            };
        }
        let weights = scores.softmax_where(seen.as_ref(), mask.is_some());
        match &seen {
            None => weights.matmul(value),
            Some(seen) => weights.matmul_where(value, &seen.reshape([rows, 1, keys])),
        }
    }
}
