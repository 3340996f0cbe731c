//! Part of pass `choose`: a filter stays where it is while pixels pass by. (Chen, Emer and Sze, *Eyeriss*, 2016: weight
//! stationary.)
//!
//! Example: a depthwise convolution of 3 x 3 in vectors of channels. The filter of 16 channels is 9 vectors, which are
//! gathered element by element, for channels are 9 elements apart. All pixels need the same 9 vectors. So the loop over the
//! pixels of a row goes inside the loop over channels: the vectors are gathered once a row, and stay in registers. A filter
//! of 5 x 5 is too large for registers: it is copied to scratch, in the order of its reads.

use super::super::opt::Opt;
use super::super::ranges::axis_of;
use super::super::stage;
use super::chooser::Chooser;
use super::tile::largest_divisor;
use crate::target::Target;
use kiln_ir::UOp;
use kiln_ir::arg::RangeKind;

/// How the filter of a reduction stays.
pub(super) struct Stationary {
    /// The loops that go inside the loop over lanes (positions), and how many iterations of each.
    inside: Vec<(usize, usize)>,
    /// The number of loops around the copy of the filter, if it does not stay in registers.
    copied: Option<usize>,
    /// How many terms of the reduction are unrolled: all where the filter stays in registers, else a row.
    pub(super) unrolled: usize,
}

impl Chooser {
    /// How the filter of a reduction in lanes over outputs stays, if it has one.
    pub(super) fn stationary(&self, ast: &UOp, target: &Target) -> Option<Stationary> {
        let (lane, lanes) = self.lanes_of_outputs()?;
        if self.around.is_some() || !self.has_filter(ast, lane) {
            return None;
        }
        let is_other = |&i: &usize| i != lane && self.left[i].0 > 1;
        let others: Vec<usize> = self.loops_of(RangeKind::Loop).filter(is_other).collect();
        if self.stays_in_registers(lanes, target) {
            let inside = self.passing(lane, others, self.costs.sums_for_registers, target)?;
            return Some(Stationary { inside, copied: None, unrolled: self.terms() });
        }
        let inside = self.passing(lane, others.clone(), self.costs.sums_for_copy, target)?;
        let is_outside = |&&i: &&usize| !inside.contains(&(i, self.left[i].0));
        let around = others.iter().filter(is_outside).count();
        let fits = self.terms() * lanes * self.kernel.widest <= target.cache_bytes[0] / 2;
        let row = self.left[self.loops_of(RangeKind::Reduce).last()?].0;
        let unrolled = if row * self.nodes_of_term() <= self.nodes { row } else { 1 };
        fits.then_some(Stationary { inside, copied: Some(around + 1), unrolled })
    }

    /// Whether the only operand is a filter: it varies over the lanes and the reduction alone.
    fn has_filter(&self, ast: &UOp, lane: usize) -> bool {
        let reduces = self.axes_of(RangeKind::Reduce);
        let mut own = reduces.clone();
        own.insert(axis_of(&self.left[lane].1));
        let is_one_nest = self.kernel.is_one_nest(&self.axes_of(RangeKind::Loop), &reduces);
        is_one_nest && matches!(&stage::operands(ast)[..], [filter] if *filter.scope() == own)
    }

    /// How many terms the reduction has.
    fn terms(&self) -> usize {
        let loops = self.loops_of(RangeKind::Reduce);
        loops.map(|i| self.left[i].0).fold(1, usize::saturating_mul)
    }

    /// How many sums a tile has.
    fn sums_of_tile(&self) -> usize {
        self.options.iter().fold(1, |sums, option| match *option {
            Opt::Split { kind: RangeKind::Upcast, by, .. } => sums * by,
            _ => sums,
        })
    }

    /// How long the code of a term is, for all sums of a tile.
    fn nodes_of_term(&self) -> usize {
        self.sums_of_tile() * self.costs.access_nodes
    }

    /// Whether registers hold the filter beside the sums of a tile, and the code stays short. An order of the sum that is
    /// given has decided it.
    fn stays_in_registers(&self, lanes: usize, target: &Target) -> bool {
        if self.order.is_some() {
            let is_whole =
                |i: usize| self.left[i].0 == self.given(RangeKind::Unroll, i).unwrap_or(1);
            return self.loops_of(RangeKind::Reduce).all(is_whole);
        }
        let terms = self.terms();
        // a lane of the filter is loaded and inserted
        let code = terms.saturating_mul(2 * lanes + self.nodes_of_term());
        terms + self.sums_of_tile() <= target.vector_registers && code <= self.nodes
    }

    /// The loops that go inside the loop over lanes, and how many iterations of each: as few loops as make enough sums. None
    /// if there are not enough, or if threads had to share the loop over lanes and could not evenly.
    fn passing(
        &self,
        lane: usize,
        mut others: Vec<usize>,
        enough: usize,
        target: &Target,
    ) -> Option<Vec<(usize, usize)>> {
        if others.iter().any(|&i| i > lane) || self.left[lane].0 < 2 {
            return None;
        }
        let (mut inside, mut sums) = (Vec::new(), self.sums_of_tile());
        while inside.is_empty() || sums < enough {
            let i = others.pop()?;
            let by = largest_divisor(self.left[i].0, self.costs.most_passing);
            // a long loop that nothing divides
            if by < 2 {
                return None;
            }
            inside.push((i, by));
            sums *= by;
        }
        let is_all = |&(i, by): &(usize, usize)| by == self.left[i].0;
        let lanes_are_shared = others.is_empty() && inside.iter().all(is_all);
        (!lanes_are_shared || self.is_even(lane, target)).then_some(inside)
    }

    /// Whether threads that share a loop have about as much to do each.
    fn is_even(&self, i: usize, target: &Target) -> bool {
        let n = self.left[i].0;
        n.is_multiple_of(target.threads) || n >= target.threads * self.costs.thread_blocks
    }

    /// Moves the loops that pass by inside.
    pub(super) fn pass_by(&mut self, stationary: &Stationary) {
        stationary.inside.iter().for_each(|&(i, by)| self.block(i, by));
    }

    /// Copies the filter, inside the loop over lanes.
    pub(super) fn copy_filter(&mut self, stationary: &Stationary) {
        let copy = |depth| Opt::Stage { operand: 0, depth, lanes: 1 };
        self.options.extend(stationary.copied.map(copy));
    }
}
