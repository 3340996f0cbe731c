//! Convolutions and transposed convolutions over one to three axes, as layers.

use super::Module;
use super::build::{kaiming_bound, uniform};
use crate::args::SizesArg;
use crate::error::{Fault, refuse};
use crate::tensor::sizes::per_axis;
use crate::{ConvOptions, PadMode, Padding, Tensor};

/// What the layers' weights look like.
#[derive(Clone, Copy)]
struct Form {
    layer: &'static str,
    axes: usize,
    /// Whether the weight is `[inputs, outputs / groups, ..]` instead of `[outputs, inputs / groups, ..]`.
    transposed: bool,
}

impl Form {
    /// A weight and a bias.
    #[track_caller]
    fn drawn(self, inputs: usize, outputs: usize, kernel: &[i64]) -> (Tensor, Option<Tensor>) {
        match per_axis("kernel", kernel, self.axes, 1) {
            Ok(kernel) => self.grouped(inputs, outputs, &kernel, 1),
            Err(fault) => (Tensor::broken(fault.at(self.layer)), None),
        }
    }

    /// Both, of so many groups.
    #[track_caller]
    fn grouped(
        self,
        inputs: usize,
        outputs: usize,
        kernel: &[usize],
        groups: usize,
    ) -> (Tensor, Option<Tensor>) {
        let lead = match self.transposed {
            true => [inputs, outputs / groups],
            false => [outputs, inputs / groups],
        };
        let shape = [&lead[..], kernel].concat();
        let bound = kaiming_bound(shape[1..].iter().product());
        (uniform(&shape, bound), Some(uniform(&[outputs], bound)))
    }

    /// Both, where `weight` was made for `before` groups and there are to be `groups`.
    #[track_caller]
    fn regrouped(self, weight: &Tensor, before: usize, groups: usize) -> (Tensor, Option<Tensor>) {
        let (lead, kernel) = weight.shape().split_at(2.min(weight.ndim()));
        let &[first, second] = lead else { return (weight.clone(), None) };
        let second = second * before;
        let (inputs, outputs) = if self.transposed { (first, second) } else { (second, first) };
        match divided(inputs, outputs, groups) {
            Ok(()) => self.grouped(inputs, outputs, kernel, groups),
            Err(fault) => (Tensor::broken(fault.at(self.layer)), None),
        }
    }
}

fn divided(inputs: usize, outputs: usize, groups: usize) -> Result<(), Fault> {
    match groups != 0 && inputs.is_multiple_of(groups) && outputs.is_multiple_of(groups) {
        true => Ok(()),
        false => refuse!("{groups} groups do not divide {inputs} inputs and {outputs} outputs"),
    }
}

/// A layer with its settings; the last lines are what only one of the families has.
macro_rules! conv_layers {
    ($($(#[$doc:meta])+ $layer:ident $n:literal $transposed:literal $weight:literal $call:ident { $($own:item)* })*) => { $(
        $(#[$doc])+
        #[derive(Module, Clone, Debug)]
        pub struct $layer {
            #[doc = concat!("`", $weight, "`.")]
            pub weight: Tensor,
            /// `[outputs]`.
            pub bias: Option<Tensor>,
            #[module(skip)]
            options: ConvOptions,
        }

        impl $layer {
            const FORM: Form =
                Form { layer: stringify!($layer), axes: $n, transposed: $transposed };

            /// Stride 1, no padding, one group, with weights and bias drawn as PyTorch draws them. The kernel is a number for
            /// all axes, or one for each.
            ///
            /// ```
            #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(3, 8, 5);")]
            /// assert_eq!(layer.bias.expect("has one").shape(), [8]);
            /// ```
            ///
            /// # Errors
            /// A kernel of no length, or for another number of axes.
            #[track_caller]
            pub fn new(inputs: usize, outputs: usize, kernel: impl SizesArg) -> $layer {
                let (weight, bias) = $layer::FORM.drawn(inputs, outputs, &kernel.sizes());
                $layer { weight, bias, options: ConvOptions::new() }
            }

            /// The layer with another distance between windows: one for all axes, or one for each.
            ///
            /// ```
            #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(1, 1, 1).stride(2);")]
            /// ```
            pub fn stride(self, stride: impl SizesArg) -> $layer {
                $layer { options: self.options.stride(stride), ..self }
            }

            /// The layer with another distance between the elements of a window: one for all axes, or one for each.
            ///
            /// ```
            #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(1, 1, 2).dilation(2);")]
            /// ```
            pub fn dilation(self, dilation: impl SizesArg) -> $layer {
                $layer { options: self.options.dilation(dilation), ..self }
            }

            /// The layer in which each of `groups` parts of the outputs sees its part of the inputs only. Draws new weights.
            ///
            /// ```
            #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(4, 8, 1).groups(2);")]
            /// assert_eq!(layer.weight.numel(), 16);
            /// ```
            ///
            /// # Errors
            /// Groups that do not divide the inputs and the outputs.
            #[track_caller]
            pub fn groups(self, groups: usize) -> $layer {
                let before = self.options.group_count();
                let (weight, bias) = $layer::FORM.regrouped(&self.weight, before, groups);
                let bias = bias.filter(|_| self.bias.is_some());
                $layer { weight, bias, options: self.options.groups(groups) }
            }

            /// The layer with no bias.
            ///
            /// ```
            #[doc = concat!("assert!(kiln::nn::", stringify!($layer), "::new(1, 1, 1).without_bias().bias.is_none());")]
            /// ```
            pub fn without_bias(self) -> $layer {
                $layer { bias: None, ..self }
            }

            $($own)*

            /// The layer's value at `x`.
            ///
            /// ```
            #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(1, 2, 3);")]
            #[doc = concat!("let x = kiln::Tensor::ones([&[1, 1][..], &[3; ", $n, "]].concat());")]
            /// assert_eq!(layer.forward(&x).shape()[..2], [1, 2]);
            /// ```
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($call), "`](Tensor::", stringify!($call), "); an argument of the layer that made no sense.")]
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$call(&self.weight, self.bias.as_ref(), &self.options)
            }
        }
    )* };
}

