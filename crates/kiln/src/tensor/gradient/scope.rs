//! Whether reads count for gradients, as a scope of the calling thread.

use crate::scoped::with_flag;
use std::cell::Cell;

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(true) };
}

/// Runs `f`, in which every read of a tensor is as if it were [detached](crate::Tensor::detach): no gradient goes through
/// what is computed there. Views that are made there stay detached. The scope is the calling thread's.
///
/// ```
/// let w = kiln::Tensor::from([3.0f32]).set_requires_grad(true);
/// let factor = kiln::no_grad(|| &w * 2.0);
/// (factor * &w).sum(..).backward()?;
/// assert_eq!(w.grad().expect("reached").to_vec::<f32>()?, [6.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    with_flag(&IS_ON, false, f)
}

/// Runs `f`, in which reads count for gradients, within [`no_grad`] too.
///
/// ```
/// assert!(kiln::no_grad(|| kiln::enable_grad(kiln::is_grad_enabled)));
/// ```
pub fn enable_grad<R>(f: impl FnOnce() -> R) -> R {
    with_flag(&IS_ON, true, f)
}

/// Whether reads count for gradients, on this thread.
///
/// ```
/// assert!(kiln::is_grad_enabled());
/// assert!(!kiln::no_grad(kiln::is_grad_enabled));
/// ```
pub fn is_grad_enabled() -> bool {
    IS_ON.get()
}
