//! The driver: rewrites to fixpoint, sources first, without recursion.

use super::matcher::{Compiled, Track};
use crate::uop::{Srcs, UOp, rebuild};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// Rewrites of one node and of what it became, one inside the other. Sums of thousands of terms sort themselves in
/// as many steps; past this the rules are taken to chase each other.
pub const REWRITES_PER_NODE: u32 = 20_000;

/// How many rules are named when that limit trips.
pub const RULES_IN_TRACE: usize = 10;

/// Tracks nothing, at no cost.
pub(crate) struct Untracked;

impl Track for Untracked {
    type Started = ();
    #[inline]
    fn start(&self) {}
    #[inline]
    fn stop(&mut self, _: usize, (): (), _: bool) {}
}

/// A node on its way to its normal form.
struct Frame {
    node: UOp,
    /// What this node was before; all of it has the same normal form.
    before: SmallVec<[UOp; 2]>,
    /// The next source to look at.
    next: usize,
    /// A source has a normal form other than itself.
    changed: bool,
    /// Rewrites that led here.
    rewrites: u32,
}

/// One call's state: what is being rewritten, and what has been.
pub(crate) struct Driver<'a, C: 'static, T> {
    set: &'a Compiled<C>,
    ctx: &'a mut C,
    track: &'a mut T,
    /// Normal forms. Nodes that remember by a bit that they are normal are not in it.
    done: FxHashMap<UOp, UOp>,
    stack: Vec<Frame>,
    fired: [usize; RULES_IN_TRACE],
    n_fired: usize,
}

impl<'a, C, T: Track> Driver<'a, C, T> {
    pub(crate) fn new(set: &'a Compiled<C>, ctx: &'a mut C, track: &'a mut T) -> Self {
        let (done, stack) = (FxHashMap::default(), Vec::new());
        Driver { set, ctx, track, done, stack, fired: [0; RULES_IN_TRACE], n_fired: 0 }
    }

    /// The normal form of `root`.
    pub(crate) fn run(&mut self, root: &UOp) -> UOp {
        if !self.is_done(root) {
            self.push(root.clone(), 0);
        }
        while let Some(mut frame) = self.stack.pop() {
            if let Some(src) = self.unfinished_source(&mut frame) {
                let rewrites = frame.rewrites;
                self.stack.push(frame);
                self.push(src, rewrites);
            } else if let Some(frame) = self.advance(frame) {
                self.stack.push(frame);
            }
        }
        self.normal_form(root).clone()
    }

    fn push(&mut self, node: UOp, rewrites: u32) {
        self.stack.push(Frame { node, before: smallvec![], next: 0, changed: false, rewrites });
    }

    #[inline]
    fn is_normal(&self, node: &UOp) -> bool {
        node.normal_bits() & self.set.normal_bit != 0
    }

    fn is_done(&self, node: &UOp) -> bool {
        self.is_normal(node) || self.done.contains_key(node)
    }

    fn normal_form<'n>(&'n self, node: &'n UOp) -> &'n UOp {
        if self.is_normal(node) { node } else { &self.done[node] }
    }

    /// The next source that is not normal yet.
    fn unfinished_source(&self, frame: &mut Frame) -> Option<UOp> {
        while let Some(src) = frame.node.srcs().get(frame.next) {
            if !self.is_normal(src) {
                match self.done.get(src) {
                    None => return Some(src.clone()),
                    Some(normal) => frame.changed |= normal != src,
                }
            }
            frame.next += 1;
        }
        None
    }

    /// All sources are normal: takes them over, or rewrites the node, or is finished with it.
    fn advance(&mut self, mut frame: Frame) -> Option<Frame> {
        let new = if frame.changed {
            let srcs: Srcs =
                frame.node.srcs().iter().map(|s| self.normal_form(s).clone()).collect();
            rebuild(&frame.node, srcs)
        } else if let Some((new, rule)) = self.set.apply(&frame.node, self.ctx, self.track) {
            self.count(&mut frame, rule);
            new
        } else {
            let node = frame.node.clone();
            self.finish(frame, node);
            return None;
        };
        if self.is_done(&new) {
            let normal = self.normal_form(&new).clone();
            frame.before.push(std::mem::replace(&mut frame.node, new));
            self.finish(frame, normal);
            return None;
        }
        if new != frame.node {
            frame.before.push(std::mem::replace(&mut frame.node, new));
        }
        (frame.next, frame.changed) = (0, false);
        Some(frame)
    }

    fn finish(&mut self, frame: Frame, normal: UOp) {
        for before in frame.before {
            if before != normal {
                self.done.insert(before, normal.clone());
            }
        }
        if self.set.normal_bit == 0 {
            self.done.insert(normal.clone(), normal.clone());
        }
        normal.add_normal_bits(self.set.normal_bit);
        if frame.node != normal {
            self.done.insert(frame.node, normal);
        }
    }

    fn count(&mut self, frame: &mut Frame, rule: usize) {
        self.fired[self.n_fired % RULES_IN_TRACE] = rule;
        self.n_fired += 1;
        frame.rewrites += 1;
        if frame.rewrites > REWRITES_PER_NODE {
            self.give_up(&frame.node);
        }
    }

    fn give_up(&self, node: &UOp) -> ! {
        let first = self.n_fired.saturating_sub(RULES_IN_TRACE);
        let names = (first..self.n_fired).map(|i| {
            let place = &self.set.places[self.fired[i % RULES_IN_TRACE]];
            format!("  {} ({}:{})\n", place.name, place.file, place.line)
        });
        panic!(
            "kiln bug: `{}` rewrites {node:?} more than {REWRITES_PER_NODE} times; the last rules were\n{}",
            self.set.name,
            names.collect::<String>()
        );
    }
}
