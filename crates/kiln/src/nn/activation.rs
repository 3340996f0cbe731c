//! Activations as layers: what a tensor has as a method.

use super::Module;
use crate::Tensor;

/// A layer without numbers, and its method.
macro_rules! plain {
    ($($(#[$doc:meta])+ $layer:ident $method:ident;)*) => { $(
        $(#[$doc])+
        ///
        /// ```
        #[doc = concat!("use kiln::{Tensor, nn::", stringify!($layer), "};")]
        /// let x = Tensor::from([-1.0f32, 2.0]);
        #[doc = concat!("assert_eq!(", stringify!($layer), ".forward(&x).to_vec::<f32>()?, x.", stringify!($method), "().to_vec::<f32>()?);")]
        /// # Ok::<(), kiln::Error>(())
        /// ```
        #[derive(Module, Clone, Copy, Debug, Default)]
        pub struct $layer;

        impl $layer {
            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            ///
            /// ```
            #[doc = concat!("let y = kiln::nn::", stringify!($layer), ".forward(&kiln::Tensor::ones([2]));")]
            /// ```
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$method()
            }
        }
    )* };
}

plain! {
    /// `max(x, 0)`.
    ReLU relu;
    /// `x` times the share of the normal distribution below it, by `tanh`.
    GELU gelu;
    /// `x` times its sigmoid.
    SiLU silu;
    /// `1 / (1 + exp(-x))`.
    Sigmoid sigmoid;
    /// The hyperbolic tangent.
    Tanh tanh;
    /// `x` times the share of the normal distribution below it, by the error function: PyTorch's default.
    GELUErf gelu_erf;
    /// `x sigmoid(1.702 x)`.
    QuickGELU quick_gelu;
    /// `x`, between 0 and 6.
    ReLU6 relu6;
    /// The logarithm of the sigmoid.
    LogSigmoid logsigmoid;
    /// Straight lines for a sigmoid.
    Hardsigmoid hardsigmoid;
    /// `x` times straight lines for a sigmoid.
    Hardswish hardswish;
    /// The exponential linear unit that keeps mean and variance.
    SELU selu;
    /// `x tanh(softplus(x))`.
    Mish mish;
    /// `x / (1 + |x|)`.
    Softsign softsign;
    /// `x - tanh(x)`.
    Tanhshrink tanhshrink;
}

/// A layer with one number, and its method.
macro_rules! with_number {
    ($($(#[$doc:meta])+ $layer:ident($t:ty = $example:expr) $method:ident;)*) => { $(
        $(#[$doc])+
        ///
        /// ```
        #[doc = concat!("use kiln::{Tensor, nn::", stringify!($layer), "};")]
        /// let x = Tensor::from([-1.0f32, 2.0]);
        #[doc = concat!("let y = ", stringify!($layer), "(", stringify!($example), ").forward(&x);")]
        #[doc = concat!("assert_eq!(y.to_vec::<f32>()?, x.", stringify!($method), "(", stringify!($example), ").to_vec::<f32>()?);")]
        /// # Ok::<(), kiln::Error>(())
        /// ```
        #[derive(Module, Clone, Copy, Debug)]
        pub struct $layer(pub $t);

        impl $layer {
            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            ///
            /// ```
            #[doc = concat!("let y = kiln::nn::", stringify!($layer), "(", stringify!($example), ").forward(&kiln::Tensor::ones([2]));")]
            /// ```
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.0)
            }
        }
    )* };
}

with_number! {
    /// `x`, and below 0 `alpha (exp(x) - 1)`.
    ELU(f64 = 1.0) elu;
    /// `x`, and below 0 `x` times the slope.
    LeakyReLU(f64 = 0.01) leaky_relu;
    /// `log(1 + exp(beta x)) / beta`.
    Softplus(f64 = 1.0) softplus_with;
    /// Exponentials along an axis, divided by their sum.
    Softmax(isize = -1) softmax;
    /// Logarithms of a softmax along an axis.
    LogSoftmax(isize = -1) log_softmax;
    /// The softmax of `-x` along an axis.
    Softmin(isize = -1) softmin;
    /// The first half of an axis times the sigmoid of the second.
    GLU(isize = -1) glu;
    /// `x`, and below 0 `alpha (exp(x / alpha) - 1)`.
    CELU(f64 = 1.0) celu;
    /// 0 up to a distance from 0, and `x` less that beyond.
    Softshrink(f64 = 0.5) softshrink;
    /// 0 up to a distance from 0, and `x` beyond.
    Hardshrink(f64 = 0.5) hardshrink;
}

/// A layer with two numbers, and its method.
macro_rules! with_numbers {
    ($($(#[$doc:meta])+ $layer:ident($a:expr, $b:expr) $method:ident;)*) => { $(
        $(#[$doc])+
        ///
        /// ```
        #[doc = concat!("use kiln::{Tensor, nn::", stringify!($layer), "};")]
        /// let x = Tensor::from([-1.0f32, 2.0]);
        #[doc = concat!("let y = ", stringify!($layer), "(", stringify!($a), ", ", stringify!($b), ").forward(&x);")]
        #[doc = concat!("assert_eq!(y.to_vec::<f32>()?, x.", stringify!($method), "(", stringify!($a), ", ", stringify!($b), ").to_vec::<f32>()?);")]
        /// # Ok::<(), kiln::Error>(())
        /// ```
        #[derive(Module, Clone, Copy, Debug)]
        pub struct $layer(pub f64, pub f64);

        impl $layer {
            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            ///
            /// ```
            #[doc = concat!("let y = kiln::nn::", stringify!($layer), "(", stringify!($a), ", ", stringify!($b), ").forward(&kiln::Tensor::ones([2]));")]
            /// ```
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.0, self.1)
            }
        }
    )* };
}

with_numbers! {
    /// `x`, between two numbers.
    Hardtanh(-1.0, 1.0) hardtanh;
    /// `x` above the first number, otherwise the second.
    Threshold(0.5, 0.0) threshold;
}
