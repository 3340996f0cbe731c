//! Identities that hold at every stage, as rule tables. What a rule may assume is in docs/rules.md.
//!
//! A table names what it is about; a rule is one line of algebra, or one line and a documented function. Everything
//! here is exact: rewriting never changes a bit of a result, nor where a program reads or writes.

mod fold;
mod algebra;
mod boolean;
mod select;
mod convert;
mod divmod;
mod compare;
mod index;
mod condition;
mod reduce;

pub use condition::simplify_under;

use crate::rewrite::graph_rewrite;
use crate::rule::RuleSet;
use crate::uop::UOp;

static SYMBOLIC: RuleSet = RuleSet::new(
    "symbolic",
    &[
        fold::RULES,
        index::RULES,
        algebra::RULES,
        boolean::RULES,
        select::RULES,
        convert::RULES,
        reduce::RULES,
        condition::RULES,
    ],
);

static GATES: RuleSet = RuleSet::new("gates", &[condition::GATE_LOADS]);

/// Everything exact: constants, algebra, indices, conditions, reductions.
pub fn symbolic() -> &'static RuleSet {
    &SYMBOLIC
}

/// Loads that a `where` would replace by zero become gated loads. Not part of [`symbolic`], because a gate may put a
/// load inside more loops than it was in.
pub fn gates() -> &'static RuleSet {
    &GATES
}

/// The normal form under [`symbolic`].
pub fn simplify(node: &UOp) -> UOp {
    graph_rewrite(node, &SYMBOLIC)
}
