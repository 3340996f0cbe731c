//! Pass `index` of stage `lower`: gives index arithmetic a width. Post-condition: no node has dtype index.
//!
//! A node is i32 if its bounds and its operands' bounds fit, else i64; casts stand between the two. Memory and
//! launch-time scalars of dtype index are i64.

use kiln_ir::uop::{Srcs, rebuild, remade};
use kiln_ir::{Arg, DType, Op, UOp};

/// Gives every index of the kernel a machine integer's dtype.
pub(super) fn lower_index(kernel: &UOp) -> UOp {
    remade(kernel, |node, srcs| match node.dtype() {
        DType::Index => index(node, srcs),
        _ => user(node, srcs),
    })
}

/// The dtype in which the node can be computed exactly.
fn width(node: &UOp) -> DType {
    let (lo, hi) = DType::I32.int_bounds();
    let fits = |n: &UOp| lo <= n.min() && n.max() <= hi;
    let operands = node.srcs().iter().filter(|s| s.dtype() == DType::Index);
    if fits(node) && operands.into_iter().all(fits) { DType::I32 } else { DType::I64 }
}

fn index(node: &UOp, srcs: Srcs) -> UOp {
    let dtype = width(node);
    let wide = DType::I64;
    match (node.op(), node.arg()) {
        (Op::Const, Arg::Const(c)) => UOp::constant(*c, dtype),
        (Op::Var, Arg::Var { slot, min, max }) => UOp::var(*slot, wide, *min, *max).cast(dtype),
        (Op::Cast, _) => srcs[0].cast(dtype),
        (Op::Load | Op::After | Op::Local | Op::Param, arg) => {
            UOp::new(node.op(), wide, node.lanes(), srcs, arg.clone())
        }
        (op, arg) => {
            let srcs = node.srcs().iter().zip(srcs).map(|(old, new)| convert(old, new, dtype));
            UOp::new(op, dtype, node.lanes(), srcs.collect(), arg.clone())
        }
    }
}

fn convert(old: &UOp, new: UOp, dtype: DType) -> UOp {
    if old.dtype() == DType::Index { cast(&new, dtype) } else { new }
}

/// A conversion; constants convert in place, in vectors too.
fn cast(x: &UOp, dtype: DType) -> UOp {
    match x.op() {
        Op::Splat => x.src(0).cast(dtype).splat(x.lanes()),
        _ => x.cast(dtype),
    }
}

/// A node of another dtype that has indices among its operands.
fn user(node: &UOp, srcs: Srcs) -> UOp {
    let compares = node.op().is_comparison() && node.src(0).dtype() == DType::Index;
    let dtype = match node.op() {
        _ if compares => width(node),
        Op::Store if node.src(2).dtype() == DType::Index => DType::I64,
        Op::Cast => return srcs[0].cast(node.dtype()),
        _ => return rebuild(node, srcs),
    };
    let value = |i: usize| compares || i == 2;
    let converted = srcs.into_iter().enumerate();
    let converted = converted.map(|(i, s)| if value(i) { cast(&s, dtype) } else { s }).collect();
    UOp::new(node.op(), node.dtype(), node.lanes(), converted, node.arg().clone())
}
