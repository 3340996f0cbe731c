//! Part of pass `choose`: which loops become the lanes of vectors.

use super::super::access::Access;
use super::super::options::Opt;
use super::super::ranges::{axis_of, kind_of, size_of};
use super::Chooser;
use crate::target::Target;
use kiln_ir::arg::RangeKind;
use kiln_ir::scope::AxisSet;
use kiln_ir::uop::toposort;
use kiln_ir::{DType, UOp};

/// The price of a vector of 1, 2, 4, 8 or 16 lanes: many processors take two cycles for wide ones.
pub(super) const WIDTH: [f64; 5] = [1.0, 1.0, 1.0, 1.0, 1.5];
/// Vectors that are unrolled at most, to share what varies over lanes only.
const MOST_UPCAST: usize = 8;
/// The factor for a predicated vector.
const MASKED: f64 = 1.3;

/// Lanes of a vector of the kernel's widest type.
pub(super) fn lanes(ast: &UOp, target: &Target) -> usize {
    let widest = |n: &UOp| {
        if matches!(n.dtype(), DType::Index | DType::Void) { 1 } else { n.dtype().size() }
    };
    let bytes = toposort(ast).iter().map(widest).max().unwrap_or(1);
    // more than 16 lanes only make masks and conversions expensive
    (target.vector_bytes / bytes.max(4)).min(16)
}

impl Chooser {
    pub(super) fn vectors(&mut self, lanes: usize) {
        let mut candidates: Vec<(f64, usize, usize)> = Vec::new();
        for (i, (size, range)) in self.left.iter().enumerate() {
            let loops = matches!(kind_of(range), RangeKind::Loop | RangeKind::Reduce);
            if loops && !self.is_around(i) {
                let widths = widths(*size, lanes, self.masks);
                candidates.extend(widths.map(|by| (self.vector_cost(range, by), i, by)));
            }
        }
        // cheapest first; of equals the innermost output loop, and the narrower vector
        candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
        let mut taken: Vec<u32> = Vec::new();
        for (cost, i, by) in candidates {
            let axis = axis_of(&self.left[i].1);
            if cost < 1.0 && taken.iter().all(|&t| t != axis && !self.kernel.together(t, axis)) {
                taken.push(axis);
                self.apply(RangeKind::Vector, i, by);
            }
        }
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
        if gains && !reduces && vectors <= MOST_UPCAST.min(self.room) {
            self.apply(RangeKind::Upcast, i, vectors);
        }
    }

    /// The price of the accesses inside a loop as vectors, relative to the loop as it is (1.0 is no gain).
    fn vector_cost(&self, range: &UOp, by: usize) -> f64 {
        let (axis, size) = (axis_of(range), size_of(range));
        let inside: Vec<&Access> =
            self.kernel.accesses.iter().filter(|a| a.scope.contains(axis)).collect();
        let vectors = size.div_ceil(by) as f64;
        let partly = if size.is_multiple_of(by) { 1.0 } else { MASKED };
        let whole = WIDTH[by.trailing_zeros() as usize] * partly;
        let price = |a: &&Access| match a.stride(axis) {
            _ if a.gate.contains(axis) && !self.masks => by as f64 * 3.0,
            Some(0) if a.is_store => by as f64,
            Some(0) => 0.5,
            Some(1) => whole,
            _ => by as f64 * 1.2,
        };
        let vector: f64 = inside.iter().map(price).sum::<f64>() + self.horizontal(range);
        vector * vectors / (inside.len().max(1) * size.max(1)) as f64
    }

    /// Combining the lanes of a reduction, spread over its iterations.
    fn horizontal(&self, range: &UOp) -> f64 {
        match kind_of(range) {
            RangeKind::Reduce => 16.0 / size_of(range) as f64 + 0.5,
            _ => 0.0,
        }
    }
}

/// Lanes worth trying for a loop of `n`: powers of two that divide it, or, where parts of vectors are cheap, any.
pub(super) fn widths(n: usize, lanes: usize, masks: bool) -> impl Iterator<Item = usize> {
    // a loop of three or four is not worth a mask
    let fits = move |by: &usize| n.is_multiple_of(*by) || masks && n > 4 && n > *by / 2;
    [4, 8, 16].into_iter().filter(move |&by| by <= lanes && n > 0).filter(fits)
}
