//! Part of pass `choose`: which loops become the lanes of vectors.

use super::super::access::Access;
use super::super::opt::Opt;
use super::super::ranges::{axis_of, kind_of, size_of};
use super::chooser::Chooser;
use super::priced;
use crate::target::Target;
use kiln_ir::arg::RangeKind;
use kiln_ir::scope::AxisSet;
use kiln_ir::uop::toposort;
use kiln_ir::{DType, UOp};
use std::cmp::Ordering;

/// Lanes of a vector of the kernel's widest type.
pub(super) fn lanes(ast: &UOp, target: &Target) -> usize {
    let widest = |n: &UOp| {
        if matches!(n.dtype(), DType::Index | DType::Void) { 1 } else { n.dtype().size() }
    };
    let bytes = toposort(ast).iter().map(widest).max().unwrap_or(1);
    // more lanes only make masks and conversions expensive
    (target.vector_bytes / bytes.max(DType::F32.size())).min(target.costs.wide_lanes)
}

/// A loop as vectors of so many lanes.
struct Candidate {
    i: usize,
    by: usize,
    is_reduced: bool,
    price: Price,
}

/// What the accesses inside a loop cost as vectors.
struct Price {
    /// Relative to the loop as it is: 1.0 is no gain.
    cost: f64,
    /// Accesses that are saved in the whole kernel.
    saved: f64,
}

impl Candidate {
    /// Which saves more; of equals the cheaper, one that leaves sums in their order, the innermost, and the narrower.
    fn before(&self, other: &Candidate) -> Ordering {
        let by_price = other.price.saved.total_cmp(&self.price.saved);
        let by_cost = by_price.then(self.price.cost.total_cmp(&other.price.cost));
        let by_kind = by_cost.then(self.is_reduced.cmp(&other.is_reduced));
        by_kind.then(other.i.cmp(&self.i)).then(self.by.cmp(&other.by))
    }
}

impl Chooser {
    /// Of loops that exclude each other, the one that saves most becomes vectors: a sum of a few partial sums keeps no
    /// lanes from the long loop around it.
    pub(super) fn vectors(&mut self, lanes: usize) {
        let mut candidates: Vec<Candidate> = Vec::new();
        for (i, (size, range)) in self.left.iter().enumerate() {
            let loops = matches!(kind_of(range), RangeKind::Loop | RangeKind::Reduce);
            if loops && !self.is_around(i) {
                let is_reduced = kind_of(range) == RangeKind::Reduce;
                let widths = self.costs.widths(*size, lanes, self.masks);
                let candidate =
                    |by| Candidate { i, by, is_reduced, price: self.vector_price(range, by) };
                candidates.extend(widths.map(candidate));
            }
        }
        candidates.sort_by(Candidate::before);
        let mut taken: Vec<u32> = Vec::new();
        for candidate in &candidates {
            let &Candidate { i, by, ref price, .. } = candidate;
            let axis = axis_of(&self.left[i].1);
            let is_open = |&t: &u32| t != axis && !self.kernel.together(t, axis);
            if price.cost < 1.0 && taken.iter().all(is_open) {
                taken.push(axis);
                self.tell_vector(&candidates, Some((i, by)));
                self.apply(RangeKind::Vector, i, by);
            }
        }
        if taken.is_empty() && !candidates.is_empty() {
            self.tell_vector(&candidates, None);
        }
    }

    /// The choice of a loop for vectors, or of none. What is in other loops is no alternative.
    fn tell_vector(&self, candidates: &[Candidate], taken: Option<(usize, usize)>) {
        let axis = |i: usize| axis_of(&self.left[i].1);
        let is_open =
            |i: usize| taken.is_none_or(|(t, _)| t == i || self.kernel.together(axis(t), axis(i)));
        let option = |i: usize, by| Opt::Split { kind: RangeKind::Vector, axis: axis(i), by };
        priced::decided(
            || "lanes of vectors".to_owned(),
            "of the time of a plain loop",
            || {
                let open = candidates.iter().filter(|c| c.by > 1 && is_open(c.i));
                let vectors = open.map(|c| (vec![option(c.i, c.by)], c.price.cost));
                let all: Vec<priced::Priced> =
                    [(Vec::new(), 1.0)].into_iter().chain(vectors).collect();
                let taken =
                    taken.and_then(|(i, by)| all.iter().position(|(o, _)| *o == [option(i, by)]));
                (all, taken.or(Some(0)))
            },
        );
    }

    /// Unrolls all vectors of the innermost loop, so that what varies over lanes only is computed once.
    pub(super) fn upcast_lanes(&mut self) {
        let reduces = self.left.iter().any(|(_, r)| kind_of(r) == RangeKind::Reduce);
        let Some((i, (vectors, range))) = self.left.iter().enumerate().next_back() else { return };
        let (vectors, axis) = (*vectors, axis_of(range));
        let vector = |o: &Opt| matches!(o, Opt::Split { kind: RangeKind::Vector, axis: a, .. } if *a == axis);
        let alone = |scope: &AxisSet| scope.len() == 1 && scope.contains(axis);
        let gains = self.left.len() > 1
            && self.options.iter().any(vector)
            && self.kernel.operations.iter().any(alone);
        if gains && !reduces && vectors <= self.costs.most_written_out.min(self.room) {
            self.apply(RangeKind::Upcast, i, vectors);
        }
    }

    /// The price of the accesses inside a loop as vectors, each as often as it runs.
    fn vector_price(&self, range: &UOp, by: usize) -> Price {
        let (axis, size) = (axis_of(range), size_of(range));
        let vectors = size.div_ceil(by) as f64 / size.max(1) as f64;
        let inside = self.kernel.accesses.iter().filter(|a| a.scope.contains(axis));
        let mut runs: Vec<(f64, f64)> =
            inside.map(|a| (self.runs(&a.scope), self.in_vectors(a, range, by))).collect();
        // in an order that is not that of the kernel's text, so that equal prices have equal bits
        runs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        if runs.is_empty() {
            // what it computes counts as one access that becomes vectors for nothing
            runs.push((size as f64, 0.0));
        }
        let most = runs[runs.len() - 1].0;
        let plain: f64 = runs.iter().map(|(times, _)| times).sum();
        let priced: f64 = runs.iter().map(|(times, price)| times * price).sum();
        let vector = (priced + most * self.horizontal(range)) * vectors;
        Price { cost: vector / plain.max(1.0), saved: plain - vector }
    }

    /// The price of an access for the lanes of a vector.
    fn in_vectors(&self, access: &Access, range: &UOp, by: usize) -> f64 {
        let axis = axis_of(range);
        let partly = if size_of(range).is_multiple_of(by) { 1.0 } else { self.costs.masked };
        match access.stride(axis) {
            _ if access.gate.contains(axis) && !self.masks => by as f64 * self.costs.gated_element,
            Some(0) if access.is_store => by as f64,
            Some(0) => self.costs.broadcast,
            Some(1) => self.costs.width(by) * partly,
            _ => by as f64 * self.costs.element,
        }
    }

    /// How often something inside these loops runs.
    fn runs(&self, scope: &AxisSet) -> f64 {
        let around = self.left.iter().filter(|(_, r)| scope.contains(axis_of(r)));
        around.map(|(_, r)| size_of(r) as f64).product()
    }

    /// Combining the lanes of a reduction, spread over its iterations.
    fn horizontal(&self, range: &UOp) -> f64 {
        match kind_of(range) {
            RangeKind::Reduce => {
                self.costs.horizontal_of_loop / size_of(range) as f64 + self.costs.along_reduction
            }
            _ => 0.0,
        }
    }
}
