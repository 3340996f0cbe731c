//! Views with axes exchanged or turned, and elements moved along axes.

use super::Tensor;
use super::shape_args::{self, AxesArg, Int, ShapeArg};
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::arg::Axes;

/// The axes of `rank` in the order that moves each of `from` to its place in `to`; the others fill up.
fn moved(from: impl AxesArg, to: impl AxesArg, rank: usize) -> Result<Axes, Fault> {
    let from = shape_args::axes_in_order(from, rank)?;
    let to = shape_args::axes_in_order(to, rank)?;
    if from.len() != to.len() {
        return refuse!("{} axes do not move to {} places", from.len(), to.len());
    }
    let mut others = (0..rank).filter(|i| !from.contains(i));
    let at = |i: usize| match to.iter().position(|&t| t == i) {
        Some(place) => Some(from[place]),
        None => others.next(),
    };
    Ok((0..rank).map(at).collect::<Option<Axes>>().expect("as many axes as places"))
}

/// Orders of axes.
impl Tensor {
    /// The transpose of a matrix; one axis or none stay as they are.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([[1, 2], [3, 4]]).t().to_vec::<i32>()?, [1, 3, 2, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// More than two axes.
    #[must_use]
    #[track_caller]
    pub fn t(&self) -> Tensor {
        self.alias("t", |v| match v.shape().len() {
            0 | 1 => Ok(v.clone()),
            2 => Ok(v.permute(Axes::from_slice(&[1, 0]))),
            _ => refuse!("wants at most two axes, not {:?}", v.shape()),
        })
    }

    /// Same as [`transpose`](Tensor::transpose).
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3, 4]).swapaxes(0, -1).shape(), [4, 3, 2]);
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn swapaxes(&self, a: impl Int, b: impl Int) -> Tensor {
        self.transpose(a, b)
    }

    /// The axes `from` moved to the places `to`; the others keep their order.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3, 4]).movedim(0, -1).shape(), [3, 4, 2]);
    /// ```
    ///
    /// # Errors
    /// Axes that are not there or are named twice; another number of places than axes.
    #[must_use]
    #[track_caller]
    pub fn movedim(&self, from: impl AxesArg, to: impl AxesArg) -> Tensor {
        self.alias("movedim", |v| Ok(v.permute(moved(from, to, v.shape().len())?)))
    }

    /// Same as [`movedim`](Tensor::movedim).
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3, 4]).moveaxis([0, 1], [1, 2]).shape(), [4, 2, 3]);
    /// ```
    ///
    /// # Errors
    /// As [`movedim`](Tensor::movedim).
    #[must_use]
    #[track_caller]
    pub fn moveaxis(&self, from: impl AxesArg, to: impl AxesArg) -> Tensor {
        self.movedim(from, to)
    }
}

/// Orders of elements.
impl Tensor {
    /// The columns, along axis 1, in opposite order.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([[1, 2], [3, 4]]).fliplr().to_vec::<i32>()?, [2, 1, 4, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes.
    #[must_use]
    #[track_caller]
    pub fn fliplr(&self) -> Tensor {
        let _method = outermost("fliplr");
        self.flip(1)
    }

    /// The rows, along axis 0, in opposite order.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([[1, 2], [3, 4]]).flipud().to_vec::<i32>()?, [3, 4, 1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// No axis.
    #[must_use]
    #[track_caller]
    pub fn flipud(&self) -> Tensor {
        let _method = outermost("flipud");
        self.flip(0)
    }

    /// The plane of axes `a` and `b` turned `times` times by a right angle, from `a` towards `b`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([[1, 2], [3, 4]]).rot90(1, 0, 1).to_vec::<i32>()?, [2, 4, 1, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Axes that are not there or the same.
    #[must_use]
    #[track_caller]
    pub fn rot90(&self, times: impl Int, a: impl Int, b: impl Int) -> Tensor {
        let _method = outermost("rot90");
        match times.as_i64().rem_euclid(4) {
            1 => self.flip([b.as_i64()]).turned(a, b),
            2 => self.flip([a.as_i64(), b.as_i64()]),
            3 => self.turned(a, b).flip([b.as_i64()]),
            _ => self.turned(a, b).transpose(a, b),
        }
    }

    /// Two axes, which differ, exchanged.
    #[track_caller]
    fn turned(&self, a: impl Int, b: impl Int) -> Tensor {
        self.alias("rot90", |v| {
            let rank = v.shape().len();
            let both = shape_args::axes_in_order([a.as_i64(), b.as_i64()], rank)?;
            let mut axes: Axes = (0..rank).collect();
            axes.swap(both[0], both[1]);
            Ok(v.permute(axes))
        })
    }

    /// The elements moved on by `shifts` along `axes`; what passes the end starts again at the beginning. `..` moves through
    /// all elements in row-major order.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2, 3, 4]).roll(1, 0).to_vec::<i32>()?, [4, 1, 2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Axes that are not there or are named twice; another number of shifts than axes.
    #[must_use]
    #[track_caller]
    pub fn roll(&self, shifts: impl ShapeArg, axes: impl AxesArg) -> Tensor {
        let _method = outermost("roll");
        let shifts = shifts.lengths();
        if axes.numbers().is_none() && shifts.len() == 1 {
            return self.flatten().rolled(shifts[0], 0).reshape(self.shape());
        }
        let axes = match shape_args::axes_in_order(axes, self.ndim()) {
            Ok(axes) => axes,
            Err(fault) => return self.refused("roll", fault),
        };
        if axes.len() != shifts.len() {
            let why = format!("{} shifts for {} axes", shifts.len(), axes.len());
            return self.refused("roll", why.into());
        }
        let mut rolled = self.copy();
        for (&shift, &axis) in shifts.iter().zip(&axes) {
            rolled = rolled.rolled(shift, axis);
        }
        rolled
    }

    #[track_caller]
    fn rolled(&self, shift: i64, axis: usize) -> Tensor {
        let n = self.shape().get(axis).copied().unwrap_or(0);
        let first = if n == 0 { 0 } else { shift.rem_euclid(n as i64) as usize };
        if first == 0 || self.error().is_some() {
            return self.copy();
        }
        let (end, start) =
            (self.section(axis, n - first, 1, first), self.section(axis, 0, 1, n - first));
        Tensor::cat([end, start], axis)
    }

    /// The error that this carries, or else `fault`.
    #[track_caller]
    pub(super) fn refused(&self, op: &'static str, fault: Fault) -> Tensor {
        match self.error() {
            Some(error) => Tensor::broken(error),
            None => Tensor::broken(fault.at(op)),
        }
    }
}
