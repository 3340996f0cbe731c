//! Part of pass `prepare`: a large reduction to few elements becomes two, over blocks and then over the blocks'
//! results. Threads share the blocks. A sum of `[4096, 4096]` becomes 64 partial sums and a sum of these.
//!
//! How many blocks an axis has depends on its length alone, so the order of a sum is the same on every machine and at
//! every load. The partial results go to memory. If no number of blocks divides the axis, the rest is reduced at the
//! end.

use super::choices::Choices;
use crate::target::Costs;
use kiln_ir::arg::{Axes, ReduceOp};
use kiln_ir::{Op, UOp};

/// From how many elements on a reduction is taken in blocks, if it leaves fewer results than this.
struct Limits {
    elements: usize,
    results: usize,
}

/// `x.reduce(op, axes)`, which `node` is, by way of blocks, if that pays.
pub(super) fn in_blocks(
    node: &UOp,
    x: &UOp,
    op: ReduceOp,
    axes: &Axes,
    costs: &Costs,
    choices: &Choices,
) -> Option<UOp> {
    let shape = x.shape();
    let (all, reduced) = (x.numel(), axes.iter().map(|&a| shape[a]).product::<usize>());
    let outermost = shape.iter().position(|&n| n > 1);
    let across = outermost.is_some_and(|a| axes.contains(&a));
    let pays = |limits: Limits| all >= limits.elements && all / reduced < limits.results;
    let any = Limits { elements: costs.split_elements, results: costs.split_results };
    let rows =
        Limits { elements: costs.split_across_elements, results: costs.split_across_results };
    let few = pays(any) || across && (pays(rows) || is_product_of_few(x, all / reduced, costs));
    if !choices.choose(few) {
        return None;
    }
    // the outermost axis that is long enough: a block is then as much of the memory in a row as can be
    let axis = axes.iter().copied().find(|&a| shape[a] >= costs.split_least_blocks)?;
    let n = shape[axis];
    let blocks = blocks_of(n, costs);
    let whole = n / blocks * blocks;
    let partial = reduced_blocks(&x.part(axis, 0, whole), op, axes, axis, blocks).contiguous();
    partial.copy_origin(node);
    let first = axes.iter().position(|&a| a == axis).expect("one of the axes");
    let combined = partial.reduce(op, [axis - first].as_slice());
    if whole == n {
        return Some(combined);
    }
    let rest = x.part(axis, whole, n - whole).reduce(op, axes.clone());
    Some(UOp::binary(op.alu(), &combined, &rest))
}

/// Whether what is reduced are products of a large factor whose elements are used again and again, for few results.
fn is_product_of_few(x: &UOp, results: usize, costs: &Costs) -> bool {
    let product = viewed(x);
    let larger = product.srcs().iter().map(|s| viewed(s).numel()).max().unwrap_or(0);
    product.op() == Op::Mul
        && results < costs.split_products
        && larger >= costs.split_across_elements
        && larger.saturating_mul(costs.split_uses) <= x.numel()
}

/// What a chain of views shows, perhaps in another dtype.
pub(super) fn viewed(x: &UOp) -> &UOp {
    let mut x = x;
    while x.op().is_movement() || x.op() == Op::Cast {
        x = x.src(0);
    }
    x
}

/// The number of blocks that leaves least over; of those the largest.
fn blocks_of(n: usize, costs: &Costs) -> usize {
    let (least, most) = (costs.split_least_blocks, costs.split_most_blocks);
    (least..=most.min(n)).rev().min_by_key(|b| n % b).expect("at least one number")
}

/// All axes reduced but the blocks of one of them, which are left in that axis' place.
fn reduced_blocks(x: &UOp, op: ReduceOp, axes: &Axes, axis: usize, blocks: usize) -> UOp {
    let mut shape = x.shape().clone();
    shape[axis] /= blocks;
    shape.insert(axis, blocks);
    let inner: Axes = axes.iter().map(|&a| if a < axis { a } else { a + 1 }).collect();
    x.reshape(shape).reduce(op, inner)
}
