//! Whether reads count for gradients, as a scope of the calling thread.

use std::cell::Cell;

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(true) };
}

/// Restores what was before at the end of a scope, however it ends.
struct Scope {
    before: bool,
}

impl Drop for Scope {
    fn drop(&mut self) {
        IS_ON.set(self.before);
    }
}

fn within<R>(on: bool, f: impl FnOnce() -> R) -> R {
    let _scope = Scope { before: IS_ON.replace(on) };
    f()
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
    within(false, f)
}

/// Runs `f`, in which reads count for gradients, within [`no_grad`] too.
///
/// ```
/// assert!(kiln::no_grad(|| kiln::enable_grad(kiln::is_grad_enabled)));
/// ```
pub fn enable_grad<R>(f: impl FnOnce() -> R) -> R {
    within(true, f)
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
