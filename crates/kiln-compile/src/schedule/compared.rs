//! Part of pass `assign`: sums that comparisons need to be the same, bit by bit, wherever they are used.
//!
//! A sum of floats that two kernels compute rounds as the options of each kernel order it. Most values only carry such a
//! difference on. A comparison may make much of it: the gradient of `max` goes to the elements that are equal to the
//! largest, and if that was found in another kernel, perhaps none is. So such sums are computed once, and stored.

use kiln_ir::arg::ReduceOp;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// From which operands of comparisons a value is reached, without another sum between.
#[derive(Clone, Copy, Default)]
struct Sides {
    left: bool,
    right: bool,
}

/// By position, whether a node is a sum of floats that both sides of comparisons depend on. One side alone makes nothing
/// of a rounding: `relu` compares a sum with 0.
pub(super) fn compared(nodes: &[UOp], position: &FxHashMap<UOp, usize>) -> Vec<bool> {
    let depends = depends_on_sums(nodes, position);
    let mut sides = vec![Sides::default(); nodes.len()];
    for (i, node) in nodes.iter().enumerate().rev() {
        let srcs = || node.srcs().iter().map(|src| position[src]);
        if node.op().is_comparison() && node.src(0) != node.src(1) && srcs().all(|s| depends[s]) {
            sides[position[node.src(0)]].left = true;
            sides[position[node.src(1)]].right = true;
        }
        let Sides { left, right } = sides[i];
        if !is_end(node) {
            for src in srcs() {
                sides[src].left |= left;
                sides[src].right |= right;
            }
        }
    }
    let both = |(node, sides): (&UOp, &Sides)| is_sum(node) && sides.left && sides.right;
    nodes.iter().zip(&sides).map(both).collect()
}

/// By position, whether a node is a sum of floats, or is computed of some.
fn depends_on_sums(nodes: &[UOp], position: &FxHashMap<UOp, usize>) -> Vec<bool> {
    let mut depends: Vec<bool> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let of_sources = || node.srcs().iter().any(|src| depends[position[src]]);
        let depends_here = is_sum(node) || !is_end(node) && of_sources();
        depends.push(depends_here);
    }
    depends
}

/// Whether a value is the same in all kernels, whatever it is computed of.
fn is_end(node: &UOp) -> bool {
    is_sum(node) || node.op() == Op::Contiguous
}

/// Whether the order of its terms changes the result.
fn is_sum(node: &UOp) -> bool {
    let adds = |op| matches!(op, ReduceOp::Add | ReduceOp::Mul);
    node.op() == Op::Reduce && node.dtype().is_float() && node.arg().reduce_op().is_some_and(adds)
}
