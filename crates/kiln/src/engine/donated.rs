//! Leaves whose buffers were donated: marked before the first launch, spent after the last.
//!
//! If something fails in between, the buffers that no kernel has touched are given back. The others become errors:
//! their old value is gone, and their new value does not exist.

use super::cache::Ready;
use super::capture::Closed;
use super::leaf::{self, Value};
use kiln_compile::schedule::BufferRef;
use kiln_ir::UOp;
use kiln_ir::uop::toposort_all;
use kiln_runtime::Buffer;

/// Donated leaves: their buffers belong to outputs while kernels run.
#[derive(Default)]
pub(super) struct Donated(Vec<Leaf>);

struct Leaf {
    leaf: UOp,
    buffer: Buffer,
    /// The root that has its buffer now.
    root: usize,
    /// The computed nodes that referred to it.
    stand_ins: Vec<StandIn>,
}

/// A computed node that refers to a leaf.
pub(super) struct StandIn {
    node: UOp,
    differentiable: bool,
    shares: bool,
}

impl StandIn {
    pub(super) fn of(closed: &Closed, at: usize) -> StandIn {
        let (differentiable, shares) = (closed.is_differentiable(at), closed.shares(at));
        StandIn { node: closed.node(at).clone(), differentiable, shares }
    }

    /// The node no longer refers to the leaf.
    pub(super) fn forget(&self) {
        leaf::set_slot(&self.node, None);
    }

    /// The node refers to the leaf again.
    pub(super) fn remember(&self, leaf: &UOp) {
        let (differentiable, shares) = (self.differentiable, self.shares);
        let value = Value { leaf: leaf.clone(), differentiable, shares };
        leaf::set_computed(&self.node, value);
    }

    /// Whether everything that the node is computed from still has its value.
    fn is_computable(&self) -> bool {
        let below = toposort_all(std::slice::from_ref(&self.node), |n| leaf::computed(n).is_none());
        below.iter().filter_map(leaf::of).all(|leaf| leaf::buffer(&leaf).is_ok())
    }
}

impl Donated {
    /// Donates a leaf's buffer to a root. The nodes that referred to the leaf have been cut off already.
    pub(super) fn take(&mut self, leaf: &UOp, root: usize, stand_ins: Vec<StandIn>) {
        let buffer = leaf::take(leaf);
        self.0.push(Leaf { leaf: leaf.clone(), buffer, root, stand_ins });
    }

    /// All kernels have run: the new values exist.
    pub(super) fn spend(&mut self) {
        self.0.clear();
    }

    /// The kernel at `step` failed, or, without a step, something before the first launch. Called under the planning
    /// lock.
    pub(super) fn fail(&mut self, ready: &Ready, step: Option<usize>, why: &str) {
        let reached = |l: &Leaf, step| first_write(ready, l.root).is_none_or(|first| first <= step);
        let (touched, intact): (Vec<_>, Vec<_>) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|l| step.is_some_and(|step| reached(l, step)));
        intact.iter().for_each(Leaf::give_back);
        touched.iter().for_each(|l| leaf::fail(&l.leaf, why));
        // only now is it known which of the nodes can be computed again
        touched.iter().for_each(Leaf::mourn);
    }
}

impl Drop for Donated {
    fn drop(&mut self) {
        self.0
            .iter()
            .for_each(|l| leaf::fail(&l.leaf, "the thread that was overwriting it panicked"));
    }
}

impl Leaf {
    fn give_back(&self) {
        leaf::give_back(&self.leaf, self.buffer.clone());
        self.stand_ins.iter().for_each(|n| n.remember(&self.leaf));
    }

    /// The nodes that had this value have lost it. They are computed again if that is possible; else reading them gives
    /// the same error.
    fn mourn(&self) {
        let lost = self.stand_ins.iter().filter(|n| !n.is_computable());
        lost.for_each(|n| n.remember(&self.leaf));
    }
}

/// The kernel that begins to write a root.
fn first_write(ready: &Ready, root: usize) -> Option<usize> {
    ready.kernels.iter().position(|k| k.plan.args.contains(&BufferRef::Output(root)))
}
