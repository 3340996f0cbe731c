//! Part of pass `choose`: the state of a choice: the loops that are left, the options so far, the room for code.

use super::super::access::Kernel;
use super::super::opt::Opt;
use super::super::ranges::{axis_of, kind_of, size_of};
use super::order::Order;
use crate::target::{Costs, Target};
use kiln_ir::UOp;
use kiln_ir::arg::RangeKind;
use kiln_ir::scope::AxisSet;
use std::rc::Rc;

/// Chooses the options of one nest.
#[derive(Clone)]
pub(super) struct Chooser {
    pub(super) kernel: Rc<Kernel>,
    /// Every loop, and how many of its iterations are usually left after the options so far.
    pub(super) left: Vec<(usize, UOp)>,
    /// How long the launches are that it chooses for: a part of the way from the shortest to the longest.
    part: f64,
    pub(super) options: Vec<Opt>,
    pub(super) costs: Costs,
    /// Whether predicated vectors are cheap.
    pub(super) masks: bool,
    /// How long the code may become, in nodes.
    pub(super) nodes: usize,
    /// How many times longer the code may still become.
    pub(super) room: usize,
    /// The loops that are around other nests too.
    pub(super) around: Option<Around>,
    /// The order of sums that was chosen before, if it was.
    pub(super) order: Option<Order>,
}

/// What is decided before a nest is planned.
#[derive(Clone, Default)]
pub(super) struct Context {
    pub(super) around: Option<Around>,
    pub(super) order: Option<Order>,
}

/// Loops around several nests. Nothing is done to them, except that threads share one.
#[derive(Clone, Copy)]
pub(super) struct Around {
    /// They have smaller axes than this.
    pub(super) number: u32,
    pub(super) thread: Option<u32>,
}

impl Around {
    pub(super) fn has(&self, range: &UOp) -> bool {
        axis_of(range) < self.number
    }
}

impl Chooser {
    pub(super) fn new(
        kernel: &Rc<Kernel>,
        target: &Target,
        nodes: usize,
        context: Context,
    ) -> Chooser {
        let Context { around, order } = context;
        let part = target.costs.usual_launch;
        let is_around = |r: &UOp| around.is_some_and(|a| a.has(r));
        // loops that must run in order stay as they are
        let is_free = |r: &&UOp| is_around(r) || !kernel.ordered.contains(axis_of(r));
        let free = kernel.ranges.iter().filter(is_free);
        Chooser {
            kernel: kernel.clone(),
            left: free.map(|r| (kernel.trips(r, part), r.clone())).collect(),
            part,
            options: Vec::new(),
            costs: target.costs,
            masks: target.masks,
            nodes,
            room: nodes / kernel.nodes.max(1),
            around,
            order,
        }
    }

    /// Before any option, for other lengths.
    pub(super) fn at(&self, part: f64) -> Chooser {
        let left = self.left.iter().map(|(_, r)| (self.kernel.trips(r, part), r.clone())).collect();
        Chooser { left, part, ..self.clone() }
    }

    /// How many iterations a loop has.
    pub(super) fn trips(&self, range: &UOp) -> usize {
        self.kernel.trips(range, self.part)
    }

    /// The loops of a kind (positions).
    pub(super) fn loops_of(&self, kind: RangeKind) -> impl Iterator<Item = usize> + '_ {
        (0..self.left.len()).filter(move |&i| kind_of(&self.left[i].1) == kind)
    }

    /// Their axes.
    pub(super) fn axes_of(&self, kind: RangeKind) -> AxisSet {
        self.loops_of(kind).map(|i| axis_of(&self.left[i].1)).collect()
    }

    /// Whether a loop is around other nests, too.
    pub(super) fn is_around(&self, i: usize) -> bool {
        self.around.is_some_and(|a| a.has(&self.left[i].1))
    }

    /// The position of the loop that was chosen for threads before the nest was looked at.
    pub(super) fn chosen_thread(&self) -> Option<usize> {
        let thread = self.around?.thread?;
        self.left.iter().position(|(_, r)| axis_of(r) == thread)
    }

    /// Splits off a loop over blocks of `by` iterations, outside of earlier blocks. If that is all of a launch of usual length,
    /// a block is as long as the longest launch: a loop over several blocks would be around everything.
    pub(super) fn block(&mut self, i: usize, by: usize) {
        let is_all = by >= self.left[i].0;
        self.block_of(i, if is_all { self.most_left(i) } else { by });
    }

    /// The same with blocks of this size, also where that is all of a launch of usual length.
    pub(super) fn block_of(&mut self, i: usize, by: usize) {
        if by > 1 {
            self.options.push(Opt::Block { axis: axis_of(&self.left[i].1), by });
            self.left[i].0 = self.left[i].0.div_ceil(by);
        }
    }

    /// How many iterations of a loop are left in the longest launch.
    pub(super) fn most_left(&self, i: usize) -> usize {
        let (_, range) = &self.left[i];
        let own = axis_of(range);
        let by = |option: &Opt| match *option {
            Opt::Split { axis, by, .. } | Opt::Block { axis, by } => (axis == own).then_some(by),
            Opt::Mma { axes, by } => axes.iter().position(|&axis| axis == own).map(|side| by[side]),
            _ => None,
        };
        self.options.iter().filter_map(by).fold(size_of(range), usize::div_ceil)
    }

    /// The largest size of a value that is kept: a share of the second cache.
    pub(super) fn kept_bytes(&self, target: &Target) -> usize {
        target.cache_bytes[1] / self.costs.cache_share
    }

    pub(super) fn apply(&mut self, kind: RangeKind, i: usize, by: usize) {
        if by == 1 && kind != RangeKind::Thread {
            return;
        }
        self.options.push(Opt::Split { kind, axis: axis_of(&self.left[i].1), by });
        self.left[i].0 = self.left[i].0.div_ceil(by);
        if kind != RangeKind::Vector {
            self.room /= by;
        }
    }
}

impl Chooser {
    /// How many iterations of a loop become this kind in the order that was chosen before.
    pub(super) fn given(&self, kind: RangeKind, i: usize) -> Option<usize> {
        self.given_option(i, |option, own| match *option {
            Opt::Split { kind: k, axis, by } if k == kind && axis == own => Some(by),
            _ => None,
        })
    }

    /// The size of a loop's blocks in that order.
    pub(super) fn given_block(&self, i: usize) -> Option<usize> {
        self.given_option(i, |option, own| match *option {
            Opt::Block { axis, by } if axis == own => Some(by),
            _ => None,
        })
    }

    fn given_option(&self, i: usize, find: impl Fn(&Opt, u32) -> Option<usize>) -> Option<usize> {
        let own = axis_of(&self.left[i].1) - self.around.map_or(0, |around| around.number);
        self.order.as_ref()?.options.iter().find_map(|option| find(option, own))
    }
}
