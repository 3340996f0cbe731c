//! Reads by threads that a recorded function may have started, of what is computed from its arguments.

use super::leaf::number_of;
use kiln_ir::UOp;
use rustc_hash::FxHashSet;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// How many recordings there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static ALL: Mutex<Vec<Arc<Recorder>>> = Mutex::new(Vec::new());

thread_local! {
    /// Whether the thread has read a value while nothing was recorded. Then a recorded function has not started it to read for
    /// it, and its reads do not count: threads of a server share weights, and each of them may go on to replay.
    static IS_INDEPENDENT: Cell<bool> = const { Cell::new(false) };
}

struct Recorder {
    thread: ThreadId,
    seen: Mutex<Seen>,
}

struct Seen {
    /// The numbers of the arguments' leaves, and of leaves that the recording thread, or one that is not independent, has
    /// computed from them.
    leaves: FxHashSet<u64>,
    read: bool,
}

/// Looks out for reads, from its beginning until it is dropped.
pub(super) struct Watch(Arc<Recorder>);

impl Watch {
    pub(super) fn begin(arguments: &[UOp]) -> Watch {
        let leaves = arguments.iter().map(number_of).collect();
        let seen = Mutex::new(Seen { leaves, read: false });
        let recorder = Arc::new(Recorder { thread: thread::current().id(), seen });
        COUNT.fetch_add(1, Ordering::SeqCst);
        locked(&ALL).push(recorder.clone());
        Watch(recorder)
    }

    /// Whether a thread that is not independent has read one of the leaves.
    pub(super) fn saw_a_read(&self) -> bool {
        locked(&self.0.seen).read
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        locked(&ALL).retain(|recorder| !Arc::ptr_eq(recorder, &self.0));
        COUNT.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether some thread records now.
pub(crate) fn is_recorded_somewhere() -> bool {
    COUNT.load(Ordering::SeqCst) > 0
}

/// This thread reads a leaf.
#[inline]
pub(super) fn reads(leaf: &UOp) {
    if !IS_INDEPENDENT.get() {
        reads_first(leaf);
    }
}

#[cold]
fn reads_first(leaf: &UOp) {
    if !is_recorded_somewhere() {
        return IS_INDEPENDENT.set(true);
    }
    let own = thread::current().id();
    for recorder in locked(&ALL).iter().filter(|r| r.thread != own) {
        let mut seen = locked(&recorder.seen);
        seen.read |= seen.leaves.contains(&number_of(leaf));
    }
}

/// This thread, which `records` or not, has computed leaves from others.
#[inline]
pub(super) fn computes<'a>(
    records: bool,
    inputs: impl Iterator<Item = &'a UOp> + Clone,
    results: &[UOp],
) {
    if records || !IS_INDEPENDENT.get() {
        computes_for_some(inputs, results);
    }
}

#[cold]
fn computes_for_some<'a>(inputs: impl Iterator<Item = &'a UOp> + Clone, results: &[UOp]) {
    for recorder in locked(&ALL).iter() {
        let mut seen = locked(&recorder.seen);
        if inputs.clone().any(|leaf| seen.leaves.contains(&number_of(leaf))) {
            seen.leaves.extend(results.iter().map(number_of));
        }
    }
}

/// What a panic left behind is whole.
fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
