//! Arguments that are written past the caches. A store brings its line into the cache before it changes it, which doubles
//! what writing costs; where nothing of an output can still be in the cache when somebody reads it, that is for nothing.
//!
//! It takes whole lines: part of one, alone, waits for the rest of it and costs more than it saves.

use crate::target::Target;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashSet;

use super::fold::factor;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Smaller outputs are never written past the caches.
const LEAST_BYTES: usize = 4 << 20;

/// The slots of such arguments: larger than the last cache, only written, and in whole lines.
pub(super) fn streamed(kernel: &UOp, target: &Target) -> FxHashSet<usize> {
    if !target.streams {
        return FxHashSet::default();
    }
    let nodes = toposort(kernel);
    let mut slots: FxHashSet<usize> =
        nodes.iter().filter(|n| is_large(n, target)).filter_map(|n| n.arg().slot()).collect();
    for access in nodes.iter().filter(|n| matches!(n.op(), Op::Load | Op::Store)) {
        if let Some(slot) = access.memory().arg().slot()
            && !is_whole_line(access)
        {
            slots.remove(&slot);
        }
    }
    let written = |n: &&UOp| n.op() == Op::Store;
    let written: FxHashSet<usize> =
        nodes.iter().filter(written).filter_map(|n| n.memory().arg().slot()).collect();
    slots.retain(|slot| written.contains(slot));
    slots
}

fn is_large(param: &UOp, target: &Target) -> bool {
    param.op() == Op::Param
        && param.numel() * param.dtype().size() >= target.cache_bytes[2].max(LEAST_BYTES)
}

/// A store that is always done, of a line.
fn is_whole_line(access: &UOp) -> bool {
    let [_, index, value] = access.srcs() else { return false };
    let lanes = value.lanes() as usize;
    access.op() == Op::Store
        && lanes * access.memory().dtype().size() == LINE
        && factor(index).is_multiple_of(lanes as u64)
}
