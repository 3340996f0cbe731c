//! A number for each axis that windows slide along, or one for all of them.

use super::shape_args::{Lengths, ShapeArg};
use crate::error::{Fault, refuse};
use smallvec::SmallVec;

/// A number for all axes that something slides along, or one for each: `1`, `[1, 2]`, `(1, 2)`, `(1, 2, 3)`, a slice or a
/// `Vec`.
pub trait SizesArg {
    #[doc(hidden)]
    fn sizes(&self) -> Lengths;
}

impl<S: ShapeArg> SizesArg for S {
    fn sizes(&self) -> Lengths {
        self.lengths()
    }
}

/// A number for each of up to three axes.
pub(crate) type Sizes = SmallVec<[usize; 3]>;

/// A number for each of `n` axes, each at least `least`.
pub(crate) fn per_axis(what: &str, sizes: &[i64], n: usize, least: i64) -> Result<Sizes, Fault> {
    if sizes.iter().any(|&s| s < least) {
        return refuse!("{what} {sizes:?} must be at least {least}");
    }
    match sizes {
        [one] => Ok((0..n).map(|_| *one as usize).collect()),
        all if all.len() == n => Ok(all.iter().map(|&s| s as usize).collect()),
        _ => refuse!("{what} {sizes:?} is neither one number nor one for each of {n} axes"),
    }
}
