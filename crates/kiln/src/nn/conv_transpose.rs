//! Transposed convolution: what the gradient of a convolution is, as a layer.

use super::Module;
use super::build::{kaiming_bound, uniform};
use super::pairs::pair_setters;
use crate::Tensor;
use crate::args::PairArg;
use crate::error::{Fault, refuse};
use crate::tensor::shape_args::pair;

/// Transposed convolution of `[batch, channels, height, width]`.
///
/// ```
/// use kiln::{Tensor, nn::ConvTranspose2d};
/// let up = ConvTranspose2d::new(8, 4, 2).stride(2);
/// assert_eq!(up.forward(&Tensor::ones([1, 8, 5, 5])).shape(), [1, 4, 10, 10]);
/// ```
#[derive(Module, Clone, Debug)]
pub struct ConvTranspose2d {
    /// `[inputs, outputs / groups, height, width]`.
    pub weight: Tensor,
    /// `[outputs]`.
    pub bias: Option<Tensor>,
    groups: usize,
    stride: [usize; 2],
    dilation: [usize; 2],
    padding: [usize; 2],
    output_padding: [usize; 2],
}

impl ConvTranspose2d {
    /// Stride 1, no padding, one group, with weights and bias drawn as PyTorch draws them.
    ///
    /// ```
    /// assert_eq!(kiln::nn::ConvTranspose2d::new(3, 8, (5, 3)).weight.shape(), [3, 8, 5, 3]);
    /// ```
    ///
    /// # Errors
    /// A kernel of no length.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, kernel: impl PairArg) -> ConvTranspose2d {
        let (weight, bias) = match pair("kernel", kernel, 1) {
            Ok([height, width]) => drawn([inputs, outputs, height, width], 1),
            Err(fault) => (Tensor::broken(fault.at("ConvTranspose2d")), None),
        };
        let [stride, dilation] = [[1; 2]; 2];
        let [padding, output_padding] = [[0; 2]; 2];
        ConvTranspose2d { weight, bias, groups: 1, stride, dilation, padding, output_padding }
    }

    pair_setters! { ConvTranspose2d:
        /// The layer whose inputs are so far apart in the output.
        ///
        /// ```
        /// let up = kiln::nn::ConvTranspose2d::new(1, 1, 1).stride(2);
        /// assert_eq!(up.forward(&kiln::Tensor::ones([1, 1, 3, 3])).shape(), [1, 1, 5, 5]);
        /// ```
        stride >= 1;
        /// The layer with another distance between the elements of a window.
        ///
        /// ```
        /// let up = kiln::nn::ConvTranspose2d::new(1, 1, 2).dilation(2);
        /// assert_eq!(up.forward(&kiln::Tensor::ones([1, 1, 3, 3])).shape(), [1, 1, 5, 5]);
        /// ```
        dilation >= 1;
        /// The layer with so much of its output cut off at each side.
        ///
        /// ```
        /// let up = kiln::nn::ConvTranspose2d::new(1, 1, 3).padding(1);
        /// assert_eq!(up.forward(&kiln::Tensor::ones([1, 1, 3, 3])).shape(), [1, 1, 3, 3]);
        /// ```
        padding >= 0;
        /// The layer with so much more output at the end of each axis.
        ///
        /// ```
        /// let up = kiln::nn::ConvTranspose2d::new(1, 1, 1).stride(2).output_padding(1);
        /// assert_eq!(up.forward(&kiln::Tensor::ones([1, 1, 3, 3])).shape(), [1, 1, 6, 6]);
        /// ```
        output_padding >= 0;
    }

    /// The layer in which each of `groups` parts of the outputs sees its part of the inputs only. Draws new weights.
    ///
    /// ```
    /// assert_eq!(kiln::nn::ConvTranspose2d::new(4, 8, 1).groups(2).weight.shape(), [4, 4, 1, 1]);
    /// ```
    ///
    /// # Errors
    /// Groups that do not divide the inputs and the outputs.
    #[track_caller]
    pub fn groups(mut self, groups: usize) -> ConvTranspose2d {
        let &[inputs, outputs, height, width] = self.weight.shape() else { return self };
        let outputs = outputs * self.groups;
        if groups == 0 || !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
            let why =
                format!("{groups} groups do not divide {inputs} inputs and {outputs} outputs");
            self.weight = Tensor::broken(Fault::New(why).at("ConvTranspose2d"));
            return self;
        }
        let (weight, bias) = drawn([inputs, outputs / groups, height, width], groups);
        ConvTranspose2d { weight, bias: bias.filter(|_| self.bias.is_some()), groups, ..self }
    }

    /// The layer with no bias.
    ///
    /// ```
    /// assert!(kiln::nn::ConvTranspose2d::new(1, 1, 1).without_bias().bias.is_none());
    /// ```
    pub fn without_bias(self) -> ConvTranspose2d {
        ConvTranspose2d { bias: None, ..self }
    }

    /// The layer's value at `x`.
    ///
    /// ```
    /// let up = kiln::nn::ConvTranspose2d::new(1, 2, 3);
    /// assert_eq!(up.forward(&kiln::Tensor::ones([1, 1, 3, 3])).shape(), [1, 2, 5, 5]);
    /// ```
    ///
    /// # Errors
    /// Shapes that do not fit each other; padding by which no output is left; a broken argument of the layer.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        match self.output(x) {
            Ok(y) => y,
            Err(fault) => Tensor::broken(fault.at("ConvTranspose2d")),
        }
    }

    /// A convolution of the inputs, put apart by zeros, with the kernel turned around.
    fn output(&self, x: &Tensor) -> Result<Tensor, Fault> {
        if let Some(error) = x.error().or(self.weight.error()) {
            return Err(error.into());
        }
        let &[inputs, _, height, width] = self.weight.shape() else {
            return refuse!("wants a weight of four axes, not {:?}", self.weight.shape());
        };
        if x.ndim() != 4 || x.shape()[1] != inputs {
            return refuse!("wants [batch, {inputs}, height, width], not {:?}", x.shape());
        }
        let kernel = [height, width];
        let border = [0, 1].map(|i| self.dilation[i] * (kernel[i] - 1));
        let apart = self.apart(x, border);
        let bias = self.bias.as_ref();
        let mut y = apart.conv2d(&self.turned(), bias, self.groups, 1, self.dilation, 0);
        for i in [0, 1] {
            let (axis, cut) = (i + 2, self.padding[i]);
            let Some(left) = y.shape()[axis].checked_sub(2 * cut) else {
                return refuse!("padding {cut} leaves nothing of {}", y.shape()[axis]);
            };
            y = y.narrow(axis, cut, left);
        }
        Ok(y)
    }

    /// The inputs with zeros between them, and `border` zeros around them.
    fn apart(&self, x: &Tensor, border: [usize; 2]) -> Tensor {
        let mut x = x.clone();
        for i in [0, 1] {
            let (axis, stride, length) = (i + 2, self.stride[i], x.shape()[i + 2]);
            let mut pads = vec![(0, 0); x.ndim() + 1];
            pads[axis + 1] = (0, stride - 1);
            let wide = x.unsqueeze(axis + 1).pad(pads).flatten_axes(axis, axis + 1);
            let used = (length * stride).saturating_sub(stride - 1);
            let mut pads = vec![(0, 0); x.ndim()];
            pads[axis] = (border[i], border[i] + self.output_padding[i]);
            x = wide.narrow(axis, 0, used).pad(pads);
        }
        x
    }

    /// The weight of the convolution: `[outputs, inputs / groups, height, width]`.
    fn turned(&self) -> Tensor {
        let &[inputs, outputs, height, width] = self.weight.shape() else {
            unreachable!("checked")
        };
        let groups = self.groups;
        let grouped =
            self.weight.flip([2, 3]).reshape([groups, inputs / groups, outputs, height, width]);
        grouped.transpose(1, 2).reshape([groups * outputs, inputs / groups, height, width])
    }
}

