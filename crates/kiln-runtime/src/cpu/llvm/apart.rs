//! Work for LLVM on a thread of its own. Where LLVM cannot go on (an instruction that the processor does not have, a
//! processor that this release does not know) it calls a handler and would then end the process: the handler sends the
//! reason to whoever waits and never comes back, so the thread is left behind with what LLVM had made for it.
//!
//! It also has room: LLVM recurses deeper than the stack of an ordinary thread allows.

use super::api::Text;
use std::cell::RefCell;
use std::ffi::CStr;
use std::io::Write;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

/// Bytes of address space; memory is what is touched of it.
const STACK: usize = 64 << 20;

/// Tells whoever waits for a thread what has gone wrong.
type Tell = Box<dyn FnOnce(String)>;

thread_local! {
    /// On a thread that works for somebody.
    static WAITING: RefCell<Option<Tell>> = const { RefCell::new(None) };
}

/// What `work` gives, or why LLVM gave up.
pub(super) fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (answer, found) = channel();
    let run = move || {
        let failed: Sender<Result<T, String>> = answer.clone();
        WAITING.set(Some(Box::new(move |why| drop(failed.send(Err(why))))));
        let _ = answer.send(work());
        WAITING.take();
    };
    let thread = Builder::new().name("kiln-llvm".to_owned()).stack_size(STACK).spawn(run);
    let thread = thread.map_err(|e| format!("no thread for the compiler: {e}"))?;
    // a thread that panics sends nothing
    let found = found.recv().unwrap_or_else(|_| Err("the compiler panicked".to_owned()));
    drop(thread);
    found
}

/// LLVM's handler of errors after which it cannot go on.
///
/// # Safety
/// Only LLVM calls it, with a text.
pub(super) unsafe extern "C" fn on_fatal(reason: Text) {
    // SAFETY: the caller's promise.
    let why = unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned();
    let waiting = WAITING.try_with(|waiting| waiting.take()).ok().flatten();
    match waiting {
        Some(tell) => {
            tell(format!("LLVM gives up: {why}"));
            loop {
                std::thread::park();
            }
        }
        // somebody else's: LLVM ends the process, and would not say why
        None => drop(writeln!(std::io::stderr(), "LLVM ERROR: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_errors_and_ends_come_back() {
        assert_eq!(apart(|| Ok(5)), Ok(5));
        assert_eq!(apart(|| Err::<i32, _>("no".to_owned())), Err("no".to_owned()));
        // SAFETY: a text, as LLVM would call it.
        let gives_up = || unsafe { on_fatal(c"enough".as_ptr()) };
        let run = move || {
            gives_up();
            Ok(())
        };
        assert_eq!(apart(run), Err("LLVM gives up: enough".to_owned()));
    }
}
