//! Reverse-mode differentiation: a graph's gradient is another graph of the same ops, so it can be differentiated again.
//!
//! What each op passes to its sources is the table in `rules`; the walk here knows no op but where gradients end.

mod rules;

use kiln_ir::arg::{Axes, ReduceOp};
use kiln_ir::uop::toposort_all;
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// The gradients of `root` with respect to `targets`, where `root_grad` (of the root's shape, or of rank 0) is what
/// the root weighs in the end. `None` for a target that the root does not depend on smoothly.
///
/// A target that is a `Mark` ends the walk; other targets pass gradients on.
pub fn gradient(root: &UOp, root_grad: &UOp, targets: &[UOp]) -> Vec<Option<UOp>> {
    let wanted: FxHashSet<&UOp> = targets.iter().collect();
    let path = path_to(root, &wanted);
    let on_path: FxHashSet<&UOp> = path.iter().collect();
    let mut grads: FxHashMap<UOp, UOp> = FxHashMap::default();
    if path.last() == Some(root) {
        grads.insert(root.clone(), in_shape(root_grad, root));
    }
    for node in path.iter().rev().filter(|n| !ends(n, &wanted)) {
        let Some(grad) = grads.get(node).cloned() else { continue };
        let Some(rule) = rules::rule(node.op()) else { continue };
        for (src, part) in node.srcs().iter().zip(rule(node, &grad)) {
            if let Some(part) = part.filter(|_| on_path.contains(src)) {
                add(&mut grads, src, in_shape(&part, src));
            }
        }
    }
    targets.iter().map(|t| grads.get(t).cloned()).collect()
}

/// The float nodes between the targets and the root, both included, sources first.
fn path_to(root: &UOp, targets: &FxHashSet<&UOp>) -> Vec<UOp> {
    let mut on_path: FxHashSet<UOp> = FxHashSet::default();
    let mut path = toposort_all(std::slice::from_ref(root), |n| !ends(n, targets));
    path.retain(|n| {
        let through = !ends(n, targets) && n.srcs().iter().any(|s| on_path.contains(s));
        let reached = n.dtype().is_float() && (through || targets.contains(n));
        reached && on_path.insert(n.clone())
    });
    path
}

fn ends(node: &UOp, targets: &FxHashSet<&UOp>) -> bool {
    node.op() == Op::Detach || (node.op() == Op::Mark && targets.contains(node))
}

fn add(grads: &mut FxHashMap<UOp, UOp>, node: &UOp, part: UOp) {
    let sum = match grads.get(node) {
        Some(sum) => sum + part,
        None => part,
    };
    grads.insert(node.clone(), sum);
}

/// A gradient in the shape of its node. Values of rank 0 fit any shape: as operands (then what they got is summed),
/// and as gradients (then each element gets them).
fn in_shape(grad: &UOp, node: &UOp) -> UOp {
    match (grad.shape().len(), node.shape().len()) {
        (0, n) if n > 0 => grad.broadcast_to(node.shape()),
        (n, 0) if n > 0 => grad.reduce(ReduceOp::Add, (0..n).collect::<Axes>()),
        _ => grad.clone(),
    }
}
