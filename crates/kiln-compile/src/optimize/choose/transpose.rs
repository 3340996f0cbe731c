//! Part of pass `choose`: kernels that read memory across the direction in which they write it, as transposes do.
//!
//! Along the lanes of a vector such a load takes one element from each of many cache lines. The rest of those lines is
//! needed by the next iterations of another loop. If these come too late, the lines have left the cache, and each line
//! is fetched once for every element in it. So as many iterations of that loop as a line has elements are unrolled side
//! by side.

use super::super::access::Access;
use super::super::opt::Opt;
use super::super::ranges::{axis_of, kind_of};
use super::chooser::Chooser;
use super::priced::{self, Priced};
use super::tile::largest_divisor;
use crate::target::Target;
use kiln_ir::UOp;
use kiln_ir::arg::RangeKind;

impl Chooser {
    /// Unrolls, side by side, iterations that share the cache lines of accesses whose lanes are no neighbours.
    pub(super) fn transpose(&mut self, target: &Target) {
        let Some((i, lanes)) = self.lanes_of_outputs() else { return };
        let axis = axis_of(&self.left[i].1);
        let is_inside =
            |r: &UOp| kind_of(r) == RangeKind::Reduce && self.kernel.together(axis_of(r), axis);
        if self.left.iter().any(|(_, r)| is_inside(r)) {
            return;
        }
        let apart = self.apart(axis);
        let each = |access: &&Access| match self.has_predicates_by_lane(access, axis) {
            true => self.costs.gated_element,
            false => 1.0,
        };
        let elements = lanes as f64 * apart.iter().map(each).sum::<f64>().max(1.0);
        let most = (self.costs.most_apart as f64 / elements) as usize;
        if let Some(j) = self.loop_along(&apart, i) {
            let most = self.costs.transposed_side.min(self.room).min(most);
            let by = self.unrolled_side(j, most);
            self.apply(RangeKind::Upcast, j, by);
            if self.is_one_nest() {
                self.block(j, self.lines_apart(j, by, target.threads));
                self.block(i, self.lines_apart(i, lanes, 1));
            }
        }
    }

    /// Whether all loops are around all stores: only then are there blocks.
    fn is_one_nest(&self) -> bool {
        let has_all =
            |(_, r): &(usize, _)| self.kernel.nests.iter().all(|n| n.contains(axis_of(r)));
        self.left.iter().all(has_all)
    }

    /// The iterations of a loop, each of as many lines, in a block, so that each of the `parts` that share the loop
    /// gets a block. A block that does not divide the loop would need a predicate on every access.
    fn lines_apart(&self, i: usize, each: usize, parts: usize) -> usize {
        let share = self.left[i].0 / parts.max(1);
        largest_divisor(self.left[i].0, share.min(self.costs.pages / each))
    }

    /// The accesses that step over memory along an axis.
    pub(super) fn apart(&self, axis: u32) -> Vec<&Access> {
        let is_apart = |a: &&Access| !matches!(a.stride(axis), Some(0 | 1));
        self.kernel.accesses.iter().filter(is_apart).collect()
    }

    /// Whether each lane of an access has a predicate of its own, because a launch decides which lane is the last. Each is code of
    /// its own, which is long.
    fn has_predicates_by_lane(&self, access: &Access, axis: u32) -> bool {
        self.kernel.has_lengths() && access.gate.contains(axis)
    }

    /// The loop but `lanes` whose neighbours are neighbours in the memory of most of the accesses, the innermost of equals.
    fn loop_along(&self, accesses: &[&Access], lanes: usize) -> Option<usize> {
        let along = |j: usize| {
            let axis = axis_of(&self.left[j].1);
            accesses.iter().filter(|a| a.stride(axis) == Some(1)).count()
        };
        let is_free = |&j: &usize| j != lanes && self.left[j].0 > 1 && !self.is_around(j);
        let all = (0..self.left.len()).filter(is_free).map(|j| (along(j), j));
        all.filter(|(count, _)| *count > 0).max().map(|(_, j)| j)
    }

    /// How many iterations of a loop are unrolled: a number that divides them, or, if predicates are cheap and that is small,
    /// the number near `most` that costs least. Each block costs as much as some iterations, and what is left over is
    /// wasted: 12 of 35, which are then 36, and not 16, which would be 48; but 16 of 197.
    fn unrolled_side(&self, j: usize, most: usize) -> usize {
        let n = self.left[j].0;
        let divisor = largest_divisor(n, most);
        if divisor > most / 2 || !self.masks {
            return divisor;
        }
        let price = |by: usize| {
            n.next_multiple_of(by) as f64 * (1.0 + self.costs.transposed_block / by as f64)
        };
        let near = (most / 2 + 1..=most.min(n)).rev();
        let by = near.clone().min_by(|&a, &b| price(a).total_cmp(&price(b))).unwrap_or(n);
        let option =
            |by| Opt::Split { kind: RangeKind::Upcast, axis: axis_of(&self.left[j].1), by };
        priced::decided(
            || "side of the squares".to_owned(),
            "iterations",
            || {
                let all: Vec<Priced> =
                    near.clone().map(|by| (vec![option(by)], price(by))).collect();
                let at = near.clone().position(|each| each == by);
                (all, at)
            },
        );
        by
    }
}
