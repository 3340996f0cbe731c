//! Part of pass `decompose`: `1 / (1 + e^-x)`, from `e^-|x|`, which neither overflows nor cancels.

use super::exp::{exp_of_at_most_zero, one};
use super::pieces::{Format, Sums, by_type, div};
use kiln_ir::{Op, UOp};

/// The power is the same node for `x` and for `-x`, which a gradient needs.
pub(super) fn sigmoid(x: &UOp, sums: Sums) -> UOp {
    let (x, negated) = if x.op() == Op::Neg { (x.src(0), true) } else { (x, false) };
    let sign = by_type(x, i32::MIN as i64, i64::MIN);
    let minus_size = (x.bitcast(Format::of(x).int) | sign).bitcast(x.dtype());
    let (power, one) = (&exp_of_at_most_zero(&minus_size, sums), &one(x));
    let (low, high) = if negated { (one, power) } else { (power, one) };
    let numerator = x.lt(&x.const_like(0.0)).where_(low, high);
    div(&numerator, &(power + one))
}
