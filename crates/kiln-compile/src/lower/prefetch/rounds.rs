//! Part of pass `prefetch`: what each round over a panel asks for.
//!
//! A panel is read again for each tile of rows, and each time is a round. If all rounds asked for all of the next panel, prefetches
//! would take more of the caches' time than reads do. So each round asks for its share: with 16 rounds, the first one for the first
//! sixteenth. All steps of a round take part, so that requests are spread over time.

use kiln_ir::rules::simplify;
use kiln_ir::uop::trip_count;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// The fraction `1 / rounds` is a number of such parts.
const PARTS: i64 = 1 << 12;

/// What a step of the read asks for: for each loop of the copy, a place in it. At first, `places` has the loop of the read that goes
/// to the same places. `around` are all loops of the read; the others of them count rounds. None if the copy has no loops, or numbers
/// become too large.
pub(super) fn in_rounds(
    mut places: FxHashMap<UOp, UOp>,
    around: &[&UOp],
) -> Option<FxHashMap<UOp, UOp>> {
    let counts = |r: &UOp| places.values().any(|steps| steps == r);
    let rounds: Vec<&UOp> = around.iter().copied().filter(|r| !counts(r)).collect();
    let longest = around.iter().copied().filter(|r| counts(r)).max_by_key(|r| trip_count(r))?;
    if !rounds.is_empty() {
        let share = share(longest, &rounds)?;
        let shared = places.values_mut().find(|steps| *steps == longest)?;
        *shared = share;
    }
    Some(places)
}

/// For `k` steps and `n` rounds: in round `i`, step `j` asks for place `i * ceil(k / n) + j / n`. To divide by `n` is to multiply
/// by a fraction of [`PARTS`].
fn share(steps: &UOp, rounds: &[&UOp]) -> Option<UOp> {
    let dtype = steps.dtype();
    let all = rounds.iter().map(|r| trip_count(r)).fold(1, u64::saturating_mul);
    let most = all.max(trip_count(steps)).saturating_mul(PARTS as u64);
    if most > i32::MAX as u64 || rounds.iter().any(|r| r.dtype() != dtype) {
        return None;
    }
    let constant = |n: i64| UOp::constant(n, dtype);
    let divided = |a: &UOp, b: &UOp| UOp::binary(Op::TruncDiv, a, b);
    let divided_up = |a: &UOp, b: &UOp| divided(&(&(a + b) - constant(1)), b);
    let (mut round, mut count) = (constant(0), constant(1));
    for r in rounds {
        round = &(&round * r.src(0)) + *r;
        count = &count * r.src(0);
    }
    // divisions are done before the loops, also where these have no iterations
    let count = count.maximum(&constant(1));
    let parts = constant(PARTS);
    let first = &round * divided_up(steps.src(0), &count);
    let further = divided(&(steps * divided_up(&parts, &count)), &parts);
    Some(simplify(&(first + further)))
}
