//! Layers that change shapes, or nothing.

use super::Module;
use super::build::filled;
use crate::{Resize, Tensor};

/// What it is given.
///
/// ```
/// let x = kiln::Tensor::ones([2]);
/// assert_eq!(kiln::nn::Identity.forward(&x).to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Copy, Debug, Default)]
pub struct Identity;

impl Identity {
    /// Another handle to `x`.
    ///
    /// ```
    /// assert_eq!(kiln::nn::Identity.forward(&kiln::Tensor::ones([2])).shape(), [2]);
    /// ```
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

/// All axes but the first as one.
///
/// ```
/// assert_eq!(kiln::nn::Flatten.forward(&kiln::Tensor::ones([2, 3, 4])).shape(), [2, 12]);
/// ```
#[derive(Module, Clone, Copy, Debug, Default)]
pub struct Flatten;

impl Flatten {
    /// A view of `x`, `[batch, all]`.
    ///
    /// ```
    /// assert_eq!(kiln::nn::Flatten.forward(&kiln::Tensor::ones([2, 3, 1])).shape(), [2, 3]);
    /// ```
    ///
    /// # Errors
    /// An `x` of fewer than two axes.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.flatten_from(1)
    }
}

/// Planes of other lengths: `[batch, channels, ..]`.
///
/// ```
/// use kiln::{Resize, Sampling, Tensor, nn::Upsample};
/// let x = Tensor::from([[[1.0f32, 2.0]]]);
/// assert_eq!(Upsample::new(2).forward(&x).to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
/// let smooth = Upsample::new(Resize::to(3).sampling(Sampling::Linear).align_corners(true));
/// assert_eq!(smooth.forward(&x).to_vec::<f32>()?, [1.0, 1.5, 2.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Debug)]
pub struct Upsample {
    #[module(skip)]
    resize: Resize,
}

impl Upsample {
    /// By a factor, each element repeated, or as [`Resize`] says.
    ///
    /// ```
    /// let up = kiln::nn::Upsample::new(2);
    /// ```
    pub fn new(resize: impl Into<Resize>) -> Upsample {
        Upsample { resize: resize.into() }
    }

    /// As [`Tensor::interpolate`].
    ///
    /// ```
    /// let x = kiln::Tensor::ones([1, 1, 2, 3]);
    /// assert_eq!(kiln::nn::Upsample::new(2).forward(&x).shape(), [1, 1, 4, 6]);
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::interpolate`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.interpolate(&self.resize)
    }
}

/// `x`, and below 0 `x` times a slope that is learned.
///
/// ```
/// use kiln::{Tensor, nn::PReLU};
/// let y = PReLU::new(1).forward(&Tensor::from([1.0f32, -2.0]));
/// assert_eq!(y.to_vec::<f32>()?, [1.0, -0.5]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Debug)]
pub struct PReLU {
    /// `[slopes]`.
    pub weight: Tensor,
}

impl PReLU {
    /// One slope, or one for each channel, at first 0.25.
    ///
    /// ```
    /// assert_eq!(kiln::nn::PReLU::new(3).weight.shape(), [3]);
    /// ```
    #[track_caller]
    pub fn new(slopes: usize) -> PReLU {
        PReLU { weight: filled([slopes], 0.25) }
    }

    /// As [`prelu`](Tensor::prelu).
    ///
    /// ```
    /// let y = kiln::nn::PReLU::new(1).forward(&kiln::Tensor::ones([2]));
    /// ```
    ///
    /// # Errors
    /// As [`prelu`](Tensor::prelu).
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.prelu(&self.weight)
    }
}
