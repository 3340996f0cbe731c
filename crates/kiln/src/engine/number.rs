//! Numbers that differ from run to run: the learning rate of a step, the place of a draw.
//!
//! A constant is part of a graph. A number is not: it is a launch-time scalar, a node of its own that carries its value of
//! this run. So a graph that is computed again with other numbers is the same graph.

use kiln_ir::uop::Payload;
use kiln_ir::{Const, DType, Op, UOp};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A scalar node with this value, which no other graph has.
pub(crate) fn number(value: Const, dtype: DType) -> UOp {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let (min, max) = dtype.int_bounds();
    let node = UOp::var(NEXT.fetch_add(1, Ordering::Relaxed), dtype, min, max);
    let value: Payload = Arc::new(value.cast(dtype));
    node.set_payload(Some(value));
    node
}

/// The value of a number.
pub(crate) fn value_of(number: &UOp) -> Option<Const> {
    match number.op() {
        Op::Var => number.payload()?.downcast::<Const>().ok().map(|value| *value),
        _ => None,
    }
}

/// A scalar's bits as kernels take them.
pub(super) fn raw(value: Const, dtype: DType) -> i64 {
    match value.cast(dtype) {
        Const::Bool(b) => b as i64,
        Const::Int(i) => i,
        Const::UInt(u) => u as i64,
        Const::Float(f) => match dtype {
            _ if dtype.is_fp8() => kiln_ir::eval::to_bits(value, dtype) as i64,
            DType::F64 => f.to_bits() as i64,
            DType::F16 => half::f16::from_f64(f).to_bits() as i64,
            DType::BF16 => half::bf16::from_f64(f).to_bits() as i64,
            _ => (f as f32).to_bits() as i64,
        },
    }
}
