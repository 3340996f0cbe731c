//! Whether what an update writes may be computed while it is written into the very memory that it reads.
//!
//! Within one iteration reads come before the write, so elements that are read where they are written are safe, and so is
//! what lies apart from everything that is written. Anything else is computed first, into memory of its own.

use super::writes::same_memory;
use kiln_ir::region::Region;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashSet;

/// Past this many nodes a value is taken to read anything.
const MAX_WALK: usize = 4096;

/// Whether computing `x` for an update of `base` at the positions `at` must come first. `versions` tells the nodes that
/// may be the same memory as `base`.
pub(super) fn must_come_first(
    x: &UOp,
    base: &UOp,
    at: &UOp,
    versions: impl Fn(&UOp) -> bool,
) -> bool {
    let base = same_memory(base);
    let mut stack = vec![(x.clone(), true)];
    let mut seen = FxHashSet::default();
    while let Some((node, in_place)) = stack.pop() {
        if !seen.insert((node.clone(), in_place)) {
            continue;
        }
        if seen.len() > MAX_WALK {
            return true;
        }
        let viewed = viewed(&node);
        if versions(viewed) {
            if !in_place
                || viewed != base
                || !(apart(&node, viewed, at) || aligned(&node, viewed, at))
            {
                return true;
            }
        } else if node.op().is_elementwise() && !(node.op() == Op::Bitcast && resizes(&node)) {
            stack.extend(node.srcs().iter().map(|s| (s.clone(), in_place)));
        } else {
            stack.extend(node.srcs().iter().map(|s| (s.clone(), false)));
        }
    }
    false
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
