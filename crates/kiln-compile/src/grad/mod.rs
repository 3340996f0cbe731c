//! Reverse-mode differentiation: the gradient of a graph is another graph of the same ops, so it can be differentiated
//! again.
//!
//! The table in `rules` says what each op passes to its sources. The walk here knows no op except those that end a
//! gradient.

mod rules;

use kiln_ir::arg::{Arg, Axes, PadAxis, ReduceOp, SliceAxis};
use kiln_ir::derivative::Gradients;
use kiln_ir::uop::toposort_all;
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The gradients of `root` with respect to `targets`, where `root_grad` (of the root's shape, or of rank 0) is what
/// the root weighs in the end. `None` for a target that the root does not depend on; zeros where it does, but moves only
/// in steps.
///
/// The walk ends at each `Mark` that says so or is a target; other targets pass gradients on.
pub fn gradient(root: &UOp, root_grad: &UOp, targets: &[UOp]) -> Vec<Option<UOp>> {
    let wanted: FxHashSet<&UOp> = targets.iter().collect();
    let path = Path::to(root, &wanted);
    let Path { nodes, position, .. } = &path;
    // what the users of each node passed to it
    let mut grads: Vec<Parts> = Vec::new();
    grads.resize_with(nodes.len(), Parts::new);
    if let Some(at) = position.get(&root.id()) {
        grads[*at].push(in_shape(root_grad, root));
    }
    // nodes that something which moves in steps was computed from
    let mut stepped = vec![false; nodes.len()];
    for (at, node) in nodes.iter().enumerate().rev() {
        if ends(node, &wanted) || (grads[at].is_empty() && !stepped[at]) {
            continue;
        }
        let parts = passed(node, &mut grads[at]);
        for (i, src) in path.written.inputs(node).iter().enumerate() {
            let Some(&at) = position.get(&src.id()) else { continue };
            match parts.get(i).and_then(Option::as_ref) {
                Some(part) => grads[at].push(in_shape(part, src)),
                None => stepped[at] = true,
            }
        }
    }
    let of = |target: &UOp| {
        let at = *position.get(&target.id())?;
        let zeros = || target.const_like(0).broadcast_to(target.shape());
        match grads[at].is_empty() {
            true => stepped[at].then(zeros),
            false => Some(summed(grads[at].clone())),
        }
    };
    targets.iter().map(of).collect()
}

/// The gradients for a node's sources, by its rule, from the sum of the gradients that its users gave.
fn passed(node: &UOp, users: &mut Parts) -> Gradients {
    let rule = node.own_gradient().or_else(|| rules::rule(node.op()));
    let Some(rule) = rule.filter(|_| !users.is_empty()) else {
        return Gradients::new();
    };
    let grad = summed(std::mem::take(users));
    users.push(grad.clone());
    rule(node, &grad)
}

/// What a node's users pass to it: most have one user.
type Parts = SmallVec<[UOp; 1]>;

/// The float nodes between the targets and the root, both included, sources first.
struct Path {
    nodes: Vec<UOp>,
    /// By a node's id.
    position: FxHashMap<usize, usize>,
    written: Written,
}

impl Path {
    fn to(root: &UOp, targets: &FxHashSet<&UOp>) -> Path {
        let nodes = toposort_all(std::slice::from_ref(root), |n| !ends(n, targets));
        let (mut nodes, written) = Written::of(nodes);
        let mut position = FxHashMap::default();
        position.reserve(nodes.len());
        nodes.retain(|n| {
            let on_path = |s: &UOp| position.contains_key(&s.id());
            let through = !ends(n, targets) && written.inputs(n).iter().any(on_path);
            let reached = n.dtype().is_float() && (through || targets.contains(n));
            if reached {
                position.insert(n.id(), position.len());
            }
            reached
        });
        Path { nodes, position, written }
    }
}

/// What the composites of a graph that have no gradient of their own are written out as, by a composite's id.
#[derive(Default)]
struct Written(FxHashMap<usize, UOp>);

impl Written {
    /// The nodes, sources first, with those that each composite is written out as before it.
    fn of(nodes: Vec<UOp>) -> (Vec<UOp>, Written) {
        let mut written = Written::default();
        if nodes.iter().all(|n| n.op() != Op::Composite) {
            return (nodes, written);
        }
        let (mut all, mut placed) = (Vec::new(), FxHashSet::default());
        // what is to be placed next lies on top
        let mut stack: Vec<UOp> = nodes.into_iter().rev().collect();
        while let Some(node) = stack.pop() {
            if placed.contains(&node.id()) {
                continue;
            }
            let is_done = written.0.contains_key(&node.id()) || node.own_gradient().is_some();
            let value = if is_done { None } else { node.written_out() };
            if let Some(value) = value {
                let inner =
                    toposort_all(std::slice::from_ref(&value), |n| !placed.contains(&n.id()));
                written.0.insert(node.id(), value);
                stack.push(node);
                stack.extend(inner.into_iter().rev());
                continue;
            }
            placed.insert(node.id());
            all.push(node);
        }
        (all, written)
    }

    /// What a node is computed from.
    fn inputs<'a>(&'a self, node: &'a UOp) -> &'a [UOp] {
        self.0.get(&node.id()).map_or(node.srcs(), std::slice::from_ref)
    }
}

fn ends(node: &UOp, targets: &FxHashSet<&UOp>) -> bool {
    match node.arg() {
        Arg::Mark { ends, .. } => *ends || targets.contains(node),
        _ => node.op() == Op::Detach,
    }
}

/// From this many on, gradients of slices are added up in place: each one padded to the whole would cost as much as it.
const MANY_SLICES: usize = 8;

/// The sum of what a node's users passed to it.
fn summed(parts: Parts) -> UOp {
    let is_slice = |x: &&UOp| x.op() == Op::Pad;
    if parts.iter().filter(is_slice).count() < MANY_SLICES {
        return parts.into_iter().reduce(|a, b| a + b).expect("at least one part");
    }
    let (slices, rest): (Vec<&UOp>, Vec<&UOp>) = parts.iter().partition(is_slice);
    let shape = slices[0].shape();
    let zeros = || slices[0].const_like(0).broadcast_to(shape);
    let rest = rest.into_iter().cloned().reduce(|a, b| a + b).unwrap_or_else(zeros);
    slices.into_iter().fold(rest, |sum, padded| {
        let at = UOp::positions(shape.clone()).slice(&slice_of(padded));
        sum.update_with(Some(ReduceOp::Add), padded.src(0), &at)
    })
}

/// Where the elements are that a padding is around.
fn slice_of(padded: &UOp) -> SmallVec<[SliceAxis; 2]> {
    let Arg::Pad(pads) = padded.arg() else { unreachable!("a padding has a pad argument") };
    let axis = |(p, &len): (&PadAxis, &usize)| {
        let step = if len > 1 { p.between as isize + 1 } else { 1 };
        SliceAxis { start: if len == 0 { 0 } else { p.before }, step, len }
    };
    pads.iter().zip(padded.src(0).shape()).map(axis).collect()
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
