//! Part of pass `trim`: divides a loop where a `where` changes from one value to the other (index-set splitting: Banerjee,
//! Loop Transformations for Restructuring Compilers, 1993).
//!
//! Two tensors that are joined are one loop over `where(i < 5, a[i], b[i - 5])`. It becomes a loop over `a[i]` up to 5 and
//! one over `b[i - 5]` from 5 on. Iterations in which lanes of a vector disagree are a loop of their own between the two.

use super::super::ranges::{axis_of, closers, kind_of, next_axis, ranges_of};
use super::bounds::{Bounds, Limit};
use super::divide::{DIVIDED, in_parts, is_plain};
use super::effects::replaced;
use super::reductions::Part;
use kiln_ir::arg::RangeKind;
use kiln_ir::rules::simplify;
use kiln_ir::uop::{reaches, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// How many loops of a kernel are divided: each copies its body twice.
const MOST: usize = 8;
/// Bodies of more nodes are not copied.
const MOST_NODES: usize = 200;

/// The kernel with loops divided at the places where values change.
pub(super) fn split(ast: &UOp) -> UOp {
    let (mut ast, mut between) = (ast.clone(), Vec::new());
    // most kernels join nothing, and end here
    let joins = reaches(&ast, |_| true, is_choice);
    for _ in 0..if joins { MOST } else { 0 } {
        let ranges = ranges_of(&ast);
        let next_axis = next_axis(&ast);
        // the iterations between two parts are few, whatever bounds say of them
        let mut open = ranges.iter().filter(|r| !between.contains(&axis_of(r)));
        let Some(divided) = open.find_map(|r| divided(&ast, r, next_axis)) else { break };
        between.push(next_axis);
        ast = divided;
    }
    ast
}

/// The kernel with `range` in parts; the one in which lanes disagree has number `next_axis`.
fn divided(ast: &UOp, range: &UOp, next_axis: u32) -> Option<UOp> {
    let closers = closers(ast, range);
    let [closer] = &closers[..] else { return None };
    let stores = closer.op() == Op::End && closer.src(0).op() == Op::Store;
    if !stores || kind_of(range) != RangeKind::Loop || !is_plain(closer, range) {
        return None;
    }
    let limit = switch(closer, range)?;
    let parts = parts(&limit, range, next_axis)?;
    replaced(ast, &FxHashMap::from_iter([(closer.clone(), in_parts(closer, range, &parts))]))
}

/// Whether one of two values is chosen by a comparison, and both vary. Where one of them is a constant, other steps of
/// this pass leave its iterations out.
fn is_choice(node: &UOp) -> bool {
    let is_value = |n: &UOp| n.as_const().is_none();
    node.op() == Op::Where && node.src(0).op() == Op::CmpLt && node.srcs()[1..].iter().all(is_value)
}

/// The first comparison that chooses between two values with loads, and is part of the predicate of a load.
fn switch(closer: &UOp, range: &UOp) -> Option<Limit> {
    let nodes = toposort(closer);
    if nodes.len() > MOST_NODES {
        return None;
    }
    let gates: Vec<&UOp> =
        nodes.iter().filter(|n| n.op() == Op::Load).filter_map(UOp::gate).collect();
    let decides = |c: &UOp| gates.iter().any(|gate| toposort(gate).contains(c));
    let reads = |value: &UOp| toposort(value).iter().any(|n| n.op() == Op::Load);
    let two = |n: &&UOp| is_choice(n) && n.srcs()[1..].iter().all(reads);
    let mut chosen = nodes.iter().filter(two).map(|n| n.src(0)).filter(|c| decides(c));
    chosen.find_map(|condition| {
        let mut bounds = Bounds::default();
        bounds.learn(vec![condition.clone()], range);
        let limit = bounds.limits.pop()?;
        let is_long = range.max() + 1 >= DIVIDED * (limit.between + 1);
        is_long.then_some(limit)
    })
}

/// The part before the switch, the iterations in which lanes disagree, and the part after it. None if the switch is not
/// inside of the loop.
fn parts(limit: &Limit, range: &UOp, next_axis: u32) -> Option<Vec<(Part, u32)>> {
    let (zero, count) = (UOp::index(0), range.src(0).clone());
    let inside = |x: &UOp| simplify(&x.maximum(&zero).minimum(&count));
    let (first, last) = match limit.is_low {
        true => (inside(&limit.some), inside(&limit.all)),
        false => (inside(&limit.all), inside(&limit.some)),
    };
    if first == zero && last == zero || first == count || last == count && first == last {
        return None;
    }
    let known = |holds: bool| {
        FxHashMap::from_iter([(limit.comparison.clone(), UOp::bool(holds == limit.holds))])
    };
    let part = |low: &UOp, high: &UOp, holds, axis| {
        (Part { low: low.clone(), high: high.clone(), gap: None, holds }, axis)
    };
    let between = part(&first, &last, FxHashMap::default(), next_axis);
    let before = part(&zero, &first, known(!limit.is_low), axis_of(range));
    let after = part(&last, &count, known(limit.is_low), next_axis + 1);
    let all = [before, between, after].into_iter();
    Some(all.filter(|(part, _)| part.low != part.high).collect())
}