/// A weight and a bias.
#[track_caller]
fn drawn(shape: [usize; 4], groups: usize) -> (Tensor, Option<Tensor>) {
    let bound = kaiming_bound(shape[1..].iter().product());
    (uniform(&shape, bound), Some(uniform(&[shape[1] * groups], bound)))
}

/// Transposed convolution of `[batch, channels, length]`.
///
/// ```
/// use kiln::{Tensor, nn::ConvTranspose1d};
/// let up = ConvTranspose1d::new(8, 4, 2).stride(2);
/// assert_eq!(up.forward(&Tensor::ones([1, 8, 5])).shape(), [1, 4, 10]);
/// ```
#[derive(Module, Clone, Debug)]
pub struct ConvTranspose1d {
    /// `[inputs, outputs / groups, length]`.
    pub weight: Tensor,
    /// `[outputs]`.
    pub bias: Option<Tensor>,
    /// The same over two axes, of which the first has length 1; its own tensors are not used.
    #[module(skip)]
    planes: ConvTranspose2d,
}

impl ConvTranspose1d {
    /// Stride 1, no padding, one group, with weights and bias drawn as PyTorch draws them.
    ///
    /// ```
    /// assert_eq!(kiln::nn::ConvTranspose1d::new(3, 8, 5).weight.shape(), [3, 8, 5]);
    /// ```
    ///
    /// # Errors
    /// A kernel of no length.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, kernel: usize) -> ConvTranspose1d {
        ConvTranspose1d::of(ConvTranspose2d::new(inputs, outputs, (1usize, kernel)))
    }

    /// Takes the tensors of the layer over two axes.
    fn of(planes: ConvTranspose2d) -> ConvTranspose1d {
        let weight = planes.weight.detach().squeeze(2).copy().set_requires_grad(true);
        ConvTranspose1d { weight, bias: planes.bias.clone(), planes }
    }

    /// The layer whose inputs are so far apart in the output.
    ///
    /// ```
    /// let up = kiln::nn::ConvTranspose1d::new(1, 1, 1).stride(2);
    /// assert_eq!(up.forward(&kiln::Tensor::ones([1, 1, 3])).shape(), [1, 1, 5]);
    /// ```
    #[track_caller]
    pub fn stride(self, stride: usize) -> ConvTranspose1d {
        ConvTranspose1d { planes: self.planes.stride((1usize, stride)), ..self }
    }

    /// The layer with another distance between the elements of a window.
    ///
    /// ```
    /// let up = kiln::nn::ConvTranspose1d::new(1, 1, 2).dilation(2);
    /// assert_eq!(up.forward(&kiln::Tensor::ones([1, 1, 3])).shape(), [1, 1, 5]);
    /// ```
    #[track_caller]
    pub fn dilation(self, dilation: usize) -> ConvTranspose1d {
        ConvTranspose1d { planes: self.planes.dilation((1usize, dilation)), ..self }
    }

    /// The layer with so much of its output cut off at each end.
    ///
    /// ```
    /// let up = kiln::nn::ConvTranspose1d::new(1, 1, 3).padding(1);
    /// assert_eq!(up.forward(&kiln::Tensor::ones([1, 1, 3])).shape(), [1, 1, 3]);
    /// ```
    #[track_caller]
    pub fn padding(self, padding: usize) -> ConvTranspose1d {
        ConvTranspose1d { planes: self.planes.padding((0usize, padding)), ..self }
    }

    /// The layer with so much more output at the end.
    ///
    /// ```
    /// let up = kiln::nn::ConvTranspose1d::new(1, 1, 1).stride(2).output_padding(1);
    /// assert_eq!(up.forward(&kiln::Tensor::ones([1, 1, 3])).shape(), [1, 1, 6]);
    /// ```
    #[track_caller]
    pub fn output_padding(self, padding: usize) -> ConvTranspose1d {
        ConvTranspose1d { planes: self.planes.output_padding((0usize, padding)), ..self }
    }

    /// The layer with no bias.
    ///
    /// ```
    /// assert!(kiln::nn::ConvTranspose1d::new(1, 1, 1).without_bias().bias.is_none());
    /// ```
    pub fn without_bias(self) -> ConvTranspose1d {
        ConvTranspose1d { bias: None, ..self }
    }

    /// The layer's value at `x`.
    ///
    /// ```
    /// let up = kiln::nn::ConvTranspose1d::new(1, 2, 3);
    /// assert_eq!(up.forward(&kiln::Tensor::ones([1, 1, 3])).shape(), [1, 2, 5]);
    /// ```
    ///
    /// # Errors
    /// As [`ConvTranspose2d::forward`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        if self.planes.weight.error().is_some() {
            return self.planes.forward(x);
        }
        let weight = self.weight.unsqueeze(2);
        let layer = ConvTranspose2d { weight, bias: self.bias.clone(), ..self.planes.clone() };
        layer.forward(&x.unsqueeze(2)).squeeze(2)
    }
}
