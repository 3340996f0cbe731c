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

/// Lanes of a vector of the kernel's widest type.
pub(super) fn lanes(ast: &UOp, target: &Target) -> usize {
    let widest = |n: &UOp| {
        if matches!(n.dtype(), DType::Index | DType::Void) { 1 } else { n.dtype().size() }
    };
    let bytes = toposort(ast).iter().map(widest).max().unwrap_or(1);
    // more lanes only make masks and conversions expensive
    (target.vector_bytes / bytes.max(DType::F32.size())).min(target.costs.wide_lanes)
}

impl Chooser {
    pub(super) fn vectors(&mut self, lanes: usize) {
        let mut candidates: Vec<(f64, usize, usize)> = Vec::new();
        for (i, (size, range)) in self.left.iter().enumerate() {
            let loops = matches!(kind_of(range), RangeKind::Loop | RangeKind::Reduce);
            if loops && !self.is_around(i) {
                let widths = self.costs.widths(*size, lanes, self.masks);
                candidates.extend(widths.map(|by| (self.vector_cost(range, by), i, by)));
            }
        }
        // cheapest first; of equals the innermost output loop, and the narrower vector
        candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
        let mut taken: Vec<u32> = Vec::new();
        for &(cost, i, by) in &candidates {
            let axis = axis_of(&self.left[i].1);
            if cost < 1.0 && taken.iter().all(|&t| t != axis && !self.kernel.together(t, axis)) {
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
    fn tell_vector(&self, candidates: &[(f64, usize, usize)], taken: Option<(usize, usize)>) {
        let axis = |i: usize| axis_of(&self.left[i].1);
        let is_open =
            |i: usize| taken.is_none_or(|(t, _)| t == i || self.kernel.together(axis(t), axis(i)));
        let option = |i: usize, by| Opt::Split { kind: RangeKind::Vector, axis: axis(i), by };
        priced::decided(
            || "lanes of vectors".to_owned(),
            "of the time of a plain loop",
            || {
                let open = candidates.iter().filter(|(_, i, by)| *by > 1 && is_open(*i));
                let vectors = open.map(|&(cost, i, by)| (vec![option(i, by)], cost));
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

    /// The price of the accesses inside a loop as vectors, relative to the loop as it is (1.0 is no gain).
    fn vector_cost(&self, range: &UOp, by: usize) -> f64 {
        let (axis, size) = (axis_of(range), size_of(range));
        let inside: Vec<&Access> =
            self.kernel.accesses.iter().filter(|a| a.scope.contains(axis)).collect();
        let vectors = size.div_ceil(by) as f64;
        let partly = if size.is_multiple_of(by) { 1.0 } else { self.costs.masked };
        let whole = self.costs.width(by) * partly;
        let price = |a: &&Access| match a.stride(axis) {
            _ if a.gate.contains(axis) && !self.masks => by as f64 * self.costs.gated_element,
            Some(0) if a.is_store => by as f64,
            Some(0) => self.costs.broadcast,
            Some(1) => whole,
            _ => by as f64 * self.costs.element,
        };
        let vector: f64 = inside.iter().map(price).sum::<f64>() + self.horizontal(range);
        vector * vectors / (inside.len().max(1) * size.max(1)) as f64
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
