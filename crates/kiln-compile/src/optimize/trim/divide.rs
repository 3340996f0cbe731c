//! Part of pass `trim`: divides a loop into the iterations in which a predicate is true for all lanes and unrolled
//! copies, which need no predicate, and those at both ends.

use super::super::ranges::{axis_of, is_outer, kind_of};
use super::bounds::{self, Bounds, Limit};
use super::demand::read_of;
use super::effects::replaced;
use super::ends::Ends;
use super::needed::is_scratch;
use super::reductions::{Part, identity};
use kiln_ir::rules::simplify;
use kiln_ir::uop::{Srcs, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// A loop is divided if it has this many times as many iterations as those in which predicates hold for only some lanes
/// or unrolled copies.
pub(in super::super) const DIVIDED: i64 = 4;
/// From so many times as many on, what those iterations take does not count.
pub(in super::super) const LONG: usize = 16;

/// The kernel with the loop of `range` divided in two. The loop ends at `closers`. None if dividing does not pay, or if
/// the loop contains more than arithmetic. New loops are numbered from `ends.next_axis`.
pub(super) fn divided(ast: &UOp, closers: &[UOp], range: &UOp, ends: &Ends) -> Option<UOp> {
    let mut bounds = Bounds::default();
    for closer in closers {
        bounds.learn(conditions(closer)?, range);
    }
    let partly: i64 = bounds.limits.iter().map(|l| l.between).sum();
    let is_long = partly > 0 && range.max() + 1 >= DIVIDED * partly;
    if !is_long || !closers.iter().all(|c| is_plain(c, range)) {
        return None;
    }
    let next_axis = ends.next_axis;
    let division = match closers {
        [only] if is_carried(only) => Division::of_all(&bounds, read_by(ast, only, range, ends)),
        _ => Division::of(&bounds, closers, range),
    };
    let parts = match closers.iter().any(|c| c.op() == Op::Reduce) {
        true => division.in_order(range, next_axis),
        false => division.ends_together(range, next_axis),
    };
    let new = closers.iter().map(|c| (c.clone(), in_parts(c, range, &parts)));
    replaced(ast, &new.collect())
}

/// The predicates of what closes its loop: all must be true for an iteration to count. None if they are not known.
///
/// An iteration of a carried sum always counts, and these are the predicates of its loads: in most iterations they are true.
fn conditions(closer: &UOp) -> Option<Vec<UOp>> {
    let value = closer.src(0);
    match closer.op() {
        Op::Reduce => Some(bounds::conditions(value, &identity(closer))),
        _ if is_carried(closer) => Some(toposort(value).iter().filter_map(load_gate).collect()),
        _ if value.op() == Op::Store => Some(value.gate().cloned().into_iter().collect()),
        _ => None,
    }
}

/// Whether a loop ends with a sum that is carried in scratch: it stores to memory that it reads.
fn is_carried(closer: &UOp) -> bool {
    let store = closer.src(0);
    let carries = |store: &UOp| {
        let reads = |n: &UOp| n.op() == Op::Load && n.memory() == store.memory();
        is_scratch(store.memory()) && store.gate().is_none() && toposort(store).iter().any(reads)
    };
    closer.op() == Op::End && store.op() == Op::Store && carries(store)
}

fn load_gate(node: &UOp) -> Option<UOp> {
    if node.op() == Op::Load { node.gate().cloned() } else { None }
}

/// How many iterations of a loop over carried sums are read later.
fn read_by(ast: &UOp, closer: &UOp, range: &UOp, ends: &Ends) -> UOp {
    let all = range.src(0).clone();
    match read_of(ast, closer, range, ends) {
        Some(read) => read.minimum(&all),
        None => all,
    }
}

/// Whether the loop is the innermost one that is not expanded, and contains nothing that closes other loops.
pub(super) fn is_plain(closer: &UOp, range: &UOp) -> bool {
    let is_inside = |r: &UOp| match closer.op() {
        Op::Reduce => kind_of(r).is_expanded(),
        _ => kind_of(r).is_expanded() || is_outer(r) && axis_of(r) < axis_of(range),
    };
    let alone = closer.srcs()[1..].iter().all(|r| r == range || is_inside(r));
    let mut varying = FxHashSet::default();
    let mut arithmetic = true;
    for node in toposort(closer.src(0)) {
        if node == *range || node.srcs().iter().any(|s| varying.contains(s)) {
            let closes = match node.op() {
                Op::Reduce => !node.srcs()[1..].iter().all(|r| kind_of(r).is_expanded()),
                op => matches!(op, Op::End | Op::After),
            };
            arithmetic &= !closes && (node.op() != Op::Store || node == *closer.src(0));
            varying.insert(node);
        }
    }
    alone && arithmetic && closer.initial().is_none()
}

/// Where a loop is divided.
struct Division {
    low: UOp,
    high: UOp,
    /// The iterations in which all conditions hold.
    middle: (UOp, UOp),
    /// What is known in the middle, and at both ends.
    holds: FxHashMap<UOp, UOp>,
    known: FxHashMap<UOp, UOp>,
}

impl Division {
    fn of(bounds: &Bounds, closers: &[UOp], range: &UOp) -> Division {
        // if the loop does several things, an iteration may count for one and not for another
        let (low, high, known) = match closers {
            [_] => (bounds.low(), bounds.high(range), bounds.known()),
            _ => (UOp::index(0), range.src(0).clone(), FxHashMap::default()),
        };
        Division::between(bounds, low, high, known)
    }

    /// Of a loop in which all iterations count, up to `high`.
    fn of_all(bounds: &Bounds, high: UOp) -> Division {
        Division::between(bounds, UOp::index(0), high, FxHashMap::default())
    }

    fn between(bounds: &Bounds, low: UOp, high: UOp, known: FxHashMap<UOp, UOp>) -> Division {
        let bound = |is_low: bool| bounds.limits.iter().filter(move |l| l.is_low == is_low);
        let first = bound(true).fold(low.clone(), |a, l| a.maximum(&l.all)).minimum(&high);
        let last = bound(false).fold(high.clone(), |a, l| a.minimum(&l.all)).maximum(&first);
        let [low, high, first, last] = [low, high, first, last].map(|x| simplify(&x));
        let holds = |l: &Limit| (l.comparison.clone(), UOp::bool(l.holds));
        let holds = bounds.limits.iter().map(holds).collect();
        Division { low, high, middle: (first, last), holds, known }
    }

    fn middle(&self) -> Part {
        let (low, high) = self.middle.clone();
        Part { low, high, gap: None, holds: self.holds.clone() }
    }

    /// Iterations of the ends.
    fn end(&self, low: &UOp, high: &UOp, gap: Option<(UOp, UOp)>) -> Part {
        Part { low: low.clone(), high: high.clone(), gap, holds: self.known.clone() }
    }

    /// The middle, then both ends in one loop, each with the number of its loop.
    fn ends_together(&self, range: &UOp, next_axis: u32) -> Vec<(Part, u32)> {
        let ends = self.end(&self.low, &self.high, Some(self.middle.clone()));
        vec![(self.middle(), axis_of(range)), (ends, next_axis)]
    }

    /// What comes before the middle, if anything may, the middle, and what comes after it.
    fn in_order(&self, range: &UOp, next_axis: u32) -> Vec<(Part, u32)> {
        let (first, last) = &self.middle;
        let low = (self.low != *first).then(|| (self.end(&self.low, first, None), next_axis));
        let high = (*last != self.high).then(|| (self.end(last, &self.high, None), next_axis + 1));
        low.into_iter().chain([(self.middle(), axis_of(range))]).chain(high).collect()
    }
}

/// The replacement of a closer: an effect for each part, or one reduction of all. The loop of each part continues the
/// sum of the one before, so the order of the terms, and the result, does not depend on where the loop is divided.
pub(super) fn in_parts(closer: &UOp, range: &UOp, parts: &[(Part, u32)]) -> Vec<UOp> {
    let of = |closer: &UOp| {
        let part = |(part, axis): &(Part, u32)| part.of(closer, range, *axis);
        parts.iter().map(part).collect::<Vec<UOp>>()
    };
    if closer.op() == Op::End {
        return of(closer).iter().map(simplify).collect();
    }
    let op = closer.arg().reduce_op().expect("a reduce");
    let after = |so_far: UOp, part: UOp| {
        part.src(0).reduce_ranges_from(op, part.srcs()[1..].iter().cloned(), &so_far)
    };
    let own = of(&closer.src(0).reduce_ranges(op, [range.clone()]));
    let sum = own.into_iter().reduce(after).expect("there is a middle");
    let others: Srcs = closer.srcs()[1..].iter().filter(|r| *r != range).cloned().collect();
    vec![simplify(&sum.reduce_ranges(op, others))]
}
