//! Exact integer arithmetic: sums, quotients, remainders and comparisons of indices in normal form.

use super::linear::{Linear, is_index};
use super::{compare, divmod};
use crate::op::Op;
use crate::rule;
use crate::rule::Rule;
use crate::uop::UOp;

pub(super) static RULES: &[Rule] = &[
    rule!(grows index_sum    [n: Index]      n.on(&[Op::Add, Op::Sub, Op::Neg, Op::Mul]) => sum(n)),
    rule!(grows index_divide [n: Index]      n.on(&[Op::FloorDiv, Op::FloorMod])         => divmod::divide(n)),
    rule!(grows index_less   [n, a: Index, b] n.bind(a.lt(b))                            => compare::less(n)),
    rule!(grows index_equal  [n, a: Index, b] n.bind(a.eq_(b))                           => compare::equal(n)),
    rule!(grows index_differ [n, a: Index, b] n.bind(a.ne_(b))                           => compare::equal(n)),
];

/// A sum with like terms combined, constants last, and quotients joined with their remainders.
fn sum(n: &UOp) -> Option<UOp> {
    if !is_index(n) {
        return None;
    }
    Some(divmod::recombine(Linear::of(n)?)?.to_uop())
}
