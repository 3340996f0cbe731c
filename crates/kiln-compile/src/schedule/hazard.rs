//! Part of pass `assign`: finds what an update must read before it writes, because it reads the memory that it
//! overwrites.
//!
//! Within one iteration reads come before the write. So an element may be read where it is written, and memory apart
//! from all that is written may be read at any time. Everything else is stored first, in memory of its own.

use super::choices::{Choices, Reason};
use super::writes::same_memory;
use kiln_ir::region::{self, Region};
use kiln_ir::uop::toposort_all;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashSet;

/// A value of more nodes than this is assumed to read everything.
const MAX_WALK: usize = 1 << 20;

/// What is known of the values that are written to one storage, from one update to the next.
#[derive(Default)]
pub(super) struct Hazards {
    /// Nodes that read no version of the storage.
    clean: FxHashSet<UOp>,
}

impl Hazards {
    /// The nodes under `x` that must be stored before an update of `base` writes `x` at the positions `at`, because
    /// what they read may be overwritten. `versions` tells which nodes may be the same memory as `base`.
    pub(super) fn needed_before(
        &mut self,
        x: &UOp,
        base: &UOp,
        at: &UOp,
        versions: impl Fn(&UOp) -> bool,
        choices: &Choices,
    ) -> Vec<UOp> {
        let written = Written { at, size: base.dtype().size() };
        let base = same_memory(base);
        let (mut stack, mut seen, mut needed) = (vec![], FxHashSet::default(), Vec::new());
        let mut excused = false;
        stack.push((x.clone(), x.clone()));
        while let Some((node, user)) = stack.pop() {
            if versions(&node) {
                // it may be overwritten, so the node that computes with it is stored first
                let safe = node == *base && written.aligned(&node, base);
                needed.extend((!safe).then_some(user));
                excused = true;
                continue;
            }
            if self.clean.contains(&node) || !seen.insert(node.clone()) {
                continue;
            }
            if seen.len() > MAX_WALK {
                return vec![x.clone()];
            }
            let viewed = viewed(&node);
            if versions(viewed) {
                let apart = written.apart(&node, viewed).filter(|_| viewed == base);
                apart.into_iter().for_each(|side| choices.because(side));
                let safe = viewed == base && (apart.is_some() || written.aligned(&node, viewed));
                excused |= safe;
                needed.extend((!safe).then(|| once(&node, &versions)));
            } else if node.op().is_elementwise() && !(node.op() == Op::Bitcast && resizes(&node)) {
                stack.extend(node.srcs().iter().map(|s| (s.clone(), node.clone())));
            } else if reaches(&node, &versions) {
                needed.push(once(&node, &versions));
            }
        }
        // what is safe for this update may not be for another
        if !excused {
            self.clean.extend(seen);
        }
        needed
    }
}

/// The source of an expansion, unless that is the memory itself.
fn once(node: &UOp, versions: impl Fn(&UOp) -> bool) -> UOp {
    let mut node = node;
    while node.op() == Op::Expand && !versions(node.src(0)) {
        node = node.src(0);
    }
    node.clone()
}

/// Whether a node is computed from a version.
fn reaches(node: &UOp, versions: impl Fn(&UOp) -> bool) -> bool {
    toposort_all(std::slice::from_ref(node), |n| !versions(n)).iter().any(&versions)
}

fn resizes(bitcast: &UOp) -> bool {
    bitcast.dtype().size() != bitcast.src(0).dtype().size()
}

/// The node under a chain of views.
fn viewed(node: &UOp) -> &UOp {
    let mut node = node;
    while is_view(node) {
        node = node.src(0);
    }
    node
}

fn is_view(node: &UOp) -> bool {
    matches!(node.op(), Op::Reshape | Op::Permute | Op::Slice | Op::Expand)
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

/// The elements that an update writes: at these positions, of so many bytes each. The memory may hold elements of
/// another size.
struct Written<'a> {
    at: &'a UOp,
    size: usize,
}

impl Written<'_> {
    /// Whether each element is read exactly where it is written, and written once.
    fn aligned(&self, view: &UOp, whole: &UOp) -> bool {
        self.size == whole.dtype().size()
            && positions(view, whole) == *self.at
            && region::is_one_to_one(self.at, whole.numel())
    }

    /// The side of the written region on which all reads are; none if they may meet it.
    fn apart(&self, view: &UOp, whole: &UOp) -> Option<Reason> {
        let read = bytes(&positions(view, whole), whole.dtype().size());
        match (read, bytes(self.at, self.size)) {
            (Some((_, high)), Some((from, _))) if high <= from => Some(Reason::Before),
            (Some((low, _)), Some((_, to))) if to <= low => Some(Reason::Behind),
            _ => None,
        }
    }
}

/// The first byte of elements at these positions, and the one after the last.
fn bytes(at: &UOp, size: usize) -> Option<(i64, i64)> {
    let (low, high) = Region::of(at)?.bounds()?;
    Some((low * size as i64, high * size as i64))
}
