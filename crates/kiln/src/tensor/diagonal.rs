//! Diagonals of matrices, and matrices made of them.

use super::Tensor;
use super::reduce::positions;
use super::shape_args::{Int, axis, holdable};
use super::view::View;
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::arg::{Axes, PadAxis, Shape, SliceAxis};
use kiln_ir::{DType, UOp};
use std::borrow::Borrow;

/// Two different axes of `rank`.
fn two_axes(a: impl Int, b: impl Int, rank: usize) -> Result<[usize; 2], Fault> {
    match [axis(a, rank)?, axis(b, rank)?] {
        [a, b] if a == b => refuse!("axis {a} is named twice"),
        both => Ok(both),
    }
}

/// Axes in order, with `last` moved to the end.
fn moved_last(rank: usize, last: [usize; 2]) -> Axes {
    (0..rank).filter(|i| !last.contains(i)).chain(last).collect()
}

/// The diagonal of the last two axes: every so many-th element of the rows that it meets, one after the other.
fn diagonal_of(v: &View, offset: i64) -> View {
    let (outer, matrix) = v.shape().split_at(v.shape().len() - 2);
    let [rows, columns] = [matrix[0], matrix[1]];
    let below = usize::try_from(offset.saturating_neg()).unwrap_or(0).min(rows);
    let right = usize::try_from(offset).unwrap_or(0).min(columns);
    let len = (rows - below).min(columns - right);
    let full = |shape: &[usize]| shape.iter().map(|&n| SliceAxis::full(n)).collect::<Vec<_>>();
    let with = |last: &[SliceAxis]| [&full(outer), last].concat().into();
    let met = SliceAxis { start: if len == 0 { 0 } else { below }, step: 1, len };
    let flat: Shape = outer.iter().copied().chain([len * columns]).collect();
    let step = if len > 1 { columns as isize + 1 } else { 1 };
    let on = SliceAxis { start: if len == 0 { 0 } else { right }, step, len };
    v.slice(with(&[met, SliceAxis::full(columns)])).reshape(flat).slice(with(&[on]))
}

/// A last axis as the diagonal of a square matrix.
fn embedded(x: &UOp, offset: i64) -> Result<UOp, Fault> {
    let (rank, len) = (x.shape().len(), x.shape()[x.shape().len() - 1]);
    let side = len.saturating_add(usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX));
    let mut shape = x.shape().clone();
    shape[rank - 1] = side;
    shape.push(side);
    let shape = holdable(shape)?;
    let mut pads = vec![PadAxis::default(); rank];
    pads[rank - 1].before = offset.min(0).unsigned_abs() as usize;
    pads[rank - 1].after = offset.max(0) as usize;
    let mut column = shape.clone();
    column[rank] = 1;
    let spread = x.pad(&pads).reshape(column).expand(shape.clone());
    let shifted = positions(&shape, rank - 1) + UOp::constant(offset, DType::I32);
    Ok(shifted.eq_(&positions(&shape, rank)).where_(&spread, &UOp::constant(0, x.dtype())))
}

/// Diagonals.
impl Tensor {
    /// The diagonal of axes `a` and `b`, `offset` to the right of the main one (negative: below), as a last axis. A view.
    ///
    /// ```
    /// let t = kiln::Tensor::arange(9).reshape([3, 3]);
    /// assert_eq!(t.diagonal(0, 0, 1).to_vec::<i32>()?, [0, 4, 8]);
    /// assert_eq!(t.diagonal(1, 0, 1).to_vec::<i32>()?, [1, 5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Axes that are not there or the same.
    #[must_use]
    #[track_caller]
    pub fn diagonal(&self, offset: impl Int, a: impl Int, b: impl Int) -> Tensor {
        self.alias("diagonal", |v| {
            let rank = v.shape().len();
            let matrix = v.permute(moved_last(rank, two_axes(a, b, rank)?));
            Ok(diagonal_of(&matrix, offset.as_i64()))
        })
    }

    /// Of a matrix its `offset`-th diagonal; of one axis a square matrix that has it there and 0 elsewhere.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2]).diag(0).to_vec::<i32>()?, [1, 0, 0, 2]);
    /// assert_eq!(kiln::Tensor::from([[1, 2], [3, 4]]).diag(-1).to_vec::<i32>()?, [3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Neither one axis nor two.
    #[must_use]
    #[track_caller]
    pub fn diag(&self, offset: impl Int) -> Tensor {
        let _method = outermost("diag");
        match self.ndim() {
            _ if self.error().is_some() => self.clone(),
            1 => self.diag_embed(offset, 0, 1),
            2 => self.diagonal(offset, 0, 1).copy(),
            _ => {
                Tensor::or_broken("diag", refuse!("wants one or two axes, not {:?}", self.shape()))
            }
        }
    }

    /// The last axis as the `offset`-th diagonal of a square matrix, 0 elsewhere; its rows and columns are axes `a` and `b`
    /// of the result.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::ones([2, 3]).diag_embed(1, -2, -1).shape(), [2, 4, 4]);
    /// ```
    ///
    /// # Errors
    /// No axis; axes that are not there or the same.
    #[must_use]
    #[track_caller]
    pub fn diag_embed(&self, offset: impl Int, a: impl Int, b: impl Int) -> Tensor {
        let embed = || -> Result<UOp, Fault> {
            let x = self.value()?;
            if x.shape().is_empty() {
                return refuse!("wants at least one axis");
            }
            let rank = x.shape().len() + 1;
            let order = moved_last(rank, two_axes(a, b, rank)?);
            let back: Axes = (0..rank)
                .map(|i| order.iter().position(|&o| o == i))
                .collect::<Option<_>>()
                .expect("every axis");
            Ok(embedded(&x, offset.as_i64())?.permute(back))
        };
        self.lift("diag_embed", embed())
    }

    /// Matrices along the diagonal of a larger one, 0 elsewhere. A tensor of one axis is a row, a scalar a matrix of one.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::block_diag([Tensor::from([[1, 2]]), Tensor::from([[3], [4]])]);
    /// assert_eq!(t.to_vec::<i32>()?, [1, 2, 0, 0, 0, 3, 0, 0, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// No tensors, one of more than two axes, other devices.
    #[must_use]
    #[track_caller]
    pub fn block_diag<T: Borrow<Tensor>>(tensors: impl IntoIterator<Item = T>) -> Tensor {
        let _method = outermost("block_diag");
        let mut blocks = Vec::new();
        for t in tensors {
            let t = t.borrow();
            blocks.push(match t.shape() {
                [_, _] => t.clone(),
                shape => t.reshape([1, shape.last().copied().unwrap_or(1)]),
            });
        }
        if let Some(error) = blocks.iter().find_map(Tensor::error) {
            return Tensor::broken(error);
        }
        let width: usize = blocks.iter().map(|b| b.shape()[1]).sum();
        let mut start = 0;
        for block in &mut blocks {
            let columns = block.shape()[1];
            *block = block.pad([(0, 0), (start, width - start - columns)]);
            start += columns;
        }
        Tensor::cat(blocks, 0)
    }
}
