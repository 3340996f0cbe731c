//! Part of pass `decompose`: the hyperbolic tangent, from `1 - e^2x`, which is exact to the last places for small `x`
//! too.

use super::exp;
use super::pieces::{Sums, by_type, clamp, div};
use kiln_ir::UOp;

/// `tanh(x) = (1 - e^2x) / ((1 - e^2x) - 2)`. Past the bounds the result is 1 to the last bit.
pub(super) fn tanh(x: &UOp, sums: Sums) -> UOp {
    let bound = by_type(x, 20.0, 40.0);
    let less = &exp::one_less_exp(&clamp(&(x + x), -bound, bound), sums);
    div(less, &(less - 2))
}
