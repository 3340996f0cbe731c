//! How long the code of a kernel may become, in all passes of stage `optimize`.

use super::access::operations;
use super::ranges::{axis_of, kind_of};
use kiln_ir::arg::RangeKind;
use kiln_ir::scope::{AxisSet, inside};
use kiln_ir::uop::{toposort, trip_count};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// A kernel of more nodes than this is not unrolled further, unless its sums are long.
pub const MAX_NODES: usize = 2000;

/// A program of more operations than this is optimized again with a smaller limit, unless its sums are long. A vector that
/// cannot be loaded as a whole is loaded lane by lane, and compilers take more than linear time.
const MAX_OPS: usize = 1536;

/// Sums of so many terms together, about a millisecond, are worth longer code.
const LONG: u64 = 1 << 26;
/// A quarter of that is worth it if many operations follow each sum, such as those of an exact GELU. In short code they leave room
/// for a tile of few sums only.
const LONG_WITH_MORE: u64 = 1 << 24;
/// Many operations.
const MORE: usize = 40;
/// What [`MAX_OPS`] is for them.
const MAX_LONG_OPS: usize = 4096;

/// The limits that a kernel starts with.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Nodes of an optimized kernel, about.
    pub(crate) nodes: usize,
    /// Operations of its program.
    pub(crate) ops: usize,
}

impl Limits {
    pub(crate) fn of(kernel: &UOp) -> Limits {
        let terms = terms(kernel);
        let is_long =
            terms >= LONG || terms >= LONG_WITH_MORE && operations_outside(kernel) >= MORE;
        match is_long {
            true => Limits { nodes: 2 * MAX_NODES, ops: MAX_LONG_OPS },
            false => Limits { nodes: MAX_NODES, ops: MAX_OPS },
        }
    }
}

/// How many terms all sums have together.
fn terms(kernel: &UOp) -> u64 {
    let nodes = toposort(kernel);
    let trips: FxHashMap<u32, u64> =
        nodes.iter().filter(|n| n.op() == Op::Range).map(|r| (axis_of(r), trip_count(r))).collect();
    let of = |sum: &UOp| inside(sum).iter().map(|axis| trips[&axis]).fold(1, u64::saturating_mul);
    let sums = nodes.iter().filter(|n| n.op() == Op::Reduce);
    sums.map(of).fold(0, u64::saturating_add)
}

/// How many operations on numbers are outside of all sums.
fn operations_outside(kernel: &UOp) -> usize {
    let reduces = |r: &&UOp| kind_of(r) == RangeKind::Reduce;
    let nodes = toposort(kernel);
    let sums: AxisSet =
        nodes.iter().filter(|n| n.op() == Op::Range).filter(reduces).map(axis_of).collect();
    let is_outside = |n: &&UOp| operations(n) > 0.0 && !n.scope().intersects(&sums);
    nodes.iter().filter(is_outside).count()
}

/// The number of threads that the order of sums is chosen for, whatever number a target has: the least that can share.
pub const NOMINAL_THREADS: usize = 2;

/// How long the code of a kernel may become, in nodes, about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// The limit for all options; 0 means that nothing is optimized.
    pub nodes: usize,
    /// The limit for which the order of sums is chosen.
    pub order: usize,
}

impl Room {
    /// The same room for everything.
    pub fn of(nodes: usize) -> Room {
        Room { nodes, order: nodes }
    }
}
