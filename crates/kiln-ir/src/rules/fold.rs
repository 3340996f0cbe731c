//! Operations on constants, and operations whose bounds leave one value.

use crate::dtype::{Const, DType};
use crate::eval::{bitcast, eval};
use crate::op::Op;
use crate::rule;
use crate::rule::Rule;
use crate::uop::UOp;
use smallvec::SmallVec;

pub(super) static RULES: &[Rule] = &[
    rule!(fold_constants [n, c: Const] n.bind(c.first_of(FOLDED)) => constants(n)),
    rule!(fold_bitcast [n, c: Const] n.bind(c.bitcast_any()) => bits(n)),
    rule!(decided_by_bounds [n: NonFloat] n.on(FOLDED), if n.min() == n.max() => n.const_like(n.min())),
];

/// Every op that rounds correctly. Transcendental functions are what their polynomials give, of constants too: which
/// operands are constants depends on unrolling, and must not show.
const FOLDED: &[Op] = &{
    use Op::*;
    [
        Neg, Not, Sqrt, Trunc, Add, Sub, Mul, Div, FloorDiv, FloorMod, TruncDiv, TruncMod, Shl,
        Shr, And, Or, Xor, Max, Min, CmpLt, CmpEq, CmpNe, Where, MulAdd, Cast,
    ]
};

/// The value of an operation on constants.
fn constants(n: &UOp) -> Option<UOp> {
    let srcs: Option<SmallVec<[Const; 3]>> =
        n.srcs().iter().map(|s| s.uniform().as_const()).collect();
    Some(UOp::constant(eval(n.op(), n.dtype(), &srcs?)?, n.dtype()))
}

/// A constant's bits as another type. All NaNs are one constant, so bits that are a NaN stay as they are.
fn bits(n: &UOp) -> Option<UOp> {
    let src = n.src(0).uniform();
    let value = bitcast(src.as_const()?, src.dtype(), n.dtype())?;
    let is_nan = |c: Const| matches!(c, Const::Float(f) if f.is_nan());
    let exact = !is_nan(value) && n.dtype() != DType::Bool;
    exact.then(|| UOp::constant(value, n.dtype()))
}
