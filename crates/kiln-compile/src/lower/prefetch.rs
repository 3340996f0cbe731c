//! Pass `prefetch` of stage `lower`: marks loads that also prefetch the next row.
//!
//! Example: a softmax reads each row in several loops. The first loop waits for memory. The second has the row in a
//! cache and computes much, while memory is idle. So each load of the second loop says how far on the same element of
//! the next row is, and that is fetched meanwhile. A prefetch is a hint: it may name memory past the end of the
//! argument.

use crate::target::Target;
use kiln_ir::affine::Affine;
use kiln_ir::uop::{Srcs, rebuild};
use kiln_ir::{Arg, Op, UOp};
use rustc_hash::FxHashMap;
use std::cell::LazyCell;

/// Smaller arguments, in multiples of the first cache, are in a near cache anyway.
const LARGE: usize = 16;
/// A row takes at most this part of the second cache, which holds others too.
const PART: usize = 8;
/// Operations per vector of the row from which on the second loop takes longer than memory.
const BUSY: usize = 10;

/// The list of a program with such loads marked.
pub(super) fn prefetch(ops: Vec<UOp>, target: &Target) -> Vec<UOp> {
    let marks = marks(&ops, target);
    if marks.is_empty() {
        return ops;
    }
    let mut new: FxHashMap<UOp, UOp> = FxHashMap::default();
    let marked = |op: UOp| {
        let srcs: Srcs = op.srcs().iter().map(|s| new.get(s).unwrap_or(s).clone()).collect();
        let made = match marks.get(&op) {
            Some(&row) => UOp::new(Op::Load, op.dtype(), op.lanes(), srcs, Arg::Prefetch(row)),
            None => rebuild(&op, srcs),
        };
        new.insert(op, made.clone());
        made
    };
    ops.into_iter().map(marked).collect()
}

/// The loads that read a row for the second time, and how many elements a row has.
fn marks(ops: &[UOp], target: &Target) -> FxHashMap<UOp, usize> {
    let work = LazyCell::new(|| work(ops));
    let mut open: Vec<&UOp> = Vec::new();
    let mut rows: FxHashMap<usize, Row<'_>> = FxHashMap::default();
    let mut marks = FxHashMap::default();
    for op in ops {
        match (op.op(), op.memory().arg().slot()) {
            (Op::Range, _) => open.push(op),
            (Op::End, _) => drop(open.pop()),
            (Op::Load, Some(slot)) => {
                let Some(row) = Row::read(op, &open, target) else { continue };
                let first = rows.entry(slot).or_insert(row);
                // by the second loop, not by a third
                let again = first.around == row.around
                    && first.len == row.len
                    && first.by != row.by
                    && *first.again.get_or_insert(row.by) == row.by;
                if again && work.get(row.by).is_some_and(|n| *n >= BUSY * row.vectors) {
                    marks.insert(op.clone(), row.len);
                }
            }
            _ => {}
        }
    }
    marks
}

/// How many operations on vectors each loop does in an iteration, those of loops inside it left out.
fn work(ops: &[UOp]) -> FxHashMap<UOp, usize> {
    let mut open: Vec<&UOp> = Vec::new();
    let mut work = FxHashMap::default();
    for op in ops {
        match op.op() {
            Op::Range => open.push(op),
            Op::End => drop(open.pop()),
            of if of.is_alu() && op.lanes() > 1 => {
                open.last().into_iter().for_each(|&r| *work.entry(r.clone()).or_default() += 1);
            }
            _ => {}
        }
    }
    work
}

/// A row that a loop reads from end to end.
#[derive(Clone, Copy)]
struct Row<'a> {
    /// The loop over rows.
    around: &'a UOp,
    /// The loop over the row.
    by: &'a UOp,
    /// The loop that reads it again.
    again: Option<&'a UOp>,
    /// How many elements.
    len: usize,
    /// How many vectors in an iteration.
    vectors: usize,
}

impl<'a> Row<'a> {
    /// The row that `load` reads a part of in each iteration of the innermost loop.
    fn read(load: &UOp, open: &[&'a UOp], target: &Target) -> Option<Row<'a>> {
        let [.., around, by] = *open else { return None };
        let [first, second, _] = target.cache_bytes;
        let bytes = |n: usize| n * load.dtype().size();
        let is_large = |n| bytes(n) >= LARGE * first;
        if load.lanes() == 1 || !load.memory().known_len().is_some_and(is_large) {
            return None;
        }
        let [row, part] = [around, by].map(|range| step(load.src(1), range, 12));
        let (row, part) = (usize::try_from(row?).ok()?, usize::try_from(part?).ok()?);
        let all = usize::try_from(by.src(0).max()).ok()?.checked_mul(part)?;
        // the ends of ragged rows are separate loops
        let whole = (row.saturating_sub(2 * part) + 1..row + part).contains(&all) && part > 0;
        let near = bytes(row) <= second / PART;
        let vectors = part / load.lanes() as usize;
        (whole && near).then_some(Row { around, by, again: None, len: row, vectors })
    }
}

/// How much the index grows with each iteration of `range`, if that is always the same. Parts of a cache line do not
/// count: how far a row starts past a line, and whether its last line is a separate loop. Looks through `depth` casts.
fn step(index: &UOp, range: &UOp, depth: usize) -> Option<i64> {
    let of_atom = |atom: &UOp| match atom.op() {
        _ if atom == range => Some(1),
        Op::Var | Op::Range | Op::And | Op::Shr | Op::TruncMod | Op::TruncDiv => Some(0),
        Op::Cast => step(atom.src(0), range, depth.checked_sub(1)?),
        _ => None,
    };
    let sum = Affine::of(index)?;
    sum.terms
        .iter()
        .try_fold(0i64, |all, (atom, k)| all.checked_add(of_atom(atom)?.checked_mul(*k)?))
}
