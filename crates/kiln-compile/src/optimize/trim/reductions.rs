//! Part of pass `trim`: reductions over fewer iterations.

use super::super::ranges::{axis_of, kind_of, replace_ranges};
use super::bounds::{Bounds, Outside};
use kiln_ir::affine::Affine;
use kiln_ir::rules::simplify;
use kiln_ir::uop::{Srcs, rebuild, substitute, toposort, toposort_all};
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

/// `reduce`, whose loop `range` runs as a whole or not at all.
pub(super) fn whole(reduce: &UOp, range: &UOp) -> Option<UOp> {
    Bounds::of(reduce.src(0), &identity(reduce), range).or_not_at_all(reduce, range)
}

/// The result of a reduction over no iterations.
pub(super) fn identity(reduce: &UOp) -> UOp {
    let op = reduce.arg().reduce_op().expect("a reduce");
    UOp::constant(op.identity(reduce.dtype()), reduce.dtype())
}

/// A part of a loop, and predicates that are true in it.
pub(super) struct Part {
    pub(super) low: UOp,
    pub(super) high: UOp,
    /// Iterations between those, from the first to the second, that are left out.
    pub(super) gap: Option<(UOp, UOp)>,
    pub(super) holds: FxHashMap<UOp, UOp>,
}

impl Part {
    /// What closes `range` over this part of it, in a loop of number `axis`.
    pub(super) fn of(&self, closer: &UOp, range: &UOp, axis: u32) -> UOp {
        let zero = UOp::index(0);
        let gap = |(from, to): &(UOp, UOp)| to - from;
        let left_out = self.gap.as_ref().map_or(zero.clone(), gap);
        let count = (&self.high - &self.low - &left_out).maximum(&zero);
        let new = UOp::range_to(axis, kind_of(range), simplify(&count));
        let before = &self.low + &new;
        let place = match &self.gap {
            Some((from, _)) => &before + before.lt(from).where_(&zero, &left_out),
            None => before,
        };
        let map = FxHashMap::from_iter([(range.clone(), (place, smallvec![new]))]);
        let mut known = self.holds.clone();
        let kept: Vec<UOp> = elsewhere(closer, range).collect();
        // a loop around one of those is the same loop for everything inside of it
        let around = toposort_all(&kept, |_| true).into_iter().filter(|n| n.op() == Op::Range);
        known.extend(around.chain(kept.iter().cloned()).map(|n| (n.clone(), n)));
        let closer = substitute(std::slice::from_ref(closer), &known);
        replace_ranges(&closer[0], &map)
    }
}

/// Accesses that do not vary over the range. They may move out of its loop, where nothing is known. So may those of
/// which only the predicate varies, as some lanes of it may be the same in all iterations.
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
    let moves = move |n: &UOp| moves_along(n.src(1), axis);
    nodes.into_iter().filter(move |n| is_access(n) && !(varying.contains(n) && moves(n)))
}

/// Whether no two iterations of a loop have the same value of an index, in one iteration of all others. It is so if the loop has
/// one term, and that is a product with a number, or with a launch-time scalar that is never 0.
fn moves_along(index: &UOp, axis: u32) -> bool {
    let Some(sum) = Affine::of(index) else { return false };
    let mut terms = sum.terms.iter().filter(|(atom, _)| atom.scope().contains(axis));
    let (Some((atom, _)), None) = (terms.next(), terms.next()) else { return false };
    let is_stride = |n: &UOp| n.op() == Op::Var && n.min() > 0;
    let is_product = |a: &UOp, b: &UOp| a.op() == Op::Range && is_stride(b);
    match atom.op() {
        Op::Range => true,
        Op::Mul => is_product(atom.src(0), atom.src(1)) || is_product(atom.src(1), atom.src(0)),
        _ => false,
    }
}

impl Bounds {
    /// Predicates that do not vary over the reduction: they decide whether its loop runs.
    fn or_not_at_all(&self, reduce: &UOp, range: &UOp) -> Option<UOp> {
        let own = |x: &UOp| toposort(x).iter().any(|n| reduce.srcs()[1..].contains(n));
        let apart: Vec<_> = self.outside.iter().filter(|o| !own(&o.comparison)).collect();
        let any = apart.iter().map(|o| o.any.clone()).reduce(|a, b| a.and(&b))?;
        let must = |o: &&Outside| if o.holds { o.comparison.clone() } else { o.comparison.not() };
        let counts = apart.iter().map(must).reduce(|a, b| a.and(&b))?;
        let known = |o: &&Outside| (o.comparison.clone(), UOp::bool(o.holds));
        let holds = apart.iter().copied().filter(|o| o.is_exact).map(|o| known(&o)).collect();
        let high = any.where_(range.src(0), &UOp::index(0));
        let part = Part { low: UOp::index(0), high, gap: None, holds };
        let bare = without(reduce, &apart.iter().map(known).collect());
        Some(counts.where_(&part.of(&bare, range, axis_of(range)), &identity(reduce)))
    }
}

/// The reduction without the known predicates of its summand. Predicates of loads stay: they are also there for
/// elements of a tile that do not count.
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
