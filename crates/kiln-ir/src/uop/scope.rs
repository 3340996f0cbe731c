//! The scope of a node: the loops of a kernel that it is inside of.
//!
//! A node varies over the loops of its sources. A `Range` varies over itself, too. `End` and `Reduce` close ranges:
//! their own scope is without those. A node is made with its scope.

use super::{UOp, axis_of};
use crate::arg::Arg;
use crate::axis_set::AxisSet;
use crate::op::Op;

/// The ranges that a `Reduce` or an `End` closes.
pub fn closed_ranges(node: &UOp) -> impl Iterator<Item = &UOp> {
    closed_by(node.op(), node.srcs())
}

fn closed_by(op: Op, srcs: &[UOp]) -> impl Iterator<Item = &UOp> {
    let closes = matches!(op, Op::Reduce | Op::End);
    srcs.iter().skip(1).filter(move |s| closes && s.op() == Op::Range)
}

/// The loops that a node runs in, those included that it closes: a reduction of a constant runs in its loop, too.
pub fn inside(node: &UOp) -> AxisSet {
    match closed_ranges(node).next() {
        None => node.scope().clone(),
        Some(_) => inside_of(node.srcs(), node.arg()),
    }
}

fn inside_of(srcs: &[UOp], arg: &Arg) -> AxisSet {
    let mut inside = AxisSet::union(srcs.iter().map(UOp::scope));
    if let Arg::Range { axis, .. } = arg {
        inside.insert(*axis);
    }
    inside
}

/// The scope of a node with these parts.
///
/// ```
/// use kiln_ir::arg::{RangeKind::{Loop, Reduce}, ReduceOp};
/// use kiln_ir::{DType, UOp};
///
/// let (row, column) = (UOp::range(0, Loop, 4), UOp::range(1, Reduce, 8));
/// let element = UOp::load(&UOp::param(0, DType::F32, &[32][..]), &(&row * 8 + &column));
/// let sum = element.reduce_ranges(ReduceOp::Add, [column]);
/// assert_eq!(element.scope().iter().collect::<Vec<_>>(), [0, 1]);
/// assert_eq!(sum.scope().iter().collect::<Vec<_>>(), [0]);
/// ```
pub(super) fn scope_of(op: Op, srcs: &[UOp], arg: &Arg) -> AxisSet {
    // a tensor is in no loop
    if !matches!(arg, Arg::Range { .. }) && srcs.iter().all(|src| src.scope().is_empty()) {
        return AxisSet::default();
    }
    let mut scope = inside_of(srcs, arg);
    let closed = || closed_by(op, srcs);
    closed().for_each(|range| scope.remove(axis_of(range)));
    scope
}
