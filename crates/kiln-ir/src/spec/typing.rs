//! Types and lanes of arithmetic, marks and vectors: the same at every stage.

use super::form::ensure;
use crate::dtype::DType;
use crate::op::{Group, Op};
use crate::uop::UOp;

/// Whether the node's type and lanes follow from its sources'.
pub(super) fn check(node: &UOp) -> Result<(), String> {
    let op = node.op();
    if op.is_elementwise() {
        lanes(node)?;
        return elementwise(node);
    }
    match op {
        Op::Reduce | Op::After | Op::Remat | Op::Splat | Op::Lane | Op::Copy | Op::Shuffle => {
            like(node, 0)
        }
        Op::Gather => like(node, 0),
        Op::Vjp if node.arg().is_none() => like(node, 0).and_then(|()| like(node, 1)),
        Op::Vjp => like(node, 0),
        Op::Update => like(node, 0).and_then(|()| like(node, 1)),
        Op::Slice => {
            like(node, 0)?;
            (1..node.srcs().len()).try_for_each(|i| typed(node, i, DType::Index))
        }
        Op::Stack => (0..node.srcs().len()).try_for_each(|i| like(node, i)),
        Op::Mma => mma(node),
        _ if matches!(op.group(), Group::Movement | Group::Note) => like(node, 0),
        _ => Ok(()),
    }?;
    match op {
        Op::Splat | Op::Stack => ensure(node.srcs().iter().all(|s| s.lanes() == 1), || {
            "vectors are made of scalars".to_string()
        }),
        _ => Ok(()),
    }
}

fn lanes(node: &UOp) -> Result<(), String> {
    let other = node.srcs().iter().find(|s| s.lanes() != node.lanes());
    ensure(other.is_none(), || {
        format!("{} lanes from a source of {}", node.lanes(), other.map_or(0, UOp::lanes))
    })
}

/// Matrices of words, and one of sums, of sizes that fit.
fn mma(node: &UOp) -> Result<(), String> {
    typed(node, 0, DType::U32)?;
    typed(node, 1, DType::U32)?;
    like(node, 2)?;
    let [rows, depth, columns] = node.arg().mma().unwrap_or_default().map(u32::from);
    let sizes = [rows * depth, depth * columns, rows * columns];
    let found = [0, 1, 2].map(|i| node.src(i).lanes() as u32);
    ensure(sizes == found && sizes[2] == node.lanes() as u32, || {
        format!("{found:?} lanes are no matrices of {sizes:?} elements")
    })
}

fn elementwise(node: &UOp) -> Result<(), String> {
    let op = node.op();
    if matches!(op, Op::Cast | Op::Bitcast) {
        return ensure(node.src(0).dtype() != DType::Void, || {
            "the source is not a value".to_string()
        });
    }
    if op == Op::Dot {
        typed(node, 0, DType::U32)?;
        typed(node, 1, DType::U32)?;
        return like(node, 2);
    }
    let values = match op {
        Op::Where => {
            typed(node, 0, DType::Bool)?;
            1..3
        }
        _ => 0..node.srcs().len(),
    };
    let operand = node.src(values.start).dtype();
    values.clone().try_for_each(|i| typed(node, i, operand))?;
    ensure(defined(op, operand), || format!("it is not defined for {operand}"))?;
    let result = if op.is_comparison() { DType::Bool } else { operand };
    ensure(node.dtype() == result, || format!("the result is {result}, not {}", node.dtype()))
}

/// Whether the op has a meaning on operands of this type: where `eval` gives a value.
fn defined(op: Op, dtype: DType) -> bool {
    let (boolean, int, float) = (dtype == DType::Bool, dtype.is_int(), dtype.is_float());
    match op {
        Op::Neg | Op::Sub | Op::FloorDiv | Op::FloorMod => int || float,
        Op::Add | Op::Mul | Op::Max | Op::Min => boolean || int || float,
        Op::CmpLt | Op::CmpEq | Op::CmpNe | Op::Where => boolean || int || float,
        Op::Not | Op::And | Op::Or | Op::Xor => boolean || int,
        Op::TruncDiv | Op::TruncMod | Op::Shl | Op::Shr => int,
        _ => float,
    }
}

/// The node has the type of its `i`-th source.
fn like(node: &UOp, i: usize) -> Result<(), String> {
    typed(node, i, node.dtype())
}

/// The `i`-th source has this type.
pub(super) fn typed(node: &UOp, i: usize, dtype: DType) -> Result<(), String> {
    let found = node.src(i).dtype();
    ensure(found == dtype, || format!("source {i} is {found}, wants {dtype}"))
}
