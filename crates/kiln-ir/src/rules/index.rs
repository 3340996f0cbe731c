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
    rule!(index_extremes [n: Index]          n.on(&[Op::Max, Op::Min])                   => extreme(n)),
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

/// Minima of minima have at most so many operands, or are left alone: each is compared with each.
const MAX_OPERANDS: usize = 8;

/// A minimum of minima, or a maximum of maxima, without the operands that are never the only result.
fn extreme(n: &UOp) -> Option<UOp> {
    let operands = operands(n, n.op()).filter(|_| is_index(n))?;
    let mut kept: SmallVec<[&UOp; MAX_OPERANDS]> = SmallVec::new();
    for (i, &x) in operands.iter().enumerate() {
        let mut others = kept.iter().chain(&operands[i + 1..]);
        if !others.any(|y| is_dominated(n.op(), x, y)) {
            kept.push(x);
        }
    }
    if kept.len() == operands.len() {
        return None;
    }
    kept.into_iter().cloned().reduce(|x, y| UOp::binary(n.op(), &x, &y))
}

/// The operands of nested minima or maxima, in order.
fn operands(n: &UOp, op: Op) -> Option<SmallVec<[&UOp; MAX_OPERANDS]>> {
    let (mut operands, mut todo) = (SmallVec::new(), SmallVec::<[&UOp; 8]>::from_slice(&[n]));
    while let Some(x) = todo.pop() {
        if x.op() == op {
            todo.extend([x.src(1), x.src(0)]);
        } else {
            operands.push(x);
        }
        if operands.len() + todo.len() > MAX_OPERANDS {
            return None;
        }
    }
    Some(operands)
}

/// Whether bounds of a difference tell that the minimum (or maximum) of two is always the second. If the first is a maximum, it
/// is at least each of its operands: `min(max(x, 0), 0)` is 0 (the law of absorption).
fn is_dominated(op: Op, x: &UOp, y: &UOp) -> bool {
    let is_beyond = |x: &UOp| {
        difference(x, y).is_some_and(|(lo, hi)| if op == Op::Min { lo >= 0 } else { hi <= 0 })
    };
    let dual = if op == Op::Min { Op::Max } else { Op::Min };
    is_beyond(x)
        || operands(x, dual).is_some_and(|all| all.len() > 1 && all.into_iter().any(is_beyond))
}

/// Bounds of `x - y`, terms that both have cancelled.
fn difference(x: &UOp, y: &UOp) -> Option<(i64, i64)> {
    Affine::of(x)?.plus(&Affine::of(y)?, -1)?.bounds()
}
