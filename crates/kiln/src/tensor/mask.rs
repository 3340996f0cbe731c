//! Masks: bool tensors that pick elements. How many they pick follows from their data, so picking computes them.

use super::Tensor;
use super::broadcast::{broadcast_shapes, one_device};
use super::compute;
use super::points::Pick;
use crate::element::with_room;
use crate::error::{Caller, Fault, refuse};
use crate::{Device, s};
use kiln_ir::arg::Shape;
use kiln_ir::{DType, UOp};

/// A bool tensor that picks of some axes of a view, which are one axis there.
pub(super) struct Mask {
    mask: Tensor,
    /// The axis of the view.
    axis: usize,
}

impl Mask {
    /// The mask picks of axes of `lengths`, the first of which is `axis` of what the program indexes.
    pub(super) fn new(
        mask: Tensor,
        axis: usize,
        in_view: usize,
        lengths: &[usize],
    ) -> Result<Mask, Fault> {
        Mask::check(mask.shape(), axis, lengths)?;
        Ok(Mask { mask, axis: in_view })
    }

    /// Fails where a mask of `shape` does not lie over `lengths`.
    pub(super) fn check(shape: &[usize], axis: usize, lengths: &[usize]) -> Result<(), Fault> {
        match shape == lengths {
            true => Ok(()),
            false => refuse!(
                "a mask of shape {shape:?} does not fit axes of {lengths:?} from axis {axis} on"
            ),
        }
    }

    /// How many elements it chooses from.
    pub(super) fn len(&self) -> usize {
        self.mask.numel()
    }

    /// The positions where it is true. Computes it.
    pub(super) fn positions(self, device: &Device) -> Result<Pick, Fault> {
        let at = true_positions(&self.mask.read_as::<bool>()?)?;
        Pick::trusted(&at, &[at.len()], self.axis, self.len(), device)
    }

    /// The mask along `axis` of `shape`.
    pub(super) fn shown(&self, axis: usize, shape: &[usize]) -> Result<UOp, Fault> {
        let mut aligned: Shape = shape.iter().map(|_| 1).collect();
        aligned[axis] = self.len();
        Ok(self.mask.value()?.reshape(aligned).expand(shape))
    }
}

/// Where `mask` is true.
pub(super) fn true_positions(mask: &[bool]) -> Result<Vec<i64>, Fault> {
    let mut at = with_room(mask.iter().filter(|&&is| is).count())?;
    at.extend((0i64..).zip(mask).filter(|&(_, &is)| is).map(|(i, _)| i));
    Ok(at)
}

/// Picking by conditions. The results' shapes follow from data: these methods compute the condition.
impl Tensor {
    /// The elements where `mask` is true, in row-major order, of this tensor and the mask broadcast together. Computes
    /// the mask.
    ///
    /// ```
    /// let t = kiln::Tensor::from([[1, -2], [-3, 4]]);
    /// assert_eq!(t.masked_select(&t.gt(0)).to_vec::<i32>()?, [1, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A mask that is not bool, shapes that do not broadcast, other devices; whatever computing the mask gives.
    #[must_use]
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Tensor {
        self.lift("masked_select", self.selected(mask, Caller::of("masked_select")))
    }

    fn selected(&self, mask: &Tensor, caller: Caller) -> Result<UOp, Fault> {
        Tensor::all_valid([self, mask])?;
        one_device([self, mask])?;
        if mask.dtype() != DType::Bool {
            return refuse!("wants a bool mask, not {}", mask.dtype());
        }
        let shape = broadcast_shapes(self.shape(), mask.shape())?;
        self.expand(&shape).picked(&s![mask.expand(&shape)], caller)
    }

    /// The positions of the elements that are not 0, i64 `[count, axes]`, in row-major order. Computes the tensor.
    ///
    /// ```
    /// let t = kiln::Tensor::from([[0, 7], [8, 0]]);
    /// assert_eq!(t.nonzero().to_vec::<i64>()?, [0, 1, 1, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Whatever computing the tensor gives.
    #[must_use]
    #[track_caller]
    pub fn nonzero(&self) -> Tensor {
        self.lift("nonzero", self.nonzero_positions())
    }

    fn nonzero_positions(&self) -> Result<UOp, Fault> {
        let flat = true_positions(&self.cast(DType::Bool).read_as::<bool>()?)?;
        let numbers = flat.len() * self.ndim();
        let mut at = with_room(numbers)?;
        at.resize(numbers, 0);
        for (row, mut rest) in at.chunks_exact_mut(self.ndim().max(1)).zip(flat.iter().copied()) {
            for (i, &n) in row.iter_mut().zip(self.shape()).rev() {
                (*i, rest) = (rest % n as i64, rest / n as i64);
            }
        }
        let shape = Shape::from_slice(&[flat.len(), self.ndim()]);
        compute::upload(&at, DType::I64, shape, self.device())
    }
}
