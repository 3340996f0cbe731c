//! Reductions over fewer iterations.

use super::super::ranges::{axis_of, kind_of, replace_ranges};
use super::bounds::{Bounds, Limit, Outside};
use kiln_ir::rules::simplify;
use kiln_ir::uop::{Srcs, rebuild, strides, substitute, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

/// A loop is divided by a condition that holds for some of what is written out if it has so many times the iterations in
/// which that may be.
const DIVIDED: i64 = 16;

/// The same as `reduce` with fewer iterations of its loop `range`. New loops are numbered from `next_axis`.
pub(super) fn reduction(reduce: &UOp, range: &UOp, next_axis: u32) -> Option<UOp> {
    let bounds = Bounds::of(reduce.src(0), &identity(reduce), range);
    let whole = bounds.or_not_at_all(reduce, range);
    whole.or_else(|| bounds.trimmed(reduce, range, next_axis))
}

/// What a reduction of nothing gives.
fn identity(reduce: &UOp) -> UOp {
    let op = reduce.arg().reduce_op().expect("a reduce");
    UOp::constant(op.identity(reduce.dtype()), reduce.dtype())
}

/// A part of a loop, and conditions that are known in it.
pub(super) struct Part {
    pub(super) low: UOp,
    pub(super) high: UOp,
    pub(super) holds: FxHashMap<UOp, UOp>,
}

impl Part {
    /// What closes `range` over this part of it, in a loop of number `axis`.
    pub(super) fn of(&self, closer: &UOp, range: &UOp, axis: u32) -> UOp {
        let count = (&self.high - &self.low).maximum(&UOp::index(0));
        let new = UOp::range_to(axis, kind_of(range), simplify(&count));
        let map = FxHashMap::from_iter([(range.clone(), (&self.low + &new, smallvec![new]))]);
        let mut known = self.holds.clone();
        known.extend(elsewhere(closer, range).map(|n| (n.clone(), n)));
        let closer = substitute(std::slice::from_ref(closer), &known);
        replace_ranges(&closer[0], &map)
    }

    /// The same as two loops one after the other, in the first of which the limit holds for all.
    fn divided(self, reduce: &UOp, range: &UOp, limit: &Limit, next_axis: u32) -> UOp {
        let middle = limit.all.maximum(&self.low);
        let middle = middle.minimum(&self.high);
        let (mut holds, known) = (self.holds.clone(), UOp::bool(limit.holds));
        holds.insert(limit.comparison.clone(), known);
        let most = Part { low: self.low, high: middle.clone(), holds };
        let rest = Part { low: middle, ..self };
        let op = reduce.arg().reduce_op().expect("a reduce");
        let (most, rest) =
            (most.of(reduce, range, axis_of(range)), rest.of(reduce, range, next_axis));
        UOp::binary(op.alu(), &most, &rest)
    }
}

/// Accesses that do not vary over the range: they may be done outside of its loop, where nothing is known. So may those
/// whose gates alone do, as some lanes of a gate may turn out to be the same in all iterations.
fn elsewhere(closer: &UOp, range: &UOp) -> impl Iterator<Item = UOp> {
    let mut varying = FxHashSet::default();
    let nodes = toposort(closer);
    for node in &nodes {
        if node == range || node.srcs().iter().any(|s| varying.contains(s)) {
            varying.insert(node.clone());
        }
    }
    let is_access = |n: &UOp| matches!(n.op(), Op::Load | Op::Store);
    let axis = axis_of(range);
    let moves =
        move |n: &UOp| strides(n.src(1)).get(&axis).is_some_and(|s| s.is_some_and(|s| s != 0));
    nodes.into_iter().filter(move |n| is_access(n) && !(varying.contains(n) && moves(n)))
}

impl Bounds {
    /// The reduction over what the limits leave of the loop.
    fn trimmed(&self, reduce: &UOp, range: &UOp, next_axis: u32) -> Option<UOp> {
        if self.limits.is_empty() {
            return None;
        }
        let part = Part { low: self.low(), high: self.high(range), holds: self.known() };
        Some(match self.divides(reduce, range) {
            Some(limit) => part.divided(reduce, range, limit, next_axis),
            None => part.of(reduce, range, axis_of(range)),
        })
    }

    /// The one limit whose condition is about what is written out, if the loop is worth two and its body is only arithmetic.
    fn divides(&self, reduce: &UOp, range: &UOp) -> Option<&Limit> {
        let mut about = self.limits.iter().filter(|l| l.between > 0);
        let (Some(limit), None) = (about.next(), about.next()) else { return None };
        let inside = |n: &UOp| matches!(n.op(), Op::Reduce | Op::End | Op::Store | Op::After);
        let summand = toposort(reduce.src(0));
        let varies = |n: &UOp| inside(n) && toposort(n).contains(range);
        let plain = reduce.srcs().len() == 2 && !summand.iter().any(varies);
        let long = range.max() + 1 >= DIVIDED * limit.between;
        (plain && long && !limit.is_low).then_some(limit)
    }

    /// Conditions that the reduction does not vary over, outside of it: then its loop runs, or does not.
    fn or_not_at_all(&self, reduce: &UOp, range: &UOp) -> Option<UOp> {
        let own = |x: &UOp| toposort(x).iter().any(|n| reduce.srcs()[1..].contains(n));
        let apart: Vec<_> = self.outside.iter().filter(|o| !own(&o.comparison)).collect();
        let any = apart.iter().map(|o| o.any.clone()).reduce(|a, b| a.and(&b))?;
        let must = |o: &&Outside| if o.holds { o.comparison.clone() } else { o.comparison.not() };
        let counts = apart.iter().map(must).reduce(|a, b| a.and(&b))?;
        let known = |o: &&Outside| (o.comparison.clone(), UOp::bool(o.holds));
        let holds = apart.iter().copied().filter(|o| o.is_exact).map(|o| known(&o)).collect();
        let high = any.where_(range.src(0), &UOp::index(0));
        let part = Part { low: UOp::index(0), high, holds };
        let bare = without(reduce, &apart.iter().map(known).collect());
        Some(counts.where_(&part.of(&bare, range, axis_of(range)), &identity(reduce)))
    }
}

/// The reduction without what is known of the conditions on its summand. Gates of loads stay: they are there for elements
/// of a tile that do not count, too.
fn without(reduce: &UOp, known: &FxHashMap<UOp, UOp>) -> UOp {
    let (mut value, mut conditions, nothing) = (reduce.src(0), Vec::new(), identity(reduce));
    while value.op() == Op::Where && *value.src(2) == nothing {
        conditions.push(value.src(0).clone());
        value = value.src(1);
    }
    let left = substitute(&conditions, known);
    let mut srcs: Srcs = reduce.srcs().iter().cloned().collect();
    srcs[0] = left.iter().rev().fold(value.clone(), |value, c| c.where_(&value, &nothing));
    rebuild(reduce, srcs)
}
