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

thread_local! {
    /// Sources whose owner is being dropped further up the stack. `None` while nobody is draining it.
    static GRAVEYARD: RefCell<Option<Vec<UOp>>> = const { RefCell::new(None) };
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
        let nested = GRAVEYARD.try_with(|g| match &mut *g.borrow_mut() {
            Some(graves) => {
                graves.extend(srcs);
                None
            }
            empty => {
                *empty = Some(Vec::new());
                Some(srcs)
            }
        });
        if let Ok(Some(srcs)) = nested {
            drop(srcs);
            while let Some(next) = GRAVEYARD.with(|g| g.borrow_mut().as_mut().and_then(Vec::pop)) {
                drop(next);
            }
            GRAVEYARD.with(|g| *g.borrow_mut() = None);
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
}
