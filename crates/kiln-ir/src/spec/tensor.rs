//! Tensor graphs: what users build.

use super::form::ensure;
use crate::arg::Arg;
use crate::dtype::DType;
use crate::op::Op;
use crate::uop::UOp;

pub(super) fn node(node: &UOp) -> Result<(), String> {
    indices(node)?;
    prepared(node)
}

/// The same where starts of slices may be computed: a read through a write starts at the difference of two.
pub(super) fn prepared(node: &UOp) -> Result<(), String> {
    ensure(node.lanes() == 1, || "there are no vectors at this stage".to_string())?;
    match (node.op(), node.arg()) {
        (Op::Reduce, Arg::Reduce { axes, .. }) => {
            ensure(!axes.is_empty() && node.srcs().len() == 1, || {
                "a tensor is reduced along axes, not over ranges".to_string()
            })
        }
        (Op::Update, _) => update(node),
        (Op::Gather, _) => positions(node.src(1)),
        (Op::Sink, Arg::Kernel { .. }) => Err("a kernel stands in a tensor graph".to_string()),
        _ => Ok(()),
    }
}

/// An index is a scalar that is known at launch, and starts a slice.
fn indices(node: &UOp) -> Result<(), String> {
    let scalar = node.dtype() != DType::Index || matches!(node.op(), Op::Const | Op::Var);
    ensure(scalar, || "the type index is not allowed at this stage".to_string())?;
    let used = node.op() != Op::Slice && node.srcs().iter().any(|s| s.dtype() == DType::Index);
    ensure(!used, || "only slices have indices".to_string())
}

/// A position for every element of the value, which may be a scalar for all.
fn update(node: &UOp) -> Result<(), String> {
    let (value, at) = (node.src(1), node.src(2));
    positions(at)?;
    ensure(value.shape() == at.shape() || value.shape().is_empty(), || {
        format!("shape {:?} is written to positions of {:?}", value.shape(), at.shape())
    })
}

fn positions(at: &UOp) -> Result<(), String> {
    ensure(at.dtype().is_int(), || format!("positions are integers, not {}", at.dtype()))
}
