//! Reading along an axis by positions: indexed loads, one for each result.

use super::Tensor;
use super::points::{Pick, Points, integers};
use super::shape_args::{Int, axis};
use super::view::{Slices, View};
use crate::error::{Caller, Fault, refuse};
use crate::{Device, s};
use kiln_ir::UOp;
use kiln_ir::arg::{Shape, SliceAxis};

/// One point for each integer of `index`, which says where along `axis`; along the others it is where the integer is.
pub(super) fn each(
    view: &View,
    along: impl Int,
    index: &Tensor,
    device: &Device,
    caller: Caller,
) -> Result<Points, Fault> {
    let (lengths, axis) = (view.shape().clone(), axis(along, view.shape().len())?);
    let at = integers(index, device)?;
    let (shape, mut plain) = (at.shape().clone(), at.shape().clone());
    let fits = |(i, (&n, &len)): (usize, (&usize, &usize))| i == axis || n <= len;
    if shape.len() != lengths.len() || !shape.iter().zip(&lengths).enumerate().all(fits) {
        return refuse!(
            "an index of {shape:?} does not lie inside of {lengths:?} but for axis {axis}"
        );
    }
    plain[axis] = 1;
    let mut slices: Slices = shape.iter().map(|&n| SliceAxis::full(n)).collect();
    slices[axis] = SliceAxis::full(lengths[axis]);
    let picks = vec![Pick::new(axis, lengths[axis], at, device)?];
    Ok(Points { view: view.slice(slices), picks, plain, shape, caller })
}

/// All points whose position along `axis` is one of `index`.
pub(super) fn sections(
    view: &View,
    along: impl Int,
    index: &Tensor,
    device: &Device,
    caller: Caller,
) -> Result<Points, Fault> {
    let (lengths, axis) = (view.shape().clone(), axis(along, view.shape().len())?);
    let at = integers(index, device)?;
    if at.shape().len() != 1 {
        return refuse!("wants an index of one axis, not {:?}", at.shape());
    }
    let (mut shape, mut plain, mut line) = (lengths.clone(), lengths.clone(), Shape::new());
    (shape[axis], plain[axis]) = (at.numel(), 1);
    line.resize(lengths.len(), 1);
    line[axis] = at.numel();
    let pick = Pick::new(axis, lengths[axis], at, device)?.shaped(|at| at.reshape(line));
    Ok(Points { view: view.clone(), picks: vec![pick], plain, shape, caller })
}

/// Reading by positions. Negative positions count from the end. A position that is not there is an error: at once if
/// it is known, else when it is computed.
impl Tensor {
    /// For each integer of `index` the element that is there along `axis`, and along the other axes where the integer
    /// is. `index` has as many axes and is nowhere else longer.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// let index = Tensor::from([[2, 2], [0, -1]]);
    /// assert_eq!(t.gather(1, &index).to_vec::<i32>()?, [3, 3, 4, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An index of another shape, that is no integer, is out of range or on another device; an axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn gather(&self, axis: impl Int, index: &Tensor) -> Tensor {
        let caller = Caller::of("gather");
        let points = || each(&self.view, axis, index, self.device(), caller);
        self.lift("gather", self.read_at(points))
    }

    /// The sections at the positions along `axis` that `index`, of one axis, holds.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([[1, 2], [3, 4], [5, 6]]);
    /// assert_eq!(t.index_select(0, &Tensor::from([2, 0])).to_vec::<i32>()?, [5, 6, 1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An index of more or less axes, that is no integer, is out of range or on another device; an axis that is not
    /// there.
    #[must_use]
    #[track_caller]
    pub fn index_select(&self, axis: impl Int, index: &Tensor) -> Tensor {
        let caller = Caller::of("index_select");
        let points = || sections(&self.view, axis, index, self.device(), caller);
        self.lift("index_select", self.read_at(points))
    }

    /// The elements at row-major positions, in `index`'s shape.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(t.take(&Tensor::from([3, 0, -1])).to_vec::<i32>()?, [4, 1, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An index that is no integer, is out of range or on another device.
    #[must_use]
    #[track_caller]
    pub fn take(&self, index: &Tensor) -> Tensor {
        let caller = Caller::of("take");
        let read = || match integers(index, self.device())?.dtype() {
            dtype if dtype.is_int() => self.flatten().picked(&s![index], caller),
            dtype => refuse!("indices are integers, not {dtype}"),
        };
        self.lift("take", read())
    }

    fn read_at(&self, points: impl FnOnce() -> Result<Points, Fault>) -> Result<UOp, Fault> {
        Tensor::all_valid([self])?;
        let points = points()?;
        Ok(self.seen(|base| points.of(base))?)
    }
}
