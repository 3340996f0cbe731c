//! Part of pass `choose`: which loops become the lanes of vectors.

use super::super::access::{Access, Kernel};
use super::super::opt::Opt;
use super::super::ranges::{axis_of, kind_of, size_of};
use super::chooser::Chooser;
use super::priced;
use crate::target::Target;
use kiln_ir::arg::RangeKind;
use kiln_ir::scope::AxisSet;
use kiln_ir::{DType, UOp};
use rustc_hash::FxHashSet;
use std::cmp::Ordering;

/// Lanes of a vector of the kernel's widest type.
pub(super) fn lanes(kernel: &Kernel, target: &Target) -> usize {
    let word = DType::F32.size();
    // more lanes only make masks and conversions expensive
    let lanes = (target.vector_bytes / kernel.widest.max(word)).min(target.costs.wide_lanes);
    // rows of integers of 8 and 16 bits need none
    let is_narrow = kernel.widest < word && kernel.is_of_rows();
    if is_narrow { lanes * word / kernel.widest.max(DType::I16.size()) } else { lanes }
}

/// A loop as vectors of so many lanes.
struct Candidate {
    i: usize,
    by: usize,
    /// What its accesses cost, relative to the loop as it is: 1.0 is no gain.
    cost: f64,
    /// Accesses and additions that are saved in the whole kernel.
    saved: f64,
    /// The loops that some expression varies over too: only one of them can have the lanes.
    excludes: AxisSet,
}

impl Candidate {
    /// Which is cheaper; of equals the innermost output loop, and the narrower vector.
    fn before(&self, other: &Candidate) -> Ordering {
        let by_price = self.cost.total_cmp(&other.cost);
        by_price.then(other.i.cmp(&self.i)).then(self.by.cmp(&other.by))
    }
}

impl Chooser {
    pub(super) fn vectors(&mut self, lanes: usize) {
        let mut candidates: Vec<Candidate> = Vec::new();
        for (i, (_, range)) in self.left.iter().enumerate() {
            let loops = matches!(kind_of(range), RangeKind::Loop | RangeKind::Reduce);
            if loops && !self.is_around(i) {
                let widths = self.costs.widths(size_of(range), lanes, self.masks);
                candidates.extend(widths.map(|by| self.candidate(i, by)));
            }
        }
        candidates.sort_by(Candidate::before);
        let taken = self.best_loops(&candidates);
        for &candidate in &taken {
            self.tell_vector(&candidates, Some(candidate));
            self.apply(RangeKind::Vector, candidate.i, candidate.by);
        }
        if taken.is_empty() && !candidates.is_empty() {
            self.tell_vector(&candidates, None);
        }
    }

