//! The right to plan: to walk, to claim what a walk has found, and to choose memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The right to plan, which one thread has at a time.
pub(super) struct Planning {
    _lock: MutexGuard<'static, ()>,
}

/// Waits for the right to plan. The lock guards no data, so a panic elsewhere leaves nothing broken.
pub(super) fn planning() -> Planning {
    static PLANNING: Mutex<()> = Mutex::new(());
    Planning { _lock: PLANNING.lock().unwrap_or_else(PoisonError::into_inner) }
}
