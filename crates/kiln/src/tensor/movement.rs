//! Views: other shapes and orders of the same storage. Each sees later writes, and writes through.

use super::Tensor;
use super::shape_args::{self, AxesArg, Int, ShapeArg};
use super::view::Slices;
use crate::error::refuse;
use kiln_ir::DType;
use kiln_ir::arg::{Axes, Shape, SliceAxis};

/// Shapes.
impl Tensor {
    /// The same elements in row-major order under another shape; one length may be -1.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::arange(6).reshape([2, -1]).shape(), [2, 3]);
    /// ```
    ///
    /// # Errors
    /// A shape of another number of elements.
    #[must_use]
    #[track_caller]
    pub fn reshape(&self, shape: impl ShapeArg) -> Tensor {
        self.alias("reshape", |v| {
            let named = shape_args::named(&shape)?;
            Ok(v.reshape(shape_args::reshaped(shape, v.shape())?).named(&named))
        })
    }

    /// All elements along one axis.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3]).flatten().shape(), [6]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn flatten(&self) -> Tensor {
        self.alias("flatten", |v| Ok(v.reshape(Shape::from_slice(&[v.shape().iter().product()]))))
    }

    /// The axes from `axis` on as one.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3, 4]).flatten_from(1).shape(), [2, 12]);
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn flatten_from(&self, axis: impl Int) -> Tensor {
        self.alias("flatten_from", |v| {
            let axis = shape_args::axis(axis, v.shape().len())?;
            let (kept, rest) = v.shape().split_at(axis);
            Ok(v.reshape(kept.iter().copied().chain([rest.iter().product()]).collect()))
        })
    }

    /// One axis as several, whose product is its length; one may be -1.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 6]).unflatten(1, [2, -1]).shape(), [2, 2, 3]);
    /// ```
    ///
    /// # Errors
    /// An axis that is not there, or lengths that do not give its length.
    #[must_use]
    #[track_caller]
    pub fn unflatten(&self, axis: impl Int, lengths: impl ShapeArg) -> Tensor {
        self.alias("unflatten", |v| {
            let axis = shape_args::axis(axis, v.shape().len())?;
            let middle = shape_args::reshaped(lengths, &v.shape()[axis..=axis])?;
            let (before, after) = (&v.shape()[..axis], &v.shape()[axis + 1..]);
            Ok(v.reshape([before, &middle, after].concat().into()))
        })
    }

    /// An axis of length 1 added at `axis`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3]).unsqueeze(-1).shape(), [2, 3, 1]);
    /// ```
    ///
    /// # Errors
    /// An axis past the end.
    #[must_use]
    #[track_caller]
    pub fn unsqueeze(&self, axis: impl Int) -> Tensor {
        self.alias("unsqueeze", |v| {
            let mut shape = v.shape().clone();
            shape.insert(shape_args::axis(axis, shape.len() + 1)?, 1);
            Ok(v.reshape(shape))
        })
    }

    /// Those of `axes` that have length 1 dropped; `..` drops every such axis.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([1, 3, 1]).squeeze(0).shape(), [3, 1]);
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn squeeze(&self, axes: impl AxesArg) -> Tensor {
        self.alias("squeeze", |v| {
            let axes = shape_args::axes(axes, v.shape().len())?;
            let keep = |(i, &n): (usize, &usize)| (n != 1 || !axes.contains(&i)).then_some(n);
            Ok(v.reshape(v.shape().iter().enumerate().filter_map(keep).collect()))
        })
    }

    /// Axes of length 1 repeated, and axes added in front, without copying; -1 keeps a length.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2]).expand([2, -1]).to_vec::<i32>()?, [1, 2, 1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A length that is neither 1 nor the new one.
    #[must_use]
    #[track_caller]
    pub fn expand(&self, shape: impl ShapeArg) -> Tensor {
        self.alias("expand", |v| {
            let named = shape_args::named(&shape)?;
            Ok(v.expand(shape_args::expanded(shape, v.shape())?).named(&named))
        })
    }
}

/// Orders.
impl Tensor {
    /// Axis `i` of the result is axis `axes[i]`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3, 4]).permute([2, 0, 1]).shape(), [4, 2, 3]);
    /// ```
    ///
    /// # Errors
    /// Axes that do not name every axis once.
    #[must_use]
    #[track_caller]
    pub fn permute(&self, axes: impl AxesArg) -> Tensor {
        self.alias("permute", |v| {
            let rank = v.shape().len();
            let axes = shape_args::axes_in_order(axes, rank)?;
            if axes.len() != rank {
                return refuse!("{axes:?} does not name each of {rank} axes once");
            }
            Ok(v.permute(axes))
        })
    }

    /// Two axes exchanged.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3, 4]).transpose(0, -1).shape(), [4, 3, 2]);
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn transpose(&self, a: impl Int, b: impl Int) -> Tensor {
        self.alias("transpose", |v| {
            let rank = v.shape().len();
            let mut axes: Axes = (0..rank).collect();
            axes.swap(shape_args::axis(a, rank)?, shape_args::axis(b, rank)?);
            Ok(v.permute(axes))
        })
    }

    /// The elements along `axes` in opposite order.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2, 3]).flip(0).to_vec::<i32>()?, [3, 2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn flip(&self, axes: impl AxesArg) -> Tensor {
        self.alias("flip", |v| {
            let axes = shape_args::axes(axes, v.shape().len())?;
            let slice = |(i, &len): (usize, &usize)| match len {
                2.. if axes.contains(&i) => SliceAxis { start: len - 1, step: -1, len },
                _ => SliceAxis::full(len),
            };
            Ok(v.slice(v.shape().iter().enumerate().map(slice).collect()))
        })
    }

    /// `len` elements of `axis` from `start` on, `step` apart; the caller knows that they are there.
    pub(super) fn section(&self, axis: usize, start: usize, step: isize, len: usize) -> Tensor {
        self.alias("section", |v| {
            let mut slices: Slices = v.shape().iter().map(|&n| SliceAxis::full(n)).collect();
            slices[axis] = SliceAxis { start, step, len };
            Ok(v.slice(slices))
        })
    }
}

/// Bits.
impl Tensor {
    /// The same bits read as another dtype; between sizes the last axis grows or shrinks.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// assert_eq!(Tensor::from([1.0f32]).bitcast(DType::U32).to_vec::<u32>()?, [0x3f80_0000]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A last axis that has no whole number of the new elements.
    #[must_use]
    #[track_caller]
    pub fn bitcast(&self, dtype: DType) -> Tensor {
        self.alias("bitcast", |v| v.bitcast(dtype))
    }

    /// The same storage without a gradient.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1]).detach().to_vec::<i32>()?, [1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn detach(&self) -> Tensor {
        Tensor { detached: true, ..self.clone() }
    }
}
