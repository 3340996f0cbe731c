//! Runs LLVM on a thread that can be lost. If LLVM cannot go on (it cannot select an instruction, or does not know the
//! processor), it calls a handler and would then end the process. Kiln's handler sends the reason to the waiting thread
//! and never returns. So only this thread is lost, with the memory that LLVM holds.
//!
//! The thread also has a larger stack, because LLVM recurses deeply.

use super::api::{SetNewHandler, Text};
use std::cell::RefCell;
use std::ffi::{CStr, c_void};
use std::io::Write;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::Builder;

/// Bytes of address space for the stack; only what is touched takes memory.
const STACK: usize = 64 << 20;

/// The message if there is no memory to write another.
const NO_MEMORY: &str = "LLVM gives up: it gets no memory";

/// The thread that waits for a result. Telling it takes no memory besides the message.
struct Waiting {
    tell: Box<dyn Fn(String)>,
    no_memory: String,
}

thread_local! {
    /// Set on a thread that another thread waits for.
    static WAITING: RefCell<Option<Waiting>> = const { RefCell::new(None) };
}

/// The result of `work` on a thread of its own, or why LLVM gave up.
pub(super) fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    // a channel whose room is made now
    let (answer, found) = sync_channel(1);
    let run = move || {
        let failed: SyncSender<Result<T, String>> = answer.clone();
        let tell = Box::new(move |why| drop(failed.try_send(Err(why))));
        WAITING.set(Some(Waiting { tell, no_memory: NO_MEMORY.to_owned() }));
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

/// The thread that waits for this one, if any.
fn waiting() -> Option<Waiting> {
    WAITING.try_with(|waiting| waiting.take()).ok().flatten()
}

/// Stops this thread for good, since its callers in LLVM cannot go on.
fn end() -> ! {
    loop {
        std::thread::park();
    }
}

/// LLVM's handler of errors after which it cannot go on.
///
/// # Safety
/// Only LLVM calls it, with a text.
pub(super) unsafe extern "C" fn on_fatal(reason: Text) {
    // SAFETY: the caller's promise.
    let why = unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned();
    match waiting() {
        Some(Waiting { tell, .. }) => {
            tell(format!("LLVM gives up: {why}"));
            end()
        }
        // somebody else's: LLVM ends the process, and would not say why
        None => drop(writeln!(std::io::stderr(), "LLVM ERROR: {why}")),
    }
}

/// LLVM's handler of failed allocations. If no thread waits for this one, it returns, and LLVM ends the process.
///
/// # Safety
/// Only LLVM calls it, where it can go without coming back.
pub(super) unsafe extern "C" fn on_no_memory(_: *mut c_void, _: Text, _: bool) {
    if let Some(Waiting { tell, no_memory }) = waiting() {
        tell(no_memory);
        end()
    }
}

/// Sets the handler of C++'s `new`, in the library that came first: the handler is not told which library called it.
pub(super) static SET_NEW_HANDLER: OnceLock<SetNewHandler> = OnceLock::new();

/// C++'s handler of failed allocations. If no thread waits for this one, it removes itself: `new` tries again, and
/// throws.
///
/// # Safety
/// Only `new` calls it, for LLVM on a thread of ours, or for whoever else uses the same library.
pub(super) unsafe extern "C" fn on_no_new() {
    // SAFETY: no pointer is looked at.
    unsafe { on_no_memory(null_mut(), null(), false) };
    // SAFETY: no handler is one that C++ allows.
    SET_NEW_HANDLER.get().map(|set| unsafe { set(None) });
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
        // SAFETY: nothing is passed.
        let no_room = || unsafe { on_no_new() };
        let run = move || {
            no_room();
            Ok(())
        };
        assert_eq!(apart(run), Err(NO_MEMORY.to_owned()));
    }
}
