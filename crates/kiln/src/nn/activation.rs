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
}
