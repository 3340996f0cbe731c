//! The threads that share launches. Each starts with an equal part and takes from the others' when it has none left, so
//! that one that starts late or is slow holds nobody up. Between two launches they stay awake for a moment: waking a
//! thread takes longer than most kernels of a training step.

use super::blocks::Blocks;
use super::place::Place;
use crate::warnings::warn_once;
use rayon::{ThreadPool, ThreadPoolBuilder, Yield};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Acquire};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long a thread waits awake: a few times what waking it takes (30 to 50 us in a virtual machine).
const AWAKE: Duration = Duration::from_micros(100);

/// The threads. They start with the first launch that needs them.
pub(super) struct Workers {
    count: usize,
    /// One thread fewer than `count`: the caller works too. None if they cannot be started.
    pool: OnceLock<Option<ThreadPool>>,
    /// Of each thread of the pool.
    places: Arc<[Place]>,
}

impl Workers {
    pub(super) fn new(count: usize) -> Workers {
        let count = count.max(1);
        let places = (1..count).map(|_| Place::new()).collect();
        Workers { count, pool: OnceLock::new(), places }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Calls `work` for disjoint parts that make up `0..blocks`, on so many threads, of which this is one.
    pub(super) fn share(&self, blocks: usize, threads: usize, work: impl Fn(Range<usize>) + Sync) {
        let threads = threads.min(self.count);
        // a child that tries something has no threads, and must not wait for who starts some in its parent
        let pool = if threads > 1 { self.pool() } else { None };
        match pool {
            Some(pool) => self.share_in(pool, Blocks::new(blocks, threads), work),
            None => work(0..blocks),
        }
    }

    fn share_in(&self, pool: &ThreadPool, blocks: Blocks, work: impl Fn(Range<usize>) + Sync) {
        self.places.iter().for_each(Place::make_way);
        let others = blocks.threads() - 1;
        let (blocks, work, done) = (&blocks, &work, &AtomicUsize::new(0));
        pool.in_place_scope(|scope| {
            for thread in 1..=others {
                scope.spawn(move |_| {
                    blocks.of(thread).for_each(work);
                    self.stay_awake(pool);
                    done.fetch_add(1, AcqRel);
                });
            }
            blocks.of(0).for_each(work);
            wait_awake(|| done.load(Acquire) == others);
        });
    }

    /// Has the thread of the pool that calls it wait for more once it has done its part, unless it does already.
    fn stay_awake(&self, pool: &ThreadPool) {
        let Some(n) = pool.current_thread_index() else { return };
        self.places[n].ran();
        if self.places[n].wakes() {
            let places = self.places.clone();
            pool.spawn(move || {
                while wait_awake(|| rayon::yield_now() == Some(Yield::Executed)) {}
                places[n].sleeps();
            });
        }
    }

    fn pool(&self) -> Option<&ThreadPool> {
        let start = || {
            let places = self.places.clone();
            let builder = ThreadPoolBuilder::new()
                .num_threads(self.count - 1)
                .start_handler(move |n| places[n].started());
            let pool = builder.thread_name(|n| format!("kiln-{n}")).build();
            pool.inspect_err(|e| warn_once(format!("kernels run on one thread: {e}"))).ok()
        };
        if self.count == 1 {
            return None;
        }
        self.pool.get_or_init(start).as_ref()
    }
}

/// Whether something becomes true within a moment. The processor is kept: to yield it to a busy program is to be without it
/// for milliseconds.
fn wait_awake(mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if start.elapsed() > AWAKE {
            return false;
        }
        for _ in 0..16 {
            std::hint::spin_loop();
        }
    }
}
