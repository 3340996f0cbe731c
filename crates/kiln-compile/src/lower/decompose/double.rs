//! Part of pass `decompose`: numbers in two parts. The value is the sum of two floats, and the second is what the first
//! rounds away.

use super::pieces::{Format, Sums, by_type};
use kiln_ir::UOp;

/// `high + low`.
#[derive(Clone)]
pub(super) struct Double {
    pub(super) high: UOp,
    pub(super) low: UOp,
}

impl Double {
    /// The constant `(c.0 + c.1)` in the type of `like`.
    pub(super) fn constant(like: &UOp, c: (f64, f64)) -> Double {
        Double { high: like.const_like(c.0), low: like.const_like(c.1) }
    }

    /// `a + b`, where `a` is the larger or 0.
    pub(super) fn sum(a: &UOp, b: &UOp) -> Double {
        let high = a + b;
        let low = b - (&high - a);
        Double { high, low }
    }

    /// `a * b`.
    pub(super) fn product(a: &UOp, b: &UOp, sums: Sums) -> Double {
        let high = a * b;
        let low = sums.lost(a, b, &high);
        Double { high, low }
    }

    /// This and a small number.
    pub(super) fn plus(&self, low: &UOp) -> Double {
        Double::sum(&self.high, &(&self.low + low))
    }

    /// `self * b`, but for the product of both low parts.
    pub(super) fn times(&self, b: &Double, sums: Sums) -> Double {
        let p = Double::product(&self.high, &b.high, sums);
        let cross = sums.mul_add(&self.low, &b.high, &(&self.high * &b.low));
        p.plus(&cross)
    }
}

impl Sums {
    /// What the product of `a` and `b` lost where it was rounded to `product`. Without `MulAdd`, from the products of
    /// halves, which are exact.
    fn lost(self, a: &UOp, b: &UOp, product: &UOp) -> UOp {
        if self.fused {
            return self.mul_add(a, b, &UOp::unary(kiln_ir::Op::Neg, product));
        }
        let ((a1, a2), (b1, b2)) = (halves(a), halves(b));
        &a1 * &b1 - product + &a1 * &b2 + &a2 * b1 + a2 * b2
    }
}

/// The upper half of a number's bits, and the rest.
fn halves(x: &UOp) -> (UOp, UOp) {
    let mask = by_type(x, -1 << 12, -1 << 27);
    let upper = (x.bitcast(Format::of(x).int) & mask).bitcast(x.dtype());
    let rest = x - &upper;
    (upper, rest)
}
