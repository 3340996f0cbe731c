//! Part of pass `decompose`: flooring division and shifts by any amount, by the machine's division and shifts. Checks
//! that bounds make unnecessary are left out.

use super::pieces::{self, constant};
use kiln_ir::{DType, Op, UOp};

/// The quotient rounded down; by zero 0; the smallest integer by -1 is itself.
pub(super) fn floor_div(a: &UOp, b: &UOp) -> UOp {
    if let Some(power) = power_of_two(b) {
        return pieces::shr(a, power);
    }
    let (safe, zero) = (safe_divisor(a, b), b.const_like(0));
    let quotient = UOp::binary(Op::TruncDiv, a, &safe);
    let floor = match rounds_up(a, &safe) {
        None => quotient,
        Some(up) => up.where_(&(&quotient - 1), &quotient),
    };
    if !may_be(b, 0) {
        return floor;
    }
    b.eq_(&zero).where_(&zero, &floor)
}

/// The remainder with the divisor's sign; by zero 0 (which is the remainder by the 1 that the guard puts there).
pub(super) fn floor_mod(a: &UOp, b: &UOp) -> UOp {
    if let Some(power) = power_of_two(b) {
        return a & ((1i64 << power) - 1);
    }
    let safe = safe_divisor(a, b);
    let rest = UOp::binary(Op::TruncMod, a, &safe);
    match rounds_up(a, &safe) {
        None => rest,
        Some(up) => up.where_(&(&rest + &safe), &rest),
    }
}

/// `x * 2^amount`, 0 past the width.
pub(super) fn shl(x: &UOp, amount: &UOp) -> UOp {
    shift_in_width(Op::Shl, x, amount, |_| x.const_like(0))
}

/// The shift that fills with the sign, nothing but signs past the width.
pub(super) fn shr(x: &UOp, amount: &UOp) -> UOp {
    shift_in_width(Op::Shr, x, amount, |width| match x.dtype().is_signed() {
        true => pieces::shr(x, width - 1),
        false => x.const_like(0),
    })
}

fn shift_in_width(op: Op, x: &UOp, amount: &UOp, past: impl Fn(i64) -> UOp) -> UOp {
    let width = x.dtype().bits() as i64;
    let bounded = 0 <= amount.min() && amount.max() < width;
    if bounded {
        return UOp::binary(op, x, amount);
    }
    let inside = (amount & -width).eq_(&amount.const_like(0));
    let shifted = UOp::binary(op, x, &(amount & (width - 1)));
    inside.where_(&shifted, &past(width))
}

/// The exponent of a divisor that is a power of two. Shifting and masking round down for negative dividends too.
fn power_of_two(b: &UOp) -> Option<i64> {
    let value = constant(b)?.as_i128()?;
    (value > 0 && value & (value - 1) == 0).then(|| value.trailing_zeros() as i64)
}

/// The divisor, or 1 where the machine would trap: for 0, and for -1 under the smallest integer (which has the right
/// quotient and remainder by 1).
fn safe_divisor(a: &UOp, b: &UOp) -> UOp {
    let smallest = a.dtype().int_bounds().0;
    let is = |x: &UOp, value: i64| x.eq_(&x.const_like(value));
    let overflows =
        a.dtype().is_signed() && a.dtype() != DType::Index && may_be(a, smallest) && may_be(b, -1);
    let traps = match (may_be(b, 0), overflows) {
        (false, false) => return b.clone(),
        (true, false) => is(b, 0),
        (false, true) => is(a, smallest).and(&is(b, -1)),
        (true, true) => is(b, 0) | is(a, smallest).and(&is(b, -1)),
    };
    traps.where_(&b.const_like(1), b)
}

fn may_be(x: &UOp, value: i64) -> bool {
    match constant(x).and_then(|c| c.as_i128()) {
        Some(known) => known == value as i128,
        None => x.min() <= value && value <= x.max(),
    }
}

/// Where truncation rounds a quotient up: there is a remainder, and its sign is not the divisor's. `None`: nowhere.
fn rounds_up(a: &UOp, b: &UOp) -> Option<UOp> {
    let rest = &UOp::binary(Op::TruncMod, a, b);
    let zero = &rest.const_like(0);
    if a.dtype().is_unsigned() || (a.min() >= 0 && b.min() >= 0) {
        return None;
    }
    if b.min() >= 0 {
        return Some(rest.lt(zero));
    }
    Some(rest.ne_(zero).and(&(rest ^ b).lt(zero)))
}
