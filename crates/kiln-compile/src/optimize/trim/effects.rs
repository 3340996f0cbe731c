//! Part of pass `trim`: replaces stores and loops by others, and updates whoever waits for them.

use kiln_ir::uop::{Srcs, rebuild, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// The kernel with other nodes instead of some. A node that depends on a replaced effect depends on all that replace
/// it. None if only one node may stand there.
pub(super) fn replaced(ast: &UOp, new: &FxHashMap<UOp, Vec<UOp>>) -> Option<UOp> {
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in toposort(ast) {
        let mut srcs = Srcs::new();
        for src in node.srcs() {
            match new.get(src) {
                Some(several)
                    if several.len() > 1 && !matches!(node.op(), Op::After | Op::Sink) =>
                {
                    return None;
                }
                Some(all) => srcs.extend(all.iter().cloned()),
                None => srcs.push(done[src].clone()),
            }
        }
        done.insert(node.clone(), rebuild(&node, srcs));
    }
    Some(done[ast].clone())
}
