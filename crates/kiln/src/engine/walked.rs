//! The result of a walk: copies to make first, and values to store beside the roots.

use super::crossing::{Crossing, crossings};
use super::planning::Planning;
use super::walk::{Busy, Reached, Walk};
use super::{Few, filler};
use crate::device::Device;
use kiln_ir::{Op, UOp};
use std::cell::{Cell, LazyCell};

thread_local! {
    /// How many nodes the last walk reached: in a loop the next one needs as much room.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// A walk from roots to leaves, with what it computes.
pub(super) struct Walked {
    pub(super) walk: Walk,
    /// The roots (positions).
    roots: Few<usize>,
    /// An effect is computed whenever the value that carries it is (positions).
    effects: Few<usize>,
}

impl Walked {
    /// Walks from the roots down to the leaves. The roots are computed on `device`. If it `writes_out`, each composite is
    /// the value that it is written out as.
    pub(super) fn from(
        roots: &[UOp],
        writes_out: bool,
        device: &Device,
        planning: &Planning,
    ) -> Result<Walked, Busy> {
        let mut walk = Walk::with_room(LAST.get(), writes_out, device, planning);
        let roots = roots.iter().map(|root| walk.visit(root)).collect::<Result<_, _>>()?;
        let mut effects = Few::new();
        while let Some(effect) = walk.effects.get(effects.len()).cloned() {
            effects.push(walk.visit(&effect)?);
        }
        LAST.set(walk.nodes.len());
        Ok(Walked { walk, roots, effects })
    }

    /// What it computes (positions); effects come last.
    pub(super) fn asked(&self) -> Few<usize> {
        self.roots.iter().chain(&self.effects).copied().collect()
    }

    /// The copies from other devices that are not made.
    pub(super) fn crossings(&self) -> Vec<Crossing> {
        crossings(&self.walk)
    }

    /// Adds to the roots: values that an earlier walk passed too, and writes that wait. Returns these nodes.
    pub(super) fn store_also(&mut self) -> Vec<UOp> {
        let is_asked = self.is_asked();
        let whole = LazyCell::new(|| self.read_whole(&is_asked));
        let is_whole = |at: usize| whole[at];
        let mut also = self.passed_again(&is_asked, is_whole);
        also.extend(self.pending_writes(&is_asked, is_whole, &also));
        self.roots.extend(also.iter().copied());
        also.into_iter().map(|at| self.walk.node(at).clone()).collect()
    }

    /// By position: whether it is a root or an effect.
    fn is_asked(&self) -> Vec<bool> {
        let mut is_asked = vec![false; self.walk.nodes.len()];
        self.roots.iter().chain(&self.effects).for_each(|&at| is_asked[at] = true);
        is_asked
    }

    /// The topmost nodes that an earlier realize walked without storing them. They are stored now, and the others are noted
    /// as walked. So a loop that reads something small of a growing value computes each part twice at most.
    ///
    /// A filler is stored if it is dear to compute (random weights) and read as a whole: it may be larger than memory.
    fn passed_again(&self, is_asked: &[bool], is_whole: impl Fn(usize) -> bool) -> Vec<usize> {
        // a node is topmost if a node that was not walked before needs it
        let (mut again, mut is_needed) = (Vec::new(), is_asked.to_vec());
        let is_read = self.read_as_they_are();
        for (at, reached) in self.walk.nodes.iter().enumerate().rev() {
            if !is_needed[at] {
                continue;
            }
            let is_trivial =
                is_read[at] || is_trivial(reached) || reached.is_filler && !is_whole(at);
            if !is_asked[at] && !is_trivial && reached.node.set_seen(true) {
                again.push(at);
                continue;
            }
            reached.sources().iter().for_each(|&s| is_needed[s] = true);
        }
        again
    }

    /// By position: whether it is memory, or a view of memory, in the same or another dtype. Whoever reads it converts it on
    /// the way: weights of 16 bits stay what they are.
    fn read_as_they_are(&self) -> Vec<bool> {
        let mut is_read = Vec::with_capacity(self.walk.nodes.len());
        for reached in &self.walk.nodes {
            let is_like = reached.node.op() == Op::Cast || is_view(reached);
            is_read.push(is_memory(reached) || is_like && is_read[reached.edges[0]]);
        }
        is_read
    }

    /// Writes that wait: versions that are not computed, but referred to from outside of the walk. Each writes to memory, or
    /// to one of `again`. They are stored with the roots, which costs as much as is written. So a loop may write a part of
    /// a cache in each step and read the whole: each part is computed once, and nothing is left for the next step.
    ///
    /// A cache that begins as zeros is memory from the first write on, if only a part of it is read: more will be
    /// written behind that part, and by then it has to be memory.
    fn pending_writes(
        &self,
        is_asked: &[bool],
        is_whole: impl Fn(usize) -> bool,
        again: &[usize],
    ) -> Vec<usize> {
        if !self.walk.has_versions {
            return Vec::new();
        }
        // by position: whether it is memory, or will be
        let mut is_stored: Vec<bool> = self.walk.nodes.iter().map(is_memory).collect();
        again.iter().for_each(|&at| is_stored[at] = true);
        // or writes to such a version, or to a filler
        let (mut in_memory, mut over_filler) = (is_stored.clone(), vec![false; is_stored.len()]);
        let mut pending = Vec::new();
        for (at, reached) in self.walk.nodes.iter().enumerate() {
            let is_version = reached.node.op() == Op::Update && reached.computed.is_none();
            let base = |of: &[bool]| is_version && of[reached.edges[0]];
            in_memory[at] |= base(&in_memory);
            over_filler[at] = base(&over_filler) || is_version && self.is_filled(reached);
            let to_memory = in_memory[at] || over_filler[at] && !is_whole(at);
            let is_pending = is_version && to_memory && !is_stored[at] && reached.is_held();
            if is_pending && !is_asked[at] && !reached.differentiable {
                pending.push(at);
            }
        }
        pending
    }

    /// Whether an update writes into a filler, or into the copy of one.
    fn is_filled(&self, update: &Reached) -> bool {
        let base = &self.walk.nodes[update.edges[0]];
        let is_copy = base.node.op() == Op::Copy && base.computed.is_none();
        base.is_filler || is_copy && self.walk.nodes[base.edges[0]].is_filler
    }

    /// By position: whether more than a part of the node is read. The next write to a version does not read it.
    fn read_whole(&self, is_asked: &[bool]) -> Vec<bool> {
        let mut is_whole = is_asked.to_vec();
        for (at, reached) in self.walk.nodes.iter().enumerate().rev() {
            let op = reached.node.op();
            for (nth, &s) in reached.sources().iter().enumerate() {
                let is_part = reached.node.numel() < self.walk.node(s).numel();
                is_whole[s] |= match op {
                    Op::Update if nth == 0 => false,
                    Op::Slice if is_part => false,
                    _ if op.is_movement() || op.is_elementwise() => is_whole[at],
                    _ => true,
                };
            }
        }
        is_whole
    }
}

/// Whether the node is memory, or stands for it.
fn is_memory(reached: &Reached) -> bool {
    reached.computed.is_some() || reached.node.op() == Op::Buffer
}

/// Whether it costs nothing to compute the node again: it is there, or a view, or as cheap as a read.
fn is_trivial(reached: &Reached) -> bool {
    let is_kept = matches!(reached.node.op(), Op::Buffer | Op::Copy);
    let is_cheap = reached.is_filler && !filler::is_dear(&reached.node, reached.time);
    is_cheap || is_kept || is_view(reached) || reached.computed.is_some()
}

fn is_view(reached: &Reached) -> bool {
    let op = reached.node.op();
    op.is_movement() || matches!(op, Op::Detach | Op::Mark)
}
