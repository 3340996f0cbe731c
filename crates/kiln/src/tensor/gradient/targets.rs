//! The targets of gradients: reads of marked storages, and values without a mark.

use super::marks::{gradients, reads, storage_id};
use crate::Tensor;
use crate::engine;
use crate::error::{Fault, refuse};
use crate::origin::name;
use kiln_compile::grad::gradient;
use kiln_ir::uop::toposort_all;
use kiln_ir::{Op, UOp};
use std::slice::from_ref;

/// The gradients of `root` with respect to the targets; `None` for one that is not read on the way.
pub(super) fn gradients_of(
    root: &UOp,
    seed: &UOp,
    targets: &[&Tensor],
) -> Result<Vec<Option<Tensor>>, Fault> {
    let all = toposort_all(from_ref(root), engine::is_open);
    let found = targets.iter().enumerate().map(|(i, target)| find(&all, i, target));
    let found = found.collect::<Result<Vec<Found>, Fault>>()?;
    let mut marked = reads(root);
    marked.retain(|read| found.iter().any(|f| f.nodes.contains(read)));
    let is_other = |n: &&UOp| !marked.contains(n);
    let others: Vec<UOp> = found.iter().flat_map(|f| &f.nodes).filter(is_other).cloned().collect();
    let of_marked = marked.iter().zip(gradients(root, seed, &marked));
    let of_others = others.iter().zip(gradient(root, seed, &others));
    let grads: Vec<(&UOp, Option<UOp>)> = of_marked.chain(of_others).collect();
    let of = |(found, target): (&Found, &&Tensor)| Some(found.seen_by(target, found.sum(&grads)?));
    Ok(found.iter().zip(targets).map(of).collect())
}

/// The nodes of a graph that stand for a target.
struct Found {
    nodes: Vec<UOp>,
    /// Whether they are the whole storage.
    is_whole: bool,
}

impl Found {
    fn sum(&self, grads: &[(&UOp, Option<UOp>)]) -> Option<UOp> {
        let own = |node: &UOp| grads.iter().find(|(n, _)| *n == node)?.1.clone();
        self.nodes.iter().filter_map(own).reduce(|a, b| a + b)
    }

    /// A gradient in the shape of the target.
    fn seen_by(&self, target: &Tensor, grad: UOp) -> Tensor {
        name(&grad, "backward");
        let grad = Tensor::from_node(grad, &target.storage.device);
        match self.is_whole {
            true => Tensor { view: target.view.clone(), ..grad },
            false => grad,
        }
    }
}

/// The nodes among `all` that stand for the target with number `i`.
fn find(all: &[UOp], i: usize, target: &Tensor) -> Result<Found, Fault> {
    let having = |is: &dyn Fn(&UOp) -> bool| all.iter().filter(|n| is(n)).cloned().collect();
    if target.requires_grad() {
        let nodes = having(&|n| n.op() == Op::Mark && storage_id(n) == target.storage.id);
        return Ok(Found { nodes, is_whole: true });
    }
    let whole = target.storage.version()?;
    if is_constant(&whole) {
        return refuse!(
            "target {i} is a constant, which has no identity: call `set_requires_grad(true)` before it is used"
        );
    }
    let stands_for = |value: &UOp| -> Vec<UOp> {
        // as the root's: a leaf below the target may remember what it was computed from
        let opened = engine::with_history(value);
        having(&|n| n == value || *n == opened || engine::computed(n).as_ref() == Some(value))
    };
    let nodes = if target.detached { Vec::new() } else { stands_for(&whole) };
    match nodes.is_empty() {
        true => Ok(Found { nodes: stands_for(&target.value()?), is_whole: false }),
        false => Ok(Found { nodes, is_whole: true }),
    }
}

/// The error of a target that is not read on the way.
pub(super) fn not_read<T>(i: usize, target: &Tensor) -> Result<T, Fault> {
    match target.requires_grad() {
        true => refuse!("target {i} is not read on the way"),
        false => refuse!(
            "target {i} is not read on the way: what is computed before the gradient is asked for is remembered only of \
             targets that want one (`set_requires_grad(true)` before they are used)"
        ),
    }
}

/// Whether a value is one number in every element: the same node for everybody.
fn is_constant(value: &UOp) -> bool {
    let mut node = value;
    while node.op().is_movement() {
        node = node.src(0);
    }
    node.as_const().is_some()
}
