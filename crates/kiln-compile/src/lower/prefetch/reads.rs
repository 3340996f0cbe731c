//! Part of pass `prefetch`: what is known of loads of large arguments, and of the loops around them.

use crate::target::Target;
use kiln_ir::affine::Affine;
use kiln_ir::uop::{toposort, trip_count};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// Smaller arguments, in multiples of the first cache, are in a near cache anyway.
const LARGE: usize = 16;

/// By load, the prefetches before it.
pub(super) type Marks = FxHashMap<UOp, Vec<UOp>>;

/// One more prefetch before a load.
pub(super) fn mark(marks: &mut Marks, load: &UOp, prefetch: UOp) {
    marks.entry(load.clone()).or_default().push(prefetch);
}

/// A load asks for what is so many elements after its own.
pub(super) fn mark_ahead(marks: &mut Marks, load: &UOp, ahead: usize) {
    mark(marks, load, UOp::prefetch(load.src(0), load.src(1), ahead));
}

/// An access to scratch memory, and the loops around it, outermost first.
pub(super) struct Access<'a> {
    pub(super) op: &'a UOp,
    pub(super) loops: Vec<&'a UOp>,
}

impl Access<'_> {
    pub(super) fn trips(&self) -> u64 {
        self.loops.iter().map(|r| trip_count(r)).fold(1, u64::saturating_mul)
    }
}

/// Whether the load reads vectors of a large argument.
pub(super) fn reads_large(load: &UOp, target: &Target) -> bool {
    let bytes = |n: usize| n * load.dtype().size();
    let is_large = |n| bytes(n) >= LARGE * target.cache_bytes[0];
    load.lanes() > 1 && load.memory().known_len().is_some_and(is_large)
}

/// How many operations on vectors each loop does in an iteration, those of loops inside it left out.
pub(super) fn work(ops: &[UOp]) -> FxHashMap<UOp, usize> {
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

/// How much the index grows with each iteration of `range`, if that is always the same. Parts of a cache line do not
/// count: how far a row starts past a line, and whether its last line is a separate loop. Looks through `depth` casts.
pub(super) fn step(index: &UOp, range: &UOp, depth: usize) -> Option<i64> {
    let of_atom = |atom: &UOp| match atom.op() {
        _ if atom == range => Some(1),
        Op::And | Op::Shr | Op::TruncMod | Op::TruncDiv => Some(0),
        Op::Cast => step(atom.src(0), range, depth.checked_sub(1)?),
        // a row past the last one reads the first (see `trim::rows`)
        Op::Where => step(atom.src(1), range, depth.checked_sub(1)?),
        // such as another loop, times a stride that a launch decides
        _ if is_fixed_in(atom, range) => Some(0),
        _ => None,
    };
    let sum = Affine::of(index)?;
    sum.terms
        .iter()
        .try_fold(0i64, |all, (atom, k)| all.checked_add(of_atom(atom)?.checked_mul(*k)?))
}

/// Whether an index is the same in all iterations of a loop. What is loaded may not be.
fn is_fixed_in(index: &UOp, range: &UOp) -> bool {
    toposort(index).iter().all(|n| n != range && n.op() != Op::Load)
}
