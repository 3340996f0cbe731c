//! Evaluates scalar graphs.

use super::generate::Random;
use crate::dtype::{Const, DType};
use crate::eval::{bitcast, eval};
use crate::op::Op;
use crate::uop::{UOp, toposort};
use rustc_hash::FxHashMap;

/// Values of variables and ranges.
pub(super) type Env = FxHashMap<UOp, Const>;

/// The variables and ranges of a graph.
pub(super) fn leaves(root: &UOp) -> Vec<UOp> {
    let is_free = |n: &UOp| matches!(n.op(), Op::Var | Op::Range | Op::Param | Op::Buffer);
    toposort(root).into_iter().filter(is_free).collect()
}

/// A value for each leaf, within its bounds. Those of a range follow from its bound, which precedes it.
pub(super) fn assign(leaves: &[UOp], random: &mut Random) -> Env {
    let mut env = Env::default();
    for leaf in leaves {
        let value = if leaf.dtype().is_float() {
            random.float(leaf.dtype())
        } else if leaf.op() == Op::Range {
            let bound = value(leaf.src(0), &env).and_then(Const::as_i128).unwrap_or(1);
            Const::Int(random.between(0, (bound as i64 - 1).max(0)))
        } else {
            random.integer(leaf.dtype(), leaf.min(), leaf.max())
        };
        env.insert(leaf.clone(), value);
    }
    env
}

/// The value of a graph whose lanes are all alike; `None` where exact arithmetic leaves i64, where a machine division
/// has operands that it must not have, or where the graph has something else than scalars.
pub(super) fn value(root: &UOp, env: &Env) -> Option<Const> {
    let mut values = Env::default();
    for node in toposort(root) {
        let srcs: Option<Vec<Const>> = node.srcs().iter().map(|s| values.get(s).copied()).collect();
        let value = match (env.get(&node), node.op()) {
            (Some(value), _) => *value,
            (None, Op::Const) => node.as_const()?,
            (None, Op::Splat | Op::Lane) => srcs?[0],
            (None, Op::Bitcast) => bitcast(srcs?[0], node.src(0).dtype(), node.dtype())?,
            (None, Op::TruncDiv | Op::TruncMod) if !divides(&node, srcs.as_deref()?) => {
                return None;
            }
            (None, op) => eval(op, node.dtype(), &srcs?)?,
        };
        values.insert(node, value);
    }
    values.get(root).copied()
}

/// The preconditions of a machine division.
fn divides(node: &UOp, srcs: &[Const]) -> bool {
    let (a, b) = (srcs[0].as_i128(), srcs[1].as_i128());
    let least = node.dtype().is_signed() && a == Some(node.dtype().int_bounds().0 as i128);
    b != Some(0) && !(least && b == Some(-1) && node.dtype() != DType::Index)
}
