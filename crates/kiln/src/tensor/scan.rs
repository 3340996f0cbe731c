//! Positions along axes, and what accumulates along one.

use super::Tensor;
use super::autocast::full;
use super::reduce::positions;
use super::shape_args::{Int, axis};
use crate::error::Fault;
use kiln_ir::arg::{Axes, PadAxis, ReduceOp, Shape, SliceAxis};
use kiln_ir::{DType, Op, UOp};

/// Elements of a block that is summed directly, each result on its own: those of a vector, as this many additions are done
/// for every element.
const BLOCK: usize = 16;

/// The same for sums of blocks. They are few, so more additions for each are better than more steps.
const BLOCK_OF_BLOCKS: usize = 64;

/// Running sums along the middle one of three axes, in the accumulator's dtype.
pub(super) fn running_sum(x: &UOp) -> UOp {
    running(&x.cast(x.dtype().sum_dtype().accumulator()), ReduceOp::Add, BLOCK)
}

/// The largest so far along the middle one of three axes, of integers that are not negative.
pub(super) fn running_max(x: &UOp) -> UOp {
    running(x, ReduceOp::Max, BLOCK)
}

/// Sums, or largest numbers, of what is not after each element; 0 changes neither. Axes longer than a block go block by block.
fn running(x: &UOp, op: ReduceOp, block: usize) -> UOp {
    if x.shape()[1] <= block { direct(x, op) } else { blocked(x, op, block) }
}

/// Each result is of what is not after it.
fn direct(x: &UOp, op: ReduceOp) -> UOp {
    let [outer, n, inner] = axes_of(x);
    let square = Shape::from_slice(&[outer, n, n, inner]);
    let terms = x.reshape(Shape::from_slice(&[outer, 1, n, inner])).expand(square.clone());
    let (to, from) = (positions(&square, 1), positions(&square, 2));
    to.lt(&from).where_(&UOp::constant(0, x.dtype()), &terms).reduce(op, Axes::from_slice(&[2]))
}

/// Results inside blocks, combined with that of the blocks before.
fn blocked(x: &UOp, op: ReduceOp, block: usize) -> UOp {
    let [outer, n, inner] = axes_of(x);
    let blocks = n.div_ceil(block);
    let mut pads = [PadAxis::default(); 3];
    pads[1].after = blocks * block - n;
    let padded = x.pad(&pads);
    let inside = direct(&padded.reshape(Shape::from_slice(&[outer * blocks, block, inner])), op);
    let split = Shape::from_slice(&[outer, blocks, block, inner]);
    let totals = padded.reshape(split.clone()).reduce(op, Axes::from_slice(&[2]));
    let before = before_each(&running(&totals, op, BLOCK_OF_BLOCKS));
    let before =
        before.reshape(Shape::from_slice(&[outer, blocks, 1, inner])).expand(split.clone());
    let all = UOp::binary(op.alu(), &inside.reshape(split), &before);
    let all = all.reshape(Shape::from_slice(&[outer, blocks * block, inner]));
    // whole blocks are computed in vectors, blocks that are cut are not
    let all = if blocks * block == n { all } else { all.contiguous() };
    let kept: Vec<_> = x.shape().iter().map(|&n| SliceAxis::full(n)).collect();
    all.slice(&kept)
}

/// Each element's predecessor along the middle axis, 0 for the first.
fn before_each(x: &UOp) -> UOp {
    let mut slices = axes_of(x).map(SliceAxis::full);
    slices[1].len -= 1;
    let mut pads = [PadAxis::default(); 3];
    pads[1].before = 1;
    x.slice(&slices).pad(&pads)
}

/// The lengths of three axes.
fn axes_of(x: &UOp) -> [usize; 3] {
    x.shape()[..].try_into().expect("three axes")
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
            let shape = x.shape();
            let axis = axis(along, shape.len())?;
            if x.numel() == 0 {
                return Ok(x.cast(full(x.dtype().sum_dtype())));
            }
            let [outer, inner] = [&shape[..axis], &shape[axis + 1..]].map(|s| s.iter().product());
            let columns = x.reshape(Shape::from_slice(&[outer, shape[axis], inner]));
            let sums = running_sum(&columns).reshape(shape.clone());
            Ok(sums.cast(full(x.dtype().sum_dtype())))
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
