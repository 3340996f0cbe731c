//! Exact integer arithmetic: sums, quotients, remainders and comparisons of indices in normal form.

use super::{compare, divmod};
use crate::affine::{Affine, is_index};
use crate::op::Op;
use crate::rule;
use crate::rule::Rule;
use crate::uop::UOp;
use smallvec::{SmallVec, smallvec};

pub(super) static RULES: &[Rule] = &[
    rule!(grows index_sum    [n: Index]      n.on(&[Op::Add, Op::Sub, Op::Neg, Op::Mul]) => sum(n)),
    rule!(grows index_divide [n: Index]      n.on(&[Op::FloorDiv, Op::FloorMod])         => divmod::divide(n)),
    rule!(loop_ends    [i: Index, n]         i.lt(n)                                     => below_its_end(i, n)),
    rule!(grows index_less   [n, a: Index, b] n.bind(a.lt(b))                            => compare::less(n)),
    rule!(grows index_equal  [n, a: Index, b] n.bind(a.eq_(b))                           => compare::equal(n)),
    rule!(grows index_differ [n, a: Index, b] n.bind(a.ne_(b))                           => compare::equal(n)),
    rule!(index_max    [x: Index, y: Index]  x.maximum(y)                                => larger(x, y)),
    rule!(index_min    [x: Index, y: Index]  x.minimum(y)                                => smaller(x, y)),
];

/// A sum with like terms combined, constants last, and quotients joined with their remainders.
fn sum(n: &UOp) -> Option<UOp> {
    if !is_index(n) {
        return None;
    }
    let sum = divmod::recombine(Affine::of(n)?)?;
    (!sum.is_built(n)).then(|| sum.to_uop())
}

/// A loop variable is less than the end of its loop, and than all of what that is the minimum of.
fn below_its_end(i: &UOp, n: &UOp) -> Option<UOp> {
    let mut ends: SmallVec<[&UOp; 4]> =
        if i.op() == Op::Range { smallvec![i.src(0)] } else { return None };
    while let Some(end) = ends.pop() {
        if end == n {
            return Some(UOp::bool(true));
        }
        ends.extend(end.srcs().iter().filter(|_| end.op() == Op::Min));
    }
    None
}

/// The larger of two indices, where bounds of their difference tell.
fn larger(x: &UOp, y: &UOp) -> Option<UOp> {
    let (lo, hi) = difference(x, y)?;
    match () {
        () if lo >= 0 => Some(x.clone()),
        () if hi <= 0 => Some(y.clone()),
        () => None,
    }
}

/// The smaller of two indices, where bounds of their difference tell.
fn smaller(x: &UOp, y: &UOp) -> Option<UOp> {
    let (lo, hi) = difference(x, y)?;
    match () {
        () if hi <= 0 => Some(x.clone()),
        () if lo >= 0 => Some(y.clone()),
        () => None,
    }
}

/// Bounds of `x - y`, terms that both have cancelled.
fn difference(x: &UOp, y: &UOp) -> Option<(i64, i64)> {
    if !is_index(x) {
        return None;
    }
    Affine::of(x)?.plus(&Affine::of(y)?, -1)?.bounds()
}
