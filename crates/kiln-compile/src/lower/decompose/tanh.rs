//! The hyperbolic tangent: an odd polynomial near 0, `1 - 2 / (e^2x + 1)` elsewhere.

use super::{abs, by_type, clamp, div, exp, polynomial};
use kiln_ir::UOp;

/// `(tanh(x) - x) / x^3` in `z = x^2`, for `|x| <= 0.625`.
const SERIES_F32: [f64; 5] =
    [-0.333333289, 0.133327697, -0.0538509096, 0.020997179, -0.00609671417];
const SERIES_F64: [f64; 12] = [
    -0.3333333333333333,
    0.13333333333333042,
    -0.05396825396789699,
    0.021869488519008305,
    -0.008863235103240878,
    0.0035921217511549622,
    -0.0014557754120478055,
    0.0005896606577757043,
    -0.0002375906496055562,
    9.257116129556769e-05,
    -3.12011014257974e-05,
    6.485163482793113e-06,
];

/// `tanh(x)`.
pub(super) fn tanh(x: &UOp) -> UOp {
    let near_zero = abs(x).lt(&x.const_like(0.625));
    near_zero.where_(&series(x), &from_exp(x))
}

fn series(x: &UOp) -> UOp {
    let z = &(x * x);
    x * (z * polynomial(z, by_type(x, &SERIES_F32, &SERIES_F64)) + 1)
}

/// Past the bounds the result is 1 to the last bit, and `e^2x` is normal inside them.
fn from_exp(x: &UOp) -> UOp {
    let bound = by_type(x, 20.0, 40.0);
    let (part, power) = exp::exp_parts(&clamp(&(x + x), -bound, bound));
    let e = exp::scale_within(&part, &power);
    x.const_like(1.0) - div(&x.const_like(2.0), &(e + 1))
}
