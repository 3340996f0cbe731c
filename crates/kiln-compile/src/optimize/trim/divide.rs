//! A loop as two: the iterations in which some conditions hold for all of what is written out, which are most of them and
//! need no conditions, and those at both ends.

use super::super::ranges::{axis_of, is_outer, kind_of};
use super::bounds::{self, Bounds, Limit};
use super::reductions::{Part, identity};
use super::replaced;
use kiln_ir::rules::simplify;
use kiln_ir::uop::{Srcs, rebuild, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

/// A loop is divided if it has so many times the iterations in which conditions may hold for a part of what is written
/// out.
pub(in super::super) const LONG: usize = 16;

/// The kernel with two loops instead of that of `range`, which `closers` close, if that is worth it and these do nothing
/// inside but arithmetic. The new loop is numbered `next_axis`.
pub(super) fn divided(ast: &UOp, closers: &[UOp], range: &UOp, next_axis: u32) -> Option<UOp> {
    let mut bounds = Bounds::default();
    for closer in closers {
        bounds.learn(conditions(closer)?, range);
    }
    let ends: i64 = bounds.limits.iter().map(|l| l.between).sum();
    if ends == 0
        || range.max() + 1 < LONG as i64 * ends
        || !closers.iter().all(|c| is_plain(c, range))
    {
        return None;
    }
    let parts = parts(&bounds, closers, range);
    let new = closers.iter().map(|c| (c.clone(), in_parts(c, range, &parts, next_axis)));
    replaced(ast, &new.collect())
}

/// What must hold for an iteration to count in what closes its loop; None if nobody knows.
fn conditions(closer: &UOp) -> Option<Vec<UOp>> {
    let value = closer.src(0);
    match closer.op() {
        Op::Reduce => Some(bounds::conditions(value, &identity(closer))),
        _ if value.op() == Op::Store => Some(value.srcs()[3..].to_vec()),
        _ => None,
    }
}

/// Whether the loop is the innermost that stays one, and nothing inside closes others.
fn is_plain(closer: &UOp, range: &UOp) -> bool {
    let is_inside = |r: &UOp| match closer.op() {
        Op::Reduce => kind_of(r).is_expanded(),
        _ => kind_of(r).is_expanded() || is_outer(r) && axis_of(r) < axis_of(range),
    };
    let alone = closer.srcs()[1..].iter().all(|r| r == range || is_inside(r));
    let mut varying = FxHashSet::default();
    let mut arithmetic = true;
    for node in toposort(closer.src(0)) {
        if node == *range || node.srcs().iter().any(|s| varying.contains(s)) {
            let closes = matches!(node.op(), Op::Reduce | Op::End | Op::After);
            arithmetic &= !closes && (node.op() != Op::Store || node == *closer.src(0));
            varying.insert(node);
        }
    }
    alone && arithmetic
}

/// The middle, and the rest.
fn parts(bounds: &Bounds, closers: &[UOp], range: &UOp) -> [Part; 2] {
    // where several things are done in the loop, what does not count for one may count for another
    let (low, high, known) = match closers {
        [_] => (bounds.low(), bounds.high(range), bounds.known()),
        _ => (UOp::index(0), range.src(0).clone(), FxHashMap::default()),
    };
    let bound = |is_low: bool| bounds.limits.iter().filter(move |l| l.is_low == is_low);
    let first = bound(true).fold(low.clone(), |a, l| a.maximum(&l.all)).minimum(&high);
    let last = bound(false).fold(high.clone(), |a, l| a.minimum(&l.all)).maximum(&first);
    let [low, high, first, last] = [low, high, first, last].map(|x| simplify(&x));
    let holds = |l: &Limit| (l.comparison.clone(), UOp::bool(l.holds));
    let holds = bounds.limits.iter().map(holds).collect();
    let middle = Part { low: first.clone(), high: last.clone(), gap: None, holds };
    [middle, Part { low, high, gap: Some((first, last)), holds: known }]
}

/// What a closer becomes: two effects, or a reduction of both parts.
fn in_parts(closer: &UOp, range: &UOp, parts: &[Part; 2], next_axis: u32) -> Vec<UOp> {
    let part = |closer: &UOp| {
        let axes = [axis_of(range), next_axis];
        [0, 1].map(|i| parts[i].of(closer, range, axes[i]))
    };
    if closer.op() == Op::End {
        return part(closer).iter().map(simplify).collect();
    }
    let op = closer.arg().reduce_op().expect("a reduce");
    let own = rebuild(closer, smallvec![closer.src(0).clone(), range.clone()]);
    let [most, rest] = part(&own);
    let others: Srcs = closer.srcs()[1..].iter().filter(|r| *r != range).cloned().collect();
    let sum = UOp::binary(op.alu(), &most, &rest);
    let sum = if others.is_empty() { sum } else { sum.reduce_ranges(op, others) };
    vec![simplify(&sum)]
}
