//! The affine layer.

use super::Module;
use super::build::{kaiming_bound, uniform};
use crate::Tensor;

/// `x weight^T + bias`.
///
/// ```
/// use kiln::{Tensor, nn::Linear};
/// let layer = Linear::new(3, 2);
/// assert_eq!(layer.forward(&Tensor::ones([4, 3])).shape(), [4, 2]);
/// ```
#[derive(Module, Clone, Debug)]
pub struct Linear {
    /// `[outputs, inputs]`.
    pub weight: Tensor,
    /// `[outputs]`.
    pub bias: Option<Tensor>,
}

impl Linear {
    /// With weights and bias drawn as PyTorch draws them.
    ///
    /// ```
    /// assert_eq!(kiln::nn::Linear::new(3, 2).weight.shape(), [2, 3]);
    /// ```
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize) -> Linear {
        let bound = kaiming_bound(inputs);
        Linear {
            weight: uniform(&[outputs, inputs], bound),
            bias: Some(uniform(&[outputs], bound)),
        }
    }

    /// The layer with no bias.
    ///
    /// ```
    /// assert!(kiln::nn::Linear::new(3, 2).without_bias().bias.is_none());
    /// ```
    pub fn without_bias(self) -> Linear {
        Linear { bias: None, ..self }
    }

    /// The layer's value at `x`, whose last axis holds the inputs.
    ///
    /// ```
    /// use kiln::{Tensor, nn::Linear};
    /// let layer = Linear { weight: Tensor::full([1, 2], 3.0f32), bias: None };
    /// assert_eq!(layer.forward(&Tensor::ones([1, 2])).item::<f32>()?, 6.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`linear`](Tensor::linear).
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.linear(&self.weight.transpose(0, 1), self.bias.as_ref())
    }
}
