//! Normalization layers.

use super::build::{buffer, filled};
use super::{Key, Module, is_training};
use crate::args::ShapeArg;
use crate::error::{Error, Fault, refuse};
use crate::jit::numbers::is_recording;
use crate::tensor::shape_args::new_shape;
use crate::{DType, Tensor};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Batch normalization of `[batch, channels, ..]`. In training it normalizes by the batch, and whatever computes its
/// output updates the running statistics too; otherwise it normalizes by the running statistics.
///
/// ```
/// use kiln::{Tensor, nn, nn::BatchNorm};
/// let norm = BatchNorm::new(1);
/// let x = Tensor::from([[1.0f32], [3.0]]);
/// let y = nn::train(|| norm.forward(&x)).to_vec::<f32>()?;
/// assert!((y[0] + 1.0).abs() < 1e-4 && (y[1] - 1.0).abs() < 1e-4);
/// assert_eq!(norm.running_mean.item::<f32>()?, 0.2);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Debug)]
pub struct BatchNorm {
    /// `[channels]`.
    pub weight: Option<Tensor>,
    /// `[channels]`.
    pub bias: Option<Tensor>,
    /// `[channels]`.
    pub running_mean: Tensor,
    /// `[channels]`.
    pub running_var: Tensor,
    num_batches_tracked: BatchCount,
    eps: f64,
    momentum: f64,
}

/// Batch normalization of `[batch, channels]`.
pub type BatchNorm1d = BatchNorm;
/// Batch normalization of `[batch, channels, height, width]`.
pub type BatchNorm2d = BatchNorm;
/// Batch normalization of `[batch, channels, depth, height, width]`.
pub type BatchNorm3d = BatchNorm;

/// A tensor of one count, brought up to date only where it is looked at: counting costs no kernel.
#[derive(Clone, Debug)]
struct BatchCount {
    count: Tensor,
    uncounted: Arc<AtomicI64>,
}

