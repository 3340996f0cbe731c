//! Part of pass `choose`: which loop threads share.

use super::super::opt::Opt;
use super::super::ranges::{axis_of, kind_of};
use super::chooser::Chooser;
use crate::target::Target;
use kiln_ir::UOp;
use kiln_ir::arg::RangeKind;
use kiln_ir::scope::AxisSet;
use rustc_hash::FxHashMap;

impl Chooser {
    /// Whether there is enough to do for several threads.
    pub(super) fn worth_threads(&self) -> bool {
        let sizes: FxHashMap<u32, usize> =
            self.left.iter().map(|(_, r)| (axis_of(r), self.trips(r))).collect();
        let times = |scope: &AxisSet| {
            let loops = scope.iter().filter_map(|axis| sizes.get(&axis));
            loops.fold(1, |n: usize, size| n.saturating_mul(*size))
        };
        let accesses = self.kernel.accesses.iter().map(|a| times(&a.scope));
        let all = self.kernel.operations.iter().map(times).chain(accesses);
        all.fold(0, usize::saturating_add) >= self.costs.thread_work
    }

    /// Whether some loop is shared already.
    pub(super) fn has_threads(&self) -> bool {
        let is_thread = |o: &Opt| matches!(o, Opt::Split { kind: RangeKind::Thread, .. });
        self.options.iter().any(is_thread)
    }

    pub(super) fn threads(&mut self, target: &Target) {
        if self.around.is_some() {
            let chosen = self.chosen_thread();
            chosen.into_iter().for_each(|i| self.apply(RangeKind::Thread, i, 1));
            return;
        }
        if target.threads < 2 || !self.worth_threads() {
            return;
        }
        // the outermost loop over outputs with everything inside of it: what is outside every thread would repeat
        let has_all = |axis| self.kernel.nests.iter().all(|nest| nest.contains(axis));
        let is_shared = |(n, r): &(usize, UOp)| {
            *n >= target.threads && kind_of(r) == RangeKind::Loop && has_all(axis_of(r))
        };
        let Some(i) = self.left.iter().position(is_shared) else { return };
        if self.is_ragged_alone(i) {
            self.block(i, self.left[i].0.div_ceil(target.threads * self.costs.thread_blocks));
        }
        self.apply(RangeKind::Thread, i, 1);
    }

    /// Whether the loop is all that there is, and the last of its vectors is not full. A loop inside of what threads share
    /// can have that vector in a loop of its own (pass `trim`); without one, every vector would be predicated.
    fn is_ragged_alone(&self, i: usize) -> bool {
        let is_one = |(n, r): &(usize, UOp)| *n == 1 && kind_of(r) == RangeKind::Loop;
        let alone = self.left.iter().enumerate().all(|(j, loop_)| j == i || is_one(loop_));
        let ragged = |(j, lanes): (usize, usize)| {
            j == i && !self.trips(&self.left[i].1).is_multiple_of(lanes)
        };
        alone && self.lanes_of_outputs().is_some_and(ragged)
    }
}
