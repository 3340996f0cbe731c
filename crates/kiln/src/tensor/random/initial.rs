//! Random numbers between bounds, around a mean, and as layers start with them.

use super::{Rng, SHARED};
use crate::tensor::shape_args::{ShapeArg, new_shape};
use crate::tensor::{Options, Tensor};

/// How many numbers of an input each output of a layer is made of: the product of all lengths but the first.
fn inputs(shape: &[usize]) -> f64 {
    shape.iter().skip(1).product::<usize>().max(1) as f64
}

/// How many inputs and outputs a layer has, as they are counted for its weight.
fn inputs_and_outputs(shape: &[usize]) -> f64 {
    shape.first().map_or(1.0, |&n| n as f64) + inputs(shape)
}

/// The gain of a leaky rectifier with this slope.
fn gain(slope: f64) -> f64 {
    (2.0 / (1.0 + slope * slope)).sqrt()
}

impl Rng {
    /// Uniform in `[-bound, bound)`, with the bound that `bound` makes of the shape.
    #[track_caller]
    fn scaled(&self, shape: impl ShapeArg, bound: impl FnOnce(&[usize]) -> f64) -> Tensor {
        let bound = new_shape(&shape).map_or(0.0, |shape| bound(&shape));
        self.uniform(-bound, bound, shape)
    }

    /// Uniform from `low` to `high`, which only rounding may reach, of a float dtype, on a device.
    ///
    /// ```
    /// use kiln::{DType, Rng};
    /// assert_eq!(Rng::new(0).uniform_with(-1.0, 1.0, [4], DType::F64).dtype(), DType::F64);
    /// ```
    ///
    /// # Errors
    /// A dtype that is no float.
    #[must_use]
    #[track_caller]
    pub fn uniform_with(
        &self,
        low: f64,
        high: f64,
        shape: impl ShapeArg,
        options: impl Into<Options>,
    ) -> Tensor {
        self.rand_with(shape, options).mul(high - low).add(low)
    }

    /// Normal with a mean and a standard deviation, of a float dtype, on a device.
    ///
    /// ```
    /// use kiln::{DType, Rng};
    /// assert_eq!(Rng::new(0).normal_with(1.0, 2.0, [4], DType::F16).dtype(), DType::F16);
    /// ```
    ///
    /// # Errors
    /// A dtype that is no float.
    #[must_use]
    #[track_caller]
    pub fn normal_with(
        &self,
        mean: f64,
        std: f64,
        shape: impl ShapeArg,
        options: impl Into<Options>,
    ) -> Tensor {
        self.randn_with(shape, options).mul(std).add(mean)
    }
}

macro_rules! draws {
    ($($(#[doc = $doc:literal])+ $name:ident($($arg:ident: $type:ty = $value:literal),*) |$rng:ident, $shape:ident| $draw:expr;)*) => {
        /// More random tensors, each of the next numbers of this sequence; f32.
        impl Rng { $(
            $(#[doc = $doc])+
            #[doc = concat!("\n```\nlet t = kiln::Rng::new(0).", stringify!($name), "(", $($value, ", ",)* "[2, 3]);")]
            #[doc = "assert_eq!(t.shape(), [2, 3]);\n```"]
            #[must_use]
            #[track_caller]
            pub fn $name(&self, $($arg: $type,)* shape: impl ShapeArg) -> Tensor {
                let ($rng, $shape) = (self, shape);
                $draw
            }
        )* }

        /// More random tensors, each drawn from the sequence that [`manual_seed`](crate::manual_seed) starts; f32.
        impl Tensor { $(
            $(#[doc = $doc])+
            #[doc = concat!("\n```\nlet t = kiln::Tensor::", stringify!($name), "(", $($value, ", ",)* "[2, 3]);")]
            #[doc = "assert_eq!(t.shape(), [2, 3]);\n```"]
            #[must_use]
            #[track_caller]
            pub fn $name($($arg: $type,)* shape: impl ShapeArg) -> Tensor {
                SHARED.$name($($arg,)* shape)
            }
        )* }
    };
}

draws! {
    /// Uniform from `low` to `high`, which only rounding may reach.
    uniform(low: f64 = "-1.0", high: f64 = "1.0") |rng, shape| rng.uniform_with(low, high, shape, ());
    /// Normal with a mean and a standard deviation.
    normal(mean: f64 = "0.0", std: f64 = "2.0") |rng, shape| rng.normal_with(mean, std, shape, ());
    /// Uniform between -1 and 1, over the root of the number of elements.
    scaled_uniform() |rng, shape| rng.scaled(shape, |s| (s.iter().product::<usize>().max(1) as f64).sqrt().recip());
    /// Uniform as Glorot and Bengio have it: up to the root of 6 over the numbers of inputs and outputs of a weight
    /// `[outputs, inputs, ..]`.
    glorot_uniform() |rng, shape| rng.scaled(shape, |s| (6.0 / inputs_and_outputs(s)).sqrt());
    /// Normal as Glorot and Bengio have it: the root of 2 over the numbers of inputs and outputs of a weight
    /// `[outputs, inputs, ..]` is the standard deviation.
    glorot_normal() |rng, shape| {
        let std = new_shape(&shape).map_or(0.0, |s| (2.0 / inputs_and_outputs(&s)).sqrt());
        rng.normal(0.0, std, shape)
    };
    /// Uniform as He and others have it for layers before a rectifier that multiplies by `slope` below 0: up to its gain times
    /// the root of 3 over the number of inputs of a weight `[outputs, inputs, ..]`.
    kaiming_uniform(slope: f64 = "0.01") |rng, shape| rng.scaled(shape, |s| gain(slope) * (3.0 / inputs(s)).sqrt());
    /// Normal as He and others have it for layers before a rectifier that multiplies by `slope` below 0: its gain over the
    /// root of the number of inputs of a weight `[outputs, inputs, ..]` is the standard deviation.
    kaiming_normal(slope: f64 = "0.01") |rng, shape| {
        let std = new_shape(&shape).map_or(0.0, |s| gain(slope) / inputs(&s).sqrt());
        rng.normal(0.0, std, shape)
    };
}
