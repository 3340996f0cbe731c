//! Part of pass `assign`: views that are stored. A view costs nothing: it says where elements are. But if an address divides a
//! loop by a short row, it is computed for each element, and the lanes of a vector are read one by one.
//!
//! Example: an image with each pixel repeated twice, `y[h] = x[h / 2]`, under a convolution. Each of its products would find
//! its pixel by `(h + k - 1) / 2`. If a kernel writes `y` first, a product reads a row of it.

use super::assign::{Planner, Request, depth};
use super::cost::{self, Price};
use super::index::{self, Index};
use super::split::viewed;
use crate::target::SHORTEST_ROW;
use kiln_ir::uop::toposort_all;
use kiln_ir::{Op, UOp};

impl Planner<'_> {
    /// The price of a reshape that divides the loops of a kernel that needs it. None if it divides no loop, or few elements
    /// are read through it.
    pub(super) fn price_of_view(&self, i: usize) -> Option<Price> {
        let (node, requests) = (&self.plan.nodes[i], &self.plan.requests[i]);
        if node.op() != Op::Reshape || viewed(node).numel() == 1 {
            return None;
        }
        let reads: f64 = requests.iter().map(|r| self.reads(r)).sum();
        let may_pay = reads * self.costs.divided_ns > self.costs.launch_ns;
        let is_divided = || requests.iter().any(|r| divides(node, r));
        (may_pay && is_divided())
            .then(|| cost::price_of_view(&self.costs, node, reads, requests.len()))
    }

    /// How many elements a demand reads. A tile reads an element once for many products, and windows that are unrolled share
    /// what they read.
    fn reads(&self, request: &Request) -> f64 {
        let draft = &self.plan.drafts[request.kernel];
        let iterations = |loops: &[UOp]| loops.iter().map(|r| r.max() as f64 + 1.0).product();
        let (_, depth) = depth(request);
        let outer = draft.loops.len().min(depth);
        let (results, terms): (f64, f64) =
            (iterations(&request.nest[..outer]), iterations(&request.nest[outer..depth]));
        if terms <= self.costs.short_reduction as f64 {
            results
        } else if draft.tiled.is_empty() {
            results * terms
        } else {
            results * terms / self.costs.many_uses
        }
    }
}

/// Whether a demand for a reshape divides loops by short rows, and the kernel's index of the reshape itself does not.
fn divides(node: &UOp, request: &Request) -> bool {
    !has_short_rows(&request.index) && has_short_rows(&index::through(node, &request.index).0)
}

/// Whether loops of an index are counted through in short rows. A loop that writes in a row is not split for that, and a sum of
/// two loops cannot be.
pub(super) fn has_short_rows(index: &Index) -> bool {
    let short = 2..SHORTEST_ROW;
    let is_short = |n: &UOp| n.src(1).as_int().is_some_and(|row| short.contains(&row));
    let divides = |n: &UOp| matches!(n.op(), Op::FloorDiv | Op::FloorMod) && is_short(n);
    toposort_all(index, |_| true).iter().any(divides)
}
