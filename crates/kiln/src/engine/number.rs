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
