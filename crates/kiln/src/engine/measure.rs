//! The counters of a thread: kernels, compilations, bytes, operations.

use kiln_runtime::meter::{self, Meter};
use std::cell::RefCell;
use std::sync::Arc;

/// What was done on the calling thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Kernels launched.
    pub kernels: u64,
    /// Kernels that a compiler was run for.
    pub compiled: u64,
    /// Kernels that came compiled from the cache on disk.
    pub loaded: u64,
    /// Nodes looked at to find what has to be computed, and whether a gradient goes through it.
    pub visited: u64,
    /// Schedules that were made rather than remembered.
    pub scheduled: u64,
    /// Distinct bytes that the kernels read and wrote.
    pub bytes: u64,
    /// Arithmetic operations of the kernels.
    pub flops: u64,
    /// The most bytes of device memory that were held at once of what was allocated.
    pub peak_memory: u64,
    /// Nanoseconds in scheduling.
    pub schedule_ns: u64,
    /// Nanoseconds in lowering and compiling.
    pub compile_ns: u64,
    /// Nanoseconds in lowering and rendering, added up over the threads that did it.
    pub lower_ns: u64,
    /// Nanoseconds in kernels.
    pub kernel_ns: u64,
}

thread_local! {
    /// The counters of the `measure` calls that are running on this thread, innermost last.
    static RUNNING: RefCell<Vec<Counts>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` and counts what it makes kiln do on this thread.
///
/// ```
/// use kiln::Tensor;
/// let (sum, n) = kiln::measure(|| (Tensor::from([1, 2, 3]) + 2).to_vec::<i32>());
/// assert_eq!((sum?, n.kernels), (vec![3, 4, 5], 1));
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn measure<R>(f: impl FnOnce() -> R) -> (R, Counts) {
    RUNNING.with(|r| r.borrow_mut().push(Counts::default()));
    let (result, peak) = Meter::measure(f);
    let mut counts = RUNNING.with(|r| r.borrow_mut().pop()).expect("pushed above");
    counts.peak_memory = peak;
    (result, counts)
}

/// Runs `f` on a helping thread, with the meters of the thread that it helps. Returns the result and the counts of `f`.
pub(super) fn helping<R>(whose: &Whose, f: impl FnOnce() -> R) -> (R, Counts) {
    let counted = || meter::within(whose.meters.clone(), f);
    if !whose.counts {
        return (counted(), Counts::default());
    }
    RUNNING.with(|r| r.borrow_mut().push(Counts::default()));
    let result = counted();
    (result, RUNNING.with(|r| r.borrow_mut().pop()).expect("pushed above"))
}

/// Who measures on this thread.
pub(super) struct Whose {
    counts: bool,
    meters: Vec<Arc<Meter>>,
}

/// Who measures here, for threads that help.
pub(super) fn whose() -> Whose {
    Whose { counts: is_counting(), meters: meter::own() }
}

/// Adds what a helping thread has counted.
pub(super) fn include(helped: Counts) {
    count(|c| {
        c.kernels += helped.kernels;
        c.compiled += helped.compiled;
        c.loaded += helped.loaded;
        c.visited += helped.visited;
        c.scheduled += helped.scheduled;
        c.bytes += helped.bytes;
        c.flops += helped.flops;
        c.schedule_ns += helped.schedule_ns;
        c.compile_ns += helped.compile_ns;
        c.lower_ns += helped.lower_ns;
        c.kernel_ns += helped.kernel_ns;
    });
}

/// Whether some `measure` is running on this thread.
pub(super) fn is_counting() -> bool {
    RUNNING.with(|r| !r.borrow().is_empty())
}

/// Adds to the counters of every `measure` that is running on this thread.
pub(super) fn count(add: impl Fn(&mut Counts)) {
    RUNNING.with(|r| r.borrow_mut().iter_mut().for_each(&add));
}
