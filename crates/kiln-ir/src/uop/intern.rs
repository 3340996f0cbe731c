//! The table of living nodes, and the end of a node's life.

use super::hash::content_hash;
use super::{Node, Srcs, UOp, derive};
use crate::arg::Arg;
use crate::dtype::DType;
use crate::op::Op;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

/// Few threads build graphs at once; 64 shards make a wait rare.
const SHARDS: usize = 64;

/// A shard with room for more nodes than this gives room back when it has less than one in so many.
const FEWEST: usize = 32;
const SPARSE: usize = 8;

/// Living nodes by content hash. `Weak`, so that the table keeps nothing alive.
type Table = HashMap<u128, Weak<Node>, BuildHasherDefault<Upper>>;
static TABLE: LazyLock<[Mutex<Table>; SHARDS]> =
    LazyLock::new(|| std::array::from_fn(|_| Mutex::default()));

/// Content hashes are mixed well enough to place entries by; the lower half chooses the shard.
#[derive(Default)]
struct Upper(u64);

impl Hasher for Upper {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u128")
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = (hash >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The part of the table that `hash` is in. A panic while a node was made (a shape past `usize`) leaves the table as it
/// was, so its poison is ignored: other threads, and the drops of that panic's unwinding, go on.
fn shard(hash: u128) -> MutexGuard<'static, Table> {
    TABLE[hash as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn intern(op: Op, dtype: DType, lanes: u16, srcs: Srcs, arg: Arg) -> UOp {
    let hash = content_hash(op, dtype, lanes, &srcs, &arg);
    let mut table = shard(hash);
    let entry = table.entry(hash);
    if let Entry::Occupied(slot) = &entry
        && let Some(node) = slot.get().upgrade()
    {
        drop(table); // our own `srcs` may die here, and their drop takes a lock
        return UOp(node);
    }
    let (shape, bounds) = derive::facts(op, dtype, &srcs, &arg);
    let below = super::below(op, &srcs, &arg);
    let (values, depth) = (super::values(op, &srcs, &arg), super::depth(op, &srcs));
    let (normal, payload, origin) = Default::default();
    let node = Arc::new(Node {
        op,
        dtype,
        lanes,
        depth,
        normal,
        below,
        values,
        srcs,
        hash,
        bounds,
        shape,
        payload,
        origin,
        arg,
    });
    entry.insert_entry(Arc::downgrade(&node));
    UOp(node)
}

/// Room for graves that a thread keeps.
const GRAVES_KEPT: usize = 1024;

thread_local! {
    /// Sources whose owner is being dropped further up the stack, and whether somebody up there frees them.
    static GRAVEYARD: RefCell<(Vec<UOp>, bool)> = const { RefCell::new((Vec::new(), false)) };
}

/// Frees without recursion: the outermost drop on a thread frees what the inner ones bury, so that a chain of any
/// length needs a few stack frames.
impl Drop for Node {
    fn drop(&mut self) {
        forget(self);
        let mut srcs = std::mem::take(&mut self.srcs);
        // the others lose a reference, but for a race in which one is freed here, inside this drop
        srcs.retain(|src| Arc::strong_count(&src.0) == 1);
        if srcs.is_empty() {
            return;
        }
        // on a thread that ends there may be no graveyard left: its chains are short
        let outermost = GRAVEYARD.try_with(|g| {
            let (graves, is_drained) = &mut *g.borrow_mut();
            graves.extend(srcs);
            !std::mem::replace(is_drained, true)
        });
        if outermost == Ok(true) {
            while let Some(next) = GRAVEYARD.with(|g| g.borrow_mut().0.pop()) {
                drop(next);
            }
            GRAVEYARD.with(|g| {
                let (graves, is_drained) = &mut *g.borrow_mut();
                graves.shrink_to(GRAVES_KEPT);
                *is_drained = false;
            });
        }
    }
}

/// Removes the table's entry, unless a new node of the same content has taken it over.
fn forget(node: &Node) {
    let mut table = shard(node.hash);
    if let Entry::Occupied(slot) = table.entry(node.hash)
        && slot.get().strong_count() == 0
    {
        slot.remove();
    }
    // compiling leaves much room behind, and each lookup would meet a part of it that no cache holds
    let room = table.capacity();
    if room > FEWEST && table.len() < room / SPARSE {
        table.shrink_to(2 * room / SPARSE);
    }
}
