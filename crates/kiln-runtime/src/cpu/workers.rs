//! The threads that share launches. Each starts with an equal part of the iterations and steals from the others when it
//! has none left, so a late or slow thread delays nobody. Between launches they stay awake for a moment: waking a
//! thread takes longer than most kernels of a training step.

use super::blocks::Blocks;
use super::place::{Place, make_way};
use super::queue::Queue;
use crate::warnings::warn_once;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::thread::Builder;

/// The threads. They start with the first launch that needs them, and end some time after this is dropped.
pub(super) struct Workers {
    count: usize,
    pool: OnceLock<Arc<Pool>>,
}

/// What the threads hold.
struct Pool {
    queue: Queue,
    /// Of each thread, one fewer than share a launch: the caller works too.
    places: Vec<Place>,
}

impl Workers {
    pub(super) fn new(count: usize) -> Workers {
        Workers { count: count.max(1), pool: OnceLock::new() }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Calls `work` for disjoint parts that make up `0..blocks`, on so many threads, of which this is one.
    pub(super) fn share(&self, blocks: usize, threads: usize, work: impl Fn(Range<usize>) + Sync) {
        let threads = threads.min(self.count);
        if threads <= 1 {
            return work(0..blocks);
        }
        let pool = self.pool.get_or_init(|| start(self.count, spawn));
        make_way(&pool.places);
        pool.queue.launch(Blocks::new(blocks, threads), &work);
    }
}

/// A forked child has no worker threads, so it waits for none.
impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.get() {
            pool.queue.end();
        }
    }
}

/// A thread that the system refuses is left out.
fn start(count: usize, spawn: fn(&Arc<Pool>, usize) -> io::Result<()>) -> Arc<Pool> {
    let places = (1..count).map(|_| Place::new()).collect();
    let pool = Arc::new(Pool { queue: Queue::default(), places });
    let refused = (1..count).find_map(|n| spawn(&pool, n).err().map(|error| (n, error)));
    if let Some((n, error)) = refused {
        let threads = if n == 1 { "one thread".to_owned() } else { format!("{n} threads") };
        warn_once(format!("kernels run on {threads}: {error}"));
    }
    pool
}

fn spawn(pool: &Arc<Pool>, number: usize) -> io::Result<()> {
    let pool = pool.clone();
    let thread = Builder::new().name(format!("kiln-{number}"));
    thread.spawn(move || serve(&pool.queue, &pool.places[number - 1])).map(drop)
}

fn serve(queue: &Queue, place: &Place) {
    place.started();
    while let Some(seat) = queue.join() {
        seat.work();
        drop(seat);
        place.ran();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use std::thread;

    /// Shares a range, of which each element must come once.
    fn share_all(workers: &Workers, blocks: usize, threads: usize) {
        let times: Vec<_> = (0..blocks).map(|_| AtomicUsize::new(0)).collect();
        workers.share(blocks, threads, |range| {
            times[range].iter().for_each(|times| _ = times.fetch_add(1, SeqCst));
        });
        assert!(times.iter().all(|times| times.load(SeqCst) == 1), "{blocks} by {threads}");
    }

    #[test]
    fn launches_at_once_are_each_done_once() {
        let workers = &Workers::new(3);
        let many = || (0..500).for_each(|n| share_all(workers, n % 70, 1 + n % 5));
        thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(many)));
    }

    #[test]
    fn who_launches_needs_nobody() {
        let refuse = |_: &Arc<Pool>, _| Err(io::Error::other("no more of them"));
        let workers = Workers { count: 3, pool: OnceLock::from(start(3, refuse)) };
        share_all(&workers, 64, 3);
        let said = crate::warnings::said();
        assert!(
            said.contains(&"kernels run on one thread: no more of them".to_owned()),
            "{said:?}"
        );
    }

    #[test]
    fn a_launch_does_not_wait_for_another() {
        let (workers, running, go_on) = (&Workers::new(2), &Barrier::new(3), &Barrier::new(3));
        thread::scope(|scope| {
            let all_wait = |_| _ = (running.wait(), go_on.wait());
            scope.spawn(move || workers.share(2, 2, all_wait));
            running.wait();
            share_all(workers, 64, 2);
            go_on.wait();
        });
    }

    /// What panics if both threads of a launch have a block, and whether the other block was done first.
    fn panicked(workers: &Workers, is_to_panic: impl Fn(bool) -> bool + Sync) -> (String, bool) {
        let (both, caller, done) =
            (Barrier::new(2), thread::current().id(), AtomicBool::new(false));
        let work = |_| {
            both.wait();
            let is_caller = thread::current().id() == caller;
            assert!(!is_to_panic(is_caller), "by caller: {is_caller}");
            thread::sleep(std::time::Duration::from_millis(20));
            done.store(true, SeqCst);
        };
        let panic =
            catch_unwind(AssertUnwindSafe(|| workers.share(2, 2, work))).expect_err("panics");
        (*panic.downcast().expect("a text"), done.load(SeqCst))
    }

    #[test]
    fn panics_come_to_who_launches_when_all_others_are_done() {
        let workers = Workers::new(2);
        for by_caller in [true, false, true] {
            let found = panicked(&workers, |is_caller| is_caller == by_caller);
            assert_eq!(found, (format!("by caller: {by_caller}"), true));
            share_all(&workers, 64, 2);
        }
    }

    #[test]
    fn threads_end_with_their_device() {
        let workers = Workers::new(3);
        share_all(&workers, 64, 3);
        let pool = Arc::downgrade(workers.pool.get().expect("started"));
        drop(workers);
        while pool.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
