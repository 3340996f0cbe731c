//! Part of pass `trim`: what rows read that do not exist.
//!
//! A general kernel computes four rows at a time, of `n` that a launch decides. What it loads for a row has the predicate `row < n`,
//! and so has the store of the result. The value of a row that does not exist is not stored, so it may be anything. The
//! load reads the first row there and needs no predicate. Which row that is, the loop over rows decides, once for all
//! terms of a sum: a predicate is looked at for each.

use super::super::counting::counting;
use super::super::ranges::kind_of;
use kiln_ir::affine::Affine;
use kiln_ir::arg::RangeKind;
use kiln_ir::rules::simplify;
use kiln_ir::scope::Ranges;
use kiln_ir::uop::{substitute, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// The kernel in which loads read the first row where their values do not count.
pub(super) fn first_instead(ast: &UOp) -> UOp {
    let nodes = toposort(ast);
    if !nodes.iter().any(|n| n.op() == Op::Var) {
        return ast.clone();
    }
    let (counting, ranges) = (counting(&nodes), Ranges::among(&nodes));
    let mut new = FxHashMap::default();
    // scratch is filled as far as it is read (see `demand`), which the predicate says
    let is_argument = |n: &&UOp| n.op() == Op::Load && n.memory().op() == Op::Param;
    for load in nodes.iter().filter(is_argument) {
        let mut changed = load.clone();
        for row in counting.get(load).into_iter().flatten() {
            if is_of_rows(row, &ranges) {
                changed = reading_first(&changed, row).unwrap_or(changed);
            }
        }
        if changed != *load {
            new.insert(load.clone(), changed);
        }
    }
    substitute(std::slice::from_ref(ast), &new).remove(0)
}

/// Whether a predicate compares with a number that a launch decides, and varies over no lanes: lanes of a vector read neighbours.
fn is_of_rows(predicate: &UOp, ranges: &Ranges) -> bool {
    use RangeKind::{Loop, Thread, Upcast};
    let is_row = |r: &UOp| matches!(kind_of(r), Loop | Thread | Upcast);
    let mut of_launch = toposort(predicate).into_iter();
    !predicate.scope().is_empty()
        && ranges.of(predicate.scope()).all(is_row)
        && of_launch.any(|n| n.op() == Op::Var)
}

/// The load without this predicate: where it is false, it reads what the first iteration of the predicate's loops would read. None
/// if that may have another predicate.
fn reading_first(load: &UOp, row: &UOp) -> Option<UOp> {
    let (own, others): (Vec<UOp>, Vec<UOp>) =
        load.gate()?.conjuncts().into_iter().partition(|predicate| predicate == row);
    let over = row.scope();
    if own.is_empty() || others.iter().any(|other| other.scope().intersects(over)) {
        return None;
    }
    let first: FxHashMap<UOp, UOp> = toposort(row)
        .into_iter()
        .filter(|n| n.op() == Op::Range)
        .map(|range| (range, UOp::index(0)))
        .collect();
    let is_there = simplify(&substitute(std::slice::from_ref(row), &first).remove(0));
    if is_there != UOp::bool(true) {
        return None;
    }
    let mut index = Affine::of(load.src(1))?;
    let mut of_row = Affine::default();
    for term in std::mem::take(&mut index.terms) {
        match term.0.scope().intersects(over) {
            true if !term.0.scope().is_subset(over) => return None,
            true => of_row.terms.push(term),
            false => index.terms.push(term),
        }
    }
    let first_or_own = row.where_(&of_row.to_uop(), &UOp::index(0));
    let gate = others.into_iter().reduce(|a, b| a.and(&b));
    Some(UOp::load_lanes(
        load.src(0),
        &(first_or_own + index.to_uop()),
        gate.as_ref(),
        load.lanes(),
    ))
}
