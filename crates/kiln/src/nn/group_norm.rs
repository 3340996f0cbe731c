//! Normalization of groups of channels.

use super::Module;
use super::build::filled;
use crate::Tensor;
use crate::error::{Fault, refuse};

/// A number for each channel, axis 1 of `rank`.
fn by_channel(numbers: &Tensor, rank: usize) -> Tensor {
    let shape: Vec<usize> =
        std::iter::once(numbers.numel()).chain(vec![1; rank.saturating_sub(2)]).collect();
    numbers.reshape(shape)
}

fn affine(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Tensor {
    let y = weight.map_or_else(|| x.clone(), |w| x.mul(by_channel(w, x.ndim())));
    bias.map_or_else(|| y.clone(), |b| y.add(by_channel(b, x.ndim())))
}

/// `x`, `[batch, channels, ..]`, with the channels in groups that each have mean 0 and variance 1.
fn normalized(x: &Tensor, groups: usize, channels: usize, eps: f64) -> Result<Tensor, Fault> {
    if let Some(error) = x.error() {
        return Err(error.into());
    }
    if x.ndim() < 2 || x.shape()[1] != channels {
        return refuse!("wants {channels} channels on axis 1, not {:?}", x.shape());
    }
    if groups == 0 || !channels.is_multiple_of(groups) {
        return refuse!("{groups} groups do not divide {channels} channels");
    }
    let rest: usize = x.shape()[1..].iter().product();
    let grouped = x.reshape([x.shape()[0], groups, rest / groups]);
    Ok(grouped.layernorm_with(-1, eps).reshape(x.shape()))
}

/// Normalization of each group of channels of `[batch, channels, ..]` (Wu and He, 2018, arXiv:1803.08494).
///
/// ```
/// use kiln::{Tensor, nn::GroupNorm};
/// let y = GroupNorm::new(1, 2).forward(&Tensor::from([[1.0f32, 3.0]])).to_vec::<f32>()?;
/// assert!((y[0] + 1.0).abs() < 1e-4 && (y[1] - 1.0).abs() < 1e-4);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Debug)]
pub struct GroupNorm {
    /// `[channels]`.
    pub weight: Option<Tensor>,
    /// `[channels]`.
    pub bias: Option<Tensor>,
    groups: usize,
    channels: usize,
    eps: f64,
}

impl GroupNorm {
    /// With weight 1, bias 0 and eps 1e-5.
    ///
    /// ```
    /// let norm = kiln::nn::GroupNorm::new(2, 8);
    /// ```
    #[track_caller]
    pub fn new(groups: usize, channels: usize) -> GroupNorm {
        let (weight, bias) = (filled([channels], 1.0), filled([channels], 0.0));
        GroupNorm { weight: Some(weight), bias: Some(bias), groups, channels, eps: 1e-5 }
    }

    /// The layer with neither weight nor bias.
    ///
    /// ```
    /// assert!(kiln::nn::GroupNorm::new(2, 8).without_affine().weight.is_none());
    /// ```
    pub fn without_affine(self) -> GroupNorm {
        GroupNorm { weight: None, bias: None, ..self }
    }

    /// The layer with another number added to the variance.
    ///
    /// ```
    /// let norm = kiln::nn::GroupNorm::new(2, 8).eps(1e-6);
    /// ```
    pub fn eps(self, eps: f64) -> GroupNorm {
        GroupNorm { eps, ..self }
    }

    /// `x`, normalized.
    ///
    /// ```
    /// let x = kiln::Tensor::ones([2, 8, 3]);
    /// assert_eq!(kiln::nn::GroupNorm::new(2, 8).forward(&x).shape(), [2, 8, 3]);
    /// ```
    ///
    /// # Errors
    /// An `x` whose axis 1 does not hold the channels; groups that do not divide them.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        match normalized(x, self.groups, self.channels, self.eps) {
            Ok(y) => affine(&y, self.weight.as_ref(), self.bias.as_ref()),
            Err(fault) => Tensor::broken(fault.at("GroupNorm")),
        }
    }
}

/// Normalization of each channel of `[batch, channels, ..]` on its own, without weights unless asked for.
///
/// ```
/// use kiln::{Tensor, nn::InstanceNorm};
/// let y = InstanceNorm::new(1).forward(&Tensor::from([[[1.0f32, 3.0]]])).to_vec::<f32>()?;
/// assert!((y[0] + 1.0).abs() < 1e-4 && (y[1] - 1.0).abs() < 1e-4);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Debug)]
pub struct InstanceNorm {
    /// `[channels]`.
    pub weight: Option<Tensor>,
    /// `[channels]`.
    pub bias: Option<Tensor>,
    channels: usize,
    eps: f64,
}

