//! Part of pass `options`: computes a sum of packed products with a matrix unit. The sides of the matrices are ranges
//! of kind `Matrix`. The result goes to scratch, in a loop nest of its own, and everything else reads it from there in
//! ordinary loops and vectors.

use super::carry::{Copy, end};
use super::ranges::{
    axis_of, kind_of, next_axis, open_ranges, replace_ranges, size_of, substitute,
};
use super::stage::{flat, reading_order};
use kiln_ir::affine::strides;
use kiln_ir::arg::{RangeKind, Space};
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use smallvec::smallvec;

/// The kernel that reads the results of its matrix product from scratch memory number `id`. (A blocked reduction
/// carries them in scratch anyway.)
pub(super) fn through_scratch(ast: &UOp, id: u32) -> UOp {
    let is_side = |r: &UOp| kind_of(r) == RangeKind::Matrix;
    let is_product = |n: &UOp| n.op() == Op::Reduce && n.srcs()[1..].iter().any(is_side);
    match toposort(ast).into_iter().find(is_product) {
        Some(reduce) => substitute(ast, &reduce, &held(ast, &reduce, id)),
        None => ast.clone(),
    }
}

/// The result of `reduce`, read from scratch.
fn held(ast: &UOp, reduce: &UOp, id: u32) -> UOp {
    let (inner, outer): (Vec<UOp>, Vec<UOp>) =
        open_ranges(reduce).into_iter().partition(|r| kind_of(r).is_expanded());
    let inner = reading_order(inner);
    let mut next = next_axis(ast);
    let copy = Copy::of(&[&inner, &reduce.srcs()[1..]].concat(), &mut next);
    let (outputs, own) = copy.ranges.split_at(inner.len());
    let op = reduce.arg().reduce_op().expect("a reduce has an op");
    let sum = copy.of_value(reduce.src(0)).reduce_ranges(op, own.iter().cloned());
    let len = inner.iter().map(size_of).product();
    let memory = UOp::local(Space::Scratch, id, len, reduce.dtype(), 1);
    let fresh = if outer.is_empty() { memory.clone() } else { memory.after(outer) };
    let store = UOp::store(&fresh, &copy.of_value(&flat(&inner)), &sum, None);
    UOp::load(&memory.after([end(store, outputs.to_vec())]), &flat(&inner))
}

/// The kernel with plain loops instead of `Matrix` and unrolled ranges around its stores to arguments. Columns become
/// vectors if they are neighbours in memory.
pub(super) fn without_matrices(ast: &UOp) -> UOp {
    let nodes = toposort(ast);
    let is_result = |n: &UOp| n.op() == Op::Store && n.memory().op() == Op::Param;
    let ends: Vec<&UOp> =
        nodes.iter().filter(|n| n.op() == Op::End && is_result(n.src(0))).collect();
    let in_a_row = |r: &UOp| {
        let stores = nodes.iter().filter(|n| is_result(n));
        stores.map(|s| strides(s.src(1))).all(|s| s.get(&axis_of(r)) == Some(&Some(1)))
    };
    let mut expanded: Vec<UOp> = ends.iter().flat_map(|n| n.srcs()[1..].to_vec()).collect();
    expanded.retain(|r| kind_of(r).is_expanded());
    expanded.sort_by_key(axis_of);
    expanded.dedup();
    let columns = expanded.last().filter(|r| kind_of(r) == RangeKind::Matrix && in_a_row(r));
    let columns = columns.cloned();
    let replaced = |r: UOp| {
        let kind = if columns.as_ref() == Some(&r) { RangeKind::Vector } else { RangeKind::Loop };
        let new = UOp::range(axis_of(&r), kind, size_of(&r));
        (r, (new.clone(), smallvec![new]))
    };
    replace_ranges(ast, &expanded.into_iter().map(replaced).collect())
}
