//! Pass `trim` of stage `optimize`: tightens a loop's bounds to the iterations in which its predicate can be true.
//!
//! The bounds are arithmetic on the loops around. In the gradient of a convolution for its input, few windows cover an
//! element at a border; in causal attention, a query meets the keys up to its own position. If the predicate does not
//! depend on the loop, the whole loop runs or does not. If a predicate is true in most iterations, the loop is divided
//! into a part without the predicate and the ends (`divide`): rows that are no whole number of vectors. Where a predicate
//! chooses between two values, each has a loop of its own (`switch`): tensors that are joined. Where a launch decides how many rows
//! there are, a row past the last one reads the first (`rows`).
//!
//! Loops of general kernels end at a number that a launch gives. They are trimmed first (`needed`), readers before writers: a
//! loop that fills scratch is trimmed like the loop that reads it. Both are divided afterwards.

mod bounds;
mod demand;
mod divide;
mod effects;
mod ends;
mod needed;
mod reductions;
mod rows;
mod stores;
mod switch;

pub(super) use divide::{DIVIDED, LONG};

use super::ranges::{kind_of, substitute};
use ends::Ends;
use kiln_ir::arg::RangeKind;
use kiln_ir::rules::simplify;
use kiln_ir::scope::Ranges;
use kiln_ir::uop::find_all;
use kiln_ir::{Op, UOp};

/// The kernel with every loop trimmed that can be. Loops over outputs are divided if their order is `free`.
pub(super) fn trim(ast: &UOp, free: bool) -> UOp {
    if has_barriers_in_loops(ast) {
        return ast.clone();
    }
    let ast = rows::first_instead(ast);
    let ast = if free { switch::split(&ast) } else { ast };
    let ends = Ends::of(&ast);
    let ast = each_loop(ast, ends.last_first(), needed::decided_at_launch);
    let ranges = Ends::of(&ast).ranges;
    each_loop(ast, ranges, |ast, range, ends| trimmed(ast, range, ends, free))
}

/// The kernel after a step for each of its loops, in order.
fn each_loop(
    mut ast: UOp,
    ranges: Vec<UOp>,
    step: impl Fn(&UOp, &UOp, &Ends) -> Option<UOp>,
) -> UOp {
    let mut ends = Ends::of(&ast);
    for range in ranges {
        if let Some(new) = step(&ast, &range, &ends) {
            ends = Ends::of(&new);
            ast = new;
        }
    }
    ast
}

/// Whether a loop contains a barrier or an exchange of values: all work-items of a group must run it equally often.
fn has_barriers_in_loops(ast: &UOp) -> bool {
    let barriers = find_all(ast, |n| matches!(n.op(), Op::Barrier | Op::Shuffle));
    let is_grid = |r: &UOp| matches!(kind_of(r), RangeKind::Global | RangeKind::Local);
    let in_loop = |n: &UOp| Ranges::around(n).of(n.scope()).any(|r| !is_grid(r));
    barriers.iter().any(in_loop)
}

/// The kernel with fewer iterations of `range`, or with two loops instead of its.
fn trimmed(ast: &UOp, range: &UOp, ends: &Ends, free: bool) -> Option<UOp> {
    let (closers, next_axis) = (ends.of_loop(range), ends.next_axis);
    let kind = kind_of(range);
    let only = match &closers[..] {
        [only] => Some(only),
        _ => None,
    };
    let starts = |c: &&UOp| c.op() == Op::Reduce && c.initial().is_none();
    let reduce = only.filter(|c| kind == RangeKind::Reduce && starts(c));
    if let Some(reduce) = reduce
        && let Some(whole) = reductions::whole(reduce, range)
    {
        return Some(substitute(ast, reduce, &simplify(&whole)));
    }
    // what comes after a loop that threads share would be done by every thread
    if (free && kind == RangeKind::Loop || kind == RangeKind::Reduce)
        && let Some(divided) = divide::divided(ast, &closers, range, ends)
    {
        return Some(divided);
    }
    if !matches!(kind, RangeKind::Loop | RangeKind::Reduce) {
        return None;
    }
    let stored = only.filter(|c| kind == RangeKind::Loop && c.op() == Op::End);
    // others end where a launch says: they have been trimmed
    let is_whole = range.src(0).as_int().is_some();
    stored
        .and_then(|end| stores::store(ast, end, range, next_axis))
        .or_else(|| is_whole.then(|| needed::shorter(ast, &closers, range, ends)).flatten())
}
