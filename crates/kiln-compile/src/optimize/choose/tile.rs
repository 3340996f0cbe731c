//! Part of pass `choose`: small register tiles, and unrolling of short reductions.

use super::super::access::Access;
use super::super::ranges::{axis_of, kind_of};
use super::chooser::Chooser;
use crate::target::Target;
use kiln_ir::UOp;
use kiln_ir::arg::RangeKind;

impl Chooser {
    /// A register tile over output loops along which some load does not move: its value is shared.
    pub(super) fn tile(&mut self, target: &Target) {
        if !self.left.iter().any(|(_, r)| kind_of(r) == RangeKind::Reduce)
            || target.vector_registers < self.costs.registers_for_tiles
        {
            return;
        }
        // threads share the only loop over outputs: rows that are left after the last tile cannot have a loop of their own
        let is_only_one = self.loops_of(RangeKind::Loop).count() == 1;
        let mut tile = 1;
        for i in (0..self.left.len()).rev() {
            let range = self.left[i].1.clone();
            let is_free = kind_of(&range) == RangeKind::Loop && !self.is_around(i);
            if !is_free || !self.reuses(axis_of(&range)) {
                continue;
            }
            let room = (self.costs.in_flight / tile).min(self.room);
            let by = match self.at_once(i, room.min(self.costs.most_tiled)) {
                // a row of 5 or 7, which nothing divides
                1 if self.left[i].0 <= room => self.left[i].0,
                by => by,
            };
            if by > 1 && (!is_only_one || self.left[i].0.is_multiple_of(by)) {
                self.apply(RangeKind::Upcast, i, by);
                tile *= by;
            }
        }
    }

    /// Whether some load inside a reduction does not move along an output loop while another does.
    pub(super) fn reuses(&self, axis: u32) -> bool {
        let reduces = self.axes_of(RangeKind::Reduce);
        let inner = |a: &&Access| !a.is_store && a.scope.intersects(&reduces);
        let loads: Vec<&Access> = self.kernel.accesses.iter().filter(inner).collect();
        // every load of the reduction must be inside a loop that this one shares, or the tile would repeat other work
        loads.iter().any(|a| a.stride(axis) == Some(0))
            && loads.iter().any(|a| a.stride(axis) != Some(0))
    }

    /// Unrolls short loops of reductions, the innermost first; and others while there are not more than `wanted` terms.
    pub(super) fn unroll(&mut self, wanted: usize) {
        let mut unrolled: Vec<(u32, usize)> = Vec::new();
        for i in (0..self.left.len()).rev() {
            let (size, range) = self.left[i].clone();
            if kind_of(&range) != RangeKind::Reduce || size == 1 {
                continue;
            }
            let axis = axis_of(&range);
            let of_same_sum = |(other, _): &&(u32, usize)| self.kernel.together(*other, axis);
            let terms: usize = unrolled.iter().filter(of_same_sum).map(|(_, by)| by).product();
            let is_short = size <= self.costs.unroll_whole.min(self.room)
                && terms * size <= self.costs.most_unrolled;
            let by = match self.order {
                Some(_) => self.given(RangeKind::Unroll, i),
                None => (is_short || terms * size <= wanted).then_some(size),
            };
            let by = by.unwrap_or(1);
            unrolled.push((axis, by));
            self.apply(RangeKind::Unroll, i, by);
        }
    }

    /// Unrolls loops over outputs that compute again what an unrolled reduction has: its values stay in registers.
    /// Example: the quotients of a softmax over rows of 64.
    pub(super) fn unroll_again(&mut self, reduced: &[UOp], again: &[UOp]) {
        let is_unrolled = |(left, r): &(usize, UOp)| *left == 1 || !reduced.contains(r);
        if !self.left.iter().all(is_unrolled) {
            return;
        }
        for i in 0..self.left.len() {
            let (size, range) = &self.left[i];
            let is_output = kind_of(range) == RangeKind::Loop && again.contains(range);
            if is_output && *size <= self.costs.unroll_whole.min(self.room) {
                self.apply(RangeKind::Upcast, i, *size);
            }
        }
    }
}

pub(super) fn largest_divisor(n: usize, limit: usize) -> usize {
    (1..=limit).rev().find(|&d| n > 0 && n.is_multiple_of(d)).unwrap_or(1)
}