    /// The cheapest loops that go together, or those that go with another loop, if the kernel takes half of the time then.
    /// Example: a sum of a few partial sums, in each iteration of a long loop, keeps no lanes from that loop.
    fn best_loops<'a>(&self, candidates: &'a [Candidate]) -> Vec<&'a Candidate> {
        let gains: Vec<&Candidate> = candidates.iter().filter(|c| c.cost < 1.0).collect();
        let with = |first: Option<&'a Candidate>| {
            let mut taken: Vec<&Candidate> = first.into_iter().collect();
            for candidate in &gains {
                let axis = axis_of(&self.left[candidate.i].1);
                if taken.iter().all(|t| t.i != candidate.i && !t.excludes.contains(axis)) {
                    taken.push(candidate);
                }
            }
            taken
        };
        let whole = self.plain_time();
        let time = |taken: &Vec<&Candidate>| whole - taken.iter().map(|c| c.saved).sum::<f64>();
        let cheapest = with(None);
        let mut loops: FxHashSet<usize> = cheapest.iter().map(|c| c.i).collect();
        let others = gains.iter().filter(|c| loops.insert(c.i)).map(|c| with(Some(c)));
        let best = others.min_by(|a, b| time(a).total_cmp(&time(b)));
        let Some(best) = best.filter(|best| 2.0 * time(best) < time(&cheapest)) else {
            return cheapest;
        };
        priced::decided(
            || "loops with lanes".to_owned(),
            "accesses and additions",
            || {
                let ways = [&best, &cheapest];
                let named = |way: &Vec<&Candidate>| way.iter().map(|c| self.option(c)).collect();
                (ways.map(|way| (named(way), time(way))).to_vec(), Some(0))
            },
        );
        best
    }

    /// The option that makes vectors of a loop.
    fn option(&self, candidate: &Candidate) -> Opt {
        let axis = axis_of(&self.left[candidate.i].1);
        Opt::Split { kind: RangeKind::Vector, axis, by: candidate.by }
    }

    /// All accesses and additions of the kernel, one by one.
    fn plain_time(&self) -> f64 {
        let accesses = self.kernel.accesses.iter().map(|a| self.runs(&a.scope));
        let work = self.kernel.work.iter().map(|(scope, n)| n * self.runs(scope));
        sum_in_order(accesses.chain(work).collect())
    }

    /// The choice of a loop for vectors, or of none. What is in other loops is no alternative.
    fn tell_vector(&self, candidates: &[Candidate], taken: Option<&Candidate>) {
        let axis = |c: &Candidate| axis_of(&self.left[c.i].1);
        let is_open =
            |c: &Candidate| taken.is_none_or(|t| t.i == c.i || t.excludes.contains(axis(c)));
        priced::decided(
            || "lanes of vectors".to_owned(),
            "of the time of a plain loop",
            || {
                let open = candidates.iter().filter(|c| c.by > 1 && is_open(c));
                let vectors = open.map(|c| (vec![self.option(c)], c.cost));
                let all: Vec<priced::Priced> =
                    [(Vec::new(), 1.0)].into_iter().chain(vectors).collect();
                let taken =
                    taken.and_then(|t| all.iter().position(|(o, _)| *o == [self.option(t)]));
                (all, taken.or(Some(0)))
            },
        );
    }

    /// Unrolls all vectors of the innermost loop, so that what varies over lanes only is computed once. Not if lanes are in many
    /// lines of memory: those of many vectors push each other out of the cache before the next elements are read.
    pub(super) fn upcast_lanes(&mut self) {
        let reduces = self.left.iter().any(|(_, r)| kind_of(r) == RangeKind::Reduce);
        let Some((i, (vectors, range))) = self.left.iter().enumerate().next_back() else { return };
        let (vectors, axis) = (*vectors, axis_of(range));
        let vector = |o: &Opt| matches!(o, Opt::Split { kind: RangeKind::Vector, axis: a, .. } if *a == axis);
        let alone = |scope: &AxisSet| scope.len() == 1 && scope.contains(axis);
        let gains = self.left.len() > 1
            && self.options.iter().any(vector)
            && self.kernel.operations.iter().any(alone)
            && self.apart(axis).is_empty();
        if gains && !reduces && vectors <= self.costs.most_written_out.min(self.room) {
            self.apply(RangeKind::Upcast, i, vectors);
        }
    }

    /// A loop as vectors, with its price.
    fn candidate(&self, i: usize, by: usize) -> Candidate {
        let range = &self.left[i].1;
        let axis = axis_of(range);
        let mut excludes = AxisSet::default();
        let around = self.kernel.scopes.iter().filter(|scope| scope.contains(axis));
        around.for_each(|scope| excludes.union_with(scope));
        let (cost, saved) = self.vector_prices(range, by);
        Candidate { i, by, cost, saved, excludes }
    }

    /// Of a loop as vectors: what its accesses cost, relative to the loop as it is, and what the whole kernel saves.
    fn vector_prices(&self, range: &UOp, by: usize) -> (f64, f64) {
        let (axis, size) = (axis_of(range), self.trips(range));
        let vectors = size.div_ceil(by) as f64 / size.max(1) as f64;
        let accesses = self.kernel.accesses.iter().filter(|a| a.scope.contains(axis));
        let prices: Vec<(f64, f64)> =
            accesses.map(|a| (self.in_vectors(a, range, by), self.runs(&a.scope))).collect();
        let each = prices.iter().map(|(price, _)| price).sum::<f64>() + self.horizontal(range);
        let most = prices.iter().map(|(_, runs)| *runs).fold(0.0, f64::max);
        let of_accesses = prices.iter().map(|(price, runs)| runs * (1.0 - price * vectors));
        let work = self.kernel.work.iter().filter(|(scope, _)| scope.contains(axis));
        let lanes = self.costs.width(by) * vectors;
        let of_work = work.map(|(scope, n)| self.runs(scope) * n * (1.0 - lanes));
        let saved = sum_in_order(of_accesses.chain(of_work).collect());
        let cost = each * vectors / prices.len().max(1) as f64;
        (cost, saved - most * self.horizontal(range) * vectors)
    }

    /// The price of an access for the lanes of a vector.
    fn in_vectors(&self, access: &Access, range: &UOp, by: usize) -> f64 {
        let axis = axis_of(range);
        let partly = if self.trips(range).is_multiple_of(by) { 1.0 } else { self.costs.masked };
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
        around.map(|(_, r)| self.trips(r) as f64).product()
    }

    /// Combining the lanes of a reduction, spread over its iterations.
    fn horizontal(&self, range: &UOp) -> f64 {
        match kind_of(range) {
            RangeKind::Reduce => {
                self.costs.horizontal_of_loop / self.trips(range) as f64
                    + self.costs.along_reduction
            }
            _ => 0.0,
        }
    }
}

/// The sum in an order that is not that of the kernel's text: equal prices have equal bits.
fn sum_in_order(mut terms: Vec<f64>) -> f64 {
    terms.sort_by(f64::total_cmp);
    terms.iter().sum()
}