impl BatchCount {
    fn add_one(&self) {
        match is_recording() {
            // a replay changes tensors alone
            true => drop(self.count.assign(self.count.add(1))),
            false => drop(self.uncounted.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

impl Module for BatchCount {
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        let new = self.uncounted.swap(0, Ordering::Relaxed);
        if new != 0 {
            self.count.assign(self.count.add(new));
        }
        f(prefix, &self.count);
    }

    fn visit_mut(
        &mut self,
        prefix: &str,
        f: &mut dyn FnMut(&str, &mut Tensor),
    ) -> Result<(), Error> {
        self.visit(prefix, &mut |_, _| ());
        f(prefix, &mut self.count);
        Ok(())
    }

    fn key(&self, _: &mut Key) {}
}

impl BatchNorm {
    /// With weight 1, bias 0, eps 1e-5 and momentum 0.1.
    ///
    /// ```
    /// use kiln::nn::{BatchNorm, Module};
    /// assert!(BatchNorm::new(3).state_dict().contains_key("running_mean"));
    /// ```
    #[track_caller]
    pub fn new(channels: usize) -> BatchNorm {
        BatchNorm {
            weight: Some(filled([channels], 1.0)),
            bias: Some(filled([channels], 0.0)),
            // memory from the start: the first training step then has the shape of all others
            running_mean: buffer(channels, 0.0),
            running_var: buffer(channels, 1.0),
            num_batches_tracked: BatchCount {
                count: Tensor::zeros_with([0usize; 0], DType::I64),
                uncounted: Arc::default(),
            },
            eps: 1e-5,
            momentum: 0.1,
        }
    }

    /// The layer with neither weight nor bias.
    ///
    /// ```
    /// assert!(kiln::nn::BatchNorm::new(3).without_affine().weight.is_none());
    /// ```
    pub fn without_affine(self) -> BatchNorm {
        BatchNorm { weight: None, bias: None, ..self }
    }

    /// The layer with another number added to the variance.
    ///
    /// ```
    /// let norm = kiln::nn::BatchNorm::new(3).eps(1e-3);
    /// ```
    pub fn eps(self, eps: f64) -> BatchNorm {
        BatchNorm { eps, ..self }
    }

    /// The layer in which a batch weighs `momentum` in the running statistics.
    ///
    /// ```
    /// let norm = kiln::nn::BatchNorm::new(3).momentum(0.01);
    /// ```
    pub fn momentum(self, momentum: f64) -> BatchNorm {
        BatchNorm { momentum, ..self }
    }

    /// `x`, normalized.
    ///
    /// ```
    /// let x = kiln::Tensor::ones([2, 3, 4, 4]);
    /// assert_eq!(kiln::nn::BatchNorm::new(3).forward(&x).shape(), [2, 3, 4, 4]);
    /// ```
    ///
    /// # Errors
    /// An `x` whose axis 1 does not hold the channels; in training, one with a single value a channel.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        if let Err(fault) = self.check(x) {
            return Tensor::broken(fault.at("BatchNorm"));
        }
        let wide = x.cast(x.dtype().accumulator());
        let y = if is_training() { self.by_batch(&wide) } else { self.by_running(&wide) };
        y.cast(x.dtype())
    }

    fn check(&self, x: &Tensor) -> Result<(), Fault> {
        if let Some(error) = x.error() {
            return Err(error.into());
        }
        let channels = self.running_mean.numel();
        if x.ndim() < 2 || x.shape()[1] != channels || !x.dtype().is_float() {
            return refuse!(
                "wants floats with {channels} on axis 1, not {} {:?}",
                x.dtype(),
                x.shape()
            );
        }
        if is_training() && x.numel() == channels {
            return refuse!("one value a channel has no variance, shape {:?}", x.shape());
        }
        Ok(())
    }

    fn by_running(&self, x: &Tensor) -> Tensor {
        let invstd = self.running_var.add(self.eps).rsqrt();
        x.batchnorm(self.weight.as_ref(), self.bias.as_ref(), &self.running_mean, &invstd)
    }

    fn by_batch(&self, x: &Tensor) -> Tensor {
        let axes: Vec<usize> = (0..x.ndim()).filter(|&a| a != 1).collect();
        let mean = x.mean_keepdim(&axes);
        let var = variance(x, &mean, &axes);
        let channels = self.running_mean.shape();
        let (mean, var) = (mean.reshape(channels), var.reshape(channels));
        let invstd = var.add(self.eps).rsqrt();
        let y = x.batchnorm(self.weight.as_ref(), self.bias.as_ref(), &mean, &invstd);
        let n = (x.numel() / mean.numel().max(1)) as f64;
        self.track(&self.running_mean, &mean.detach());
        self.track(&self.running_var, &var.detach().mul(n / (n - 1.0)));
        self.num_batches_tracked.add_one();
        y.carrying([&self.running_mean, &self.running_var])
    }

    fn track(&self, running: &Tensor, new: &Tensor) {
        let kept = running.detach().mul(1.0 - self.momentum);
        running.assign(kept.add(new.mul(self.momentum)).cast(running.dtype()));
    }
}

/// The mean of the squared distances from the mean. The distances add up to 0, so none of its gradient goes through the
/// mean: no sum waits for another, and one pass over `x` has those of weight, bias, mean and variance.
fn variance(x: &Tensor, mean: &Tensor, axes: &[usize]) -> Tensor {
    let distance = x.sub(mean);
    let variance = distance.square().mean_keepdim(axes);
    let each = 2.0 * variance.numel() as f64 / x.numel() as f64;
    variance.with_gradient([x], |g| [g.mul(each).mul(&distance)])
}

/// Layer normalization over the last axes.
///
/// ```
/// use kiln::{Tensor, nn::LayerNorm};
/// let norm = LayerNorm::new([2]);
/// let y = norm.forward(&Tensor::from([[1.0f32, 3.0]])).to_vec::<f32>()?;
/// assert!((y[0] + 1.0).abs() < 1e-4 && (y[1] - 1.0).abs() < 1e-4);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Debug)]
pub struct LayerNorm {
    /// Of the normalized shape.
    pub weight: Option<Tensor>,
    /// Of the normalized shape.
    pub bias: Option<Tensor>,
    shape: Vec<usize>,
    eps: f64,
}

impl LayerNorm {
    /// Over the last axes, of lengths `shape`, with weight 1, bias 0 and eps 1e-5.
    ///
    /// ```
    /// assert_eq!(kiln::nn::LayerNorm::new([4, 5]).weight.expect("affine").shape(), [4, 5]);
    /// ```
    ///
    /// # Errors
    /// As [`ones`](Tensor::ones).
    #[track_caller]
    pub fn new(shape: impl ShapeArg) -> LayerNorm {
        match new_shape(shape) {
            Ok(shape) => LayerNorm {
                weight: Some(filled(&shape[..], 1.0)),
                bias: Some(filled(&shape[..], 0.0)),
                shape: shape.to_vec(),
                eps: 1e-5,
            },
            Err(fault) => LayerNorm {
                weight: Some(Tensor::broken(fault.at("LayerNorm"))),
                bias: None,
                shape: Vec::new(),
                eps: 1e-5,
            },
        }
    }

