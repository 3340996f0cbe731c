//! Part of pass `prefetch`: loads that also prefetch the next row.
//!
//! Example: a softmax reads each row in several loops. The first loop waits for memory. The second has the row in a
//! cache and computes much, while memory is idle. So each load of the second loop says how far on the same element of
//! the next row is, and that is fetched meanwhile.

use super::reads::{Marks, mark_ahead, reads_large, step, work};
use crate::target::Target;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use std::cell::LazyCell;

/// A row takes at most this part of the second cache, which holds others too.
const PART: usize = 8;
/// Operations per vector of the row from which on the second loop takes longer than memory.
const BUSY: usize = 10;

/// Marks the loads that read a row for the second time.
pub(super) fn marks(ops: &[UOp], target: &Target, marks: &mut Marks) {
    let work = LazyCell::new(|| work(ops));
    let mut open: Vec<&UOp> = Vec::new();
    let mut rows: FxHashMap<usize, Row<'_>> = FxHashMap::default();
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
                    mark_ahead(marks, op, row.len);
                }
            }
            _ => {}
        }
    }
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
        if !reads_large(load, target) {
            return None;
        }
        let [row, part] = [around, by].map(|range| step(load.src(1), range, 12));
        let (row, part) = (usize::try_from(row?).ok()?, usize::try_from(part?).ok()?);
        let all = usize::try_from(by.src(0).max()).ok()?.checked_mul(part)?;
        // the ends of ragged rows are separate loops
        let whole = (row.saturating_sub(2 * part) + 1..row + part).contains(&all) && part > 0;
        let near = row * load.dtype().size() <= target.cache_bytes[1] / PART;
        let vectors = part / load.lanes() as usize;
        (whole && near).then_some(Row { around, by, again: None, len: row, vectors })
    }
}
