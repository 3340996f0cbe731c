//! Values that a reduction computes and that a loop after it computes again are kept in scratch in between: the
//! exponentials of a softmax, which its sum and its quotients need.

use super::options::{axis_of, kind_of, ranges_of, replace_ranges, size_of};
use super::stage::{flat, reading_order, substitute};
use kiln_ir::arg::{RangeKind, Space};
use kiln_ir::rules::simplify;
use kiln_ir::uop::{Srcs, toposort};
use kiln_ir::{DType, Op, UOp};
use rustc_hash::FxHashSet;
use smallvec::smallvec;

/// What computing a value must cost, in operations on one element, so that storing it and reading it twice costs less.
const WORTH: usize = 8;
/// A transcendental function, a division or root.
const TRANSCENDENTAL: usize = 20;
const DIVISION: usize = 5;
/// Larger kernels are not searched: every value of a reduction is looked at whole.
const MOST_NODES: usize = 1000;

/// A value inside a reduction, and the same value over other loops.
struct Repeated {
    value: UOp,
    /// The reduction's loops, in order.
    reduced: Vec<UOp>,
    /// Of each repetition, what it is and the loops that stand for those.
    again: Vec<(UOp, Vec<UOp>)>,
}

/// Whether something that is worth it fits `bytes`.
pub(super) fn pays(ast: &UOp, bytes: usize) -> bool {
    repeated(ast, bytes).is_some()
}

/// The kernel with values kept, as long as each fits `bytes`.
pub(super) fn keep(ast: &UOp, bytes: usize) -> UOp {
    let mut ast = ast.clone();
    while let Some(found) = repeated(&ast, bytes) {
        ast = simplify(&kept(&ast, &found));
    }
    ast
}

/// The first value that is worth keeping, the largest part of what its reduction reduces.
fn repeated(ast: &UOp, bytes: usize) -> Option<Repeated> {
    let nodes = toposort(ast);
    if nodes.len() > MOST_NODES {
        return None;
    }
    let known: FxHashSet<&UOp> = nodes.iter().collect();
    let ranges = ranges_of(ast);
    nodes.iter().filter(|n| n.op() == Op::Reduce).find_map(|reduce| {
        let reduced = reading_order(reduce.srcs()[1..].to_vec());
        let others = alike(&reduced, &ranges);
        let values = toposort(reduce.src(0));
        let worth = |v: &&UOp| !others.is_empty() && is_worth(v, &reduced, bytes);
        values.iter().rev().filter(worth).find_map(|value| {
            let again = |loops: &Vec<UOp>| {
                let same = simplify(&renamed(value, &reduced, loops));
                known.contains(&same).then(|| (same, loops.clone()))
            };
            let again: Vec<(UOp, Vec<UOp>)> = others.iter().filter_map(again).collect();
            let found = Repeated { value: value.clone(), reduced: reduced.clone(), again };
            (!found.again.is_empty() && outer(ast, &found).is_some()).then_some(found)
        })
    })
}

/// All lists of other loops that run as often and in the same way.
fn alike(reduced: &[UOp], ranges: &[UOp]) -> Vec<Vec<UOp>> {
    let expanded = |r: &UOp| (kind_of(r) == RangeKind::Vector, kind_of(r).is_expanded());
    let mut lists: Vec<Vec<UOp>> = vec![Vec::new()];
    for old in reduced {
        let same = |r: &&UOp| {
            size_of(r) == size_of(old) && expanded(r) == expanded(old) && !reduced.contains(r)
        };
        let fits: Vec<&UOp> = ranges.iter().filter(same).collect();
        lists = lists
            .iter()
            .flat_map(|list| {
                let new = fits.iter().filter(|r| !list.contains(r));
                new.map(|r| list.iter().cloned().chain([(*r).clone()]).collect())
            })
            .collect();
    }
    lists
}

fn renamed(value: &UOp, from: &[UOp], to: &[UOp]) -> UOp {
    let pair = |(old, new): (&UOp, &UOp)| {
        let ranges: Srcs = smallvec![new.clone()];
        (old.clone(), (new.clone(), ranges))
    };
    replace_ranges(value, &from.iter().zip(to).map(pair).collect())
}

