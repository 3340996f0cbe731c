//! Part of pass `decompose`: exact remainders of floats, and NumPy's quotient rounded down.
//!
//! A float is an integer mantissa times a power of two. The remainder of `m 2^n` by an integer `k` equals the remainder
//! of `m r`, with `r = 2^n mod k`. `r` comes from repeated squaring, over the bits of `n`. All remainders on the way
//! lie between `-k / 2` and `k / 2`, up to a rounding error of the quotient, so each of them is exact.

use super::double::Double;
use super::exp::scale;
use super::pieces::{Format, Sums, abs, by_type, div, shl, shr, trunc};
use kiln_ir::{DType, UOp};

/// The quotient rounded down: `(a - remainder) / b`, minus 1 if the remainder was moved to the divisor's sign. Rounding
/// may bring it past the next whole number. Zeros have the quotient's sign.
pub(super) fn floor_div(a: &UOp, b: &UOp, sums: Sums) -> UOp {
    let (zero, one) = (&a.const_like(0.0), &a.const_like(1.0));
    let rest = &remainder(a, b, sums);
    let quotient = div(&(a - rest), b);
    let quotient = &moves(rest, b).where_(&(&quotient - one), &quotient);
    let whole = trunc(quotient);
    let floor = &quotient.lt(&whole).where_(&(&whole - one), &whole);
    let past = a.const_like(0.5).lt(&(quotient - floor));
    let near = past.where_(&(floor + one), floor);
    let plain = &div(a, b);
    let signed_zero = with_sign_of(zero, plain);
    let of_finite = quotient.eq_(zero).where_(&signed_zero, &near);
    b.eq_(zero).where_(plain, &of_finite)
}

/// The remainder with the divisor's sign, zeros too.
pub(super) fn floor_mod(a: &UOp, b: &UOp, sums: Sums) -> UOp {
    let rest = &remainder(a, b, sums);
    let moved = moves(rest, b).where_(&(rest + b), rest);
    let zero = &a.const_like(0.0);
    rest.eq_(zero).where_(&with_sign_of(zero, b), &moved)
}

/// Whether a remainder has the other sign than the divisor.
fn moves(rest: &UOp, b: &UOp) -> UOp {
    let zero = &b.const_like(0.0);
    rest.ne_(zero) & (rest.lt(zero) ^ b.lt(zero))
}

/// `a - b trunc(a / b)`, exactly. f32 is computed in f64, where products of its mantissas are exact.
fn remainder(a: &UOp, b: &UOp, sums: Sums) -> UOp {
    if a.dtype() == DType::F32 {
        let [a, b] = [a, b].map(|x| x.cast(DType::F64));
        return of_sizes(&a, &b, &F32, sums).cast(DType::F32);
    }
    of_sizes(a, b, &F64, sums)
}

/// Numbers of one type, taken apart in f64.
struct Layout {
    /// Bits of a whole mantissa below its first.
    mantissa: i64,
    /// Bits of the difference of two exponents that are squared in; those above them are a power of two.
    steps: u32,
}

const F32: Layout = Layout { mantissa: 23, steps: 3 };
const F64: Layout = Layout { mantissa: 52, steps: 6 };

fn of_sizes(a: &UOp, b: &UOp, layout: &Layout, sums: Sums) -> UOp {
    let [x, y] = [&abs(a), &abs(b)];
    let ((m, up), (k, down)) = (whole(x, layout), whole(y, layout));
    let inverse = div(&x.const_like(1.0), &k);
    let modulus = Modulus { k: &k, inverse, exact: layout.mantissa == F32.mantissa, sums };
    let n = &(up - &down).maximum(&down.const_like(0));
    let power = modulus.power_of_two(n, layout.steps);
    let rest = &modulus.product(&modulus.reduced(&m), &power);
    let zero = &x.const_like(0.0);
    let positive = rest.lt(zero).where_(&(rest + &k), rest);
    // two biases, for the two factors of a power of two
    let found = scale(&positive, &(down + (2 * BIAS - layout.mantissa)));
    let size = x.lt(y).where_(x, &found);
    let known = zero.lt(y) & x.lt(&x.const_like(f64::INFINITY));
    known.where_(&with_sign_of(&size, a), &x.const_like(f64::NAN))
}

const BIAS: i64 = 1023;

/// The mantissa as a whole number, and the exponent of its first bit.
fn whole(x: &UOp, layout: &Layout) -> (UOp, UOp) {
    let tiny = &x.lt(&x.const_like(f64::MIN_POSITIVE));
    let normal = tiny.where_(&(x * x.const_like(2f64.powi(54))), x);
    let bits = &normal.bitcast(DType::I64);
    let mantissa = bits & ((1i64 << 52) - 1);
    let m = (mantissa | ((BIAS + layout.mantissa) << 52)).bitcast(DType::F64);
    let exponent = &(shr(bits, 52) - BIAS);
    (m, tiny.where_(&(exponent - 54), exponent))
}

/// Arithmetic that keeps remainders by a whole number.
struct Modulus<'a> {
    k: &'a UOp,
    inverse: UOp,
    /// Whether products are exact.
    exact: bool,
    sums: Sums,
}

impl Modulus<'_> {
    /// `2^n`: the bits of `n` above the steps at once, then by squaring.
    fn power_of_two(&self, n: &UOp, steps: u32) -> UOp {
        let top = shl(&(shr(n, steps as i64) + BIAS), 52).bitcast(DType::F64);
        let add_bit = |power: UOp, step: u32| {
            let square = self.product(&power, &power);
            let odd = (shr(n, step as i64) & 1).ne_(&n.const_like(0));
            let power = odd.where_(&(&square + &square), &square);
            if self.exact { power } else { self.reduced(&power) }
        };
        (0..steps).rev().fold(self.reduced(&top), add_bit)
    }

    /// `x` less the nearest multiple, of an `x` that is at most `2^25` of them.
    fn reduced(&self, x: &UOp) -> UOp {
        self.less(x, &nearest(&(x * &self.inverse)))
    }

    /// `x * y` of two remainders.
    fn product(&self, x: &UOp, y: &UOp) -> UOp {
        if self.exact {
            return self.reduced(&(x * y));
        }
        let Double { high, low } = Double::product(x, y, self.sums);
        self.less(&high, &nearest(&div(&high, self.k))) + low
    }

    /// `x - times * k`, which is exact.
    fn less(&self, x: &UOp, times: &UOp) -> UOp {
        if self.exact || self.sums.fused {
            return self.sums.mul_add(&super::exp::minus(times), self.k, x);
        }
        let Double { high, low } = Double::product(times, self.k, self.sums);
        x - high - low
    }
}

/// The nearest whole number, of one below `2^51`.
fn nearest(x: &UOp) -> UOp {
    let rounder = x.const_like(Format::of(x).rounder);
    x + &rounder - rounder
}

/// The size of a number that is not negative, with another's sign.
fn with_sign_of(size: &UOp, of: &UOp) -> UOp {
    let Format { int, .. } = Format::of(of);
    let bit = by_type(of, i32::MIN as i64, i64::MIN);
    (size.bitcast(int) | (of.bitcast(int) & bit)).bitcast(of.dtype())
}
