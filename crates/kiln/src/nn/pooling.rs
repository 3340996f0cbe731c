//! Pooling as layers.

use super::Module;
use crate::args::SizesArg;
use crate::{Padding, PoolOptions, Tensor};

/// A layer with windows, and its method. The last items are what not all have.
macro_rules! pools {
    ($($(#[$doc:meta])+ $layer:ident $n:literal $method:ident { $($own:item)* })*) => { $(
        $(#[$doc])+
        ///
        /// ```
        #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(2);")]
        #[doc = concat!("assert_eq!(pool.forward(&kiln::Tensor::ones([4; ", $n, "])).shape(), [2; ", $n, "]);")]
        /// ```
        #[derive(Module, Clone, Debug)]
        pub struct $layer {
            #[module(skip)]
            pool: PoolOptions,
        }

        impl $layer {
            /// With windows of `kernel` beside each other: a number for all axes or one for each, or [`PoolOptions`].
            ///
            /// ```
            #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(3);")]
            /// ```
            pub fn new(kernel: impl Into<PoolOptions>) -> $layer {
                $layer { pool: kernel.into() }
            }

            /// The layer with another distance between windows.
            ///
            /// ```
            #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(3).stride(1);")]
            /// ```
            pub fn stride(self, stride: impl SizesArg) -> $layer {
                $layer { pool: self.pool.stride(stride) }
            }

            /// The layer with a border around its input.
            ///
            /// ```
            #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(3).padding(1);")]
            /// ```
            pub fn padding(self, padding: impl Into<Padding>) -> $layer {
                $layer { pool: self.pool.padding(padding) }
            }

            /// The layer in which windows that reach past the end count, or do not.
            ///
            /// ```
            #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(2).ceil_mode(true);")]
            /// ```
            pub fn ceil_mode(self, ceil: bool) -> $layer {
                $layer { pool: self.pool.ceil_mode(ceil) }
            }

            $($own)*

            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            ///
            /// ```
            #[doc = concat!("let y = kiln::nn::", stringify!($layer), "::new(2).forward(&kiln::Tensor::ones([2; ", $n, "]));")]
            /// ```
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(&self.pool)
            }
        }
    )* };
}

macro_rules! largest {
    ($($(#[$doc:meta])+ $layer:ident $n:literal $method:ident $with:ident;)*) => {
        pools! { $($(#[$doc])+ $layer $n $method {
            /// The layer with another distance between the elements of a window.
            ///
            /// ```
            #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(2).dilation(2);")]
            /// ```
            pub fn dilation(self, dilation: impl SizesArg) -> $layer {
                $layer { pool: self.pool.dilation(dilation) }
            }

            #[doc = concat!("As [`Tensor::", stringify!($with), "`].")]
            ///
            /// ```
            #[doc = concat!("let (y, at) = kiln::nn::", stringify!($layer), "::new(2).forward_with_indices(&kiln::Tensor::ones([2; ", $n, "]));")]
            /// ```
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($with), "`].")]
            #[track_caller]
            pub fn forward_with_indices(&self, x: &Tensor) -> (Tensor, Tensor) {
                x.$with(&self.pool)
            }
        })* }
    };
}

macro_rules! means {
    ($($(#[$doc:meta])+ $layer:ident $n:literal $method:ident;)*) => {
        pools! { $($(#[$doc])+ $layer $n $method {
            /// The layer that counts the zeros of its border, as it does at first, or does not.
            ///
            /// ```
            #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(2).count_include_pad(false);")]
            /// ```
            pub fn count_include_pad(self, counts: bool) -> $layer {
                $layer { pool: self.pool.count_include_pad(counts) }
            }

            /// The layer that divides by `divisor`.
            ///
            /// ```
            #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(2).divisor(3);")]
            /// ```
            pub fn divisor(self, divisor: usize) -> $layer {
                $layer { pool: self.pool.divisor(divisor) }
            }
        })* }
    };
}

largest! {
    /// The largest element of each window of `[.., length]`.
    MaxPool1d 1 max_pool1d max_pool1d_with_indices;
    /// The largest element of each window of `[.., height, width]`.
    MaxPool2d 2 max_pool2d max_pool2d_with_indices;
    /// The largest element of each window of `[.., depth, height, width]`.
    MaxPool3d 3 max_pool3d max_pool3d_with_indices;
}

means! {
    /// The mean of each window of `[.., length]`, the zeros of its border included.
    AvgPool1d 1 avg_pool1d;
    /// The mean of each window of `[.., height, width]`, the zeros of its border included.
    AvgPool2d 2 avg_pool2d;
    /// The mean of each window of `[.., depth, height, width]`, the zeros of its border included.
    AvgPool3d 3 avg_pool3d;
}

/// A layer with the degree of a norm, or with lengths, and its method.
macro_rules! others {
    (norms $($(#[$doc:meta])+ $layer:ident $n:literal $method:ident;)*) => { $(
        $(#[$doc])+
        ///
        /// ```
        #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(2.0, 2);")]
        #[doc = concat!("assert_eq!(pool.forward(&kiln::Tensor::ones([4; ", $n, "])).shape(), [2; ", $n, "]);")]
        /// ```
        #[derive(Module, Clone, Debug)]
        pub struct $layer {
            p: f64,
            #[module(skip)]
            pool: PoolOptions,
        }

        impl $layer {
            /// Of degree `p`, with windows of `kernel` beside each other, or as [`PoolOptions`] say.
            ///
            /// ```
            #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(2.0, 3);")]
            /// ```
            pub fn new(p: f64, kernel: impl Into<PoolOptions>) -> $layer {
                $layer { p, pool: kernel.into() }
            }

            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            ///
            /// ```
            #[doc = concat!("let y = kiln::nn::", stringify!($layer), "::new(2.0, 2).forward(&kiln::Tensor::ones([2; ", $n, "]));")]
            /// ```
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.p, &self.pool)
            }
        }
    )* };
    (lengths $($(#[$doc:meta])+ $layer:ident $n:literal $method:ident;)*) => { $(
        $(#[$doc])+
        ///
        /// ```
        #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(3);")]
        #[doc = concat!("assert_eq!(pool.forward(&kiln::Tensor::ones([4; ", $n, "])).shape(), [3; ", $n, "]);")]
        /// ```
        #[derive(Module, Clone, Debug)]
        pub struct $layer {
            lengths: Vec<i64>,
        }

        impl $layer {
            /// To these lengths: a number for all axes or one for each, -1 keeps a length.
            ///
            /// ```
            #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(1);")]
            /// ```
            pub fn new(lengths: impl SizesArg) -> $layer {
                $layer { lengths: lengths.sizes().to_vec() }
            }

            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            ///
            /// ```
            #[doc = concat!("let y = kiln::nn::", stringify!($layer), "::new(1).forward(&kiln::Tensor::ones([2; ", $n, "]));")]
            /// ```
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(&self.lengths)
            }
        }
    )* };
    (back $($(#[$doc:meta])+ $layer:ident $n:literal $method:ident $pool:ident;)*) => { $(
        $(#[$doc])+
        ///
        /// ```
        #[doc = concat!("let (y, at) = kiln::nn::", stringify!($pool), "::new(2).forward_with_indices(&kiln::Tensor::ones([4; ", $n, "]));")]
        #[doc = concat!("assert_eq!(kiln::nn::", stringify!($layer), "::new(2).forward(&y, &at).shape(), [4; ", $n, "]);")]
        /// ```
        #[derive(Module, Clone, Debug)]
        pub struct $layer {
            #[module(skip)]
            pool: PoolOptions,
        }

        impl $layer {
            /// Of windows of `kernel` beside each other, or as [`PoolOptions`] say.
            ///
            /// ```
            #[doc = concat!("let pool = kiln::nn::", stringify!($layer), "::new(2);")]
            /// ```
            pub fn new(kernel: impl Into<PoolOptions>) -> $layer {
                $layer { pool: kernel.into() }
            }

            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            ///
            /// ```
            #[doc = concat!("let (y, at) = kiln::nn::", stringify!($pool), "::new(2).forward_with_indices(&kiln::Tensor::ones([2; ", $n, "]));")]
            #[doc = concat!("let x = kiln::nn::", stringify!($layer), "::new(2).forward(&y, &at);")]
            /// ```
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            #[track_caller]
            pub fn forward(&self, x: &Tensor, indices: &Tensor) -> Tensor {
                x.$method(indices, &self.pool)
            }
        }
    )* };
}

others! { norms
    /// The root of the sum of powers of each window of `[.., length]`.
    LPPool1d 1 lp_pool1d;
    /// The root of the sum of powers of each window of `[.., height, width]`.
    LPPool2d 2 lp_pool2d;
    /// The root of the sum of powers of each window of `[.., depth, height, width]`.
    LPPool3d 3 lp_pool3d;
}

others! { lengths
    /// Means of as many parts of `[.., length]` as the output has elements.
    AdaptiveAvgPool1d 1 adaptive_avg_pool1d;
    /// Means of as many parts of `[.., height, width]` as the output has elements.
    AdaptiveAvgPool2d 2 adaptive_avg_pool2d;
    /// Means of as many parts of `[.., depth, height, width]` as the output has elements.
    AdaptiveAvgPool3d 3 adaptive_avg_pool3d;
    /// The largest of as many parts of `[.., length]` as the output has elements.
    AdaptiveMaxPool1d 1 adaptive_max_pool1d;
    /// The largest of as many parts of `[.., height, width]` as the output has elements.
    AdaptiveMaxPool2d 2 adaptive_max_pool2d;
    /// The largest of as many parts of `[.., depth, height, width]` as the output has elements.
    AdaptiveMaxPool3d 3 adaptive_max_pool3d;
}

others! { back
    /// Zeros, but for the elements of a pooling of `[.., length]` back at their places.
    MaxUnpool1d 1 max_unpool1d MaxPool1d;
    /// Zeros, but for the elements of a pooling of `[.., height, width]` back at their places.
    MaxUnpool2d 2 max_unpool2d MaxPool2d;
    /// Zeros, but for the elements of a pooling of `[.., depth, height, width]` back at their places.
    MaxUnpool3d 3 max_unpool3d MaxPool3d;
}
