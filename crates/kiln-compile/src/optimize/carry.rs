//! Part of pass `options`: a reduction in blocks. The loop over blocks moves outside of loops over outputs, so that
//! what a block reads stays in a cache. The partial sums are carried from block to block in scratch.

use super::ranges::{
    axis_of, kind_of, next_axis, open_ranges, ranges_of, replace_ranges, size_of, substitute,
};
use super::stage::{flat, reading_order};
use kiln_ir::affine::strides;
use kiln_ir::arg::{RangeKind, Space};
use kiln_ir::uop::{Srcs, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// The kernel with every reduction over the loop `over` carried, in scratch memories from number `id`, which is left at
/// the next number.
pub(super) fn carry(ast: &UOp, over: &UOp, id: &mut u32) -> UOp {
    let mut ast = ast.clone();
    let over_it = |n: &UOp| n.op() == Op::Reduce && n.srcs()[1..].contains(over);
    while let Some(reduce) = toposort(&ast).into_iter().find(over_it) {
        let carried = carried(&ast, &reduce, over, *id);
        ast = substitute(&ast, &reduce, &carried);
        *id += 1;
    }
    ast
}

/// The kernel with plain loops instead of unrolled and vector ranges around its stores, if it stores elements that are
/// no neighbours. Carried sums are in scratch and can be read in any order.
pub(super) fn settle(ast: &UOp) -> UOp {
    let nodes = toposort(ast);
    let stores = || nodes.iter().filter(|n| n.op() == Op::Store && n.memory().op() == Op::Param);
    let apart = |store: &UOp| {
        let vectors = ranges_of(store.src(1)).into_iter();
        let strides = strides(store.src(1));
        let mut vectors = vectors.filter(|r| kind_of(r) == RangeKind::Vector);
        vectors.any(|r| strides.get(&axis_of(&r)) != Some(&Some(1)))
    };
    if !stores().any(apart) {
        return ast.clone();
    }
    let ends = nodes.iter().filter(|n| n.op() == Op::End && stores().any(|s| s == n.src(0)));
    let expanded = ends.flat_map(|n| n.srcs()[1..].to_vec()).filter(|r| kind_of(r).is_expanded());
    let as_loop = |r: UOp| {
        let new = UOp::range(axis_of(&r), RangeKind::Loop, size_of(&r));
        (r, (new.clone(), smallvec![new]))
    };
    replace_ranges(ast, &expanded.map(as_loop).collect())
}

/// The result of `reduce`, read from scratch after all blocks.
fn carried(ast: &UOp, reduce: &UOp, over: &UOp, id: u32) -> UOp {
    let (outer, inner): (Vec<UOp>, Vec<UOp>) =
        open_ranges(reduce).into_iter().partition(|r| is_around(r, over));
    let inner = reading_order(inner);
    let mut next = next_axis(ast);
    let mut copy = |ranges: &[UOp]| Copy::of(ranges, &mut next);

    let len = inner.iter().map(size_of).product();
    let memory = UOp::local(Space::Scratch, id, len, reduce.dtype(), 1);
    let op = reduce.arg().reduce_op().expect("a reduce has an op");
    let start = copy(&inner);
    let fresh = if outer.is_empty() { memory.clone() } else { memory.after(outer.clone()) };
    let identity = UOp::constant(op.identity(reduce.dtype()), reduce.dtype());
    let begun =
        end(UOp::store(&fresh, &start.of_value(&flat(&inner)), &identity, None), start.ranges);

    let rest: Vec<UOp> = reduce.srcs()[1..].iter().filter(|r| *r != over).cloned().collect();
    // panels that are filled inside the loop over blocks move with it
    let known = |r: &UOp| *r == *over || outer.contains(r) || inner.contains(r) || rest.contains(r);
    let copies = ranges_of(reduce.src(0)).into_iter().filter(|r| !known(r)).collect();
    let block = copy(&[inner.clone(), rest.clone(), copies].concat());
    let (outputs, own) = block.ranges[..inner.len() + rest.len()].split_at(inner.len());
    let sum = block.of_value(reduce.src(0)).reduce_ranges(op, own.iter().cloned());
    let running = memory.after([begun].into_iter().chain(outer).chain([over.clone()]));
    let place = block.of_value(&flat(&inner));
    let joined = UOp::binary(op.alu(), &sum, &UOp::load(&running, &place));
    let store = UOp::store(&running, &place, &joined, None);
    let done = end(store, outputs.iter().cloned().chain([over.clone()]).collect());
    UOp::load(&memory.after([done]), &flat(&inner))
}

/// Loops that stay around those of the blocks.
fn is_around(range: &UOp, over: &UOp) -> bool {
    !kind_of(range).is_expanded() && axis_of(range) < axis_of(over)
}

pub(super) fn end(store: UOp, ranges: Vec<UOp>) -> UOp {
    if ranges.is_empty() { store } else { store.end(ranges) }
}

/// Ranges like others, for another nest.
pub(super) struct Copy {
    pub(super) ranges: Vec<UOp>,
    map: FxHashMap<UOp, (UOp, Srcs)>,
}

impl Copy {
    /// In the order given, which is that of the nest.
    pub(super) fn of(old: &[UOp], next: &mut u32) -> Copy {
        let mut copy = Copy { ranges: Vec::new(), map: FxHashMap::default() };
        for range in old {
            let new = UOp::range(*next, kind_of(range), size_of(range));
            *next += 1;
            copy.map.insert(range.clone(), (new.clone(), smallvec![new.clone()]));
            copy.ranges.push(new);
        }
        copy
    }

    /// A value over the copies.
    pub(super) fn of_value(&self, value: &UOp) -> UOp {
        replace_ranges(value, &self.map)
    }
}
