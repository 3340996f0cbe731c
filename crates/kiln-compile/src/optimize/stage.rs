//! Part of pass `options`: staging. An operand that a reduction reads many times is computed once into scratch, in the
//! order in which it is read, and read from there (BLIS: packing).
//!
//! So reads are contiguous however the operand lies in memory, and conversions and predicates are computed once an
//! element.

use super::access::value_strides;
use super::cover::Covered;
use super::dot::parts_of;
use super::ranges::{
    axis_of, is_outer, kind_of, next_axis, parts, ranges_of, replace_ranges, size_of, substitute,
};
use kiln_ir::arg::{RangeKind, Space};
use kiln_ir::scope::inside;
use kiln_ir::uop::{Srcs, toposort};
use kiln_ir::{DType, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

/// Ranges of at most this many iterations stay unrolled in a copy.
const WRITTEN_OUT: usize = 16;
/// Neighbours of a row that are read at once to transpose rows in registers. They are 16 bytes: within so many, processors
/// pick lanes fastest.
const SQUARE: usize = 4;
/// Elements that lie contiguously on one side before the copy moves on. On the other side they are in as many cache lines, at
/// most.
const RUN: usize = 64;

/// Where and how a value is staged.
pub(super) struct Panel {
    /// The number of its scratch memory.
    pub(super) id: u32,
    /// The loops that it is filled inside of.
    pub(super) outer: Vec<UOp>,
    /// How many neighbours are copied at once.
    pub(super) lanes: usize,
    /// What it holds, if it holds windows that overlap.
    pub(super) covered: Option<Covered>,
}

/// The values that may be staged: the largest parts of the summand that read memory and vary over fewer loops than
/// their users. In order of the walk; none is inside another.
pub(super) fn operands(ast: &UOp) -> Vec<UOp> {
    let nodes = toposort(ast);
    if !nodes.iter().any(|n| n.op() == Op::Reduce) {
        return Vec::new();
    }
    let mut facts: FxHashMap<UOp, Facts> = FxHashMap::default();
    let mut found: FxHashSet<UOp> = FxHashSet::default();
    for node in &nodes {
        let own = Facts::of(node, &facts);
        let value = |u: &UOp| !matches!(u.dtype(), DType::Index | DType::Bool | DType::Void);
        if value(node) || node.op() == Op::Reduce {
            let around = inside(node).len();
            let smaller = node.srcs().iter().filter(|s| {
                let f = &facts[*s];
                let fewer = s.scope().len() < around;
                value(s) && f.loads && f.reduces && !f.closes && fewer
            });
            found.extend(smaller.cloned());
        }
        facts.insert(node.clone(), own);
    }
    outermost(nodes, &found)
}

/// The values that a kernel loads. None is part of the index or the predicate of another.
pub(super) fn loads(ast: &UOp) -> Vec<UOp> {
    let nodes = toposort(ast);
    let is_value = |n: &&UOp| n.op() == Op::Load && n.dtype() != DType::Index;
    let found = nodes.iter().filter(is_value).cloned().collect();
    outermost(nodes, &found)
}

/// Those of the nodes that are found and not inside others that are.
fn outermost(nodes: Vec<UOp>, found: &FxHashSet<UOp>) -> Vec<UOp> {
    let inside: FxHashSet<UOp> = nodes
        .iter()
        .filter(|n| found.contains(n))
        .flat_map(|n| toposort(n).into_iter().filter(move |m| m != n))
        .collect();
    nodes.into_iter().filter(|n| found.contains(n) && !inside.contains(n)).collect()
}

/// What a value contains.
#[derive(Clone, Copy, Default)]
struct Facts {
    /// A loop of a reduction.
    reduces: bool,
    /// A read of memory.
    loads: bool,
    /// A reduction or an effect.
    closes: bool,
}

impl Facts {
    fn of(node: &UOp, known: &FxHashMap<UOp, Facts>) -> Facts {
        let is_reduce_loop = node.op() == Op::Range && kind_of(node) == RangeKind::Reduce;
        let own = Facts {
            reduces: is_reduce_loop,
            loads: node.op() == Op::Load,
            closes: matches!(node.op(), Op::Reduce | Op::End | Op::Store | Op::After),
        };
        node.srcs().iter().map(|src| known[src]).fold(own, |a, b| Facts {
            reduces: a.reduces | b.reduces,
            loads: a.loads | b.loads,
            closes: a.closes | b.closes,
        })
    }
}

/// The loops of a kernel that something can be staged inside of, outermost first.
pub(super) fn outer_loops(ast: &UOp) -> Vec<UOp> {
    ranges_of(ast).into_iter().filter(is_outer).collect()
}

/// The kernel with `value` staged.
pub(super) fn stage(ast: &UOp, value: &UOp, panel: &Panel) -> UOp {
    let outer = &panel.outer;
    let source = panel.covered.as_ref().map_or(value, |covered| &covered.source);
    let inner =
        reading_order(ranges_of(source).into_iter().filter(|r| !outer.contains(r)).collect());
    let len = inner.iter().map(size_of).product();
    let memory = UOp::local(Space::Scratch, panel.id, len, value.dtype(), 1);
    let copy = Copy::new(ast, source, &inner, panel.lanes);
    let place = replace_ranges(&flat(&inner), &copy.map);
    let target =
        if outer.is_empty() { memory.clone() } else { memory.after(outer.iter().cloned()) };
    let store = UOp::store(&target, &place, &replace_ranges(source, &copy.map), None);
    let filled = if copy.ranges.is_empty() { store } else { store.end(copy.ranges) };
    substitute(ast, value, &UOp::load(&memory.after([filled]), &panel.read(&inner)))
}

impl Panel {
    /// The position that is read in a panel of these ranges.
    fn read(&self, inner: &[UOp]) -> UOp {
        let windows = self.covered.iter().flat_map(|covered| &covered.windows);
        let places = windows.map(|w| (w.range.clone(), (w.place.clone(), smallvec![])));
        replace_ranges(&flat(inner), &places.collect())
    }
}

/// The order in which a panel is read: loops as they nest, then unrolled terms, then the tile, then lanes and sides of matrices.
pub(super) fn reading_order(mut ranges: Vec<UOp>) -> Vec<UOp> {
    let place = |kind: RangeKind| match kind {
        RangeKind::Vector | RangeKind::Matrix => 3,
        RangeKind::Unroll => 1,
        _ if kind.is_expanded() => 2,
        _ => 0,
    };
    ranges.sort_by_key(|r| (place(kind_of(r)), axis_of(r)));
    ranges
}

/// The row-major position over the ranges.
pub(super) fn flat(ranges: &[UOp]) -> UOp {
    let mut stride = 1;
    let mut terms = Vec::new();
    for range in ranges.iter().rev() {
        terms.push(if stride == 1 { range.clone() } else { range * stride });
        stride *= size_of(range) as i64;
    }
    terms.into_iter().rev().reduce(|a, b| a + b).unwrap_or_else(|| UOp::index(0))
}

/// The loops that fill a panel.
struct Copy {
    /// The ranges of the value, over those of the copy.
    map: FxHashMap<UOp, (UOp, Srcs)>,
    ranges: Vec<UOp>,
    next_axis: u32,
}

impl Copy {
    /// The order in which the value's memory is read: longest strides outermost. If neighbours in that memory are not
    /// neighbours in the panel, small blocks are copied, so that neither is accessed with a long stride for long.
    fn new(ast: &UOp, value: &UOp, inner: &[UOp], lanes: usize) -> Copy {
        let next_axis = next_axis(ast);
        let mut copy = Copy { map: FxHashMap::default(), ranges: Vec::new(), next_axis };
        let Some(last) = inner.last() else { return copy };
        let strides = value_strides(value);
        let stride = |r: &UOp| strides.get(&axis_of(r)).copied().unwrap_or(Some(0));
        let next = [1, parts_of(ast, value)].map(Some);
        let first = inner.iter().position(|r| next.contains(&stride(r)));
        let first = first.unwrap_or(inner.len() - 1);
        let runs_on = |start: &usize| !has_predicate_over(value, &inner[*start..=first]);
        let start = (first + 1 < inner.len()).then(|| start_of_run(&inner[..=first], stride));
        let start = start.filter(runs_on).unwrap_or(first);
        let (run, first) = (&inner[start..=first], &inner[first]);
        let mut others: Vec<&UOp> =
            inner.iter().filter(|r| *r != last && !run.contains(r)).collect();
        others.sort_by_key(|r| std::cmp::Reverse(stride(r).unwrap_or(i64::MAX).abs()));
        if first == last {
            copy.add_in_order(&others, inner);
            copy.add_in_vectors(first, if next.contains(&stride(first)) { lanes } else { 1 });
        } else {
            others.into_iter().for_each(|r| copy.add(r, 1));
            copy.add_around(run, last, lanes);
        }
        copy
    }

    fn range(&mut self, kind: RangeKind, size: usize) -> UOp {
        let range = UOp::range(self.next_axis, kind, size);
        self.next_axis += 1;
        self.ranges.push(range.clone());
        range
    }

    fn put(&mut self, old: &UOp, value: UOp) {
        self.map.insert(old.clone(), (value, smallvec![]));
    }

    /// One loop, or, if `most` allows, its iterations unrolled as far as they were unrolled before.
    fn add(&mut self, old: &UOp, most: usize) {
        let kind = kind_of(old);
        let expanded = kind.is_expanded() && kind != RangeKind::Matrix;
        let written_out = expanded && size_of(old) <= most;
        let kind = if written_out { RangeKind::Upcast } else { RangeKind::Loop };
        let new = self.range(kind, size_of(old));
        self.put(old, new);
    }

    /// Loops in the order of `others`, around the last of the ranges `inner`. The range whose rows are neighbours in the panel may
    /// be one of the outer loops. Then some of its iterations are innermost. Example: 4 pixels of each channel of an image are
    /// a row of a panel, and the next channel of the same pixels is the next row. All pixels of a channel lie together in memory,
    /// but in the panel they are `4 * channels` apart. If that is a power of two, all these lines are in one set of a cache.
    fn add_in_order(&mut self, others: &[&UOp], inner: &[UOp]) {
        let [.., near, last] = inner else { return };
        let is_far = others.last() != Some(&near) && !kind_of(near).is_expanded();
        let most = if is_far { RUN / size_of(last) } else { 1 };
        let at_once = (2..=most).rev().find(|n| size_of(near).is_multiple_of(*n));
        for other in others {
            match at_once.filter(|_| *other == near) {
                Some(n) => {
                    let outer = self.range(RangeKind::Loop, size_of(near) / n) * n as i64;
                    self.put(near, outer);
                }
                None => self.add(other, WRITTEN_OUT),
            }
        }
        if let Some(n) = at_once {
            let place = self.map[near].0.clone() + self.range(RangeKind::Loop, n);
            self.put(near, place);
        }
    }

    /// One loop, in the widest whole vectors that fit.
    fn add_in_vectors(&mut self, old: &UOp, most: usize) {
        let size = size_of(old);
        let lanes = lanes_of_copy(size, most);
        if lanes < 2 {
            return self.add(old, WRITTEN_OUT);
        }
        let outer = (size > lanes).then(|| self.range(RangeKind::Loop, size / lanes));
        let inner = self.range(RangeKind::Vector, lanes);
        self.put(old, outer.map_or(inner.clone(), |outer| outer * lanes as i64 + inner));
    }

    /// Some of a run, with all of `last` around it. If they fit, in blocks that are transposed in registers: a few
    /// neighbours of as many rows as a vector has lanes.
    fn add_around(&mut self, run: &[UOp], last: &UOp, lanes: usize) {
        let size = run.iter().map(size_of).product::<usize>();
        let side = if lanes >= SQUARE && size.is_multiple_of(SQUARE) { SQUARE } else { 1 };
        let times = (1..=RUN / side).rev().find(|&n| size.is_multiple_of(n * side)).unwrap_or(1);
        let outer = self.range(RangeKind::Loop, size / (times * side)) * (times * side) as i64;
        match side {
            1 => self.add(last, 1),
            _ => self.add_in_rows(last, rows_at_once(size_of(last), lanes)),
        }
        let place = outer + self.range(RangeKind::Loop, times) * side as i64;
        let in_square = (side > 1).then(|| self.range(RangeKind::Vector, side));
        let place = in_square.map_or(place.clone(), |lane| place + lane);
        for (range, part) in run.iter().zip(parts(&place, run)) {
            self.put(range, part);
        }
    }

    /// One loop with `by` iterations unrolled. If these do not divide the loop, the last of them begin earlier: some elements
    /// are copied twice.
    fn add_in_rows(&mut self, old: &UOp, by: usize) {
        let size = size_of(old);
        let start = self.range(RangeKind::Loop, size.div_ceil(by)) * by as i64;
        let row = self.range(RangeKind::Upcast, by);
        let start = match size.is_multiple_of(by) {
            true => start,
            false => UOp::binary(Op::Min, &start, &UOp::index((size - by) as i64)),
        };
        self.put(old, start + row);
    }
}

/// How many of `size` rows are transposed at once: a vector of them, or less where that is more than there are, or most
/// would be copied twice. Each block costs as much as a few more rows.
fn rows_at_once(size: usize, lanes: usize) -> usize {
    let price = |by: &usize| size.next_multiple_of(*by) * (by + SQUARE) / by;
    let halves = std::iter::successors(Some(lanes), |n| Some(n / 2));
    let all = halves.take_while(|n| *n >= SQUARE).filter(|n| *n <= size);
    all.min_by_key(price).unwrap_or(size)
}

/// The first of the last ranges that run on in memory as in the panel, such as those of the channels and a window.
fn start_of_run(ranges: &[UOp], stride: impl Fn(&UOp) -> Option<i64>) -> usize {
    let runs_on = |i: &usize| {
        let [outer, inner] = [i - 1, *i].map(|i| &ranges[i]);
        stride(inner).is_some_and(|n| stride(outer) == n.checked_mul(size_of(inner) as i64))
    };
    let last = ranges.len() - 1;
    last - (1..=last).rev().take_while(runs_on).count()
}

/// Whether a load's predicate varies over a run. Then it would be computed for each place of the run.
fn has_predicate_over(value: &UOp, run: &[UOp]) -> bool {
    let varies = |gate: &UOp| run.iter().any(|r| gate.scope().contains(axis_of(r)));
    toposort(value).iter().any(|n| n.op() == Op::Load && n.gate().is_some_and(varies))
}

/// The lanes in which a run of `size` neighbours is copied: a power of two that divides it, of at least four; else 1.
pub(super) fn lanes_of_copy(size: usize, most: usize) -> usize {
    let lanes = 1 << size.trailing_zeros().min(most.max(1).ilog2());
    if lanes == most || lanes >= SQUARE { lanes } else { 1 }
}
