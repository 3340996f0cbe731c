//! Values put together and taken apart along an axis.

use super::UOp;
use crate::arg::{PadAxis, Shape, SliceAxis};
use crate::dtype::DType;
use smallvec::SmallVec;

/// Up to this many parts are joined by choosing at each element; more are written one after the other.
const MOST_CHOICES: usize = 8;

impl UOp {
    /// At each element of this shape its position along `axis`, as i32.
    pub fn positions_along(shape: &[usize], axis: usize) -> UOp {
        let mut aligned: Shape = shape.iter().map(|_| 1).collect();
        aligned[axis] = shape[axis];
        UOp::iota(shape[axis], DType::I32).reshape(aligned).expand(shape)
    }

    /// `parts` one after the other along `axis`; they are alike but for their lengths there.
    pub fn joined(parts: &[UOp], axis: usize) -> UOp {
        let mut shape = parts[0].shape().clone();
        shape[axis] = parts.iter().map(|p| p.shape()[axis]).sum();
        if parts.len() > MOST_CHOICES {
            written(parts, axis, &shape)
        } else {
            chosen(parts, axis, &shape)
        }
    }

    /// `len` elements from `start` on along `axis`.
    pub fn part(&self, axis: usize, start: usize, len: usize) -> UOp {
        let mut slices: SmallVec<[SliceAxis; 2]> =
            self.shape().iter().map(|&n| SliceAxis::full(n)).collect();
        slices[axis] = SliceAxis { start, step: 1, len };
        self.slice(&slices)
    }
}

fn chosen(parts: &[UOp], axis: usize, shape: &Shape) -> UOp {
    let at = UOp::positions_along(shape, axis);
    let mut end = shape[axis];
    let mut result: Option<UOp> = None;
    for part in parts.iter().rev() {
        let start = end - part.shape()[axis];
        let mut pads: SmallVec<[PadAxis; 2]> = shape.iter().map(|_| PadAxis::default()).collect();
        pads[axis] = PadAxis { before: start, between: 0, after: shape[axis] - end };
        let placed = part.pad(&pads);
        let bound = UOp::constant(end, DType::I32);
        result = Some(result.map_or(placed.clone(), |rest| at.lt(&bound).where_(&placed, &rest)));
        end = start;
    }
    result.expect("at least one part")
}

fn written(parts: &[UOp], axis: usize, shape: &Shape) -> UOp {
    let base = UOp::constant(0, parts[0].dtype()).broadcast_to(shape);
    let mut start = 0;
    parts.iter().fold(base, |base, part| {
        let len = part.shape()[axis];
        let at = UOp::positions(shape.clone()).part(axis, start, len);
        start += len;
        if part.numel() == 0 { base } else { base.update(part, &at) }
    })
}
