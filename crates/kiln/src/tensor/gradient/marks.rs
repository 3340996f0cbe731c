//! Marked reads: where gradients of storages that want one end.

use crate::engine;
use kiln_compile::grad::gradient;
use kiln_ir::uop::toposort_all;
use kiln_ir::{Arg, Op, UOp};
use std::collections::BTreeSet;
use std::slice::from_ref;

/// The marked reads that gradients of `root` could reach, in order of computation.
pub(crate) fn reads(root: &UOp) -> Vec<UOp> {
    let mut nodes = toposort_all(from_ref(root), engine::is_open);
    nodes.retain(|n| n.op() == Op::Mark);
    nodes
}

/// The gradients of `root` with respect to marked reads. Those of a storage that others were written to
/// go on to these, but what reaches such a storage through itself is not its own.
pub(super) fn gradients(root: &UOp, seed: &UOp, reads: &[UOp]) -> Vec<Option<UOp>> {
    let through = reads.iter().filter(|read| engine::is_open(read));
    let derived: BTreeSet<u64> = through.map(storage_id).collect();
    let group = |read: &UOp| Some(storage_id(read)).filter(|id| derived.contains(id));
    let mut grads = vec![None; reads.len()];
    for of in std::iter::once(None).chain(derived.iter().copied().map(Some)) {
        let own: Vec<usize> = (0..reads.len()).filter(|&i| group(&reads[i]) == of).collect();
        let targets: Vec<UOp> = own.iter().map(|&i| reads[i].clone()).collect();
        for (i, grad) in own.into_iter().zip(gradient(root, seed, &targets)) {
            grads[i] = grad;
        }
    }
    grads
}

/// The storage that a marked read names.
pub(super) fn storage_id(read: &UOp) -> u64 {
    match read.arg() {
        Arg::Mark { storage, .. } => *storage,
        _ => unreachable!("a mark"),
    }
}
