//! Values that lie in memory already: leaves, and views of elements of a leaf in the order of its memory. Reading them
//! computes nothing.

use super::{Failure, checks, leaf, realize};
use crate::Device;
use kiln_ir::region::Region;
use kiln_ir::{DType, Op, UOp};
use smallvec::SmallVec;

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

    /// Where the elements of `node` lie one after the other, if they do.
    pub(super) fn find(node: &UOp) -> Option<Resident> {
        let mut views: SmallVec<[&UOp; 8]> = SmallVec::new();
        let mut below = node;
        let leaf = loop {
            if let Some(leaf) = leaf::of(below) {
                break leaf;
            }
            match below.op() {
                Op::Mark | Op::Detach | Op::Contiguous | Op::Copy => {}
                Op::Reshape | Op::Permute | Op::Slice | Op::Expand => views.push(below),
                // whatever bits were there, a bool is 0 or 1
                Op::Bitcast if below.dtype() != DType::Bool => views.push(below),
                _ => return None,
            }
            below = below.src(0);
        };
        let offset = offset(&leaf, &views).filter(|_| node.numel() > 0)?;
        Some(Resident { leaf, offset })
    }

    /// Whether it is in a file.
    pub(super) fn is_file(&self) -> bool {
        leaf::buffer(&self.leaf).is_ok_and(|buffer| buffer.is_file())
    }
}

/// The realized form of a value that lies in memory already, but is no leaf. A view of the whole leaf shares its
/// memory. A part is copied: keeping a part must not keep the rest alive. A part of a file is copied, too: others may
/// write there.
pub(super) fn copy(node: &UOp, device: &Device) -> Result<Option<UOp>, Failure> {
    if leaf::of(node).is_some() {
        return Ok(None);
    }
    let Some(found) = Resident::find(node) else { return Ok(None) };
    checks::sound(vec![found.leaf.clone()])?;
    let size = |x: &UOp| x.numel() * x.dtype().size();
    match size(&found.leaf) == size(node) && !leaf::buffer(&found.leaf)?.is_file() {
        true => Ok(Some(seen_as(&found.leaf, node))),
        false => realize::duplicate(node, device).map(Some),
    }
}

/// All that a leaf holds, with the dtype and shape of `node`.
fn seen_as(leaf: &UOp, node: &UOp) -> UOp {
    let shape = node.shape().clone();
    match leaf.dtype() == node.dtype() {
        true => leaf.reshape(shape),
        false => leaf.reshape([leaf.numel()].as_slice()).bitcast(node.dtype()).reshape(shape),
    }
}

/// The byte of a leaf at which `views` of it, the outermost first, start to show it without gaps, if they do.
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

/// The same where the views, the innermost first, are of elements of one type.
fn start(ground: &UOp, views: &[&UOp]) -> Option<usize> {
    let region = Region::through(views.iter().copied(), ground.shape())?;
    let first = usize::try_from(region.offset).ok().filter(|_| region.is_run())?;
    Some(first * ground.dtype().size())
}
