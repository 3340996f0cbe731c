//! Common divisors and multiples.

use super::round::trunc;
use super::{binary, integer, like, quotient};
use crate::Tensor;
use crate::element::Operand;
use kiln_ir::{DType, UOp};

/// Integers of so many bits and half of one more are exact in f64.
const EXACT: u32 = 52;

/// Steps that remainders of at most half the divisor take from numbers of so many bits: what takes the most are Pell's numbers,
/// 1, 2, 5, 12, 29.
fn steps(bits: u32) -> usize {
    let pell = std::iter::successors(Some((1u128, 2u128)), |&(a, b)| Some((b, 2 * b + a)));
    pell.take_while(|&(a, _)| a < 1 << bits).count()
}

fn size(x: &UOp) -> UOp {
    x.lt(&x.const_like(0)).where_(&-x, x)
}

/// The largest number that divides both; Euclid's algorithm, written out. Quotients are those of floats, which vectors divide.
/// The least number of a dtype has no positive one of its size and stays negative.
fn gcd(a: &UOp, b: &UOp) -> UOp {
    match a.dtype().bits() {
        64 => gcd_of_long(a, b).cast(a.dtype()),
        bits => whole(&gcd_of_floats(&float(a), &float(b), bits), a.dtype()),
    }
}

/// The size of an integer as a float that holds it, and the products of its quotients.
fn float(x: &UOp) -> UOp {
    size(&x.cast(if x.dtype().bits() < 32 { DType::F32 } else { DType::F64 }))
}

/// The same as an integer, which wraps.
fn whole(x: &UOp, dtype: DType) -> UOp {
    x.cast(if dtype.bits() < 32 { DType::I32 } else { DType::I64 }).cast(dtype)
}

/// Of floats with whole values of up to so many bits, all exact. One is 0 in the end; a step leaves 0 and `a` as they are, but
/// for their order.
fn gcd_of_floats(a: &UOp, b: &UOp, bits: u32) -> UOp {
    let (mut a, mut b) = (a.clone(), b.clone());
    for _ in 0..steps(bits) {
        let times = trunc(&(quotient(&a, &b.maximum(&like(&b, 1))) + like(&b, 0.5)));
        let rest = size(&(&a - times * &b));
        a = std::mem::replace(&mut b, rest);
    }
    a.maximum(&b)
}

/// Of 64-bit integers, which floats round. So a quotient may be off by a few. Then the remainder is a little more than half of
/// the divisor; common divisors stay the same.
fn gcd_of_long(a: &UOp, b: &UOp) -> UOp {
    let [x, y] = [a, b].map(|x| size(x).cast(DType::U64));
    // the larger one first: then no remainder has more than 63 bits
    let (mut a, mut b) = (x.maximum(&y), x.minimum(&y));
    let is_none = |x: &UOp| x.eq_(&like(x, 0));
    // until floats hold them, and one step for the inexact quotients
    for _ in 0..steps(64 - EXACT) + 2 {
        let is_over = is_none(&b);
        let divisor = is_over.where_(&like(&b, 1), &b);
        let ratio = quotient(&a.cast(DType::F64), &divisor.cast(DType::F64));
        let times = (&ratio + like(&ratio, 0.5)).cast(DType::U64);
        let rest = &a - times * &b;
        let rest = is_over.where_(&a, &rest.minimum(&-&rest));
        a = std::mem::replace(&mut b, rest);
    }
    let rest = gcd_of_floats(&a.cast(DType::F64), &b.cast(DType::F64), EXACT);
    (is_none(&a) | is_none(&b)).where_(&(&a | &b), &rest.cast(DType::U64))
}

fn lcm(a: &UOp, b: &UOp) -> UOp {
    let divisor = gcd(a, b);
    let share = match a.dtype().bits() {
        64 => size(a).floordiv(&divisor),
        _ => {
            let size = float(a);
            let divisor = float(&divisor);
            whole(&quotient(&size, &divisor.maximum(&like(&divisor, 1))), a.dtype())
        }
    };
    share * size(b)
}

/// Integers that divide others.
impl Tensor {
    /// The largest integer that divides both; with 0 it is the other one.
    ///
    /// ```
    /// use kiln::Tensor;
    /// assert_eq!(Tensor::from([12, -8, 0]).gcd(18).to_vec::<i32>()?, [6, 2, 18]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Dtypes that are not integers, shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn gcd(&self, other: impl Operand) -> Tensor {
        binary("gcd", self.into_value(), other.into_value(), integer, gcd)
    }

    /// The smallest integer from 0 on that both divide; with 0 it is 0. One that does not fit the dtype wraps.
    ///
    /// ```
    /// use kiln::Tensor;
    /// assert_eq!(Tensor::from([4, -6, 0]).lcm(6).to_vec::<i32>()?, [12, 6, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`gcd`](Tensor::gcd).
    #[must_use]
    #[track_caller]
    pub fn lcm(&self, other: impl Operand) -> Tensor {
        binary("lcm", self.into_value(), other.into_value(), integer, lcm)
    }
}
