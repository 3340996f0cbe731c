//! Convolution over two axes.

use super::Module;
use super::build::{kaiming_bound, uniform};
use super::pairs::pair_setters;
use crate::Tensor;
use crate::args::PairArg;
use crate::error::Fault;
use crate::tensor::shape_args::pair;

/// Convolution of `[batch, channels, height, width]`.
///
/// ```
/// use kiln::{Tensor, nn::Conv2d};
/// let conv = Conv2d::new(1, 8, 3).padding(1).stride(2);
/// assert_eq!(conv.forward(&Tensor::ones([2, 1, 28, 28])).shape(), [2, 8, 14, 14]);
/// ```
#[derive(Module, Clone, Debug)]
pub struct Conv2d {
    /// `[outputs, inputs / groups, height, width]`.
    pub weight: Tensor,
    /// `[outputs]`.
    pub bias: Option<Tensor>,
    groups: usize,
    stride: [usize; 2],
    dilation: [usize; 2],
    padding: [usize; 2],
}

impl Conv2d {
    /// Stride 1, no padding, one group, with weights and bias drawn as PyTorch draws them.
    ///
    /// ```
    /// assert_eq!(kiln::nn::Conv2d::new(3, 8, (5, 3)).weight.shape(), [8, 3, 5, 3]);
    /// ```
    ///
    /// # Errors
    /// A kernel of no length.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, kernel: impl PairArg) -> Conv2d {
        let kernel = pair("kernel", kernel, 1);
        let (weight, bias) = match kernel {
            Ok([height, width]) => drawn([outputs, inputs, height, width]),
            Err(fault) => (Tensor::broken(fault.at("Conv2d")), None),
        };
        Conv2d { weight, bias, groups: 1, stride: [1; 2], dilation: [1; 2], padding: [0; 2] }
    }

    pair_setters! { Conv2d:
        /// The layer with another distance between windows.
        ///
        /// ```
        /// let conv = kiln::nn::Conv2d::new(1, 1, 1).stride((2, 1));
        /// assert_eq!(conv.forward(&kiln::Tensor::ones([1, 1, 4, 4])).shape(), [1, 1, 2, 4]);
        /// ```
        stride >= 1;
        /// The layer with another distance between the elements of a window.
        ///
        /// ```
        /// let conv = kiln::nn::Conv2d::new(1, 1, 2).dilation(2);
        /// assert_eq!(conv.forward(&kiln::Tensor::ones([1, 1, 4, 4])).shape(), [1, 1, 2, 2]);
        /// ```
        dilation >= 1;
        /// The layer with zeros around its input.
        ///
        /// ```
        /// let conv = kiln::nn::Conv2d::new(1, 1, 3).padding(1);
        /// assert_eq!(conv.forward(&kiln::Tensor::ones([1, 1, 4, 4])).shape(), [1, 1, 4, 4]);
        /// ```
        padding >= 0;
    }

    /// The layer in which each of `groups` parts of the outputs sees its part of the inputs only. Draws new weights.
    ///
    /// ```
    /// assert_eq!(kiln::nn::Conv2d::new(4, 8, 1).groups(2).weight.shape(), [8, 2, 1, 1]);
    /// ```
    ///
    /// # Errors
    /// Groups that do not divide the inputs.
    #[track_caller]
    pub fn groups(mut self, groups: usize) -> Conv2d {
        let &[outputs, inputs, height, width] = self.weight.shape() else { return self };
        let inputs = inputs * self.groups;
        if groups == 0 || !inputs.is_multiple_of(groups) {
            let why = format!("{groups} groups do not divide {inputs} inputs");
            self.weight = Tensor::broken(Fault::New(why).at("Conv2d"));
            return self;
        }
        let had_bias = self.bias.is_some();
        let (weight, bias) = drawn([outputs, inputs / groups, height, width]);
        Conv2d { weight, bias: bias.filter(|_| had_bias), groups, ..self }
    }

    /// The layer with no bias.
    ///
    /// ```
    /// assert!(kiln::nn::Conv2d::new(1, 1, 1).without_bias().bias.is_none());
    /// ```
    pub fn without_bias(self) -> Conv2d {
        Conv2d { bias: None, ..self }
    }

    /// The layer's value at `x`.
    ///
    /// ```
    /// let conv = kiln::nn::Conv2d::new(1, 2, 3);
    /// assert_eq!(conv.forward(&kiln::Tensor::ones([1, 1, 3, 3])).shape(), [1, 2, 1, 1]);
    /// ```
    ///
    /// # Errors
    /// As [`conv2d`](Tensor::conv2d); an argument of the layer that made no sense.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let (stride, dilation) = (self.stride, self.dilation);
        let bias = self.bias.as_ref();
        x.conv2d(&self.weight, bias, self.groups, stride, dilation, self.padding)
    }
}

/// A weight and a bias.
#[track_caller]
fn drawn(shape: [usize; 4]) -> (Tensor, Option<Tensor>) {
    let bound = kaiming_bound(shape[1..].iter().product());
    (uniform(&shape, bound), Some(uniform(&shape[..1], bound)))
}
