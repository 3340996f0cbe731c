//! Values that already lie in memory in one piece: leaves, and views of neighbouring elements of a leaf, such as a row
//! of a matrix. Reading one computes nothing.

use super::device::memory_of as memory_of_device;
use super::leaf;
use kiln_ir::region::Region;
use kiln_ir::{DType, Op, UOp};
use smallvec::SmallVec;
use std::sync::Arc;

/// Where a value is.
pub(super) struct Resident {
    pub(super) leaf: UOp,
    /// How many bytes of the leaf come before it.
    pub(super) offset: usize,
}

impl Resident {
    /// A leaf is where it is.
    pub(super) fn all_of(leaf: UOp) -> Resident {
        Resident { leaf, offset: 0 }
    }

    /// Finds the memory in which the elements of `node` lie one after the other, if there is such memory.
    pub(super) fn find(node: &UOp) -> Option<Resident> {
        let mut views: SmallVec<[&UOp; 8]> = SmallVec::new();
        let (mut below, mut copied) = (node, None);
        let leaf = loop {
            if let Some(leaf) = leaf::of(below) {
                break leaf;
            }
            match below.op() {
                Op::Copy => copied = copied.or(below.arg().device()),
                Op::Mark | Op::Detach | Op::Vjp | Op::Contiguous => {}
                Op::Reshape | Op::Permute | Op::Slice | Op::Expand => views.push(below),
                // not to bool: a bool is 0 or 1, whatever the bits were
                Op::Bitcast if below.dtype() != DType::Bool => views.push(below),
                _ => return None,
            }
            below = below.src(0);
        };
        // what is copied from another device is not here yet
        let from = leaf.arg().device().expect("a leaf has a device");
        let here = |to: Arc<str>| memory_of_device(&from) == memory_of_device(&to);
        if !copied.is_none_or(here) {
            return None;
        }
        let offset = offset(&leaf, &views).filter(|_| node.numel() > 0)?;
        Some(Resident { leaf, offset })
    }

    /// Whether it is in a file.
    pub(super) fn is_file(&self) -> bool {
        leaf::buffer(&self.leaf).is_ok_and(|buffer| buffer.is_file())
    }
}

/// Whether a value lies in memory, one element after the other, so that a copy can share it. Not in a file, which
/// others may write.
pub(crate) fn is_in_memory(node: &UOp) -> bool {
    Resident::find(node).is_some_and(|found| !found.is_file())
}

/// The identity of a version's memory: the leaf that it lies in, or the version itself.
pub(crate) fn memory_of(version: &UOp) -> UOp {
    Resident::find(version).map_or_else(|| version.clone(), |found| found.leaf)
}

/// The byte of a leaf at which `views` of it, the outermost first, start, if they show it without gaps.
fn offset(leaf: &UOp, views: &[&UOp]) -> Option<usize> {
    let (mut offset, mut ground, mut moves) = (0, leaf, SmallVec::<[&UOp; 8]>::new());
    for &view in views.iter().rev() {
        if view.op() == Op::Bitcast {
            offset += start(ground, &moves)?;
            (ground, moves) = (view, SmallVec::new());
        } else {
            moves.push(view);
        }
    }
    Some(offset + start(ground, &moves)?)
}

/// The same for views, the innermost first, of elements of one type.
fn start(ground: &UOp, views: &[&UOp]) -> Option<usize> {
    let region = Region::through(views.iter().copied(), ground.shape())?;
    let first = usize::try_from(region.offset).ok().filter(|_| region.is_run())?;
    Some(first * ground.dtype().size())
}
