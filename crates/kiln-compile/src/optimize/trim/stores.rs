//! Part of pass `trim`: a row in scratch of which a part is constant. One loop computes the rest, another fills.

use super::super::access::operations;
use super::super::ranges::{axis_of, kind_of, replace_ranges};
use super::bounds::Bounds;
use super::effects::replaced;
use super::needed::is_scratch;
use super::reductions::Part;
use kiln_ir::rules::simplify;
use kiln_ir::uop::{Srcs, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// Shorter loops stay whole, and those of values that take fewer operations.
const SHORTEST: i64 = 8;
const WORTH: f64 = 10.0;

/// The kernel with the loop of `end` made shorter. It ends as soon as the stored value becomes constant, and loops of
/// their own store the constant. New loops are numbered from `next_axis`.
pub(super) fn store(ast: &UOp, end: &UOp, range: &UOp, next_axis: u32) -> Option<UOp> {
    let store = end.src(0);
    let suits = store.op() == Op::Store && is_scratch(store.memory()) && store.srcs().len() == 3;
    let value = store.src(2);
    let costs = || toposort(value).iter().map(operations).sum::<f64>() >= WORTH;
    if !suits || range.max() < SHORTEST || !costs() {
        return None;
    }
    let is_constant = |n: &&UOp| n.as_const().is_some();
    let nothing = (value.op() == Op::Where).then(|| value.src(2)).filter(is_constant)?;
    let mut bounds = Bounds::of(value, nothing, range);
    bounds.limits.retain(|l| !l.is_low);
    if bounds.limits.is_empty() {
        return None;
    }
    // inside the loop also where it has so few iterations that no index needs it
    let target = store.src(0).after([range.clone()]);
    let inside = |value: &UOp| {
        UOp::store(&target, store.src(1), value, None).end(end.srcs()[1..].iter().cloned())
    };
    let high = bounds.high(range).maximum(&UOp::index(0));
    let counts = Part { low: UOp::index(0), high: high.clone(), gap: None, holds: bounds.known() };
    let counts = counts.of(&inside(value), range, axis_of(range));
    let (end_of_all, holds) = (range.src(0).clone(), FxHashMap::default());
    let rest = Part { low: high, high: end_of_all, gap: None, holds };
    let rest = renumbered(&rest.of(&inside(nothing), range, axis_of(range)), next_axis);
    let both = vec![simplify(&counts), simplify(&rest)];
    replaced(ast, &FxHashMap::from_iter([(end.clone(), both)]))
}

/// The same in loops of its own, whose numbers are greater by `offset`.
fn renumbered(end: &UOp, offset: u32) -> UOp {
    let mut end = end.clone();
    loop {
        let old = end.srcs()[1..].iter().filter(|r| axis_of(r) < offset).min_by_key(|r| axis_of(r));
        let Some(old) = old.cloned() else { return end };
        let new = UOp::range_to(axis_of(&old) + offset, kind_of(&old), old.src(0).clone());
        let ranges: Srcs = smallvec![new.clone()];
        end = replace_ranges(&end, &FxHashMap::from_iter([(old, (new, ranges))]));
    }
}
