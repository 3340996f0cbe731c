//! Part of pass `prepare`: a sum of many products is added up in memory, a few products at a time.
//!
//! The gradient of a weight that a program uses at each step of a loop is such a sum: `sum over b of (g1*h1 + g2*h2 + ..)`.
//! A kernel tiles a few products at once. With 16 the tiles of so many operands push each other out of the first cache, and the
//! rate falls to a third; with 100, to a thirtieth.

use super::choices::Choices;
use super::cost;
use super::split::viewed;
use crate::target::Costs;
use kiln_ir::arg::{Axes, ReduceOp};
use kiln_ir::{Op, UOp};

/// A sum of more terms stays as it is. It bounds what a graph costs in which many sums share terms.
const MOST_TERMS: usize = 1 << 12;

/// The sum of `x` along `axes`, which `node` is, group by group, if `x` is a sum of many products.
pub(super) fn in_groups(
    node: &UOp,
    x: &UOp,
    axes: &Axes,
    costs: &Costs,
    choices: &Choices,
) -> Option<UOp> {
    let (products, others): (Vec<UOp>, Vec<UOp>) =
        terms(x, MOST_TERMS)?.into_iter().partition(is_product);
    if products.len() <= costs.products_together {
        return None;
    }
    let is_in_many =
        |factor: &UOp| cost::are_in_many(costs, viewed(factor).numel() as f64, x.numel());
    let are_tiled = products.iter().all(|product| product.srcs().iter().all(is_in_many));
    if !choices.choose(are_tiled) {
        return None;
    }
    let groups = products.chunks(costs.products_together).chain([&others[..]]);
    let sum = |group: &[UOp]| Some(added(group)?.reduce(ReduceOp::Add, axes.clone()));
    groups.filter_map(sum).reduce(|before, group| {
        let before = before.contiguous();
        before.copy_origin(node);
        before + group
    })
}

fn added(terms: &[UOp]) -> Option<UOp> {
    terms.iter().cloned().reduce(|a, b| a + b)
}

/// The products that a node is the sum of; none if it has many terms, or one that is no product.
pub(super) fn products(x: &UOp) -> Vec<UOp> {
    let terms = terms(viewed(x), FEW_TERMS).unwrap_or_default();
    if terms.iter().all(is_product) { terms } else { Vec::new() }
}

/// A sum of more terms is not looked at where it costs little to miss one.
const FEW_TERMS: usize = 8;

fn is_product(x: &UOp) -> bool {
    x.op() == Op::Mul
}

/// The terms of a sum, in order. None if there are more than `most`.
fn terms(x: &UOp, most: usize) -> Option<Vec<UOp>> {
    let (mut stack, mut terms) = (vec![x.clone()], Vec::new());
    while let Some(node) = stack.pop() {
        match node.op() {
            Op::Add => stack.extend([node.src(1).clone(), node.src(0).clone()]),
            _ => terms.push(node),
        }
        if terms.len() > most {
            return None;
        }
    }
    Some(terms)
}
