//! Where gradients can go: through nodes, and from a leaf to the node that it was computed from.

use super::leaf;
use super::measure::count;
use kiln_ir::arg::ReduceOp;
use kiln_ir::uop::{Srcs, reaches, rebuild, substitute, toposort_all};
use kiln_ir::{Arg, Op, UOp};
use rustc_hash::FxHashMap;
use std::cell::Cell;

/// Replaces a computed node that a gradient goes through by its leaf. The leaf remembers the node from now on. If other
/// values share the leaf, the node stays.
pub(crate) fn remember(node: &UOp, leaf: UOp) -> UOp {
    match leaf::value(node) {
        Some(value) if value.shares => node.clone(),
        Some(value) => {
            leaf::set_history(&value.leaf, Some(node.clone()));
            leaf::set_computed(node, value);
            leaf
        }
        None => leaf,
    }
}

/// `root` with each leaf replaced by the node that it remembers: the one that it was computed from.
pub(crate) fn with_history(root: &UOp) -> UOp {
    let remembers = |n: &UOp| n.op() == Op::Buffer && leaf::history(n).is_some();
    let mut root = root.clone();
    while reaches(&root, is_open, |n| remembers(n) || lacks_its_values(n)) {
        let nodes = toposort_all(std::slice::from_ref(&root), is_open);
        let of_leaves = nodes.iter().filter(|n| n.op() == Op::Buffer);
        let of_leaves = of_leaves.filter_map(|l| Some((l.clone(), leaf::history(l)?)));
        let extremes =
            nodes.iter().filter(|n| lacks_its_values(n)).map(|n| (n.clone(), found_again(n)));
        root = opened(root, &of_leaves.chain(extremes).collect());
    }
    root
}

/// Whether a largest or smallest element has been computed, and what it was found in has not. A gradient looks for the
/// elements that are equal to it. Computed again, in another kernel, none may be.
fn lacks_its_values(node: &UOp) -> bool {
    let Some(at) = extreme_of(node) else { return false };
    let mut values = node.src(at);
    while values.op().is_movement() || matches!(values.op(), Op::Mark | Op::Detach) {
        values = values.src(0);
    }
    let is_there = matches!(values.op(), Op::Buffer | Op::Const | Op::Remat);
    !is_there && leaf::value(node).is_some() && leaf::value(values).is_none()
}

/// The same extreme, found in values that are stored for it and for its gradient.
fn found_again(node: &UOp) -> UOp {
    let at = extreme_of(node).expect("an extreme");
    let mut srcs = node.srcs().iter().cloned().collect::<Srcs>();
    srcs[at] = srcs[at].remat([]);
    rebuild(node, srcs)
}

/// Which source has the elements of which a node is the largest or smallest.
fn extreme_of(node: &UOp) -> Option<usize> {
    let is_extreme = matches!(node.arg().reduce_op(), Some(ReduceOp::Max | ReduceOp::Min));
    match node.op() {
        Op::Reduce if is_extreme && node.dtype().is_float() => Some(0),
        Op::Update if is_extreme && node.dtype().is_float() => Some(1),
        _ => None,
    }
}

/// `root` with the nodes in `map` replaced. A computed node keeps its value if its sources were replaced: the memory
/// that it was computed from may be gone.
fn opened(root: UOp, map: &FxHashMap<UOp, UOp>) -> UOp {
    let mut nodes = toposort_all(std::slice::from_ref(&root), |n| !map.contains_key(n));
    nodes.retain(|n| !map.contains_key(n) && n.op() != Op::Buffer && leaf::value(n).is_some());
    nodes.push(root);
    let mut new = substitute(&nodes, map);
    for (old, new) in nodes.iter().zip(&new).filter(|(old, new)| old != new) {
        if let Some(value) = leaf::value(old) {
            leaf::keep(new, value);
        }
    }
    new.pop().expect("the root")
}

/// Whether a gradient of `root` could reach a marked read, or a leaf that remembers what it was computed from. Reads of the
/// storage `own` that end a gradient do not count.
pub(crate) fn has_gradient(root: &UOp, own: Option<u64>) -> bool {
    if leaf::value(root).is_some_and(|value| !value.differentiable) {
        return false;
    }
    let leads_on = |n: &UOp| match n.arg() {
        Arg::Mark { storage, ends } => !ends || own != Some(*storage),
        Arg::Buffer { .. } => leaf::history(n).is_some(),
        _ => false,
    };
    let visited = Cell::new(0);
    let enter = |n: &UOp| {
        visited.set(visited.get() + 1);
        is_open(n)
    };
    let found = reaches(root, enter, leads_on);
    count(|c| c.visited += visited.get());
    found
}

/// Makes every leaf under `root` forget what it was computed from.
pub(crate) fn forget_history(root: &UOp) {
    let forgets = |n: &UOp| {
        if n.op() == Op::Buffer {
            leaf::forget_history(n);
        }
        false
    };
    reaches(root, is_open, forgets);
}

/// Whether gradients go through a node to its sources.
pub(crate) fn is_open(node: &UOp) -> bool {
    match node.arg() {
        Arg::Mark { ends, .. } => !ends,
        _ => node.op() != Op::Detach,
    }
}
