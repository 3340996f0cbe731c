//! Layers that move elements to other axes, or compare neighbours.

use super::Module;
use crate::args::{ShapeArg, SizesArg};
use crate::{ConvOptions, Padding, Tensor};

/// A layer with one number that wants axes, and its method.
macro_rules! moves {
    ($($(#[$doc:meta])+ $layer:ident($n:literal) $method:ident $from:literal $to:literal;)*) => { $(
        $(#[$doc])+
        ///
        /// ```
        #[doc = concat!("let y = kiln::nn::", stringify!($layer), "(", $n, ").forward(&kiln::Tensor::ones(", $from, "));")]
        #[doc = concat!("assert_eq!(y.shape(), ", $to, ");")]
        /// ```
        #[derive(Module, Clone, Copy, Debug)]
        pub struct $layer(pub usize);

        impl $layer {
            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            ///
            /// ```
            #[doc = concat!("let y = kiln::nn::", stringify!($layer), "(", $n, ").forward(&kiln::Tensor::ones(", $from, "));")]
            /// ```
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.0)
            }
        }
    )* };
}

moves! {
    /// Channels as finer planes: `[batch, channels * r * r, height, width]` to `[batch, channels, height * r, width * r]`.
    PixelShuffle(2) pixel_shuffle "[1, 8, 3, 3]" "[1, 2, 6, 6]";
    /// Planes as more channels: the inverse of [`PixelShuffle`].
    PixelUnshuffle(2) pixel_unshuffle "[1, 2, 6, 6]" "[1, 8, 3, 3]";
    /// Channels of so many groups in turn.
    ChannelShuffle(2) channel_shuffle "[1, 4, 3, 3]" "[1, 4, 3, 3]";
}

/// Windows as columns, or columns as windows.
macro_rules! columns {
    ($($(#[$doc:meta])+ $layer:ident($($lengths:ident: $example:literal)?) $method:ident $from:literal $to:literal;)*) => { $(
        $(#[$doc])+
        ///
        /// ```
        #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(", $($example, ", ",)? "2);")]
        #[doc = concat!("assert_eq!(layer.forward(&kiln::Tensor::ones(", $from, ")).shape(), ", $to, ");")]
        /// ```
        #[derive(Module, Clone, Debug)]
        pub struct $layer {
            $($lengths: Vec<i64>,)?
            kernel: Vec<i64>,
            #[module(skip)]
            options: ConvOptions,
        }

        impl $layer {
            /// Of windows of `kernel`, with stride 1 and no padding.
            ///
            /// ```
            #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(", $($example, ", ",)? "2);")]
            /// ```
            pub fn new($($lengths: impl SizesArg,)? kernel: impl SizesArg) -> $layer {
                $(let $lengths = $lengths.sizes().to_vec();)?
                $layer { $($lengths,)? kernel: kernel.sizes().to_vec(), options: ConvOptions::new() }
            }

            /// The layer with another distance between windows.
            ///
            /// ```
            #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(", $($example, ", ",)? "2).stride(2);")]
            /// ```
            pub fn stride(self, stride: impl SizesArg) -> $layer {
                $layer { options: self.options.stride(stride), ..self }
            }

            /// The layer with another distance between the elements of a window.
            ///
            /// ```
            #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(", $($example, ", ",)? "2).dilation(2);")]
            /// ```
            pub fn dilation(self, dilation: impl SizesArg) -> $layer {
                $layer { options: self.options.dilation(dilation), ..self }
            }

            /// The layer with zeros around the planes.
            ///
            /// ```
            #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(", $($example, ", ",)? "2).padding(1);")]
            /// ```
            pub fn padding(self, padding: impl Into<Padding>) -> $layer {
                $layer { options: self.options.padding(padding), ..self }
            }

            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            ///
            /// ```
            #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new(", $($example, ", ",)? "2);")]
            #[doc = concat!("let y = layer.forward(&kiln::Tensor::ones(", $from, "));")]
            /// ```
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($method), "`].")]
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.$method($(&self.$lengths,)? &self.kernel, &self.options)
            }
        }
    )* };
}

columns! {
    /// The windows of `[batch, channels, height, width]` as columns.
    Unfold() im2col "[1, 2, 3, 3]" "[1, 8, 4]";
    /// Columns added up where their windows lie.
    Fold(lengths: "3") fold "[1, 8, 4]" "[1, 2, 3, 3]";
}

/// One axis as several.
///
/// ```
/// let y = kiln::nn::Unflatten::new(1, [2, 3]).forward(&kiln::Tensor::ones([4, 6]));
/// assert_eq!(y.shape(), [4, 2, 3]);
/// ```
#[derive(Module, Clone, Debug)]
pub struct Unflatten {
    axis: i64,
    lengths: Vec<i64>,
}

