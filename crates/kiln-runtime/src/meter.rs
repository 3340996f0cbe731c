//! Measures the memory that a piece of a program takes: a meter counts what its thread allocates while it runs, and
//! subtracts what is freed of that, on any thread.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes now and at most.
#[derive(Debug, Default)]
pub struct Meter {
    now: AtomicU64,
    peak: AtomicU64,
}

thread_local! {
    /// The meters that run on this thread, innermost last.
    static RUNNING: RefCell<Vec<Arc<Meter>>> = const { RefCell::new(Vec::new()) };
}

impl Meter {
    /// Runs `f` under a new meter and gives the most bytes that its allocations held at once.
    pub fn measure<R>(f: impl FnOnce() -> R) -> (R, u64) {
        let running = Running::start();
        let result = f();
        (result, running.0.peak.load(Relaxed))
    }
}

/// The meters that run on this thread, for threads that help it.
pub fn own() -> Vec<Arc<Meter>> {
    RUNNING.with(|r| r.borrow().clone())
}

/// Runs `f` on a helping thread, whose allocations these meters count.
pub fn within<R>(meters: Vec<Arc<Meter>>, f: impl FnOnce() -> R) -> R {
    let outside = RUNNING.with(|r| r.replace(meters));
    let result = f();
    RUNNING.with(|r| r.replace(outside));
    result
}

/// A meter that runs until it is dropped, also by a panic.
struct Running(Arc<Meter>);

impl Running {
    fn start() -> Running {
        let meter = Arc::new(Meter::default());
        RUNNING.with(|r| r.borrow_mut().push(meter.clone()));
        Running(meter)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.with(|r| r.borrow_mut().pop());
    }
}

/// The bytes of one block, on every meter that ran when it was allocated.
#[derive(Debug)]
pub(crate) struct Metered(Vec<Arc<Meter>>, u64);

impl Metered {
    pub(crate) fn new(bytes: usize) -> Metered {
        let meters = RUNNING.with(|r| r.borrow().clone());
        let bytes = bytes as u64;
        for meter in &meters {
            let now = meter.now.fetch_add(bytes, Relaxed) + bytes;
            meter.peak.fetch_max(now, Relaxed);
        }
        Metered(meters, bytes)
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        self.0.iter().for_each(|meter| _ = meter.now.fetch_sub(self.1, Relaxed));
    }
}
