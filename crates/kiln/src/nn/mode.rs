//! Whether layers train (batch norm uses the batch's statistics, dropout drops), as a scope of the calling thread.

use std::cell::Cell;

thread_local! {
    static TRAINING: Cell<bool> = const { Cell::new(false) };
}

/// Restores the mode at the end of a scope, however it ends.
struct Scope {
    before: bool,
}

impl Drop for Scope {
    fn drop(&mut self) {
        TRAINING.set(self.before);
    }
}

fn within<R>(training: bool, f: impl FnOnce() -> R) -> R {
    let _scope = Scope { before: TRAINING.replace(training) };
    f()
}

/// Runs `f` with layers in training: batch norm normalizes by the batch and updates its statistics, dropout drops.
/// Otherwise layers only infer.
///
/// ```
/// use kiln::nn;
/// assert!(nn::train(nn::is_training));
/// assert!(!nn::is_training());
/// ```
pub fn train<R>(f: impl FnOnce() -> R) -> R {
    within(true, f)
}

/// Runs `f` with layers that only infer, within [`train`] too.
///
/// ```
/// use kiln::nn;
/// assert!(!nn::train(|| nn::eval(nn::is_training)));
/// ```
pub fn eval<R>(f: impl FnOnce() -> R) -> R {
    within(false, f)
}

/// Whether layers train, on this thread.
///
/// ```
/// assert!(!kiln::nn::is_training());
/// ```
pub fn is_training() -> bool {
    TRAINING.get()
}
