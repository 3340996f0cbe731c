//! What kiln's own tests may see and break. Not for programs.

use super::{Failure, cache};
use kiln_ir::UOp;
use std::cell::Cell;

thread_local! {
    static BREAK: Cell<bool> = const { Cell::new(false) };
    static FAIL: Cell<Option<usize>> = const { Cell::new(None) };
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

/// Every kernel that this process has compiled and remembers.
pub fn stages() -> Vec<Stages> {
    let stages = |(scheduled, optimized, program)| Stages { scheduled, optimized, program };
    cache::stages().into_iter().map(stages).collect()
}

/// Makes the next kernel that this thread compiles one that makes no sense.
pub fn break_next_kernel() {
    BREAK.set(true);
}

/// Makes the step after `steps` more of this thread fail, once: steps are making a schedule, compiling a kernel and
/// allocating memory, and come before any launch. Whether an earlier request was still waiting.
pub fn fail_after(steps: Option<usize>) -> bool {
    FAIL.replace(steps).is_some()
}

/// One step that may fail on request.
pub(super) fn step() -> Result<(), Failure> {
    match FAIL.get() {
        Some(0) => {
            FAIL.set(None);
            Err(INJECTED.to_owned())
        }
        left => {
            FAIL.set(left.map(|n| n - 1));
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
