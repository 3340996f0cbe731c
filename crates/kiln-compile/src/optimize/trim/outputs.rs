//! Part of pass `trim`: loops over outputs that end where no store's predicate can be true. `if (i < n) out[i] = ..` for
//! `i` up to 4096 becomes a loop up to `n`.

use super::bounds::Bounds;
use super::effects::replaced;
use super::reductions::Part;
use kiln_ir::rules::simplify;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// The kernel with fewer iterations of `range`, whose loop ends at `end` alone. None if its store has no predicate that
/// bounds the loop.
pub(super) fn shorter(ast: &UOp, end: &UOp, range: &UOp) -> Option<UOp> {
    let gate = Some(end.src(0)).filter(|store| store.op() == Op::Store)?.gate()?;
    let mut bounds = Bounds::default();
    bounds.learn(vec![gate.clone()], range);
    let high = simplify(&bounds.runs_at_all(bounds.high(range)));
    let low = simplify(&bounds.low());
    if high == *range.src(0) && low.is_const(0) {
        return None;
    }
    let part = Part { low, high, gap: None, holds: bounds.known() };
    let shorter = simplify(&part.of(end, range, super::axis_of(range)));
    replaced(ast, &FxHashMap::from_iter([(end.clone(), vec![shorter])]))
}

impl Bounds {
    /// `count`, or 0 if a predicate that does not depend on the loop is false for every lane and unrolled copy.
    fn runs_at_all(&self, count: UOp) -> UOp {
        let any = self.outside.iter().map(|o| o.any.clone()).reduce(|a, b| a.and(&b));
        any.map_or(count.clone(), |any| any.where_(&count, &UOp::index(0)))
    }
}
