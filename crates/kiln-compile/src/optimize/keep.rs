//! Part of pass `options`: a value that a reduction computes and a later loop computes again is stored in scratch and
//! reused. Example: the exponentials of a softmax, which its sum and its quotients need.
//!
//! Equal values are found by renaming: the reduction's loop variables are replaced by those of the later loop, and then
//! equal values are one node. Renaming may remove a variable (`r1 - r3` when both become one). So both values must vary
//! over all the loops, or a constant would be read from memory.

use super::access::operations;
use super::ranges::{
    axis_of, is_outer, kind_of, next_axis, open_ranges, replace_ranges, size_of, substitute,
};
use super::stage::{flat, reading_order};
use kiln_ir::arg::{RangeKind, Space};
use kiln_ir::rules::simplify;
use kiln_ir::scope::{AxisSet, Ranges, closed_ranges};
use kiln_ir::uop::{Srcs, free_local, toposort};
use kiln_ir::{DType, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

/// The operations on one element from which on storing it and reading it twice costs less than computing it twice.
const WORTH: f64 = 10.0;
/// Larger kernels are not searched: every value of a reduction is looked at whole.
const MOST_NODES: usize = 500;
/// Values that are kept at a time; all must fit the cache together.
const MOST_KEPT: usize = 4;

/// A value inside a reduction, and the same value over other loops.
struct Repeated {
    value: UOp,
    /// The reduction's loops, in order.
    reduced: Vec<UOp>,
    /// Of each repetition, what it is and the loops that stand for those.
    again: Vec<(UOp, Vec<UOp>)>,
    /// The loops that the value is computed inside of.
    outer: Vec<UOp>,
}

/// The loops of a reduction of which a value is worth keeping and fits into `bytes`, and all loops that compute the value
/// again.
pub(super) fn repeated(ast: &UOp, bytes: usize) -> Option<(Vec<UOp>, Vec<UOp>)> {
    let Repeated { reduced, again, .. } = Search::new(ast, bytes)?.first()?;
    Some((reduced, again.into_iter().flat_map(|(_, loops)| loops).collect()))
}

/// The kernel with values kept, as long as each fits `bytes`.
pub(super) fn keep(ast: &UOp, bytes: usize) -> UOp {
    let mut ast = ast.clone();
    for _ in 0..MOST_KEPT {
        let found = Search::new(&ast, bytes).and_then(|search| search.first());
        let Some(found) = found else { break };
        ast = simplify(&kept(&ast, &found));
    }
    ast
}

/// The loops of a kernel, and what varies over which.
struct Search {
    bytes: usize,
    nodes: Vec<UOp>,
    ranges: Ranges,
}

impl Search {
    fn new(ast: &UOp, bytes: usize) -> Option<Search> {
        let nodes = toposort(ast);
        let may_have = nodes.len() <= MOST_NODES && nodes.iter().any(|n| n.op() == Op::Reduce);
        let ranges = may_have.then(|| Ranges::among(&nodes))?;
        Some(Search { bytes, nodes, ranges })
    }

    /// The first value that is worth keeping, the largest part of what its reduction reduces.
    fn first(&self) -> Option<Repeated> {
        let costly = |n: &UOp| toposort(n).iter().map(operations).sum::<f64>() >= WORTH;
        let mut reduces = self.nodes.iter().filter(|n| n.op() == Op::Reduce && costly(n.src(0)));
        reduces.find_map(|reduce| {
            let reduced = reading_order(reduce.srcs()[1..].to_vec());
            let mut values = self.repeated(reduce, &reduced);
            values.sort_by_key(|(at, ..)| *at);
            let (largest, value, ..) = values.last()?.clone();
            let same = values.into_iter().filter(|(at, ..)| *at == largest);
            let again: Vec<_> = same.map(|(_, _, same, loops)| (same, loops)).collect();
            let outer = self.path_around(&value, &again)?;
            Some(Repeated { value, reduced, again, outer })
        })
    }

    /// For each list of other loops the largest value that is computed there too: its place among the reduction's
    /// values, it, its repetition, and the loops.
    fn repeated(&self, reduce: &UOp, reduced: &[UOp]) -> Vec<(usize, UOp, UOp, Vec<UOp>)> {
        let values = toposort(reduce.src(0));
        let places: FxHashMap<&UOp, usize> =
            values.iter().enumerate().map(|(at, v)| (v, at)).collect();
        let here: FxHashSet<&UOp> = self.nodes.iter().collect();
        let find = |loops: Vec<UOp>| {
            let elsewhere = toposort(&simplify(&renamed(reduce.src(0), reduced, &loops)));
            elsewhere.into_iter().rev().find_map(|same| {
                if !here.contains(&same) || !self.is_worth(&same, &loops) {
                    return None;
                }
                let value = simplify(&renamed(&same, &loops, reduced));
                let at = *places.get(&value)?;
                self.is_worth(&value, reduced).then(|| (at, value, same, loops.clone()))
            })
        };
        self.alike(reduce, reduced).into_iter().filter_map(find).collect()
    }

    /// The loops of other reductions and of outputs with the same number of iterations and the same kind, apart from
    /// those around both. Loops that are unrolled whole need no memory: what they compute again is one node.
    fn alike(&self, reduce: &UOp, reduced: &[UOp]) -> Vec<Vec<UOp>> {
        let shape =
            |r: &UOp| (size_of(r), kind_of(r) == RangeKind::Vector, kind_of(r).is_expanded());
        if reduced.iter().all(|r| kind_of(r).is_expanded()) {
            return Vec::new();
        }
        let shapes: Vec<_> = reduced.iter().map(shape).collect();
        let mut lists: Vec<Vec<UOp>> = Vec::new();
        for closer in self.nodes.iter().filter(|n| matches!(n.op(), Op::Reduce | Op::End)) {
            let own = closed_ranges(closer).filter(|r| !varies(reduce.src(0), r));
            let list = reading_order(own.cloned().collect());
            if list.iter().map(shape).eq(shapes.iter().cloned()) && !lists.contains(&list) {
                lists.push(list);
            }
        }
        lists
    }

    /// Whether a value varies over all of some loops, can be computed in a nest of its own, costs enough, and fits.
    fn is_worth(&self, value: &UOp, loops: &[UOp]) -> bool {
        let of_numbers = !matches!(value.dtype(), DType::Index | DType::Bool | DType::Void);
        let inside = |r: &&UOp| !is_outer(r) || loops.contains(r);
        let elements: usize = self.ranges.of(value.scope()).filter(inside).map(size_of).product();
        of_numbers
            && loops.iter().all(|r| varies(value, r))
            && elements * value.dtype().size() <= self.bytes
            && self.price(value, loops).is_some_and(|price| price >= WORTH)
    }

    /// Operations of a value that vary over the loops: others are done once. None if a nest of loops inside it does:
    /// those would have to be repeated in the order of the new nest.
    fn price(&self, value: &UOp, loops: &[UOp]) -> Option<f64> {
        let open = self.ranges.of(value.scope());
        let inside = open.filter(|r| !is_outer(r) || loops.contains(r)).map(axis_of);
        let inside: AxisSet = inside.collect();
        let mut price = 0.0;
        for node in toposort(value) {
            let varies = |x: &UOp| inside.intersects(x.scope());
            if matches!(node.op(), Op::Reduce | Op::End | Op::After)
                && node.srcs().iter().any(varies)
            {
                return None;
            }
            price += if varies(&node) { operations(&node) } else { 0.0 };
        }
        Some(price)
    }

    /// The loops that the value is computed inside of, down to the deepest that it varies over. None if a repetition is
    /// not inside all of them.
    fn path_around(&self, value: &UOp, again: &[(UOp, Vec<UOp>)]) -> Option<Vec<UOp>> {
        let outer = |axes: &AxisSet| -> AxisSet {
            self.ranges.of(axes).filter(|r| is_outer(r)).map(axis_of).collect()
        };
        let mut path = outer(value.scope());
        loop {
            let before = path.len();
            for node in &self.nodes {
                let met = node.scope();
                let deepest = met.iter().rev().find(|&axis| path.contains(axis));
                let above = outer(met).iter().filter(|&a| deepest.is_some_and(|d| a < d)).collect();
                path.union_with(&above);
            }
            if path.len() == before {
                break;
            }
        }
        let path: Vec<UOp> = self.ranges.of(&path).cloned().collect();
        let apart = |(_, loops): &(UOp, Vec<UOp>)| loops.iter().all(|r| !path.contains(r));
        again.iter().all(apart).then_some(path)
    }
}

fn renamed(value: &UOp, from: &[UOp], to: &[UOp]) -> UOp {
    let pair = |(old, new): (&UOp, &UOp)| {
        let ranges: Srcs = smallvec![new.clone()];
        (old.clone(), (new.clone(), ranges))
    };
    replace_ranges(value, &from.iter().zip(to).map(pair).collect())
}

/// The kernel with the value stored to scratch where the reduction computes it, and read from there by the loops after
/// it. If the reduction is inside loops that the repetitions are not, or waits for them, a nest of its own computes the
/// value.
fn kept(ast: &UOp, found: &Repeated) -> UOp {
    let Repeated { value, reduced, again, outer } = found;
    let open = open_ranges(value).into_iter();
    let inside = reading_order(open.filter(|r| !outer.contains(r)).collect());
    let len = inside.iter().map(size_of).product();
    let memory = UOp::local(Space::Scratch, free_local(&toposort(ast)), len, value.dtype(), 1);
    let target =
        if outer.is_empty() { memory.clone() } else { memory.after(outer.iter().cloned()) };
    let place = flat(&inside);
    let store = UOp::store(&target, &place, value, None);
    // each row of a tile depends on its own copy
    let along = inside.iter().all(|r| reduced.contains(r) || kind_of(r) == RangeKind::Upcast)
        && !is_nested(ast, found)
        && !is_outside(ast, found)
        && !waits(ast, found);
    let done = match along {
        true => store.end(reduced.iter().cloned()),
        false => {
            let copies = copies_of(ast, &inside);
            renamed(&store, &inside, &copies).end(copies)
        }
    };
    let filled = memory.after([done]);
    let load = UOp::load(&filled, &place);
    let first = if along { ast.clone() } else { substitute(ast, value, &load) };
    again.iter().fold(first, |ast, (same, loops)| {
        substitute(&ast, same, &UOp::load(&filled, &renamed(&place, reduced, loops)))
    })
}

/// Whether a value varies over a range.
fn varies(value: &UOp, range: &UOp) -> bool {
    value.scope().contains(axis_of(range))
}

/// Whether the reduction's loops are inside loops that the value is not computed inside of.
fn is_nested(ast: &UOp, found: &Repeated) -> bool {
    let Repeated { reduced, outer, .. } = found;
    let deepest = reduced.iter().map(axis_of).max();
    let around = |r: &UOp| {
        let stays = outer.contains(r) || reduced.contains(r) || kind_of(r).is_expanded();
        !stays && Some(axis_of(r)) < deepest
    };
    let nodes = toposort(ast);
    let ranges = Ranges::among(&nodes);
    let mut met = nodes.iter().filter(|n| reduced.iter().any(|r| varies(n, r)));
    met.any(|n| ranges.of(n.scope()).any(around))
}

/// Whether the reduction's loops are outside of a loop that the value is kept inside of.
fn is_outside(ast: &UOp, found: &Repeated) -> bool {
    let nodes = toposort(ast);
    let closes = |n: &&UOp| closed_ranges(n).any(|r| found.reduced.contains(r));
    let mut closers = nodes.iter().filter(closes);
    closers.any(|n| found.outer.iter().any(|r| !varies(n, r)))
}

/// Whether the reduction's loops, which other reductions may share, wait for those of a repetition.
fn waits(ast: &UOp, found: &Repeated) -> bool {
    let nodes = toposort(ast);
    let ranges = Ranges::among(&nodes);
    let mut waiting: FxHashSet<UOp> =
        found.again.iter().flat_map(|(_, loops)| loops.iter().cloned()).collect();
    loop {
        let before = waiting.len();
        let mut after: FxHashSet<&UOp> = FxHashSet::default();
        for node in &nodes {
            let closes = matches!(node.op(), Op::Reduce | Op::End)
                && node.srcs()[1..].iter().any(|r| waiting.contains(r));
            if closes || node.srcs().iter().any(|s| after.contains(s)) {
                after.insert(node);
                let open = ranges.of(node.scope());
                waiting.extend(open.filter(|r| !found.outer.contains(r)).cloned());
                if node.op() == Op::Reduce {
                    waiting.extend(node.srcs()[1..].iter().cloned());
                }
            }
        }
        if waiting.len() == before {
            return found.reduced.iter().any(|r| waiting.contains(r));
        }
    }
}

/// Copies of loops, nested inside all loops that there are.
fn copies_of(ast: &UOp, ranges: &[UOp]) -> Vec<UOp> {
    let next = next_axis(ast);
    let kind = |r: &UOp| match kind_of(r) {
        RangeKind::Reduce => RangeKind::Loop,
        RangeKind::Unroll => RangeKind::Upcast,
        kind => kind,
    };
    (next..).zip(ranges).map(|(axis, r)| UOp::range(axis, kind(r), size_of(r))).collect()
}
