//! Whether what an update writes may be computed while it is written into the very memory that it reads.
//!
//! Within one iteration reads come before the write, so elements that are read where they are written are safe, and so is
//! what lies apart from everything that is written. Anything else is computed first, into memory of its own.

use super::writes::same_memory;
use kiln_ir::region::Region;
use kiln_ir::uop::toposort_all;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashSet;
use std::cell::Cell;

/// Past this many nodes a value is taken to read anything.
const MAX_WALK: usize = 4096;

/// Nodes under `x`, which an update of `base` writes at the positions `at`, that must be in memory of their own before:
/// what they read may be overwritten by then. `versions` tells the nodes that may be the same memory as `base`.
pub(super) fn needed_before(
    x: &UOp,
    base: &UOp,
    at: &UOp,
    versions: impl Fn(&UOp) -> bool,
) -> Vec<UOp> {
    let base = same_memory(base);
    let (mut stack, mut seen, mut needed) = (vec![x.clone()], FxHashSet::default(), Vec::new());
    while let Some(node) = stack.pop() {
        if !seen.insert(node.clone()) {
            continue;
        }
        if seen.len() > MAX_WALK {
            return vec![x.clone()];
        }
        let viewed = viewed(&node);
        if versions(viewed) {
            let safe = viewed == base && (apart(&node, viewed, at) || aligned(&node, viewed, at));
            needed.extend((!safe).then(|| once(&node)));
        } else if node.op().is_elementwise() && !(node.op() == Op::Bitcast && resizes(&node)) {
            stack.extend(node.srcs().iter().cloned());
        } else if reaches(&node, &versions) {
            needed.push(once(&node));
        }
    }
    needed
}

/// What a repetition repeats.
fn once(node: &UOp) -> UOp {
    let mut node = node;
    while node.op() == Op::Expand {
        node = node.src(0);
    }
    node.clone()
}

/// Whether something under a node is a version.
fn reaches(node: &UOp, versions: impl Fn(&UOp) -> bool) -> bool {
    let walked = Cell::new(0);
    let inside = |n: &UOp| {
        walked.set(walked.get() + 1);
        walked.get() <= MAX_WALK && !versions(n)
    };
    let nodes = toposort_all(std::slice::from_ref(node), inside);
    walked.get() > MAX_WALK || nodes.iter().any(versions)
}

fn resizes(bitcast: &UOp) -> bool {
    bitcast.dtype().size() != bitcast.src(0).dtype().size()
}

/// What a view looks at.
fn viewed(node: &UOp) -> &UOp {
    let mut node = node;
    while is_view(node) {
        node = node.src(0);
    }
    node
}

fn is_view(node: &UOp) -> bool {
    matches!(node.op(), Op::Reshape | Op::Permute | Op::Slice | Op::Expand)
        && node.srcs().len() == 1
}

/// The positions that a view of `whole` shows.
fn positions(view: &UOp, whole: &UOp) -> UOp {
    let mut nodes = Vec::new();
    let mut node = view;
    while node != whole {
        nodes.push(node);
        node = node.src(0);
    }
    let all = UOp::positions(whole.shape().clone());
    nodes.iter().rev().fold(all, |x, node| node.viewed(&x))
}

/// Whether each element is read exactly where it is written.
fn aligned(view: &UOp, whole: &UOp, at: &UOp) -> bool {
    positions(view, whole) == *at
}

/// Whether nothing that is read is written.
fn apart(view: &UOp, whole: &UOp, at: &UOp) -> bool {
    let bounds = |at: &UOp| Region::of(at).and_then(|r| r.bounds());
    match (bounds(&positions(view, whole)), bounds(at)) {
        (Some((low, high)), Some((from, to))) => high <= from || to <= low,
        _ => false,
    }
}
