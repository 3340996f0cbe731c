//! Common divisors and multiples.

use super::{binary, integer};
use crate::Tensor;
use crate::element::Operand;
use kiln_ir::UOp;

/// Steps of Euclid's algorithm, at most: numbers of so many bits are no further apart than Fibonacci's.
fn steps(bits: u32) -> u32 {
    bits * 3 / 2
}

fn size(x: &UOp) -> UOp {
    x.lt(&x.const_like(0)).where_(&-x, x)
}

/// The largest number that divides both; Euclid's algorithm, written out. The least number of a dtype has no positive one of
/// its size and stays negative; so does what is left of it.
fn gcd(a: &UOp, b: &UOp) -> UOp {
    let zero = a.const_like(0);
    let (mut a, mut b) = (size(a), size(b));
    for _ in 0..steps(a.dtype().bits()) {
        let rest = a.floormod(&b);
        a = b.eq_(&zero).where_(&a, &b);
        b = rest;
    }
    size(&a)
}

fn lcm(a: &UOp, b: &UOp) -> UOp {
    size(a).floordiv(&gcd(a, b)) * size(b)
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