    /// The layer with neither weight nor bias.
    ///
    /// ```
    /// assert!(kiln::nn::LayerNorm::new([3]).without_affine().weight.is_none());
    /// ```
    pub fn without_affine(self) -> LayerNorm {
        LayerNorm { weight: self.weight.filter(|w| w.error().is_some()), bias: None, ..self }
    }

    /// The layer with another number added to the variance.
    ///
    /// ```
    /// let norm = kiln::nn::LayerNorm::new([3]).eps(1e-6);
    /// ```
    pub fn eps(self, eps: f64) -> LayerNorm {
        LayerNorm { eps, ..self }
    }

    /// `x`, normalized.
    ///
    /// ```
    /// let x = kiln::Tensor::ones([2, 3]);
    /// assert_eq!(kiln::nn::LayerNorm::new([3]).forward(&x).to_vec::<f32>()?, [0.0; 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An `x` whose last axes do not have the layer's shape.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        if x.error().is_none() && !x.shape().ends_with(&self.shape) {
            let why = format!("wants {:?} last, not {:?}", self.shape, x.shape());
            return Tensor::broken(Fault::New(why).at("LayerNorm"));
        }
        let axes: Vec<isize> = (1..=self.shape.len() as isize).map(|a| -a).collect();
        let mut y = x.layernorm_with(axes, self.eps);
        if let Some(weight) = &self.weight {
            y = y.mul(weight);
        }
        if let Some(bias) = &self.bias {
            y = y.add(bias);
        }
        y
    }
}

/// Division by the root of the mean square along the last axis, then a weight.
///
/// ```
/// use kiln::{Tensor, nn::RMSNorm};
/// let y = RMSNorm::new(2).forward(&Tensor::from([3.0f32, 3.0])).to_vec::<f32>()?;
/// assert!((y[0] - 1.0).abs() < 1e-4);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Debug)]
pub struct RMSNorm {
    /// `[width]`.
    pub weight: Tensor,
    eps: f64,
}

impl RMSNorm {
    /// With weight 1 and eps 1e-6.
    ///
    /// ```
    /// assert_eq!(kiln::nn::RMSNorm::new(3).weight.shape(), [3]);
    /// ```
    #[track_caller]
    pub fn new(width: usize) -> RMSNorm {
        RMSNorm { weight: filled([width], 1.0), eps: 1e-6 }
    }

    /// The layer with another number added to the mean square.
    ///
    /// ```
    /// let norm = kiln::nn::RMSNorm::new(3).eps(1e-5);
    /// ```
    pub fn eps(self, eps: f64) -> RMSNorm {
        RMSNorm { eps, ..self }
    }

    /// `x`, normalized.
    ///
    /// ```
    /// assert_eq!(kiln::nn::RMSNorm::new(3).forward(&kiln::Tensor::ones([2, 3])).shape(), [2, 3]);
    /// ```
    ///
    /// # Errors
    /// A last axis of another length.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.rmsnorm_with(-1, self.eps).mul(&self.weight)
    }
}
