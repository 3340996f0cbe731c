//! Tensor graphs.

use super::{ensure, form};
use crate::arg::{Arg, Move};
use crate::op::Op;
use crate::uop::{Srcs, UOp};
use smallvec::smallvec;

pub(super) fn node(node: &UOp) -> Result<(), String> {
    ensure(node.lanes() == 1, || "there are no vectors at this stage".to_string())?;
    match (node.op(), node.arg()) {
        (Op::Reduce, Arg::Reduce { axes, .. }) => {
            ensure(!axes.is_empty() && node.srcs().len() == 1, || {
                "a tensor is reduced along axes, not over ranges".to_string()
            })
        }
        (Op::Update, Arg::Region(moves)) => update(node, moves),
        (Op::Sink, Arg::Kernel { .. }) => Err("a kernel stands in a tensor graph".to_string()),
        _ => Ok(()),
    }
}

/// The value has the type and shape of the region, or is a constant.
fn update(node: &UOp, moves: &[Move]) -> Result<(), String> {
    let (region, value) = (moves.iter().try_fold(node.src(0).clone(), step)?, node.src(1));
    ensure(value.dtype() == region.dtype(), || {
        format!("a {} is written to a region of {}", value.dtype(), region.dtype())
    })?;
    ensure(value.shape() == region.shape() || value.shape().is_empty(), || {
        format!("shape {:?} is written to a region of {:?}", value.shape(), region.shape())
    })
}

fn step(view: UOp, m: &Move) -> Result<UOp, String> {
    let (op, arg, dtype) = match m {
        Move::Reshape(s) => (Op::Reshape, Arg::Shape(s.clone()), view.dtype()),
        Move::Permute(a) => (Op::Permute, Arg::Axes(a.clone()), view.dtype()),
        Move::Expand(s) => (Op::Expand, Arg::Shape(s.clone()), view.dtype()),
        Move::Slice(s) => (Op::Slice, Arg::Slice(s.clone()), view.dtype()),
        Move::Bitcast(d) => (Op::Bitcast, Arg::None, *d),
    };
    let srcs: Srcs = smallvec![view];
    form::check(op, dtype, 1, &srcs, &arg).map_err(|e| format!("in the region, {op}: {e}"))?;
    Ok(UOp::new(op, dtype, 1, srcs, arg))
}