impl Unflatten {
    /// `axis` as axes of these lengths, of which one may be -1.
    ///
    /// ```
    /// let layer = kiln::nn::Unflatten::new(-1, [2, -1]);
    /// ```
    pub fn new(axis: i64, lengths: impl ShapeArg) -> Unflatten {
        Unflatten { axis, lengths: lengths.lengths().to_vec() }
    }

    /// As [`Tensor::unflatten`].
    ///
    /// ```
    /// let y = kiln::nn::Unflatten::new(0, [2, 2]).forward(&kiln::Tensor::ones([4]));
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::unflatten`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.unflatten(self.axis, &self.lengths)
    }
}

/// Exponentials along the channels of `[.., channels, height, width]`, divided by their sum.
///
/// ```
/// let y = kiln::nn::Softmax2d.forward(&kiln::Tensor::ones([1, 2, 1, 1]));
/// assert_eq!(y.to_vec::<f32>()?, [0.5, 0.5]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Copy, Debug, Default)]
pub struct Softmax2d;

impl Softmax2d {
    /// As [`Tensor::softmax`].
    ///
    /// ```
    /// let y = kiln::nn::Softmax2d.forward(&kiln::Tensor::ones([2, 1, 1]));
    /// ```
    ///
    /// # Errors
    /// Fewer than three axes.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.softmax(-3)
    }
}

/// As [`Tensor::local_response_norm`]; PyTorch calls it `CrossMapLRN2d` too.
///
/// ```
/// let y = kiln::nn::LocalResponseNorm::new(3).forward(&kiln::Tensor::ones([1, 4, 2]));
/// assert_eq!(y.shape(), [1, 4, 2]);
/// ```
#[derive(Module, Clone, Copy, Debug)]
pub struct LocalResponseNorm {
    size: usize,
    alpha: f64,
    beta: f64,
    k: f64,
}

impl LocalResponseNorm {
    /// Of so many channels, with alpha 1e-4, beta 0.75 and k 1.
    ///
    /// ```
    /// let layer = kiln::nn::LocalResponseNorm::new(5);
    /// ```
    pub fn new(size: usize) -> LocalResponseNorm {
        LocalResponseNorm { size, alpha: 1e-4, beta: 0.75, k: 1.0 }
    }

    /// With other numbers.
    ///
    /// ```
    /// let layer = kiln::nn::LocalResponseNorm::new(5).with(1e-3, 0.5, 2.0);
    /// ```
    pub fn with(self, alpha: f64, beta: f64, k: f64) -> LocalResponseNorm {
        LocalResponseNorm { alpha, beta, k, ..self }
    }

    /// As [`Tensor::local_response_norm`].
    ///
    /// ```
    /// let y = kiln::nn::LocalResponseNorm::new(1).forward(&kiln::Tensor::ones([1, 4, 2]));
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::local_response_norm`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.local_response_norm(self.size, self.alpha, self.beta, self.k)
    }
}

/// The cosine of the angle between vectors along an axis.
///
/// ```
/// use kiln::{Tensor, nn::CosineSimilarity};
/// let x = Tensor::from([3.0f32, 4.0]);
/// assert!((CosineSimilarity(0).forward(&x, &x).item::<f32>()? - 1.0).abs() < 1e-6);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Copy, Debug)]
pub struct CosineSimilarity(pub isize);

impl CosineSimilarity {
    /// As [`Tensor::cosine_similarity`].
    ///
    /// ```
    /// let x = kiln::Tensor::ones([2, 3]);
    /// assert_eq!(kiln::nn::CosineSimilarity(1).forward(&x, &x).shape(), [2]);
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::cosine_similarity`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor, other: &Tensor) -> Tensor {
        x.cosine_similarity(other, self.0)
    }
}

/// The `p`-norm of the difference of vectors along the last axis.
///
/// ```
/// use kiln::{Tensor, nn::PairwiseDistance};
/// let x = Tensor::zeros([1, 2]);
/// let y = PairwiseDistance(2.0).forward(&x, &Tensor::from([[3.0f32, 4.0]]));
/// assert!((y.item::<f32>()? - 5.0).abs() < 1e-5);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Module, Clone, Copy, Debug)]
pub struct PairwiseDistance(pub f64);

impl PairwiseDistance {
    /// As [`Tensor::pairwise_distance`].
    ///
    /// ```
    /// let x = kiln::Tensor::ones([2, 3]);
    /// assert_eq!(kiln::nn::PairwiseDistance(1.0).forward(&x, &x).shape(), [2]);
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::pairwise_distance`].
    #[track_caller]
    pub fn forward(&self, x: &Tensor, other: &Tensor) -> Tensor {
        x.pairwise_distance(other, self.0)
    }
}
