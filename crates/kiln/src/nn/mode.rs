//! Whether layers train (batch norm uses the batch's statistics, dropout drops), as a scope of the calling thread.

use crate::scoped::with_flag;
use std::cell::Cell;

thread_local! {
    static TRAINING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` with layers in training: batch norm normalizes by the batch and updates its statistics, dropout drops.
/// Otherwise layers only infer.
///
/// The scope is the calling thread's. Threads that `f` starts, or that take work from it, are told by [`mode`].
///
/// ```
/// use kiln::nn;
/// assert!(nn::train(nn::is_training));
/// assert!(!nn::is_training());
/// ```
pub fn train<R>(f: impl FnOnce() -> R) -> R {
    with_flag(&TRAINING, true, f)
}

/// Runs `f` with layers that only infer, within [`train`] too.
///
/// ```
/// use kiln::nn;
/// assert!(!nn::train(|| nn::eval(nn::is_training)));
/// ```
pub fn eval<R>(f: impl FnOnce() -> R) -> R {
    with_flag(&TRAINING, false, f)
}

/// What layers do in a scope, to be taken to other threads. Threads of a pool have no scope that they are in, and other
/// parts of the program may infer at the same time, so a mode is never taken on by itself.
///
/// ```
/// use kiln::nn;
/// nn::train(|| {
///     let mode = nn::mode();
///     std::thread::scope(|threads| {
///         threads.spawn(move || assert!(mode.run(nn::is_training)));
///     });
/// });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    training: bool,
}

impl Mode {
    /// Runs `f` with layers in this mode, on whatever thread.
    ///
    /// ```
    /// use kiln::nn;
    /// let infers = nn::mode();
    /// assert!(!nn::train(|| infers.run(nn::is_training)));
    /// ```
    pub fn run<R>(self, f: impl FnOnce() -> R) -> R {
        with_flag(&TRAINING, self.training, f)
    }
}

/// The mode of this thread.
///
/// ```
/// use kiln::nn;
/// assert_ne!(nn::mode(), nn::train(nn::mode));
/// ```
pub fn mode() -> Mode {
    Mode { training: is_training() }
}

/// Whether layers train, on this thread.
///
/// ```
/// assert!(!kiln::nn::is_training());
/// ```
pub fn is_training() -> bool {
    TRAINING.get()
}
