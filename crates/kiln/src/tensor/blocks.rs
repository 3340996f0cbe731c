//! Elements repeated, and axes cut into blocks or windows.

use super::Tensor;
use super::shape_args::{AxesArg, Int, ShapeArg, axis, holdable, new_shape, only_axis};
use super::window::{Window, slide};
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::UOp;
use kiln_ir::arg::{Axes, Shape};

/// Repetition.
impl Tensor {
    /// Each element `times` times along an axis; `..` repeats all elements, in row-major order.
    ///
    /// ```
    /// let t = kiln::Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(t.repeat_interleave(2, 1).to_vec::<i32>()?, [1, 1, 2, 2, 3, 3, 4, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there; several.
    #[must_use]
    #[track_caller]
    pub fn repeat_interleave(&self, times: usize, axis: impl AxesArg) -> Tensor {
        let repeat = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let flat: Shape = Shape::from_slice(&[x.numel()]);
            let x = if axis.numbers().is_none() { x.reshape(flat) } else { x };
            let axis = only_axis(axis, x.shape().len())?;
            let (mut column, mut result) = (x.shape().clone(), x.shape().clone());
            column.insert(axis + 1, 1);
            result[axis] = result[axis].saturating_mul(times);
            let mut spread = column.clone();
            spread[axis + 1] = times;
            let (spread, result) = (holdable(spread)?, holdable(result)?);
            Ok(x.reshape(column).expand(spread).reshape(result))
        };
        self.lift("repeat_interleave", repeat())
    }

    /// The whole tensor as often along each axis as `counts` says, as [`repeat`](Tensor::repeat), but fewer counts than axes
    /// are those of the last axes.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([[1], [2]]).tile([2]).to_vec::<i32>()?, [1, 1, 2, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A negative count.
    #[must_use]
    #[track_caller]
    pub fn tile(&self, counts: impl ShapeArg) -> Tensor {
        let _method = outermost("tile");
        let counts = match new_shape(counts) {
            Ok(counts) => counts,
            Err(fault) => return self.refused("tile", fault),
        };
        let ones = self.ndim().saturating_sub(counts.len());
        self.repeat(std::iter::repeat_n(1, ones).chain(counts).collect::<Shape>())
    }
}

/// Windows.
impl Tensor {
    /// Windows of `size` elements that start `step` elements apart along `axis`, which become a last axis.
    ///
    /// ```
    /// let t = kiln::Tensor::from([1, 2, 3, 4]).unfold(0, 2, 1);
    /// assert_eq!((t.shape(), t.to_vec::<i32>()?), (&[3, 2][..], vec![1, 2, 2, 3, 3, 4]));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A step of 0, a window that is empty or longer than the axis, an axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn unfold(&self, along: impl Int, size: usize, step: usize) -> Tensor {
        let unfold = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let (rank, axis) = (x.shape().len(), axis(along, x.shape().len())?);
            if size == 0 || step == 0 || size > x.shape()[axis] {
                return refuse!(
                    "no windows of {size} elements, {step} apart, along axis {axis} of {:?}",
                    x.shape()
                );
            }
            let windows = slide(&x, axis, Window { size, stride: step, dilation: 1 });
            let order: Axes = (0..=rank).filter(|&i| i != axis + 1).chain([axis + 1]).collect();
            Ok(windows.permute(order))
        };
        self.lift("unfold", unfold())
    }
}

/// Pixels and channels.
impl Tensor {
    /// `[.., channels * r * r, h, w]` as `[.., channels, h * r, w * r]`: each pixel becomes `r` by `r` of them.
    ///
    /// ```
    /// let t = kiln::Tensor::arange(4).reshape([4, 1, 1]).pixel_shuffle(2);
    /// assert_eq!((t.shape(), t.to_vec::<i32>()?), (&[1, 2, 2][..], vec![0, 1, 2, 3]));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than three axes; channels that `r * r` does not divide.
    #[must_use]
    #[track_caller]
    pub fn pixel_shuffle(&self, r: usize) -> Tensor {
        let shuffle = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let (outer, [c, h, w]) = image(x.shape())?;
            let block = r.saturating_mul(r);
            if block == 0 || c % block != 0 {
                return refuse!("{c} channels do not make blocks of {r} by {r}");
            }
            let split = x.reshape(joined(outer, &[c / block, r, r, h, w]));
            let n = outer.len();
            let order = joined(&(0..n).collect::<Vec<_>>(), &[n, n + 3, n + 1, n + 4, n + 2]);
            Ok(split
                .permute(Axes::from_slice(&order))
                .reshape(joined(outer, &[c / block, h * r, w * r])))
        };
        self.lift("pixel_shuffle", shuffle())
    }

    /// `[.., channels, h * r, w * r]` as `[.., channels * r * r, h, w]`: the way back from
    /// [`pixel_shuffle`](Tensor::pixel_shuffle).
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([1, 2, 4]).pixel_unshuffle(2).shape(), [4, 1, 2]);
    /// ```
    ///
    /// # Errors
    /// Fewer than three axes; a height or width that `r` does not divide.
    #[must_use]
    #[track_caller]
    pub fn pixel_unshuffle(&self, r: usize) -> Tensor {
        let shuffle = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let (outer, [c, h, w]) = image(x.shape())?;
            if r == 0 || h % r != 0 || w % r != 0 {
                return refuse!("{h} by {w} pixels do not make blocks of {r} by {r}");
            }
            let split = x.reshape(joined(outer, &[c, h / r, r, w / r, r]));
            let n = outer.len();
            let order = joined(&(0..n).collect::<Vec<_>>(), &[n, n + 2, n + 4, n + 1, n + 3]);
            Ok(split
                .permute(Axes::from_slice(&order))
                .reshape(joined(outer, &[c * r * r, h / r, w / r])))
        };
        self.lift("pixel_unshuffle", shuffle())
    }

    /// The channels, axis 1, dealt out: the first of each of `groups`, then the second of each.
    ///
    /// ```
    /// let t = kiln::Tensor::arange(4).reshape([1, 4]).channel_shuffle(2);
    /// assert_eq!(t.to_vec::<i32>()?, [0, 2, 1, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes; channels that the groups do not divide.
    #[must_use]
    #[track_caller]
    pub fn channel_shuffle(&self, groups: usize) -> Tensor {
        let shuffle = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let [batch, channels, rest @ ..] = x.shape().as_slice() else {
                return refuse!("wants at least two axes, not {:?}", x.shape());
            };
            if groups == 0 || channels % groups != 0 {
                return refuse!("{channels} channels do not make {groups} groups");
            }
            let split = x.reshape(joined(&[*batch, groups, channels / groups], rest));
            let order: Axes = [0, 2, 1].into_iter().chain(3..rest.len() + 3).collect();
            Ok(split.permute(order).reshape(x.shape().clone()))
        };
        self.lift("channel_shuffle", shuffle())
    }
}

/// The lengths before channels, height and width.
fn image(shape: &[usize]) -> Result<(&[usize], [usize; 3]), Fault> {
    match shape {
        [outer @ .., c, h, w] => Ok((outer, [*c, *h, *w])),
        _ => refuse!("wants at least three axes, not {shape:?}"),
    }
}

fn joined(a: &[usize], b: &[usize]) -> Shape {
    a.iter().chain(b).copied().collect()
}
