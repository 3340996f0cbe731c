//! The queue of launches. The launching thread puts a job here and works on it itself. Idle workers join the job. When
//! no block of it is left, the thread removes the job, and waits only for workers that have joined it.

use super::blocks::Blocks;
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{
    AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread stays awake: a few times as long as waking it takes (30 to 50 us in a virtual machine).
const AWAKE: Duration = Duration::from_micros(100);

/// What is called for parts of a launch.
pub(super) type Work<'a> = dyn Fn(Range<usize>) + Sync + 'a;

/// The launches, and the threads that sleep.
#[derive(Default)]
pub(super) struct Queue {
    /// Whether there are any launches. Threads that stay awake read this.
    is_open: AtomicBool,
    state: Mutex<State>,
    wake: Condvar,
    done: Condvar,
}

#[derive(Default)]
struct State {
    /// Jobs, and how many more threads each can use; a job that can use no more is not listed.
    jobs: Vec<(Arc<Job>, usize)>,
    /// Workers that sleep and have not been woken, and workers that were woken but have not run yet.
    asleep: usize,
    woken: usize,
    /// Launching threads that sleep until their workers are done.
    waiting: usize,
    has_ended: bool,
}

/// One launch.
struct Job {
    /// Valid until the launch is over; see [`Launch`].
    work: &'static Work<'static>,
    blocks: Blocks,
    /// Workers that have joined and not left. It changes under the lock only.
    helpers: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A job in the queue. Dropping it removes the job and waits until all workers have left it.
struct Launch<'a> {
    queue: &'a Queue,
    job: Arc<Job>,
}

/// A worker's part in a job.
pub(super) struct Seat<'a> {
    queue: &'a Queue,
    job: Arc<Job>,
    number: usize,
}

impl Queue {
    /// Calls `work` for all blocks, here and on workers that join. A panic on a worker panics here.
    pub(super) fn launch(&self, blocks: Blocks, work: &Work<'_>) {
        // SAFETY: only a worker's `Seat` uses `job.work`, and there is one only from joining the job, which is in the
        // queue then, until it is dropped, by when `helpers` has counted it. `launch` is dropped before this function
        // returns or unwinds, so before the borrow of `work` ends. It takes the job out of the queue and then waits until
        // `helpers` is zero. After that no seat exists and none can be taken.
        let work_of_job = unsafe { std::mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
        let (helpers, panic) = Default::default();
        let job = Arc::new(Job { work: work_of_job, blocks, helpers, panic });
        let launch = Launch { queue: self, job: job.clone() };
        self.offer(&job);
        job.blocks.of(0).for_each(work);
        drop(launch);
        if let Some(panic) = lock(&job.panic).take() {
            resume_unwind(panic);
        }
    }

    fn offer(&self, job: &Arc<Job>) {
        let mut state = lock(&self.state);
        let room = job.blocks.threads() - 1;
        state.jobs.push((job.clone(), room));
        self.is_open.store(true, Relaxed);
        let wanted = room.min(state.asleep);
        state.asleep -= wanted;
        state.woken += wanted;
        drop(state);
        (0..wanted).for_each(|_| self.wake.notify_one());
    }

    /// A part of some job, once there is one; none after the end. Called by workers.
    pub(super) fn join(&self) -> Option<Seat<'_>> {
        loop {
            let is_open = wait_awake(|| self.is_open.load(Relaxed));
            let mut state = lock(&self.state);
            if let Some(seat) = self.seat(&mut state) {
                return Some(seat);
            }
            if !is_open {
                state = self.sleep(state);
            }
            if state.has_ended {
                return None;
            }
        }
    }

    fn seat(&self, state: &mut State) -> Option<Seat<'_>> {
        let (job, room) = state.jobs.first_mut()?;
        let seat = Seat { queue: self, job: job.clone(), number: *room };
        job.helpers.fetch_add(1, Relaxed);
        *room -= 1;
        if *room == 0 {
            self.take_out(state, &seat.job);
        }
        Some(seat)
    }

    fn take_out(&self, state: &mut State, job: &Arc<Job>) {
        state.jobs.retain(|(other, _)| !Arc::ptr_eq(other, job));
        self.is_open.store(!state.jobs.is_empty(), Relaxed);
    }

    /// Sleeps until it is woken for a job, or at the end.
    fn sleep<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.asleep += 1;
        let sleeps = |state: &mut State| state.woken == 0 && !state.has_ended;
        state = self.wake.wait_while(state, sleeps).unwrap_or_else(PoisonError::into_inner);
        state.woken = state.woken.saturating_sub(1);
        state
    }

    /// Ends all workers: none waits any longer.
    pub(super) fn end(&self) {
        lock(&self.state).has_ended = true;
        self.wake.notify_all();
    }
}

impl Drop for Launch<'_> {
    fn drop(&mut self) {
        let (queue, helpers) = (self.queue, &self.job.helpers);
        queue.take_out(&mut lock(&queue.state), &self.job);
        if !wait_awake(|| helpers.load(Acquire) == 0) {
            let mut state = lock(&queue.state);
            state.waiting += 1;
            let works = |_: &mut State| helpers.load(Acquire) > 0;
            state = queue.done.wait_while(state, works).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }
}

impl Seat<'_> {
    /// Works on the rest of the job.
    pub(super) fn work(&self) {
        let work = || self.job.blocks.of(self.number).for_each(self.job.work);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            *lock(&self.job.panic) = Some(panic);
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let state = lock(&self.queue.state);
        self.job.helpers.fetch_sub(1, Release);
        if state.waiting > 0 {
            self.queue.done.notify_all();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits, awake, for a condition to become true. The thread does not yield: another program could keep the processor
/// for milliseconds.
fn wait_awake(mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < AWAKE {
        for _ in 0..16 {
            if is_so() {
                return true;
            }
            std::hint::spin_loop();
        }
    }
    false
}
