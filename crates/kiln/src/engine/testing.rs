//! Hooks with which kiln's own tests look inside and inject faults. Not for programs.

use super::Failure;
use kiln_compile::pipeline::Settings;
use kiln_ir::UOp;
use std::cell::Cell;
use std::thread::LocalKey;

thread_local! {
    static BREAK: Cell<bool> = const { Cell::new(false) };
    static FAIL: Cell<Option<usize>> = const { Cell::new(None) };
    static FAULT: Cell<Option<usize>> = const { Cell::new(None) };
    static MOST_OPTIONS: Cell<Option<(usize, bool)>> = const { Cell::new(None) };
    static PENDING: Cell<Option<usize>> = const { Cell::new(None) };
    static NO_RESERVE: Cell<bool> = const { Cell::new(false) };
}

/// What an injected failure says.
pub const INJECTED: &str = "a test made this fail";

/// One kernel on its way through the compiler.
pub struct Stages {
    /// As it was scheduled.
    pub scheduled: UOp,
    /// After the optimizer.
    pub optimized: UOp,
    /// The linear program.
    pub program: Vec<UOp>,
}

/// Makes the next kernel that this thread compiles one that makes no sense.
pub fn break_next_kernel() {
    BREAK.set(true);
}

/// Makes lowering fail for kernels that this thread compiles with more than so many options; whether they are then compiled
/// with fewer, as in programs of others, or that is an error.
pub fn limit_options(most: Option<(usize, bool)>) {
    MOST_OPTIONS.set(most);
}

/// How to compile, as a test may want it.
pub(super) fn settings(settings: Settings) -> Settings {
    match MOST_OPTIONS.get() {
        Some((most, fall_back)) => Settings { fall_back, most_options: Some(most), ..settings },
        None => settings,
    }
}

/// Makes the step after `steps` more of this thread fail, once: steps are making a schedule, compiling a kernel, allocating
/// memory and looking up what a kernel is called with, and come before any launch. Whether an earlier request was still waiting.
pub fn fail_after(steps: Option<usize>) -> bool {
    FAIL.replace(steps).is_some()
}

/// Makes the launch after `launches` more of this thread fail, once, when its kernel has run: what it wrote to is in
/// disorder. Whether an earlier request was still waiting.
pub fn fault_after(launches: Option<usize>) -> bool {
    FAULT.replace(launches).is_some()
}

/// Lets chains of writes of this thread be no longer than this.
pub fn limit_pending(writes: Option<usize>) {
    PENDING.set(writes);
}

/// How long a chain of pending writes may be, if a test has its own mind about it.
pub(crate) fn pending_limit() -> Option<usize> {
    PENDING.get()
}

/// Makes this thread open files for writing as where the file system reserves no room.
pub fn reserve_nothing(on: bool) {
    NO_RESERVE.set(on);
}

/// Whether files are opened as where no room can be reserved.
pub(crate) fn cannot_reserve() -> bool {
    NO_RESERVE.get()
}

/// One step before a launch, which may fail on request.
pub(super) fn step() -> Result<(), Failure> {
    failing(&FAIL)
}

/// A launch has ended, which may count as failed on request.
pub(super) fn launched() -> Result<(), Failure> {
    failing(&FAULT)
}

fn failing(request: &'static LocalKey<Cell<Option<usize>>>) -> Result<(), Failure> {
    match request.get() {
        Some(0) => {
            request.set(None);
            Err(INJECTED.to_owned())
        }
        left => {
            request.set(left.map(|n| n - 1));
            Ok(())
        }
    }
}

/// The kernel, or nonsense, if that is what a test has asked for.
pub(super) fn maybe_broken(kernel: &UOp) -> UOp {
    if !BREAK.take() {
        return kernel.clone();
    }
    // a number is no effect
    let number = std::iter::once(UOp::bool(true)).collect();
    UOp::new(kernel.op(), kernel.dtype(), 1, number, kernel.arg().clone())
}
