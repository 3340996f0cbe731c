//! Loops of reductions that skip what counts for nothing: where conditions on the summand say that only some iterations
//! of a loop count, and which these are is known from the loops around it, the loop starts and ends with them.
//!
//! The gradient of a convolution for its input is such a sum: at the borders few windows cover an element. In causal
//! attention a query meets the keys up to its own position. Iterations that count for all of what is written out are a
//! loop without conditions, if there are enough of them; where a condition does not ask for the loop at all, the loop runs
//! or does not.

mod bounds;
mod reductions;
mod stores;

use super::ranges::{axis_of, kind_of, ranges_of};
use super::stage::substitute;
use kiln_ir::arg::RangeKind;
use kiln_ir::rules::simplify;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};

/// The kernel with every loop trimmed that can be.
pub(super) fn trim(ast: &UOp) -> UOp {
    ranges_of(ast).into_iter().fold(ast.clone(), |ast, range| trimmed(&ast, &range).unwrap_or(ast))
}

/// The kernel with fewer iterations of `range`.
fn trimmed(ast: &UOp, range: &UOp) -> Option<UOp> {
    let closes = |n: &UOp| matches!(n.op(), Op::Reduce | Op::End) && n.srcs()[1..].contains(range);
    let mut closers = toposort(ast).into_iter().filter(closes);
    let (Some(closer), None) = (closers.next(), closers.next()) else { return None };
    let next_axis = ranges_of(ast).last().map_or(0, |r| axis_of(r) + 1);
    match (kind_of(range), closer.op()) {
        (RangeKind::Reduce, Op::Reduce) => {
            let fewer = reductions::reduction(&closer, range, next_axis)?;
            Some(substitute(ast, &closer, &simplify(&fewer)))
        }
        (RangeKind::Loop, Op::End) => stores::store(ast, &closer, range, next_axis),
        _ => None,
    }
}
