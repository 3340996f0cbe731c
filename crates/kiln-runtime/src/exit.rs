//! Functions to call when the process ends.

use std::panic::catch_unwind;
use std::sync::{Mutex, Once};

static HOOKS: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Calls `hook` when the process returns from `main` or exits, in order of registration; not if it is killed.
pub fn at_exit(hook: fn()) {
    static REGISTERED: Once = Once::new();
    HOOKS.lock().expect("exit hooks").push(hook);
    // SAFETY: `run` is a plain function that lives as long as the process and lets no panic out.
    REGISTERED.call_once(|| _ = unsafe { libc::atexit(run) });
}

extern "C" fn run() {
    let hooks = HOOKS.lock().map(|hooks| hooks.clone()).unwrap_or_default();
    for hook in hooks {
        // a report that fails is no reason to abort a process that is done
        let _ = catch_unwind(hook);
    }
}
