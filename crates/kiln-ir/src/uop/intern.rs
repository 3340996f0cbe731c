//! The table of living nodes (hash-consing), and the end of a node's life.

use super::hash::content_hash;
use super::scope::scope_of;
use super::table::Table;
use super::{Node, Srcs, UOp, derive};
use crate::arg::Arg;
use crate::dtype::DType;
use crate::op::Op;
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// Few threads build graphs at once; 64 shards make a wait rare.
const SHARDS: usize = 64;

static TABLE: LazyLock<[Mutex<Table>; SHARDS]> =
    LazyLock::new(|| std::array::from_fn(|_| Mutex::default()));

/// The part of the table that `hash` is in. A panic while a node was made (a shape past `usize`) leaves the table as it
/// was, so its poison is ignored: other threads, and the drops of that panic's unwinding, go on.
fn shard(hash: u128) -> MutexGuard<'static, Table> {
    TABLE[hash as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Making nodes.
impl UOp {
    /// The interned node with these parts. Use the constructors of `build` where one fits: they canonicalize.
    pub fn new(op: Op, dtype: DType, lanes: u16, srcs: Srcs, arg: Arg) -> UOp {
        intern(op, dtype, lanes, srcs, arg)
    }
}

fn intern(op: Op, dtype: DType, lanes: u16, srcs: Srcs, arg: Arg) -> UOp {
    let hash = content_hash(op, dtype, lanes, &srcs, &arg);
    intern_as(hash, op, dtype, lanes, srcs, arg)
}

/// The node with these parts. Another node of the same hash, a collision, stays another node.
fn intern_as(hash: u128, op: Op, dtype: DType, lanes: u16, srcs: Srcs, arg: Arg) -> UOp {
    // what dies here, `srcs` included, does so after the lock is free: the end of a node takes it
    let mut others = Vec::new();
    let mut table = shard(hash);
    let is_it = |node: &Node| {
        (node.hash, node.op, node.dtype, node.lanes) == (hash, op, dtype, lanes)
            && node.srcs == srcs
            && (node.arg.is_none() && arg.is_none() || node.arg == arg)
    };
    let place = match table.find(hash, is_it, &mut others) {
        Ok(node) => return UOp(node),
        Err(place) => place,
    };
    let (shape, bounds) = derive::facts(op, dtype, &srcs, &arg);
    let scope = scope_of(op, &srcs, &arg);
    let below = super::below(op, &srcs, &arg);
    let (values, depth) = (super::values(op, &srcs, &arg), super::depth(op, &srcs));
    let (normal, payload, origin, named) = Default::default();
    let (is_loaded, is_seen, position) = Default::default();
    let node = Arc::new(Node {
        op,
        dtype,
        lanes,
        depth,
        normal,
        below,
        values,
        srcs,
        is_loaded,
        is_seen,
        named,
        position,
        hash,
        bounds,
        scope,
        shape,
        payload,
        origin,
        arg,
    });
    table.put(place, hash, Arc::downgrade(&node));
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
        shard(self.hash).remove(self.hash, self);
        // what has more references than this node can have just loses them, but for a race in which one is freed here,
        // inside this drop
        if self.srcs.iter().all(|src| Arc::strong_count(&src.0) > self.srcs.len()) {
            return;
        }
        // on a thread that ends there may be no graveyard left: its chains are short
        let outermost = GRAVEYARD.try_with(|g| {
            let (graves, is_drained) = &mut *g.borrow_mut();
            std::iter::from_fn(|| self.srcs.pop()).for_each(|src| graves.push(src));
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

/// About so many bytes come from memory in a row in the time of two misses. A look at the table saves two for each node: one
/// as it ends, one as the next one is made.
const WORTH: usize = 1024;

/// Looks at all of the nodes, if they are many, and at the table if it is not too large for them: what a long computation
/// has pushed out of the processor's caches comes back at once here, and one by one where nodes are freed and made.
pub fn touch<'a>(nodes: impl ExactSizeIterator<Item = &'a UOp>) {
    if nodes.len() < SHARDS {
        return;
    }
    let most = nodes.len() * WORTH / SHARDS;
    let sum = |node: &UOp| node.ref_count() ^ node.0.hash as usize ^ node.shape().len();
    black_box(nodes.fold(0, |all, node| all ^ sum(node) ^ node.0.arg.is_none() as usize));
    for shard in TABLE.iter() {
        let table = shard.lock().unwrap_or_else(PoisonError::into_inner);
        black_box(table.touched(most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A variable of no program, under a hash that it has not.
    fn var(hash: u128, slot: usize, srcs: &[UOp]) -> UOp {
        let arg = Arg::Var { slot, min: 0, max: 9 };
        intern_as(hash, Op::Var, DType::I32, 1, srcs.into(), arg)
    }

    #[test]
    fn a_collision_is_two_nodes() {
        let (a, b) = (var(77, 1, &[]), var(77, 2, &[]));
        let c = var(77, 1, std::slice::from_ref(&a));
        assert!(a.hash() == b.hash() && a != b && a != c && b != c);
        assert_eq!([var(77, 1, &[]), var(77, 2, &[])], [a.clone(), b.clone()]);
        drop(a);
        // `c` keeps `a`; of what nobody has, nothing is found
        assert_eq!((var(77, 2, &[]), var(77, 1, &[])), (b.clone(), c.src(0).clone()));
        drop(c);
        assert_eq!(var(77, 1, &[]).ref_count(), 1);
        assert_eq!(var(77, 2, &[]), b);
    }

    /// Whoever finds another's node under a hash may be the last to have it.
    #[test]
    fn nodes_that_collide_end_while_others_look() {
        std::thread::scope(|scope| {
            for slot in 1..3 {
                scope.spawn(move || (0..200_000).for_each(|_| drop(var(78, slot, &[]))));
            }
        });
    }
}
