//! Walks over graphs, none of them recursive.

use super::seen::Seen;
use super::{Srcs, UOp};
use crate::arg::{Arg, RangeKind};
use crate::op::Op;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// How deep walks go as a rule.
const FEW: usize = 64;

/// Every node that `root` reaches, sources before users, `root` last. The order depends on structure alone.
pub fn toposort(root: &UOp) -> Vec<UOp> {
    toposort_all(std::slice::from_ref(root), |_| true)
}

/// Every node that the roots reach, sources before users. Sources of a node for which `enter` is false are left out
/// (unless reached otherwise).
pub fn toposort_all(roots: &[UOp], enter: impl Fn(&UOp) -> bool) -> Vec<UOp> {
    let mut seen = Seen::new();
    let mut order = Vec::with_capacity(seen.expected());
    let mut stack: Vec<(&UOp, usize)> = Vec::with_capacity(FEW);
    for root in roots {
        if is_new(&mut seen, root) {
            stack.push((root, 0));
        }
        while let Some((node, next)) = stack.last_mut() {
            let srcs = if enter(node) { node.srcs() } else { &[] };
            match srcs.get(*next) {
                Some(src) => {
                    *next += 1;
                    if is_new(&mut seen, src) {
                        stack.push((src, 0));
                    }
                }
                None => {
                    order.push((*node).clone());
                    stack.pop();
                }
            }
        }
    }
    order
}

/// Whether the walk meets the node for the first time. A node that is referred to once is met once.
fn is_new(seen: &mut Seen, node: &UOp) -> bool {
    node.ref_count() == 1 || seen.insert(node.id())
}

/// The device of a value, which the nearest copies and buffers under it say.
pub fn device_of(x: &UOp) -> Option<Arc<str>> {
    let all = toposort_all(std::slice::from_ref(x), |n| n.arg().device().is_none());
    all.iter().find_map(|n| n.arg().device())
}

/// Whether the root reaches a node for which `is_wanted` holds. Sources of a node for which `enter` is false are not
/// looked at (unless reached otherwise).
pub fn reaches(root: &UOp, enter: impl Fn(&UOp) -> bool, is_wanted: impl Fn(&UOp) -> bool) -> bool {
    let mut seen = Seen::new();
    let mut stack = vec![root];
    while let Some(node) = stack.pop() {
        if !is_new(&mut seen, node) {
            continue;
        }
        if is_wanted(node) {
            return true;
        }
        if enter(node) {
            stack.extend(node.srcs());
        }
    }
    false
}

/// The nodes that `root` reaches for which `is_wanted` holds, in no order that means anything.
pub fn find_all(root: &UOp, is_wanted: impl Fn(&UOp) -> bool) -> Vec<UOp> {
    let (mut seen, mut found) = (Seen::new(), Vec::new());
    let mut stack = vec![root];
    while let Some(node) = stack.pop() {
        if is_new(&mut seen, node) {
            found.extend(is_wanted(node).then(|| node.clone()));
            stack.extend(node.srcs());
        }
    }
    found
}

/// The first number that no local memory among the nodes has.
pub fn free_local(nodes: &[UOp]) -> u32 {
    let memories = nodes.iter().filter(|n| n.op() == Op::Local).filter_map(|n| n.arg().memory());
    memories.map(|(_, id, _)| id + 1).max().unwrap_or(0)
}

/// A node's sources, each as it is in `done`.
pub fn mapped(node: &UOp, done: &FxHashMap<UOp, UOp>) -> Srcs {
    let mut srcs = Srcs::new();
    // one by one: collecting costs several times as much
    node.srcs().iter().for_each(|s| srcs.push(done[s].clone()));
    srcs
}

/// The node with other sources (itself, where they are the same). Binary arithmetic is canonicalized again.
pub fn rebuild(node: &UOp, srcs: Srcs) -> UOp {
    if node.srcs() == srcs.as_slice() {
        return node.clone();
    }
    if srcs.len() == 2 && node.op().is_commutative() {
        let mut srcs = srcs.into_iter();
        let (a, b) = (srcs.next().expect("two sources"), srcs.next().expect("two sources"));
        return UOp::binary_typed(node.op(), node.dtype(), a, b);
    }
    if node.op() == Op::After && !matches!(node.arg(), Arg::Check(_)) {
        // its argument is the memory's, which may be another now
        return srcs[0].after(srcs[1..].iter().cloned());
    }
    UOp::new(node.op(), node.dtype(), node.lanes(), srcs, node.arg().clone())
}

/// The graphs with every node in `map` replaced; replacements are not looked into again. Origins are kept.
pub fn substitute(roots: &[UOp], map: &FxHashMap<UOp, UOp>) -> Vec<UOp> {
    let mut done: FxHashMap<UOp, UOp> = map.clone();
    for node in toposort_all(roots, |n| !map.contains_key(n)) {
        if !done.contains_key(&node) {
            let srcs = mapped(&node, &done);
            let new = rebuild(&node, srcs);
            new.copy_origin(&node);
            done.insert(node, new);
        }
    }
    roots.iter().map(|r| done[r].clone()).collect()
}

/// A range's axis number.
pub fn axis_of(range: &UOp) -> u32 {
    range.arg().range().expect("a range has a range argument").0
}

/// A range's kind.
pub fn kind_of(range: &UOp) -> RangeKind {
    range.arg().range().expect("a range has a range argument").1
}
