//! Part of pass `prefetch`: panels. A panel is a part of a large argument that one loop copies to scratch memory, and
//! others compute with.
//!
//! Example: a product of 64 rows with a large matrix. For each 48 columns, a copy brings them together, and then all rows
//! are multiplied with them. The copy waits for memory, and memory is idle while the product is computed. So the loop that
//! reads the panel from scratch memory also asks for what the copy of the next panel will read. It reads the panel again for each
//! tile of rows. Each of these rounds asks for its share of the next panel: with 16 rounds, the first one asks for the first
//! sixteenth.

use super::reads::{Access, Marks, mark, reads_large, step, work};
use super::rounds::in_rounds;
use crate::target::{LINE, Target};
use kiln_ir::affine::Affine;
use kiln_ir::arg::{RangeKind, Space};
use kiln_ir::uop::{kind_of, substitute, trip_count};
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// At most one prefetch for so many operations on vectors: they take the time of loads.
const BUSY: usize = 4;

/// Marks loads of panels, and returns the loads that copy what these ask for.
pub(super) fn marks<'a>(ops: &'a [UOp], target: &Target, marks: &mut Marks) -> FxHashSet<&'a UOp> {
    let (copies, reads) = accesses(ops, target);
    let mut found = FxHashSet::default();
    if copies.is_empty() {
        return found;
    }
    let work = work(ops);
    let mut asked: FxHashMap<&UOp, usize> = FxHashMap::default();
    for copy in &copies {
        // the loop that reads most, not the one of a few last rows
        let pairs = reads.iter().filter_map(|read| Some((read, next(copy, read)?)));
        let Some((read, prefetch)) = pairs.max_by_key(|(read, _)| read.trips()) else { continue };
        let Some(by) = read.loops.last() else { continue };
        let asked = asked.entry(by).or_default();
        if work.get(*by).is_some_and(|work| (*asked + 1) * BUSY <= *work) {
            *asked += 1;
            mark(marks, read.op, prefetch);
            found.insert(copy.op.src(2));
        }
    }
    found
}

/// The stores of what is loaded from large arguments, one for each cache line, and the loads from scratch memory.
fn accesses<'a>(ops: &'a [UOp], target: &Target) -> (Vec<Access<'a>>, Vec<Access<'a>>) {
    let mut loops: Vec<&UOp> = Vec::new();
    let (mut copies, mut reads) = (Vec::new(), Vec::new());
    for op in ops {
        let is_scratch = || matches!(op.memory().arg().memory(), Some((Space::Scratch, ..)));
        match op.op() {
            Op::Range => loops.push(op),
            Op::End => drop(loops.pop()),
            Op::Store if is_scratch() && copies_large(op, target) => {
                copies.push(Access { op, loops: loops.clone() });
            }
            Op::Load if op.lanes() > 1 && is_scratch() => {
                reads.push(Access { op, loops: loops.clone() });
            }
            _ => {}
        }
    }
    (copies, reads)
}

/// Whether a store copies the first elements of a cache line of a large argument.
fn copies_large(store: &UOp, target: &Target) -> bool {
    let value = store.src(2);
    let is_first =
        |index: Affine| (index.constant * value.dtype().size() as i64).rem_euclid(LINE as i64) == 0;
    value.op() == Op::Load
        && value.memory().op() == Op::Param
        && reads_large(value, target)
        && Affine::of(store.src(1)).is_some_and(is_first)
}

/// The prefetch before `read` of what `copy` will load for a place of the next panel.
fn next(copy: &Access<'_>, read: &Access<'_>) -> Option<UOp> {
    if copy.op.memory() != read.op.memory() {
        return None;
    }
    let shared = copy.loops.iter().zip(&read.loops).take_while(|(a, b)| a == b).count();
    let around = copy.loops[..shared].last().filter(|r| kind_of(r) != RangeKind::Thread)?;
    let loops = in_rounds(same_places(copy, read, shared)?, &read.loops[shared..])?;
    let load = copy.op.src(2);
    let ahead = usize::try_from(step(load.src(1), around, 12)?).ok().filter(|&n| n > 0)?;
    let index = substitute(&[load.src(1).clone()], &loops).pop()?;
    Some(UOp::prefetch(load.src(0), &index, ahead))
}

/// For each loop of the copy the loop of the read that counts the same places, if they go to the same elements.
fn same_places(copy: &Access<'_>, read: &Access<'_>, shared: usize) -> Option<FxHashMap<UOp, UOp>> {
    let (mut to, mut from) = (Affine::of(copy.op.src(1))?, Affine::of(read.op.src(1))?);
    let mut loops = FxHashMap::default();
    for &range in &copy.loops[shared..] {
        let k = to.coefficient(range);
        let is_same =
            |r: &&&UOp| from.coefficient(r) == k && trip_count(r) == trip_count(range) && k != 0;
        let &other = read.loops[shared..].iter().find(is_same)?;
        to.terms.retain(|(atom, _)| atom != range);
        from.terms.retain(|(atom, _)| atom != other);
        loops.insert(range.clone(), other.clone());
    }
    (to == from).then_some(loops)
}