/// Instance normalization of `[batch, channels, length]`.
pub type InstanceNorm1d = InstanceNorm;
/// Instance normalization of `[batch, channels, height, width]`.
pub type InstanceNorm2d = InstanceNorm;
/// Instance normalization of `[batch, channels, depth, height, width]`.
pub type InstanceNorm3d = InstanceNorm;

impl InstanceNorm {
    /// With eps 1e-5, without weight and bias.
    ///
    /// ```
    /// let norm = kiln::nn::InstanceNorm::new(8);
    /// ```
    pub fn new(channels: usize) -> InstanceNorm {
        InstanceNorm { weight: None, bias: None, channels, eps: 1e-5 }
    }

    /// The layer with weight 1 and bias 0, to be learned.
    ///
    /// ```
    /// assert!(kiln::nn::InstanceNorm::new(8).with_affine().weight.is_some());
    /// ```
    #[track_caller]
    pub fn with_affine(self) -> InstanceNorm {
        let (weight, bias) = (filled([self.channels], 1.0), filled([self.channels], 0.0));
        InstanceNorm { weight: Some(weight), bias: Some(bias), ..self }
    }

    /// The layer with another number added to the variance.
    ///
    /// ```
    /// let norm = kiln::nn::InstanceNorm::new(8).eps(1e-6);
    /// ```
    pub fn eps(self, eps: f64) -> InstanceNorm {
        InstanceNorm { eps, ..self }
    }

    /// `x`, normalized.
    ///
    /// ```
    /// let x = kiln::Tensor::ones([2, 8, 3]);
    /// assert_eq!(kiln::nn::InstanceNorm::new(8).forward(&x).shape(), [2, 8, 3]);
    /// ```
    ///
    /// # Errors
    /// An `x` whose axis 1 does not hold the channels.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        match normalized(x, self.channels, self.channels, self.eps) {
            Ok(y) => affine(&y, self.weight.as_ref(), self.bias.as_ref()),
            Err(fault) => Tensor::broken(fault.at("InstanceNorm")),
        }
    }
}

/// Layer normalization over the channels of `[batch, channels, height, width]`, at each place on its own.
///
/// ```
/// let x = kiln::Tensor::ones([2, 8, 3, 3]);
/// assert_eq!(kiln::nn::LayerNorm2d::new(8).forward(&x).shape(), [2, 8, 3, 3]);
/// ```
#[derive(Module, Clone, Debug)]
pub struct LayerNorm2d {
    /// `[channels]`.
    pub weight: Option<Tensor>,
    /// `[channels]`.
    pub bias: Option<Tensor>,
    channels: usize,
    eps: f64,
}

impl LayerNorm2d {
    /// With weight 1, bias 0 and eps 1e-5.
    ///
    /// ```
    /// let norm = kiln::nn::LayerNorm2d::new(8);
    /// ```
    #[track_caller]
    pub fn new(channels: usize) -> LayerNorm2d {
        let (weight, bias) = (filled([channels], 1.0), filled([channels], 0.0));
        LayerNorm2d { weight: Some(weight), bias: Some(bias), channels, eps: 1e-5 }
    }

    /// The layer with another number added to the variance.
    ///
    /// ```
    /// let norm = kiln::nn::LayerNorm2d::new(8).eps(1e-6);
    /// ```
    pub fn eps(self, eps: f64) -> LayerNorm2d {
        LayerNorm2d { eps, ..self }
    }

    /// `x`, normalized.
    ///
    /// ```
    /// let y = kiln::nn::LayerNorm2d::new(2).forward(&kiln::Tensor::ones([1, 2, 1, 1]));
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An `x` whose axis 1 does not hold the channels.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        if x.error().is_none() && x.shape().get(1) != Some(&self.channels) {
            let why = format!("wants {} channels on axis 1, not {:?}", self.channels, x.shape());
            return Tensor::broken(Fault::New(why).at("LayerNorm2d"));
        }
        affine(&x.layernorm_with(1, self.eps), self.weight.as_ref(), self.bias.as_ref())
    }
}
