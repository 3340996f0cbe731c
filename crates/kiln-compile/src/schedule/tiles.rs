//! Part of pass `assign`: products that a kernel will compute in tiles. Their sums fill its registers and their operands the first
//! cache, so a kernel has room for few.

use super::assign::{Planner, depth};
use super::split::viewed;
use super::views::has_short_rows;
use super::{cost, terms};
use kiln_ir::arg::ReduceOp;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashSet;

impl Planner<'_> {
    /// Notes that the kernel has a tiled reduction: its registers and caches do not suffice for many.
    pub(super) fn note_tiles(&mut self, i: usize, r: usize) {
        let (tiles, request) = (self.tiles_of(i), &self.plan.requests[i][r]);
        let (kernel, outer) = (request.kernel, self.plan.drafts[request.kernel].loops.len());
        if tiles > 0 && depth(request).1 <= outer {
            self.plan.drafts[kernel].tiles += tiles;
            self.plan.drafts[kernel].tiled.push(i);
        }
    }

    /// Whether a node sums products whose factors are each used in many products: such a sum will be tiled.
    pub(super) fn is_tiled(&self, i: usize) -> bool {
        self.tiles_of(i) > 0
    }

    /// The products that will be tiled in a node, which is a sum of them.
    fn tiles_of(&self, i: usize) -> usize {
        let node = &self.plan.nodes[i];
        if node.op() != Op::Reduce || node.arg().reduce_op() != Some(ReduceOp::Add) {
            return 0;
        }
        let products = terms::products(node.src(0));
        let is_in_many = |product: &UOp| {
            let factors = &self.below[self.plan.position[product]];
            factors.iter().all(|f| f.is_in_many(&self.costs, product.numel()))
        };
        if products.iter().all(is_in_many) { products.len() } else { 0 }
    }

    /// By node: the products that are tiled in it, and in the sums that it is computed from element by element.
    pub(super) fn all_tiles(&self) -> Vec<usize> {
        let mut all: Vec<usize> = Vec::with_capacity(self.plan.nodes.len());
        for (i, node) in self.plan.nodes.iter().enumerate() {
            let is_alike = cost::is_elementwise(node) || node.op() == Op::Contiguous;
            let below = node.srcs().iter().map(|s| all[self.plan.position[s]]);
            let below = if is_alike { below.fold(0, usize::saturating_add) } else { 0 };
            all.push(below.saturating_add(self.tiles_of(i)));
        }
        all
    }

    /// If the node is a sum of products, and the kernel has others: what those cost. One with an operand in common counts
    /// nothing, since both run over one loop and load it once. Nor does a short one, which is unrolled.
    pub(super) fn beside(&self, i: usize, r: usize, kernel: usize) -> Option<f64> {
        if !self.is_tiled(i) || !self.has_tiles(i, r, kernel) {
            return None;
        }
        if !self.is_long(i) {
            return Some(0.0);
        }
        let own = self.factors(i);
        let slows = |&&j: &&usize| self.is_long(j) && self.factors(j).is_disjoint(&own);
        let others = self.plan.drafts[kernel].tiled.iter().filter(slows);
        Some(others.map(|&j| self.work_of_sum(j)).sum())
    }

    /// Whether storing a sum of products in a kernel that computes other ones costs more than a kernel of its own.
    pub(super) fn is_slowed(&self, i: usize, r: usize, kernel: usize) -> bool {
        let others = self.beside(i, r, kernel).unwrap_or(0.0);
        let node = &self.plan.nodes[i];
        others > 0.0 && cost::pays_own_kernel(&self.costs, node, others + self.work_of_sum(i))
    }

    /// Whether a node is a reduction that is a loop, and not unrolled.
    pub(super) fn is_long(&self, i: usize) -> bool {
        let node = &self.plan.nodes[i];
        node.op() == Op::Reduce && node.src(0).numel() > self.costs.short_reduction * node.numel()
    }

    fn work_of_sum(&self, i: usize) -> f64 {
        self.plan.nodes[i].src(0).numel() as f64 * self.costs.operation_ns
    }

    /// What the products of a sum are of, by id, without views.
    fn factors(&self, i: usize) -> FxHashSet<usize> {
        let products = terms::products(self.plan.nodes[i].src(0));
        products.iter().flat_map(|product| product.srcs()).map(|x| viewed(x).id()).collect()
    }

    /// Whether a kernel has a tiled reduction before it takes in this demand of the node: another one, or this one at another
    /// index. Example of the latter: the four gates of an LSTM are slices of one product.
    fn has_tiles(&self, i: usize, r: usize, kernel: usize) -> bool {
        let earlier = &self.plan.requests[i][..r];
        self.plan.drafts[kernel].tiles > 0 || earlier.iter().any(|request| request.kernel == kernel)
    }

    /// Whether a kernel stores several values of a sum that will be tiled, and whose vectors are no neighbours in memory, as
    /// its last axis is shorter than they are: the gradient of a convolution's weights, `[o, i, 3, 3]`, and an optimizer's step.
    pub(super) fn is_apart(&self, i: usize, kernel: usize) -> bool {
        let last = self.plan.nodes[i].shape().iter().rev().find(|&&n| n > 1);
        self.plan.drafts[kernel].outputs.len() > 1
            && last.is_some_and(|&n| n < self.costs.short_row)
            && self.is_tiled(i)
    }

    /// Whether a sum that would be tiled is needed in an order in which a loop counts through short rows of it: the rows of a
    /// pixel shuffle have `channel = .. + row % 2`. The loops of a kernel can be divided, but only into whole vectors.
    pub(super) fn is_divided(&self, i: usize, r: usize) -> bool {
        // few nodes are tiled, so indices are looked through last
        self.is_tiled(i) && has_short_rows(&self.plan.requests[i][r].index)
    }

    /// Whether a kernel does not tile too many products if it stores the node too.
    pub(super) fn has_room_for_tiles(&self, i: usize, kernel: usize) -> bool {
        let (own, more) = (self.plan.drafts[kernel].tiles, self.all_tiles[i]);
        own == 0 || more == 0 || own.saturating_add(more) <= self.costs.products_together
    }
}
