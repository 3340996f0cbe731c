//! Warnings, each once per process. This crate never prints: the engine takes the messages and does.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

/// More distinct warnings than this are dropped: something repeats with a varying text.
const MOST_WARNINGS: usize = 100;

struct Warnings {
    said: BTreeSet<String>,
    pending: Vec<String>,
}

static WARNINGS: Mutex<Warnings> =
    Mutex::new(Warnings { said: BTreeSet::new(), pending: Vec::new() });

/// Queues a message, unless it was queued before.
pub fn warn_once(message: impl Into<String>) {
    let message = message.into();
    let mut warnings = lock();
    if warnings.said.len() < MOST_WARNINGS && warnings.said.insert(message.clone()) {
        warnings.pending.push(message);
    }
}

/// The messages since the last call, oldest first.
pub fn take() -> Vec<String> {
    std::mem::take(&mut lock().pending)
}

/// Every message so far, taken or not.
pub fn said() -> Vec<String> {
    lock().said.iter().cloned().collect()
}

fn lock() -> MutexGuard<'static, Warnings> {
    WARNINGS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