/// Whether a value varies over all of the reduction's loops, costs enough, and fits.
fn is_worth(value: &UOp, reduced: &[UOp], bytes: usize) -> bool {
    if matches!(value.dtype(), DType::Index | DType::Bool | DType::Void) {
        return false;
    }
    let varying = varying(value, reduced);
    let price = |n: &UOp| match n.op() {
        op if op.is_transcendental() => TRANSCENDENTAL,
        Op::Div | Op::Sqrt | Op::FloorDiv | Op::FloorMod => DIVISION,
        op if op.is_alu() && n.dtype() != DType::Index => 1,
        _ => 0,
    };
    let open = open_ranges(value);
    let elements: usize = open.iter().filter(|r| !is_outer(r)).map(size_of).product();
    reduced.iter().all(|r| open.contains(r))
        && varying.iter().map(price).sum::<usize>() >= WORTH
        && elements * value.dtype().size() <= bytes
}

/// The nodes that vary over the loops: what does not is computed once.
fn varying(value: &UOp, loops: &[UOp]) -> FxHashSet<UOp> {
    let mut varying: FxHashSet<UOp> = FxHashSet::default();
    for node in toposort(value) {
        if loops.contains(&node) || node.srcs().iter().any(|s| varying.contains(s)) {
            varying.insert(node);
        }
    }
    varying
}

/// The ranges that a value varies over, in order.
fn open_ranges(value: &UOp) -> Vec<UOp> {
    let nodes = toposort(value);
    let closing = nodes.iter().filter(|n| matches!(n.op(), Op::Reduce | Op::End));
    let closed: FxHashSet<UOp> = closing.flat_map(|n| n.srcs()[1..].iter().cloned()).collect();
    ranges_of(value).into_iter().filter(|r| !closed.contains(r)).collect()
}

fn is_outer(range: &UOp) -> bool {
    matches!(kind_of(range), RangeKind::Thread | RangeKind::Loop)
}

/// The loops that the value is computed inside of: down to the deepest that it varies over. None if the loops of a
/// repetition are among them.
fn outer(ast: &UOp, found: &Repeated) -> Option<Vec<UOp>> {
    let open = open_ranges(&found.value);
    let deepest = open.iter().filter(|r| is_outer(r)).map(axis_of).max();
    let around = |r: &UOp| is_outer(r) && deepest.is_some_and(|d| axis_of(r) <= d);
    let outer: Vec<UOp> = ranges_of(ast).into_iter().filter(around).collect();
    let apart = |(_, loops): &(UOp, Vec<UOp>)| loops.iter().all(|r| !outer.contains(r));
    found.again.iter().all(apart).then_some(outer)
}

fn kept(ast: &UOp, found: &Repeated) -> UOp {
    let Repeated { value, reduced, again } = found;
    let outer = outer(ast, found).expect("checked when it was found");
    let inside: Vec<UOp> = open_ranges(value).into_iter().filter(|r| !outer.contains(r)).collect();
    let inside = reading_order(inside);
    let len = inside.iter().map(size_of).product();
    let memory = UOp::local(Space::Scratch, free_id(ast), len, value.dtype(), 1);
    let target = if outer.is_empty() { memory.clone() } else { memory.after(outer) };
    let copies = copies_of(ast, &inside);
    let place = renamed(&flat(&inside), &inside, &copies);
    let store = UOp::store(&target, &place, &renamed(value, &inside, &copies), None);
    let filled = memory.after([store.end(copies)]);
    let place = flat(&inside);
    let first = substitute(ast, value, &UOp::load(&filled, &place));
    again.iter().fold(first, |ast, (same, loops)| {
        substitute(&ast, same, &UOp::load(&filled, &renamed(&place, reduced, loops)))
    })
}

/// Loops like others, further in than all loops there are.
fn copies_of(ast: &UOp, ranges: &[UOp]) -> Vec<UOp> {
    let next = ranges_of(ast).last().map_or(0, |r| axis_of(r) + 1);
    let kind = |r: &UOp| match kind_of(r) {
        RangeKind::Reduce => RangeKind::Loop,
        RangeKind::Unroll => RangeKind::Upcast,
        kind => kind,
    };
    (next..).zip(ranges).map(|(axis, r)| UOp::range(axis, kind(r), size_of(r))).collect()
}

fn free_id(ast: &UOp) -> u32 {
    let scratch = |n: &UOp| match n.arg().memory() {
        Some((Space::Scratch, id, _)) if n.op() == Op::Local => Some(id + 1),
        _ => None,
    };
    toposort(ast).iter().filter_map(scratch).max().unwrap_or(0)
}
