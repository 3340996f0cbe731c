//! Part of pass `prefetch`: streams. A stream is a large argument of which a kernel reads each element once.
//!
//! Example: a matrix times a vector. It is as fast as memory, and memory is as fast as requests are many: what a thread has
//! on the way is the latency times its bandwidth (Little's law). A processor's own prefetches follow few streams, and each
//! to the end of its page only. So each load asks for what the same load reads some iterations later.

use super::reads::{Marks, mark_ahead, reads_large, step};
use crate::target::Target;
use kiln_ir::uop::trip_count;
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// What a thread has on the way, in bytes: 200 ns times 20 bytes a nanosecond.
const AHEAD: u64 = 4096;
/// At most one in so many iterations of a loop has nothing to ask for: its stream ends before.
const ENDS: u64 = 8;

/// A load of a stream, and the loops around it, outermost first.
struct Stream<'a> {
    load: &'a UOp,
    loops: Vec<&'a UOp>,
}

/// Marks the loads of streams, but for `asked`: those that something else asks for.
pub(super) fn marks(ops: &[UOp], target: &Target, asked: &FxHashSet<&UOp>, marks: &mut Marks) {
    let streams = streams(ops, target);
    // by innermost loop: what an iteration reads
    let mut bytes: FxHashMap<Option<&&UOp>, u64> = FxHashMap::default();
    for Stream { load, loops } in &streams {
        let of_load = load.lanes() as u64 * load.dtype().size() as u64;
        *bytes.entry(loops.last()).or_default() += of_load;
    }
    for stream in streams.iter().filter(|s| !asked.contains(s.load)) {
        if let Some(ahead) = stream.ahead(bytes[&stream.loops.last()]) {
            mark_ahead(marks, stream.load, ahead);
        }
    }
}

/// The loads of arguments of which a kernel reads no element twice.
fn streams<'a>(ops: &'a [UOp], target: &Target) -> Vec<Stream<'a>> {
    let mut loops: Vec<&UOp> = Vec::new();
    let (mut streams, mut reads) = (Vec::new(), FxHashMap::<&UOp, u64>::default());
    for op in ops {
        match op.op() {
            Op::Range => loops.push(op),
            Op::End => drop(loops.pop()),
            Op::Load if op.memory().op() == Op::Param => {
                let times = loops.iter().map(|r| trip_count(r)).fold(1, u64::saturating_mul);
                let all = reads.entry(op.memory()).or_default();
                *all = all.saturating_add(times.saturating_mul(op.lanes() as u64));
                if !loops.is_empty() && reads_large(op, target) {
                    streams.push(Stream { load: op, loops: loops.clone() });
                }
            }
            _ => {}
        }
    }
    // tiles that hang over the end read a little more
    let once = |s: &Stream<'_>| {
        let memory = s.load.memory();
        memory.known_len().is_some_and(|len| reads[memory] <= len as u64 + len as u64 / ENDS)
    };
    streams.into_iter().filter(once).collect()
}

impl Stream<'_> {
    /// How many elements ahead it asks, where an iteration of its innermost loop reads so many `bytes` of streams.
    fn ahead(&self, bytes: u64) -> Option<usize> {
        let [around @ .., by] = &self.loops[..] else { return None };
        let iterations = AHEAD.div_ceil(bytes);
        let ahead = match around.last() {
            Some(around) if iterations * ENDS > trip_count(by) => {
                let iterations = AHEAD.div_ceil(bytes.saturating_mul(trip_count(by)));
                step(self.load.src(1), around, 12)?.checked_mul(iterations as i64)?
            }
            _ => step(self.load.src(1), by, 12)?.checked_mul(iterations as i64)?,
        };
        usize::try_from(ahead).ok().filter(|&ahead| ahead > 0)
    }
}