/// What only convolutions have.
macro_rules! convolutions {
    ($($(#[$doc:meta])+ $layer:ident $n:literal $weight:literal $call:ident;)*) => {
        conv_layers! { $($(#[$doc])+ $layer $n false $weight $call {
            /// The layer with something around its input: a number for all axes, one for each, pairs of them, or
            /// [`Padding::Same`]. It is zeros, if no mode says otherwise.
            ///
            /// ```
            /// use kiln::Padding;
            #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(1, 1, 3).padding(Padding::Same);")]
            #[doc = concat!("let x = kiln::Tensor::ones([4; ", $n, " + 2]).get(kiln::s![.., 0..1]);")]
            /// assert_eq!(layer.forward(&x).shape(), x.shape());
            /// ```
            pub fn padding(self, padding: impl Into<Padding>) -> $layer {
                $layer { options: self.options.padding(padding), ..self }
            }

            /// The layer whose padding is the input's own elements.
            ///
            /// ```
            /// use kiln::PadMode;
            #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(1, 1, 3).padding(1);")]
            /// let layer = layer.padding_mode(PadMode::Reflect);
            /// ```
            pub fn padding_mode(self, mode: PadMode) -> $layer {
                $layer { options: self.options.padding_mode(mode), ..self }
            }
        })* }
    };
}

convolutions! {
    /// Convolution of `[batch, channels, length]`.
    ///
    /// ```
    /// use kiln::{Tensor, nn::Conv1d};
    /// let conv = Conv1d::new(1, 8, 3).padding(1).stride(2);
    /// assert_eq!(conv.forward(&Tensor::ones([2, 1, 28])).shape(), [2, 8, 14]);
    /// ```
    Conv1d 1 "[outputs, inputs / groups, length]" conv1d_with;
    /// Convolution of `[batch, channels, height, width]`.
    ///
    /// ```
    /// use kiln::{Tensor, nn::Conv2d};
    /// let conv = Conv2d::new(1, 8, 3).padding(1).stride(2);
    /// assert_eq!(conv.forward(&Tensor::ones([2, 1, 28, 28])).shape(), [2, 8, 14, 14]);
    /// ```
    Conv2d 2 "[outputs, inputs / groups, height, width]" conv2d_with;
    /// Convolution of `[batch, channels, depth, height, width]`.
    ///
    /// ```
    /// use kiln::{Tensor, nn::Conv3d};
    /// let conv = Conv3d::new(1, 8, 3).padding(1).stride((1, 2, 2));
    /// assert_eq!(conv.forward(&Tensor::ones([2, 1, 4, 8, 8])).shape(), [2, 8, 4, 4, 4]);
    /// ```
    Conv3d 3 "[outputs, inputs / groups, depth, height, width]" conv3d_with;
}

/// What only transposed convolutions have.
macro_rules! transposed {
    ($($(#[$doc:meta])+ $layer:ident $n:literal $weight:literal $call:ident;)*) => {
        conv_layers! { $($(#[$doc])+ $layer $n true $weight $call {
            /// The layer with so much of its output cut off: a number for all axes, one for each, or pairs of them.
            ///
            /// ```
            #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(1, 1, 3).padding(1);")]
            #[doc = concat!("let x = kiln::Tensor::ones([4; ", $n, " + 2]).get(kiln::s![.., 0..1]);")]
            /// assert_eq!(layer.forward(&x).shape(), x.shape());
            /// ```
            pub fn padding(self, padding: impl Into<Padding>) -> $layer {
                $layer { options: self.options.padding(padding), ..self }
            }

            /// The layer with so much more output at the end of each axis.
            ///
            /// ```
            #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(1, 1, 1).stride(2).output_padding(1);")]
            /// ```
            pub fn output_padding(self, padding: impl SizesArg) -> $layer {
                $layer { options: self.options.output_padding(padding), ..self }
            }
        })* }
    };
}

transposed! {
    /// Transposed convolution of `[batch, channels, length]`.
    ///
    /// ```
    /// use kiln::{Tensor, nn::ConvTranspose1d};
    /// let up = ConvTranspose1d::new(8, 4, 2).stride(2);
    /// assert_eq!(up.forward(&Tensor::ones([1, 8, 5])).shape(), [1, 4, 10]);
    /// ```
    ConvTranspose1d 1 "[inputs, outputs / groups, length]" conv_transpose1d;
    /// Transposed convolution of `[batch, channels, height, width]`.
    ///
    /// ```
    /// use kiln::{Tensor, nn::ConvTranspose2d};
    /// let up = ConvTranspose2d::new(8, 4, 2).stride(2);
    /// assert_eq!(up.forward(&Tensor::ones([1, 8, 5, 5])).shape(), [1, 4, 10, 10]);
    /// ```
    ConvTranspose2d 2 "[inputs, outputs / groups, height, width]" conv_transpose2d;
    /// Transposed convolution of `[batch, channels, depth, height, width]`.
    ///
    /// ```
    /// use kiln::{Tensor, nn::ConvTranspose3d};
    /// let up = ConvTranspose3d::new(8, 4, 2).stride(2);
    /// assert_eq!(up.forward(&Tensor::ones([1, 8, 3, 3, 3])).shape(), [1, 4, 6, 6, 6]);
    /// ```
    ConvTranspose3d 3 "[inputs, outputs / groups, depth, height, width]" conv_transpose3d;
}
