//! Convolution over one axis.

use super::Module;
use super::build::{kaiming_bound, uniform};
use crate::Tensor;
use crate::error::Fault;

/// Convolution of `[batch, channels, length]`.
///
/// ```
/// use kiln::{Tensor, nn::Conv1d};
/// let conv = Conv1d::new(1, 8, 3).padding(1).stride(2);
/// assert_eq!(conv.forward(&Tensor::ones([2, 1, 28])).shape(), [2, 8, 14]);
/// ```
#[derive(Module, Clone, Debug)]
pub struct Conv1d {
    /// `[outputs, inputs / groups, length]`.
    pub weight: Tensor,
    /// `[outputs]`.
    pub bias: Option<Tensor>,
    groups: usize,
    stride: usize,
    dilation: usize,
    padding: usize,
}

impl Conv1d {
    /// Stride 1, no padding, one group, with weights and bias drawn as PyTorch draws them.
    ///
    /// ```
    /// assert_eq!(kiln::nn::Conv1d::new(3, 8, 5).weight.shape(), [8, 3, 5]);
    /// ```
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, kernel: usize) -> Conv1d {
        let (weight, bias) = drawn([outputs, inputs, kernel]);
        Conv1d { weight, bias, groups: 1, stride: 1, dilation: 1, padding: 0 }
    }

    /// The layer with another distance between windows.
    ///
    /// ```
    /// let conv = kiln::nn::Conv1d::new(1, 1, 1).stride(2);
    /// assert_eq!(conv.forward(&kiln::Tensor::ones([1, 1, 4])).shape(), [1, 1, 2]);
    /// ```
    pub fn stride(self, stride: usize) -> Conv1d {
        Conv1d { stride, ..self }
    }

    /// The layer with another distance between the elements of a window.
    ///
    /// ```
    /// let conv = kiln::nn::Conv1d::new(1, 1, 2).dilation(2);
    /// assert_eq!(conv.forward(&kiln::Tensor::ones([1, 1, 4])).shape(), [1, 1, 2]);
    /// ```
    pub fn dilation(self, dilation: usize) -> Conv1d {
        Conv1d { dilation, ..self }
    }

    /// The layer with zeros around its input.
    ///
    /// ```
    /// let conv = kiln::nn::Conv1d::new(1, 1, 3).padding(1);
    /// assert_eq!(conv.forward(&kiln::Tensor::ones([1, 1, 4])).shape(), [1, 1, 4]);
    /// ```
    pub fn padding(self, padding: usize) -> Conv1d {
        Conv1d { padding, ..self }
    }

    /// The layer in which each of `groups` parts of the outputs sees its part of the inputs only. Draws new weights.
    ///
    /// ```
    /// assert_eq!(kiln::nn::Conv1d::new(4, 8, 1).groups(2).weight.shape(), [8, 2, 1]);
    /// ```
    ///
    /// # Errors
    /// Groups that do not divide the inputs.
    #[track_caller]
    pub fn groups(mut self, groups: usize) -> Conv1d {
        let &[outputs, inputs, kernel] = self.weight.shape() else { return self };
        let inputs = inputs * self.groups;
        if groups == 0 || !inputs.is_multiple_of(groups) {
            let why = format!("{groups} groups do not divide {inputs} inputs");
            self.weight = Tensor::broken(Fault::New(why).at("Conv1d"));
            return self;
        }
        let (weight, bias) = drawn([outputs, inputs / groups, kernel]);
        Conv1d { weight, bias: bias.filter(|_| self.bias.is_some()), groups, ..self }
    }

    /// The layer with no bias.
    ///
    /// ```
    /// assert!(kiln::nn::Conv1d::new(1, 1, 1).without_bias().bias.is_none());
    /// ```
    pub fn without_bias(self) -> Conv1d {
        Conv1d { bias: None, ..self }
    }

    /// The layer's value at `x`.
    ///
    /// ```
    /// let conv = kiln::nn::Conv1d::new(1, 2, 3);
    /// assert_eq!(conv.forward(&kiln::Tensor::ones([1, 1, 3])).shape(), [1, 2, 1]);
    /// ```
    ///
    /// # Errors
    /// As [`conv2d`](Tensor::conv2d); an argument of the layer that made no sense.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let (weight, bias) = (self.weight.unsqueeze(-2), self.bias.as_ref());
        let (stride, dilation) = ((1usize, self.stride), (1usize, self.dilation));
        let planes = x.unsqueeze(-2);
        planes
            .conv2d(&weight, bias, self.groups, stride, dilation, (0usize, self.padding))
            .squeeze(-2)
    }
}

/// A weight and a bias.
#[track_caller]
fn drawn(shape: [usize; 3]) -> (Tensor, Option<Tensor>) {
    let bound = kaiming_bound(shape[1..].iter().product());
    (uniform(&shape, bound), Some(uniform(&shape[..1], bound)))
}
