//! Layers that put elements around their input.

use super::Module;
use crate::error::{Fault, refuse};
use crate::{PadMode, Padding, Tensor};

/// What is before and after the elements of each axis: of the last `n` as `padding` says.
fn around(x: &Tensor, padding: &Padding, n: usize) -> Result<Vec<(i64, i64)>, Fault> {
    let sides: Vec<(i64, i64)> = match padding {
        Padding::Explicit(both) if both.len() == 1 => vec![(both[0], both[0]); n],
        Padding::Explicit(both) => both.iter().map(|&p| (p, p)).collect(),
        Padding::Sides(sides) => sides.clone(),
        Padding::Same => return refuse!("there are no windows to keep a length under"),
    };
    match x.ndim().checked_sub(n) {
        Some(first) if sides.len() == n => Ok([vec![(0, 0); first], sides].concat()),
        _ => refuse!("padding {sides:?} does not fit {:?} and {n} axes", x.shape()),
    }
}

/// Layers over so many axes.
macro_rules! borders {
    ($($what:literal $mode:expr; $($layer:ident $n:literal)*;)*) => { $($(
        #[doc = concat!("Puts ", $what, " around the last axes, of which this layer has ", $n, ": as many at all sides, a number for each")]
        /// axis, or pairs of what comes before and after. Negative numbers take elements off.
        ///
        /// ```
        #[doc = concat!("let y = kiln::nn::", stringify!($layer), "::new(1).forward(&kiln::Tensor::ones([3; ", $n, " + 1]));")]
        #[doc = concat!("assert_eq!(y.shape()[1..], [5; ", $n, "]);")]
        /// ```
        #[derive(Module, Clone, Debug)]
        pub struct $layer {
            #[module(skip)]
            padding: Padding,
        }

        impl $layer {
            /// With so much at each side.
            ///
            /// ```
            #[doc = concat!("let layer = kiln::nn::", stringify!($layer), "::new([(1, 0); ", $n, "]);")]
            /// ```
            pub fn new(padding: impl Into<Padding>) -> $layer {
                $layer { padding: padding.into() }
            }

            /// The larger `x`.
            ///
            /// ```
            #[doc = concat!("let y = kiln::nn::", stringify!($layer), "::new(1).forward(&kiln::Tensor::ones([3; ", $n, "]));")]
            /// ```
            ///
            /// # Errors
            /// Padding for another number of axes; more than the axis has to mirror or repeat.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                let mode: Option<PadMode> = $mode;
                match (around(x, &self.padding, $n), mode) {
                    (Ok(pads), None) => x.pad(pads),
                    (Ok(pads), Some(mode)) => x.pad_mode(pads, mode),
                    (Err(fault), _) => Tensor::broken(fault.at(stringify!($layer))),
                }
            }
        }
    )*)* };
}

borders! {
    "zeros" None; ZeroPad1d 1 ZeroPad2d 2 ZeroPad3d 3;
    "mirrored elements" Some(PadMode::Reflect); ReflectionPad1d 1 ReflectionPad2d 2 ReflectionPad3d 3;
    "the outermost elements" Some(PadMode::Replicate); ReplicationPad1d 1 ReplicationPad2d 2 ReplicationPad3d 3;
    "the elements of the other end" Some(PadMode::Circular); CircularPad1d 1 CircularPad2d 2 CircularPad3d 3;
}
