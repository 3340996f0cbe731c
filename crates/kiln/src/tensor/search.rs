//! Where values would stand among elements that are in order.

use super::Tensor;
use super::broadcast::one_device;
use super::reduce::positions;
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::arg::{Axes, ReduceOp, Shape};
use kiln_ir::{DType, UOp};

/// So many elements or fewer are all compared with each value: vectors do it faster than they find single elements.
pub(super) const FEW: usize = 64;

/// Rows of elements in order, and the values that are looked for in each.
struct Search {
    /// `[rows, n]`
    sorted: UOp,
    /// `[rows, m]`
    values: UOp,
    /// The dtype in which both are compared.
    dtype: DType,
    right: bool,
}

impl Search {
    /// Whether elements come before values. NaN is larger than anything, and as large as NaN.
    fn is_before(&self, element: &UOp, value: &UOp) -> UOp {
        let [element, value] = [element, value].map(|x| x.cast(self.dtype));
        let below = |a: &UOp, b: &UOp| match self.dtype.is_float() {
            true => a.lt(b) | (b.ne_(b) & a.eq_(a)),
            false => a.lt(b),
        };
        if self.right { below(&value, &element).not() } else { below(&element, &value) }
    }

    /// How many elements of its row come before each value, i32.
    fn counts(&self) -> UOp {
        let n = self.sorted.shape()[1];
        match n {
            0 => UOp::constant(0, DType::I32).broadcast_to(self.values.shape()),
            _ if n <= FEW => self.by_comparing(),
            _ => self.by_halving(),
        }
    }

    fn by_comparing(&self) -> UOp {
        let (rows, n, m) = (self.sorted.shape()[0], self.sorted.shape()[1], self.values.shape()[1]);
        let [one, other, all] =
            [[rows, 1, n], [rows, m, 1], [rows, m, n]].map(|s| Shape::from_slice(&s));
        let element = self.sorted.reshape(one).expand(all.clone());
        let value = self.values.reshape(other).expand(all);
        let before = self.is_before(&element, &value).cast(DType::I32);
        before.reduce(ReduceOp::Add, Axes::from_slice(&[2]))
    }

    /// Binary search without branches: each step compares the last element of the first half of what is left, and
    /// all values take the same number of steps.
    fn by_halving(&self) -> UOp {
        let (n, mut left) = (self.sorted.shape()[1], self.sorted.shape()[1]);
        let wide = if self.sorted.numel() > i32::MAX as usize { DType::I64 } else { DType::I32 };
        let shape = self.values.shape();
        let row = positions(shape, 0).cast(wide) * n as i64;
        let found = |at: UOp| self.is_before(&self.sorted.gather(&(&row + at)), &self.values);
        let mut count = UOp::constant(0, wide).broadcast_to(shape);
        while left > 1 {
            let half = left / 2;
            let next = &count + half as i64;
            count = found(&next - 1).where_(&next, &count);
            left -= half;
        }
        (&count + found(count.clone()).cast(wide)).cast(DType::I32)
    }
}

/// Rows of elements in order for the values: one axis for all of them, or one row for each row.
fn search(sorted: &Tensor, values: &Tensor, right: bool) -> Result<UOp, Fault> {
    Tensor::all_valid([sorted, values])?;
    one_device([sorted, values])?;
    let (a, b) = (sorted.shape(), values.shape());
    let (n, rows) = match a {
        [] => return refuse!("wants an axis of elements in order, not a scalar"),
        [n] => (*n, 1),
        [rows @ .., n] if b.len() == a.len() && b.starts_with(rows) => (*n, rows.iter().product()),
        _ => {
            return refuse!(
                "rows {a:?} do not belong to values {b:?}: all axes but the last are the same"
            );
        }
    };
    let dtype = sorted.dtype().promote(values.dtype());
    let whole = Shape::from_slice(b);
    if values.numel() == 0 {
        return Ok(UOp::constant(0, DType::I32).broadcast_to(&whole));
    }
    let rows_of =
        |t: &Tensor, n: usize| Ok::<UOp, Fault>(t.value()?.detach().reshape([rows, n].as_slice()));
    // it is read at many places, and so is computed once
    let sorted = rows_of(&sorted.contiguous(), n)?;
    let values = rows_of(values, values.numel() / rows)?;
    Ok(Search { sorted, values, dtype, right }.counts().reshape(whole))
}

/// Positions in an order.
impl Tensor {
    /// For each of `values` how many of these elements, which are in order, come before it: the position where it would
    /// go, before equal ones, or if `right` after them. i32. NaN is larger than anything, as for [`sort`](Tensor::sort).
    ///
    /// The elements are one axis, or rows `[.., n]` for values `[.., m]`: then each row has values of its own, and all axes
    /// but the last are the same. A value takes log2 of `n` comparisons.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([1, 3, 5]);
    /// assert_eq!(t.searchsorted(&Tensor::from([3, 9]), false).to_vec::<i32>()?, [1, 3]);
    /// assert_eq!(t.searchsorted(&Tensor::from([3, 9]), true).to_vec::<i32>()?, [2, 3]);
    /// let rows = Tensor::from([[1, 3, 5], [2, 4, 6]]);
    /// assert_eq!(rows.searchsorted(&Tensor::from([[3], [3]]), false).to_vec::<i32>()?, [1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A scalar; rows that are not as many as those of values; other devices.
    #[must_use]
    #[track_caller]
    pub fn searchsorted(&self, values: &Tensor, right: bool) -> Tensor {
        let _method = outermost("searchsorted");
        self.lift("searchsorted", search(self, values, right))
    }

    /// As [`searchsorted`](Tensor::searchsorted), of elements in any order that `sorter` puts in order: the positions that
    /// [`argsort`](Tensor::argsort) gives.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([5, 1, 3]);
    /// let place = t.searchsorted_with(&Tensor::from([3, 9]), false, &t.argsort(0, false));
    /// assert_eq!(place.to_vec::<i32>()?, [1, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`searchsorted`](Tensor::searchsorted); a `sorter` of another shape, that is no integer or is out of range.
    #[must_use]
    #[track_caller]
    pub fn searchsorted_with(&self, values: &Tensor, right: bool, sorter: &Tensor) -> Tensor {
        let _method = outermost("searchsorted_with");
        let valid = Tensor::all_valid([self, sorter]);
        if self.ndim() == 0 || valid.is_err() {
            let found = valid.and_then(|()| search(self, values, right));
            return self.lift("searchsorted_with", found);
        }
        if self.shape() != sorter.shape() {
            let why =
                format!("a sorter {:?} is not of the shape {:?}", sorter.shape(), self.shape());
            return self.refused("searchsorted_with", why.into());
        }
        let sorted = self.gather(-1, sorter);
        self.lift("searchsorted_with", search(&sorted, values, right))
    }

    /// Which of the intervals between `edges`, which are one axis in order, each element lies in:
    /// [`searchsorted`](Tensor::searchsorted) the other way round.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([2, 9]);
    /// assert_eq!(t.bucketize(&Tensor::from([1, 3, 5]), false).to_vec::<i32>()?, [1, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Edges that are not one axis, other devices.
    #[must_use]
    #[track_caller]
    pub fn bucketize(&self, edges: &Tensor, right: bool) -> Tensor {
        let _method = outermost("bucketize");
        let place = || -> Result<UOp, Fault> {
            Tensor::all_valid([self, edges])?;
            match edges.ndim() {
                1 => search(edges, self, right),
                _ => refuse!("wants edges of one axis, not {:?}", edges.shape()),
            }
        };
        self.lift("bucketize", place())
    }
}
