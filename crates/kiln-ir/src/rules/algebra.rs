//! Identities of arithmetic. Without a kind they hold on every dtype, floats with NaN and signed zeros included.

use crate::dtype::{Const, DType};
use crate::op::Op;
use crate::rule;
use crate::rule::Rule;
use crate::uop::UOp;

#[allow(clippy::eq_op)] // `x - x` is what a rule is about
pub(super) static RULES: &[Rule] = &[
    rule!(add_zero       [x: NonFloat]               x + 0              => x),
    rule!(add_minus_zero [x: Float]                  x + -0.0           => x),
    rule!(sub_zero       [x]                         x - 0              => x),
    rule!(sub_self       [x: Int]                    x - x              => x.const_like(0)),
    rule!(sub_const      [x: Int, c: IntConst]       x - c              => x + -c),
    rule!(mul_zero       [x: NonFloat]               x * 0              => x.const_like(0)),
    rule!(mul_one        [x]                         x * 1              => x),
    rule!(div_one        [x: Float]                  x.div(1)           => x),
    rule!(div_power      [x: Float, c: FloatConst]   x.div(c)           => by_reciprocal(x, c)),
    rule!(neg_neg        [x]                         -(-x)              => x),
    rule!(not_not        [x]                         x.not().not()      => x),
    rule!(floordiv_zero  [x: Int]                    x.floordiv(0)      => x.const_like(0)),
    rule!(floordiv_one   [x: Int]                    x.floordiv(1)      => x),
    rule!(floormod_zero  [x: Int]                    x.floormod(0)      => x.const_like(0)),
    rule!(floormod_one   [x: Int]                    x.floormod(1)      => x.const_like(0)),
    rule!(floormod_small [x: Int, c: IntConst]       x.floormod(c), if is_below(x, c) => x),
    rule!(shl_zero       [x: Int]                    x.shl(0)           => x),
    rule!(shr_zero       [x: Int]                    x.shr(0)           => x),
    rule!(and_self       [x]                         x & x              => x),
    rule!(or_self        [x]                         x | x              => x),
    rule!(xor_self       [x: NonFloat]               x ^ x              => x.const_like(0)),
    rule!(and_zero       [x: NonFloat]               x & 0              => x.const_like(0)),
    rule!(or_zero        [x: NonFloat]               x | 0              => x),
    rule!(xor_zero       [x: NonFloat]               x ^ 0              => x),
    rule!(and_ones       [x: NonFloat, c: Const]     x & c, if is_all_ones(c) => x),
    rule!(or_ones        [x: NonFloat, c: Const]     x | c, if is_all_ones(c) => c),
    rule!(max_self       [x]                         x.maximum(x)       => x),
    rule!(min_self       [x]                         x.minimum(x)       => x),
    rule!(max_bounds     [x: Int, y: Int]            x.maximum(y)       => larger(x, y)),
    rule!(min_bounds     [x: Int, y: Int]            x.minimum(y)       => smaller(x, y)),
    // wrapping addition and multiplication are associative; so are the bitwise ops, and max and min of integers
    rule!(add_consts     [x: Int, b: IntConst, c: IntConst]   (x + b) + c   => x + (b + c)),
    rule!(mul_consts     [x: Int, b: IntConst, c: IntConst]   (x * b) * c   => x * (b * c)),
    rule!(and_consts     [x: NonFloat, b: Const, c: Const]    (x & b) & c   => x & (b & c)),
    rule!(or_consts      [x: NonFloat, b: Const, c: Const]    (x | b) | c   => x | (b | c)),
    rule!(xor_consts     [x: NonFloat, b: Const, c: Const]    (x ^ b) ^ c   => x ^ (b ^ c)),
    rule!(max_consts     [x: Int, b: IntConst, c: IntConst]   x.maximum(b).maximum(c) => x.maximum(&b.maximum(c))),
    rule!(min_consts     [x: Int, b: IntConst, c: IntConst]   x.minimum(b).minimum(c) => x.minimum(&b.minimum(c))),
    rule!(lt_self        [x]                         x.lt(x)            => UOp::bool(false)),
    rule!(eq_self        [x: NonFloat]               x.eq_(x)           => UOp::bool(true)),
    rule!(ne_self        [x: NonFloat]               x.ne_(x)           => UOp::bool(false)),
    rule!(not_eq         [x, y]                      x.eq_(y).not()     => x.ne_(y)),
    rule!(not_ne         [x, y]                      x.ne_(y).not()     => x.eq_(y)),
];

/// `0 <= x < c`.
fn is_below(x: &UOp, c: &UOp) -> bool {
    c.uniform().as_int().is_some_and(|c| 0 <= x.min() && x.max() < c)
}

/// Whether every bit of the constant is set.
fn is_all_ones(c: &UOp) -> bool {
    let c = c.uniform();
    let ones = match c.dtype() {
        DType::Bool => Const::Bool(true),
        dtype => Const::Int(-1).cast(dtype),
    };
    c.as_const() == Some(ones)
}

/// `x / c = x * (1/c)` where both `c` and `1/c` are powers of two that f32 holds: both round the same exact
/// number.
fn by_reciprocal(x: &UOp, c: &UOp) -> Option<UOp> {
    let value = c.uniform().as_const()?.as_f64();
    let inverse = Const::Float(1.0 / value).cast(c.dtype()).as_f64();
    let power = |f: f64| (f as f32).is_normal() && f.to_bits() & ((1 << 52) - 1) == 0;
    let exact = power(value) && value * inverse == 1.0 && power(inverse);
    exact.then(|| UOp::binary(Op::Mul, x, &c.const_like(inverse)))
}

/// Bounds of a u64 stop at i64's end and say nothing there.
fn is_bounded(x: &UOp) -> bool {
    x.dtype() != DType::U64
}

fn larger(x: &UOp, y: &UOp) -> Option<UOp> {
    match () {
        () if !is_bounded(x) => None,
        () if x.min() >= y.max() => Some(x.clone()),
        () if y.min() >= x.max() => Some(y.clone()),
        () => None,
    }
}

fn smaller(x: &UOp, y: &UOp) -> Option<UOp> {
    match () {
        () if !is_bounded(x) => None,
        () if x.max() <= y.min() => Some(x.clone()),
        () if y.max() <= x.min() => Some(y.clone()),
        () => None,
    }
}
