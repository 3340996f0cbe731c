//! Pooling as layers.

use super::Module;
use crate::Tensor;

/// A layer with a kernel, a stride and a padding, and its method.
macro_rules! pools {
    ($($(#[$doc:meta])+ $layer:ident;)*) => { $(
        $(#[$doc])+
        ///
        /// ```
        #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(2);")]
        /// assert_eq!(pool.forward(&kiln::Tensor::ones([1, 1, 4, 6])).shape(), [1, 1, 2, 3]);
        /// ```
        #[derive(Module, Clone, Debug)]
        pub struct $layer {
            kernel: [usize; 2],
            stride: [usize; 2],
            padding: [usize; 2],
        }

        impl $layer {
            /// With windows of `kernel` by `kernel` beside each other.
            ///
            /// ```
            #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(3);")]
            /// ```
            pub fn new(kernel: usize) -> $layer {
                $layer { kernel: [kernel; 2], stride: [kernel; 2], padding: [0; 2] }
            }

            /// The layer with another distance between windows.
            ///
            /// ```
            #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(3).stride(1);")]
            /// ```
            pub fn stride(self, stride: usize) -> $layer {
                $layer { stride: [stride; 2], ..self }
            }

            /// The layer with a border around its input.
            ///
            /// ```
            #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(3).padding(1);")]
            /// ```
            pub fn padding(self, padding: usize) -> $layer {
                $layer { padding: [padding; 2], ..self }
            }
        }
    )* };
}

pools! {
    /// The largest element of each window of `[.., height, width]`.
    MaxPool2d;
    /// The mean of each window of `[.., height, width]`, the zeros of its border included.
    AvgPool2d;
}

impl MaxPool2d {
    /// As [`Tensor::max_pool2d_with`].
    ///
    /// ```
    /// let y = kiln::nn::MaxPool2d::new(2).forward(&kiln::Tensor::ones([1, 1, 2, 2]));
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::max_pool2d_with`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.max_pool2d_with(self.kernel, self.stride, 1, self.padding)
    }
}

impl AvgPool2d {
    /// As [`Tensor::avg_pool2d_with`].
    ///
    /// ```
    /// let y = kiln::nn::AvgPool2d::new(2).forward(&kiln::Tensor::ones([1, 1, 2, 2]));
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::avg_pool2d_with`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.avg_pool2d_with(self.kernel, self.stride, self.padding)
    }
}
