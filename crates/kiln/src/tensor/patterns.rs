//! Matrices and grids that follow a pattern.

use super::Tensor;
use super::compute;
use super::create::create;
use super::shape_args::{Int, PairArg};
use super::source::Options;
use crate::Device;
use crate::defaults::default_float;
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::arg::Shape;
use kiln_ir::{DType, UOp};
use std::borrow::Borrow;

/// Ones on a diagonal.
impl Tensor {
    /// The identity matrix of `n` rows, or of rows and columns, f32.
    ///
    /// ```
    /// use kiln::Tensor;
    /// assert_eq!(Tensor::eye(2).to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);
    /// assert_eq!(Tensor::eye([1, 3]).to_vec::<f32>()?, [1.0, 0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn eye(n: impl PairArg) -> Tensor {
        Tensor::eye_with(n, ())
    }

    /// As [`eye`](Tensor::eye), of a dtype, on a device.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::eye_with(1, kiln::DType::I32).to_vec::<i32>()?, [1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn eye_with(n: impl PairArg, options: impl Into<Options>) -> Tensor {
        create("eye", n.pair(), options, default_float(), |shape, dtype| {
            let row = UOp::iota(shape[0], DType::I32).reshape([shape[0], 1].as_slice());
            let column = UOp::iota(shape[1], DType::I32);
            row.broadcast_to(shape).eq_(&column.broadcast_to(shape)).cast(dtype)
        })
    }
}

/// Positions in a matrix.
impl Tensor {
    /// The rows and the columns of the elements on and below the `diagonal`-th diagonal of a matrix, row by row:
    /// i64 `[2, count]`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::tril_indices(2, 2, 0).to_vec::<i64>()?, [0, 1, 1, 0, 0, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// More positions than memory holds.
    #[must_use]
    #[track_caller]
    pub fn tril_indices(rows: usize, columns: usize, diagonal: impl Int) -> Tensor {
        let diagonal = diagonal.as_i64();
        triangle("tril_indices", rows, |row| 0..end(row, diagonal, columns))
    }

    /// The rows and the columns of the elements on and above the `diagonal`-th diagonal of a matrix, row by row:
    /// i64 `[2, count]`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::triu_indices(2, 2, 0).to_vec::<i64>()?, [0, 0, 1, 0, 1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// More positions than memory holds.
    #[must_use]
    #[track_caller]
    pub fn triu_indices(rows: usize, columns: usize, diagonal: impl Int) -> Tensor {
        let before = diagonal.as_i64().saturating_sub(1);
        triangle("triu_indices", rows, |row| end(row, before, columns)..columns as i64)
    }
}

/// The column after the last one that is on or below a diagonal in a row.
fn end(row: i64, diagonal: i64, columns: usize) -> i64 {
    row.saturating_add(diagonal).saturating_add(1).clamp(0, columns as i64)
}

/// Rows with their columns.
#[track_caller]
fn triangle(
    op: &'static str,
    rows: usize,
    columns: impl Fn(i64) -> std::ops::Range<i64>,
) -> Tensor {
    let device = Device::default_device();
    let list = || -> Result<UOp, Fault> {
        if i64::try_from(rows).is_err() {
            return refuse!("{rows} rows are more than memory holds");
        }
        let count = (0..rows as i64).map(|row| columns(row).count()).fold(0, usize::saturating_add);
        let mut at = crate::element::with_room(count.saturating_mul(2))?;
        at.extend((0..rows as i64).flat_map(|row| columns(row).map(move |_| row)));
        at.extend((0..rows as i64).flat_map(&columns));
        compute::upload(&at, DType::I64, Shape::from_slice(&[2, count]), &device)
    };
    Tensor::lift_on(op, &device, list())
}

/// Every combination.
impl Tensor {
    /// Tensors of one axis, each along an axis of its own, expanded to all of these: the first along the first.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let grids = Tensor::meshgrid([Tensor::from([1, 2]), Tensor::from([3, 4, 5])]);
    /// assert_eq!(grids[0].to_vec::<i32>()?, [1, 1, 1, 2, 2, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Tensors of more than one axis; these are carried by all results.
    #[must_use]
    #[track_caller]
    pub fn meshgrid<T: Borrow<Tensor>>(tensors: impl IntoIterator<Item = T>) -> Vec<Tensor> {
        let _method = outermost("meshgrid");
        let mut grids: Vec<Tensor> = tensors.into_iter().map(|t| t.borrow().clone()).collect();
        if let Err(fault) = lines(&grids) {
            let broken = Tensor::broken(fault.at("meshgrid"));
            return grids.iter().map(|_| broken.clone()).collect();
        }
        let shape: Vec<usize> = grids.iter().map(Tensor::numel).collect();
        for (axis, grid) in grids.iter_mut().enumerate() {
            let mut line = vec![1; shape.len()];
            line[axis] = shape[axis];
            *grid = grid.reshape(&line).expand(&shape);
        }
        grids
    }

    /// As [`meshgrid`](Tensor::meshgrid) with the first two axes exchanged: the first tensor along columns, the second along
    /// rows, as `x` and `y` of a picture.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let grids = Tensor::meshgrid_xy([Tensor::from([1, 2]), Tensor::from([3, 4, 5])]);
    /// assert_eq!(grids[0].to_vec::<i32>()?, [1, 2, 1, 2, 1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`meshgrid`](Tensor::meshgrid).
    #[must_use]
    #[track_caller]
    pub fn meshgrid_xy<T: Borrow<Tensor>>(tensors: impl IntoIterator<Item = T>) -> Vec<Tensor> {
        let mut grids = Tensor::meshgrid(tensors);
        if grids.len() > 1 {
            for grid in &mut grids {
                *grid = grid.transpose(0, 1);
            }
        }
        grids
    }

    /// Every combination of elements of tensors of one axis, a row each.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let rows = Tensor::cartesian_prod([Tensor::from([1, 2]), Tensor::from([3, 4])]);
    /// assert_eq!(rows.to_vec::<i32>()?, [1, 3, 1, 4, 2, 3, 2, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Tensors of more than one axis, none at all, other devices.
    #[must_use]
    #[track_caller]
    pub fn cartesian_prod<T: Borrow<Tensor>>(tensors: impl IntoIterator<Item = T>) -> Tensor {
        let _method = outermost("cartesian_prod");
        let mut columns = Tensor::meshgrid(tensors);
        if columns.len() == 1 {
            return columns.swap_remove(0).copy();
        }
        for column in &mut columns {
            *column = column.flatten();
        }
        Tensor::stack(columns, 1)
    }
}

/// Fails where a tensor has more than one axis.
fn lines(tensors: &[Tensor]) -> Result<(), Fault> {
    Tensor::all_valid(tensors)?;
    match tensors.iter().find(|t| t.ndim() > 1) {
        Some(t) => refuse!("wants tensors of one axis, not {:?}", t.shape()),
        None => Ok(()),
    }
}
