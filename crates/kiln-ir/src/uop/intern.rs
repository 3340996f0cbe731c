//! The table of living nodes, and the end of a node's life.

use super::{Node, Srcs, UOp, derive};
use crate::arg::Arg;
use crate::dtype::DType;
use crate::op::Op;
use rustc_hash::FxHashMap;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, Weak};

/// Few threads build graphs at once; 64 shards make a wait rare.
const SHARDS: usize = 64;

/// Living nodes by content hash. `Weak`, so that the table keeps nothing alive.
type Shard = Mutex<FxHashMap<u128, Weak<Node>>>;
static TABLE: LazyLock<[Shard; SHARDS]> =
    LazyLock::new(|| std::array::from_fn(|_| Shard::default()));

fn shard(hash: u128) -> &'static Shard {
    &TABLE[hash as usize % SHARDS]
}

pub(super) fn intern(op: Op, dtype: DType, lanes: u16, srcs: Srcs, arg: Arg) -> UOp {
    let hash = content_hash(op, dtype, lanes, &srcs, &arg);
    let mut table = shard(hash).lock().expect("intern table");
    let entry = table.entry(hash);
    if let Entry::Occupied(slot) = &entry
        && let Some(node) = slot.get().upgrade()
    {
        drop(table); // our own `srcs` may die here, and their drop takes a lock
        return UOp(node);
    }
    let (shape, bounds) = derive::facts(op, dtype, &srcs, &arg);
    let below = super::below(op, &srcs, &arg);
    let (normal, payload, origin) = Default::default();
    let node = Arc::new(Node {
        op,
        dtype,
        lanes,
        normal,
        below,
        srcs,
        arg,
        hash,
        shape,
        bounds,
        payload,
        origin,
    });
    entry.insert_entry(Arc::downgrade(&node));
    UOp(node)
}

/// 128 bits of SipHash 1-3 over the parts and the sources' hashes: two different nodes among a billion collide with
/// a chance of about 1e-21, so equality of hashes stands for equality of graphs.
fn content_hash(op: Op, dtype: DType, lanes: u16, srcs: &[UOp], arg: &Arg) -> u128 {
    let mut h = SipHasher13::new();
    (op, dtype, lanes).hash(&mut h);
    for src in srcs {
        src.0.hash.hash(&mut h);
    }
    arg.hash(&mut h);
    h.finish128().as_u128()
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
        let srcs = std::mem::take(&mut self.srcs);
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
    let mut table = shard(node.hash).lock().expect("intern table");
    if table.get(&node.hash).is_some_and(|w| w.strong_count() == 0) {
        table.remove(&node.hash);
    }
}
