//! What a kernel may still contain after each pass of lowering. Every spec allows less than the one before it.

use super::{ARITHMETIC, KERNEL, Spec, TRANSCENDENTAL, group, set};
use crate::arg::RangeKind;
use crate::dtype::DType;
use crate::op::{Group, Op};
use crate::uop::UOp;

/// A kernel's ops, and those of vectors.
const WITH_VECTORS: u128 = KERNEL_OPS | group(Group::Vector);
const KERNEL_OPS: u128 = ARITHMETIC
    | set(&[Op::Const, Op::Param, Op::Var, Op::Range, Op::Reduce, Op::Local, Op::Load, Op::Store])
    | set(&[Op::End, Op::After, Op::Barrier, Op::Shuffle, Op::Sink]);

const fn lowered(
    name: &'static str,
    ops: u128,
    kind: fn(RangeKind) -> bool,
    dtype: fn(DType) -> bool,
    node: fn(&UOp) -> Result<(), String>,
) -> Spec {
    Spec { name, ops, dtype, kind, node, graph: |_| Ok(()) }
}

const ANY: fn(DType) -> bool = |dtype| dtype != DType::Void;
const OTHERS: fn(&UOp) -> Result<(), String> = |_| Ok(());
const LOOPS: fn(RangeKind) -> bool = |kind| !kind.is_expanded();

/// Products of matrices are `Mma`, and other sides of matrices are loops or lanes.
pub static NO_MATRICES: Spec =
    lowered("NO_MATRICES", WITH_VECTORS, |kind| kind != RangeKind::Matrix, ANY, OTHERS);

/// Lanes are values of several scalars.
pub static NO_VECTOR_RANGES: Spec = lowered(
    "NO_VECTOR_RANGES",
    WITH_VECTORS,
    |kind| !matches!(kind, RangeKind::Matrix | RangeKind::Vector),
    ANY,
    OTHERS,
);

/// All ranges are loops.
pub static EXPANDED: Spec = lowered("EXPANDED", WITH_VECTORS, LOOPS, ANY, OTHERS);

/// Reductions are accumulators.
pub static NO_REDUCTIONS: Spec =
    lowered("NO_REDUCTIONS", WITH_VECTORS & !Op::Reduce.bit(), LOOPS, ANY, OTHERS);

/// A predicate is not known before.
pub static SIMPLE_GATES: Spec =
    lowered("SIMPLE_GATES", WITH_VECTORS & !Op::Reduce.bit(), LOOPS, ANY, gate_is_open);

/// All arithmetic is what processors have.
pub static DECOMPOSED: Spec = lowered(
    "DECOMPOSED",
    WITH_VECTORS & !Op::Reduce.bit() & !TRANSCENDENTAL,
    LOOPS,
    ANY,
    gate_is_open,
);

/// Indices have a width, and their division rounds as the processor's.
pub static INDEXED: Spec = lowered(
    "INDEXED",
    WITH_VECTORS & !Op::Reduce.bit() & !TRANSCENDENTAL & !set(&[Op::FloorDiv, Op::FloorMod]),
    LOOPS,
    |dtype| !matches!(dtype, DType::Index | DType::Void),
    gate_is_open,
);

fn gate_is_open(node: &UOp) -> Result<(), String> {
    let gate = if matches!(node.op(), Op::Load | Op::Store) { node.gate() } else { None };
    match gate.and_then(|gate| gate.uniform().as_const()) {
        Some(_) => Err("its predicate is a constant".to_string()),
        None => Ok(()),
    }
}

const _: () = assert!(KERNEL_OPS == KERNEL.ops);
