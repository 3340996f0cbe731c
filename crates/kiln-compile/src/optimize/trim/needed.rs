//! Part of pass `trim`: which iterations of a loop are needed by what it ends with.
//!
//! A reduction needs those whose term is not its identity; a store those in which its predicate may be true: `if (i < n)
//! out[i] = ..` for `i` up to 4096 becomes a loop up to `n`. A store to scratch needs those whose element is read
//! (`demand`). A loop that ends at several of them runs as far as any of them needs.

use super::super::ranges::{axis_of, kind_of};
use super::bounds::Bounds;
use super::demand::read_of;
use super::effects::replaced;
use super::ends::Ends;
use super::reductions::{Part, identity};
use kiln_ir::arg::{RangeKind, Space};
use kiln_ir::program::at_launch;
use kiln_ir::rules::simplify;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// Iterations of a loop, and comparisons whose result is known in them.
struct Needed {
    low: UOp,
    high: UOp,
    known: FxHashMap<UOp, UOp>,
}

/// The kernel with fewer iterations of `range`, if a launch decides how many its loop has.
pub(super) fn decided_at_launch(ast: &UOp, range: &UOp, ends: &Ends) -> Option<UOp> {
    let closers = ends.of_loop(range);
    let needed = of_loop(ast, &closers, range, ends)?;
    let (low, high) = widest(&needed)?;
    let fits = match kind_of(range) {
        RangeKind::Loop | RangeKind::Reduce => true,
        RangeKind::Thread => low.is_const(0) && at_launch(&high),
        _ => false,
    };
    let is_decided = toposort(&high).iter().any(|n| n.op() == Op::Var);
    if fits && is_decided { with(ast, &closers, range, &needed, (low, high)) } else { None }
}

/// The kernel with fewer iterations of `range`, whose loop ends at `closers`. None if all of them may be needed.
pub(super) fn shorter(ast: &UOp, closers: &[UOp], range: &UOp, ends: &Ends) -> Option<UOp> {
    let needed = of_loop(ast, closers, range, ends)?;
    let all = widest(&needed)?;
    with(ast, closers, range, &needed, all)
}

/// The iterations that each closer needs.
fn of_loop(ast: &UOp, closers: &[UOp], range: &UOp, ends: &Ends) -> Option<Vec<Needed>> {
    closers.iter().map(|closer| Needed::by(ast, closer, range, ends)).collect()
}

/// The iterations that any of them needs; none if there are none.
fn widest(needed: &[Needed]) -> Option<(UOp, UOp)> {
    let bound = |of: fn(&Needed) -> &UOp, widest: fn(&UOp, &UOp) -> UOp| {
        needed.iter().map(|n| of(n).clone()).reduce(|a, b| if a == b { a } else { widest(&a, &b) })
    };
    let [low, high] = [bound(|n| &n.low, UOp::minimum)?, bound(|n| &n.high, UOp::maximum)?];
    Some((simplify(&low), simplify(&high)))
}

/// The kernel with the iterations of `range` from `low` to `high`; none if those are all.
fn with(
    ast: &UOp,
    closers: &[UOp],
    range: &UOp,
    needed: &[Needed],
    (low, high): (UOp, UOp),
) -> Option<UOp> {
    if high == *range.src(0) && low.is_const(0) {
        return None;
    }
    let part = |needed: &Needed| {
        // where others need more iterations, nothing is known of them
        let is_all = needed.low == low && needed.high == high;
        let holds = if is_all { needed.known.clone() } else { FxHashMap::default() };
        Part { low: low.clone(), high: high.clone(), gap: None, holds }
    };
    let parts = closers.iter().zip(needed).map(|(closer, needed)| {
        let shorter = part(needed).of(closer, range, axis_of(range));
        (closer.clone(), vec![simplify(&shorter)])
    });
    replaced(ast, &parts.collect())
}

impl Needed {
    /// None if `closer` may need all iterations.
    fn by(ast: &UOp, closer: &UOp, range: &UOp, ends: &Ends) -> Option<Needed> {
        if closer.op() == Op::Reduce {
            return Needed::by_sum(closer, range);
        }
        let store = Some(closer.src(0)).filter(|n| n.op() == Op::Store)?;
        let all = || Needed {
            low: UOp::index(0),
            high: range.src(0).clone(),
            known: FxHashMap::default(),
        };
        let gated = store.gate().map(|gate| Needed::where_true(gate, range));
        let read = is_scratch(store.memory()).then(|| read_of(ast, closer, range, ends)).flatten();
        let Some(read) = read else { return gated };
        let needed = gated.unwrap_or_else(all);
        let high = simplify(&read.minimum(&needed.high));
        Some(Needed { high, ..needed })
    }

    /// By a reduction: none if nothing bounds the terms that count.
    fn by_sum(reduce: &UOp, range: &UOp) -> Option<Needed> {
        let bounds = Bounds::of(reduce.src(0), &identity(reduce), range);
        let [low, high] = [bounds.low(), bounds.high(range)].map(|x| simplify(&x));
        (!bounds.limits.is_empty()).then(|| Needed { low, high, known: bounds.known() })
    }

    /// By a store with a predicate.
    fn where_true(gate: &UOp, range: &UOp) -> Needed {
        let bounds = Bounds::of_any_inside(gate, range);
        let high = simplify(&bounds.runs_at_all(bounds.high(range)));
        Needed { low: simplify(&bounds.low()), high, known: bounds.known() }
    }
}

/// Whether this is scratch memory of the kernel.
pub(super) fn is_scratch(memory: &UOp) -> bool {
    memory.arg().memory().is_some_and(|(space, ..)| space == Space::Scratch)
}

impl Bounds {
    /// `count`, or 0 if a predicate that does not depend on the loop is false for every lane and unrolled copy.
    fn runs_at_all(&self, count: UOp) -> UOp {
        let any = self.outside.iter().map(|o| o.any.clone()).reduce(|a, b| a.and(&b));
        any.map_or(count.clone(), |any| any.where_(&count, &UOp::index(0)))
    }
}
