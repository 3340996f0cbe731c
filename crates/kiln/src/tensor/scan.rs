//! Positions along axes, and what accumulates along one.

use super::Tensor;
use super::reduce::{positions, wide_sum};
use super::shape_args::{Int, axis};
use crate::error::Fault;
use kiln_ir::arg::{Axes, PadAxis, Shape, SliceAxis};
use kiln_ir::{DType, Op, UOp};

/// Elements of a block that is summed directly, each result on its own: those of a vector, as this many additions are done
/// for every element.
const BLOCK: usize = 16;

/// The same for sums of blocks. They are few, so more additions for each are better than more steps.
const BLOCK_OF_SUMS: usize = 64;

/// Running sums along the last axis, in the accumulator's dtype. Axes longer than a block are summed block by block.
fn running_sum(x: &UOp, block: usize) -> UOp {
    let n = *x.shape().last().expect("an axis");
    if n <= block { direct_sum(x) } else { blocked_sum(x, n, block) }
}

/// Each result sums what is not after it.
fn direct_sum(x: &UOp) -> UOp {
    let (n, rank) = (*x.shape().last().expect("an axis"), x.shape().len());
    let mut square: Shape = x.shape().clone();
    square.insert(rank - 1, n);
    let mut row = x.shape().clone();
    row.insert(rank - 1, 1);
    let terms = x.reshape(row).expand(square.clone());
    let (to, from) = (positions(&square, rank - 1), positions(&square, rank));
    let kept = to.lt(&from).where_(&UOp::constant(0, x.dtype()), &terms);
    wide_sum(&kept, &Axes::from_slice(&[rank]))
}

/// Running sums inside blocks, plus the running sum of the blocks before.
fn blocked_sum(x: &UOp, n: usize, block: usize) -> UOp {
    let (blocks, rank) = (n.div_ceil(block), x.shape().len());
    let mut pads = vec![PadAxis::default(); rank];
    pads[rank - 1].after = blocks * block - n;
    let mut split: Shape = x.shape().clone();
    split[rank - 1] = blocks;
    split.push(block);
    let inside = direct_sum(&x.pad(&pads).reshape(split.clone()));
    let totals = wide_sum(
        &x.cast(inside.dtype()).pad(&pads).reshape(split.clone()),
        &Axes::from_slice(&[rank]),
    );
    let before = before_each(&running_sum(&totals, BLOCK_OF_SUMS));
    let mut column: Shape = totals.shape().clone();
    column.push(1);
    let all = inside + before.reshape(column).expand(split);
    let mut flat = x.shape().clone();
    flat[rank - 1] = blocks * block;
    let slices: Vec<_> = x.shape().iter().map(|&n| SliceAxis::full(n)).collect();
    all.reshape(flat).slice(&slices)
}

/// Each element's predecessor along the last axis, 0 for the first.
fn before_each(sums: &UOp) -> UOp {
    let last = sums.shape().len() - 1;
    let mut slices: Vec<_> = sums.shape().iter().map(|&n| SliceAxis::full(n)).collect();
    slices[last].len -= 1;
    let mut pads = vec![PadAxis::default(); last + 1];
    pads[last].before = 1;
    sums.slice(&slices).pad(&pads)
}

/// Accumulation.
impl Tensor {
    /// Running sums along `axis`; the dtype is that of [`sum`](Tensor::sum).
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2, 3]).cumsum(0).to_vec::<i32>()?, [1, 3, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn cumsum(&self, along: impl Int) -> Tensor {
        let scan = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let rank = x.shape().len();
            let axis = axis(along, rank)?;
            if x.numel() == 0 {
                return Ok(x.cast(x.dtype().sum_dtype()));
            }
            let mut last: Axes = (0..rank).collect();
            last.swap(axis, rank - 1);
            let sums = running_sum(&x.permute(last.clone()), BLOCK).permute(last);
            Ok(sums.cast(x.dtype().sum_dtype()))
        };
        self.lift("cumsum", scan())
    }

    /// The elements on and below the `diagonal`-th diagonal of the last two axes, 0 elsewhere.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([[1, 2], [3, 4]]).tril(0).to_vec::<i32>()?, [1, 0, 3, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes.
    #[must_use]
    #[track_caller]
    pub fn tril(&self, diagonal: impl Int) -> Tensor {
        let cut = self.value().map_err(Fault::from).and_then(|x| {
            let (row, column) = row_and_column(&x)?;
            Ok(above(&row, &column, diagonal.as_i64()).where_(&UOp::constant(0, x.dtype()), &x))
        });
        self.lift("tril", cut)
    }

    /// The elements on and above the `diagonal`-th diagonal of the last two axes, 0 elsewhere.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([[1, 2], [3, 4]]).triu(0).to_vec::<i32>()?, [1, 2, 0, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes.
    #[must_use]
    #[track_caller]
    pub fn triu(&self, diagonal: impl Int) -> Tensor {
        let cut = self.value().map_err(Fault::from).and_then(|x| {
            let (row, column) = row_and_column(&x)?;
            let kept = above(&row, &column, diagonal.as_i64().saturating_sub(1));
            Ok(kept.where_(&x, &UOp::constant(0, x.dtype())))
        });
        self.lift("triu", cut)
    }
}

fn row_and_column(x: &UOp) -> Result<(UOp, UOp), Fault> {
    match x.shape().len() {
        0 | 1 => Err("wants at least two axes".into()),
        rank => Ok((positions(x.shape(), rank - 2), positions(x.shape(), rank - 1))),
    }
}

/// Where the column is more than `diagonal` past the row. Diagonals that are further away than the matrix is large are
/// all alike.
fn above(row: &UOp, column: &UOp, diagonal: i64) -> UOp {
    let [rows, columns] = row.shape()[row.shape().len() - 2..] else { unreachable!("two axes") };
    let diagonal = diagonal.clamp(-(rows as i64), columns as i64);
    let shifted = UOp::binary(Op::Add, row, &UOp::constant(diagonal, DType::I32));
    shifted.lt(column)
}
