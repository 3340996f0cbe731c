//! More axes, fewer axes, and tensors put together along new ones.

use super::Tensor;
use super::shape_args::{self, Int, ShapeArg};
use crate::error::refuse;
use crate::origin::outermost;
use kiln_ir::arg::Shape;
use std::borrow::Borrow;

/// Shapes.
impl Tensor {
    /// Same as [`reshape`](Tensor::reshape): it always is a view.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::arange(6).view([2, -1]).shape(), [2, 3]);
    /// ```
    ///
    /// # Errors
    /// A shape of another number of elements.
    #[must_use]
    #[track_caller]
    pub fn view(&self, shape: impl ShapeArg) -> Tensor {
        self.reshape(shape)
    }

    /// The axes from `first` to `last`, both included, as one.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3, 4, 5]).flatten_axes(1, 2).shape(), [2, 12, 5]);
    /// ```
    ///
    /// # Errors
    /// An axis that is not there, a last one before the first.
    #[must_use]
    #[track_caller]
    pub fn flatten_axes(&self, first: impl Int, last: impl Int) -> Tensor {
        self.alias("flatten_axes", |v| {
            // a scalar has one element along the axis that it gets
            let shape = if v.shape().is_empty() { &[1][..] } else { v.shape() };
            let (first, last) =
                (shape_args::axis(first, shape.len())?, shape_args::axis(last, shape.len())?);
            if last < first {
                return refuse!("axis {last} is before axis {first}");
            }
            let middle: usize = shape[first..=last].iter().product();
            Ok(v.reshape([&shape[..first], &[middle], &shape[last + 1..]].concat().into()))
        })
    }

    /// Same as [`expand`](Tensor::expand).
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2]).broadcast_to([3, 2]).shape(), [3, 2]);
    /// ```
    ///
    /// # Errors
    /// A length that is neither 1 nor the new one.
    #[must_use]
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl ShapeArg) -> Tensor {
        let _method = outermost("broadcast_to");
        self.expand(shape)
    }

    /// A scalar as one axis.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from(7).atleast_1d().shape(), [1]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn atleast_1d(&self) -> Tensor {
        self.ranked("atleast_1d", |shape| match *shape {
            [] => vec![1],
            _ => shape.to_vec(),
        })
    }

    /// Axes added in front until there are two.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([7, 8]).atleast_2d().shape(), [1, 2]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn atleast_2d(&self) -> Tensor {
        self.ranked("atleast_2d", |shape| match *shape {
            [] => vec![1, 1],
            [n] => vec![1, n],
            _ => shape.to_vec(),
        })
    }

    /// Axes added until there are three: one axis is in the middle, two are the first two.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([7, 8]).atleast_3d().shape(), [1, 2, 1]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn atleast_3d(&self) -> Tensor {
        self.ranked("atleast_3d", |shape| match *shape {
            [] => vec![1, 1, 1],
            [n] => vec![1, n, 1],
            [rows, columns] => vec![rows, columns, 1],
            _ => shape.to_vec(),
        })
    }

    #[track_caller]
    fn ranked(&self, op: &'static str, shape: impl FnOnce(&[usize]) -> Vec<usize>) -> Tensor {
        self.alias(op, |v| Ok(v.reshape(Shape::from_vec(shape(v.shape())))))
    }
}

/// Tensors made into one; an iterator of `Tensor` or `&Tensor`.
impl Tensor {
    /// Tensors side by side: along axis 1, or along the only axis.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::hstack([Tensor::from([[1], [2]]), Tensor::from([[3], [4]])]);
    /// assert_eq!(t.to_vec::<i32>()?, [1, 3, 2, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`cat`](Tensor::cat).
    #[must_use]
    #[track_caller]
    pub fn hstack<T: Borrow<Tensor>>(tensors: impl IntoIterator<Item = T>) -> Tensor {
        let _method = outermost("hstack");
        let mut all = Vec::new();
        for t in tensors {
            all.push(t.borrow().atleast_1d());
        }
        let axis = usize::from(all.first().is_some_and(|t| t.ndim() > 1));
        Tensor::cat(all, axis)
    }

    /// Tensors below each other, along axis 0; one axis is a row.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::vstack([Tensor::from([1, 2]), Tensor::from([3, 4])]);
    /// assert_eq!(t.shape(), [2, 2]);
    /// ```
    ///
    /// # Errors
    /// As [`cat`](Tensor::cat).
    #[must_use]
    #[track_caller]
    pub fn vstack<T: Borrow<Tensor>>(tensors: impl IntoIterator<Item = T>) -> Tensor {
        let _method = outermost("vstack");
        let mut all = Vec::new();
        for t in tensors {
            all.push(t.borrow().atleast_2d());
        }
        Tensor::cat(all, 0)
    }

    /// Tensors behind each other, along axis 2, as [`atleast_3d`](Tensor::atleast_3d) makes one.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::dstack([Tensor::from([1, 2]), Tensor::from([3, 4])]);
    /// assert_eq!((t.shape(), t.to_vec::<i32>()?), (&[1, 2, 2][..], vec![1, 3, 2, 4]));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`cat`](Tensor::cat).
    #[must_use]
    #[track_caller]
    pub fn dstack<T: Borrow<Tensor>>(tensors: impl IntoIterator<Item = T>) -> Tensor {
        let _method = outermost("dstack");
        let mut all = Vec::new();
        for t in tensors {
            all.push(t.borrow().atleast_3d());
        }
        Tensor::cat(all, 2)
    }
}
