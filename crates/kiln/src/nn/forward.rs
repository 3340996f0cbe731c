//! What layers have in common: a value at an input.

use super::activation::{
    CELU, ELU, GELU, GELUErf, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU,
    LogSigmoid, LogSoftmax, Mish, QuickGELU, ReLU, ReLU6, SELU, SiLU, Sigmoid, Softmax, Softmin,
    Softplus, Softshrink, Softsign, Tanh, Tanhshrink, Threshold,
};
use super::bordering::{
    CircularPad1d, CircularPad2d, CircularPad3d, ReflectionPad1d, ReflectionPad2d, ReflectionPad3d,
    ReplicationPad1d, ReplicationPad2d, ReplicationPad3d, ZeroPad1d, ZeroPad2d, ZeroPad3d,
};
use super::conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
use super::embedding_bag::EmbeddingBag;
use super::group_norm::{GroupNorm, InstanceNorm, LayerNorm2d};
use super::pooling::{
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d,
    AdaptiveMaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d, LPPool1d, LPPool2d, LPPool3d, MaxPool1d,
    MaxPool2d, MaxPool3d,
};
use super::rearranging::{
    ChannelShuffle, Fold, LocalResponseNorm, PixelShuffle, PixelUnshuffle, Softmax2d, Unflatten,
    Unfold,
};
use super::{
    BatchNorm, Dropout, Dropout2d, Embedding, Flatten, Identity, LayerNorm, Linear, Module, PReLU,
    RMSNorm, Upsample,
};
use crate::Tensor;
use std::rc::Rc;
use std::sync::Arc;

/// A function of one tensor. Layers are, and so are closures, and tuples, arrays and `Vec`s of such, one after the other.
///
/// ```
/// use kiln::{Tensor, nn::{Forward, Linear}};
/// let mlp = (Linear::new(2, 8), Tensor::relu, Linear::new(8, 1), |x: &Tensor| x * 2.0);
/// assert_eq!(mlp.forward(&Tensor::ones([3, 2])).shape(), [3, 1]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no function of one tensor",
    note = "implement `kiln::nn::Forward` for it"
)]
pub trait Forward {
    /// The value at `x`.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor;
}

impl<F: Fn(&Tensor) -> Tensor> Forward for F {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self(x)
    }
}

/// A layer with whatever tensors: what [`Sequential`](super::Sequential) holds in boxes.
///
/// ```
/// use kiln::{Tensor, nn::{Forward, Layer, Linear, Module}};
/// let layer: Box<dyn Layer> = Box::new(Linear::new(2, 3));
/// assert_eq!(layer.forward(&Tensor::ones([1, 2])).shape(), [1, 3]);
/// assert_eq!(layer.parameters().len(), 2);
/// ```
pub trait Layer: Forward + Module + Send + Sync {}

impl<L: Forward + Module + Send + Sync> Layer for L {}

impl Forward for Box<dyn Layer> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        (**self).forward(x)
    }
}
impl<L: Forward + ?Sized> Forward for Arc<L> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        (**self).forward(x)
    }
}
impl<L: Forward + ?Sized> Forward for Rc<L> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        (**self).forward(x)
    }
}
impl<L: Forward> Forward for Option<L> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        match self {
            Some(layer) => layer.forward(x),
            None => x.clone(),
        }
    }
}
impl<L: Forward> Forward for [L] {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        // no closure: in one the caller's line would be lost
        let mut x = x.clone();
        for layer in self {
            x = layer.forward(&x);
        }
        x
    }
}
impl<L: Forward> Forward for Vec<L> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self[..].forward(x)
    }
}
impl<L: Forward, const N: usize> Forward for [L; N] {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self[..].forward(x)
    }
}

macro_rules! tuples {
    ($(($first:ident $($m:ident $i:tt)*))*) => { $(
        impl<$first: Forward, $($m: Forward),*> Forward for ($first, $($m,)*) {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                let x = self.0.forward(x);
                $(let x = self.$i.forward(&x);)*
                x
            }
        }
    )* };
}
tuples!((A) (A B 1) (A B 1 C 2) (A B 1 C 2 D 3) (A B 1 C 2 D 3 E 4) (A B 1 C 2 D 3 E 4 F 5)
    (A B 1 C 2 D 3 E 4 F 5 G 6) (A B 1 C 2 D 3 E 4 F 5 G 6 H 7));

/// Layers whose own method it is.
macro_rules! layers {
    ($($layer:ident)*) => { $(
        impl Forward for $layer {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                $layer::forward(self, x)
            }
        }
    )* };
}
layers!(Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d BatchNorm LayerNorm LayerNorm2d RMSNorm GroupNorm
    InstanceNorm Dropout Dropout2d Embedding Flatten Identity PReLU Upsample MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d
    LPPool1d LPPool2d LPPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d
    AdaptiveMaxPool3d ReLU GELU SiLU Sigmoid
    Tanh ELU LeakyReLU Softplus Softmax CELU GELUErf GLU Hardshrink Hardsigmoid Hardswish Hardtanh LogSigmoid LogSoftmax
    Mish QuickGELU ReLU6 SELU Softmin Softshrink Softsign Tanhshrink Threshold CircularPad1d CircularPad2d CircularPad3d
    ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d
    ZeroPad3d EmbeddingBag ChannelShuffle Fold LocalResponseNorm PixelShuffle PixelUnshuffle Softmax2d Unflatten Unfold);
