//! Pass `stream` of stage `lower`: marks the arguments that are written by streaming (non-temporal) stores.
//!
//! An ordinary store brings its cache line into the cache before it changes it, which doubles the cost of writing. If
//! an output is too large for anything of it to be in the cache when it is read, that is wasted. Only whole lines are
//! streamed: a part of one waits for the rest, and costs more than it saves. Predicated vectors at the ends of rows are
//! ordinary stores.

use super::fold::is_multiple;
use super::nest::Nest;
use crate::target::{LINE, Target};
use kiln_ir::uop::{find_all, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// How many stores of whole lines there must be for each other store.
const MOSTLY: u64 = 8;

/// How often an argument is stored to.
#[derive(Default)]
struct Stores {
    whole_lines: u64,
    others: u64,
    /// Whether it is also loaded, or vectors as long as a line are stored across lines.
    unsuited: bool,
}

/// The slots of streamed arguments: larger than the last cache, never loaded, and stored mostly in whole lines.
pub(super) fn streamed(kernel: &UOp, target: &Target) -> FxHashSet<usize> {
    let is_large = |n: &UOp| {
        let bytes = n.known_len().map(|len| len * n.dtype().size());
        n.op() == Op::Param && bytes.is_some_and(|bytes| target.goes_past_caches(bytes))
    };
    let large = find_all(kernel, is_large);
    let large: FxHashSet<usize> = large.iter().filter_map(|n| n.arg().slot()).collect();
    if large.is_empty() {
        return large;
    }
    let nodes = toposort(kernel);
    let nest = Nest::new(&nodes);
    let mut stores: FxHashMap<usize, Stores> = FxHashMap::default();
    for access in nodes.iter().filter(|n| matches!(n.op(), Op::Load | Op::Store)) {
        let Some(slot) = access.memory().arg().slot().filter(|s| large.contains(s)) else {
            continue;
        };
        stores.entry(slot).or_default().count(access, nest.trips(nest.block(access)));
    }
    let mostly = |s: &Stores| !s.unsuited && s.whole_lines > MOSTLY.saturating_mul(s.others);
    stores.into_iter().filter(|(_, s)| mostly(s)).map(|(slot, _)| slot).collect()
}

impl Stores {
    fn count(&mut self, access: &UOp, times: u64) {
        let is_line = is_line(access);
        let sum = if is_line { &mut self.whole_lines } else { &mut self.others };
        *sum = sum.saturating_add(times);
        let astray = || !is_multiple(access.src(1), access.src(2).lanes().into());
        self.unsuited |= access.op() == Op::Load || is_line && astray();
    }
}

/// A store without a predicate, of as many elements as a line has.
fn is_line(store: &UOp) -> bool {
    let [memory, _, value] = store.srcs() else { return false };
    store.op() == Op::Store && value.lanes() as usize * memory.dtype().size() == LINE
}
