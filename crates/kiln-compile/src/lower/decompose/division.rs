//! Part of pass `decompose`: division of floats. LLVM's code generator takes a lane of `0 / 0` for 0, which is NaN
//! (`SimplifyDemandedVectorElts` of LLVM 22 treats a quotient as a product). It then drops the predicate of a `where` that
//! would choose a 0 there. Such lanes are common: a vector of every second window has zeros in between, which no result
//! uses. Here their divisor becomes NaN: the quotient stays NaN, and LLVM knows it.

use kiln_ir::{Const, Op, UOp};
use smallvec::SmallVec;

/// How deep LLVM looks for zeros.
const DEPTH: usize = 6;

/// `a / b`.
pub(super) fn div(a: &UOp, b: &UOp) -> UOp {
    let is_nan = |lane| is_zero(a, lane, DEPTH) && is_zero(b, lane, DEPTH);
    let lanes: SmallVec<[bool; 16]> = (0..b.lanes() as usize).map(is_nan).collect();
    if b.lanes() == 1 || !a.dtype().is_float() || !lanes.contains(&true) {
        return UOp::binary(Op::Div, a, b);
    }
    let nan = UOp::constant(Const::Float(f64::NAN), b.dtype());
    let which = UOp::stack(lanes.into_iter().map(UOp::bool).collect());
    UOp::binary(Op::Div, a, &which.where_(&nan.splat(b.lanes()), b))
}

/// Whether a lane is 0 as far as the text says.
fn is_zero(x: &UOp, lane: usize, depth: usize) -> bool {
    let all = |srcs: &[UOp]| srcs.iter().all(|src| is_zero(src, lane, depth - 1));
    match x.op() {
        _ if depth == 0 => false,
        Op::Const => x.as_const().is_some_and(|c| c.as_f64() == 0.0),
        Op::Stack => is_zero(x.src(lane), 0, depth - 1),
        Op::Splat => is_zero(x.src(0), 0, depth - 1),
        Op::Where => all(&x.srcs()[1..]),
        Op::Add | Op::Sub | Op::Mul | Op::MulAdd | Op::Max | Op::Min => all(x.srcs()),
        _ => false,
    }
}
