//! What may end the process is tried in a child of it: an instruction that the processor has and something else does not
//! allow, say.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Longer than any trial takes.
const MOST_MILLISECONDS: i32 = 10_000;

/// What `run` gives in a child of this process. It must start no threads and need no lock, which another thread of the
/// parent may hold; what it writes to memory is lost.
///
/// # Errors
/// The child cannot be started, does not get to the end, or takes too long.
pub(super) fn in_child(run: impl FnOnce() -> bool) -> Result<bool, String> {
    let (mut answer, question) = std::io::pipe().map_err(|e| e.to_string())?;
    // SAFETY: the child runs the closure, answers and ends; it comes back to nothing of the parent's.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error().to_string()),
        0 => end_after(run, question),
        child => {
            drop(question);
            let found = wait_for(&mut answer);
            // SAFETY: the process is ours, and is waited for once.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
            found
        }
    }
}

/// Answers, and ends the child without any of the parent's destructors and handlers.
fn end_after(run: impl FnOnce() -> bool, mut question: PipeWriter) -> ! {
    for signal in [libc::SIGILL, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGABRT] {
        // SAFETY: what handles crashes in the parent is not to hear of this one.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    if let Ok(found) = catch_unwind(AssertUnwindSafe(run)) {
        let _ = question.write_all(&[found as u8]);
    }
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

fn wait_for(answer: &mut PipeReader) -> Result<bool, String> {
    let mut poll = libc::pollfd { fd: answer.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor, which is open.
    let ready = unsafe { libc::poll(&mut poll, 1, MOST_MILLISECONDS) };
    if ready == 0 {
        return Err("they do not come to an end".to_owned());
    }
    let mut byte = [0];
    match answer.read(&mut byte) {
        Ok(1) => Ok(byte[0] == 1),
        _ => Err("they end the process".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_process_ends_a_child() {
        assert_eq!(in_child(|| true), Ok(true));
        assert_eq!(in_child(|| false), Ok(false));
        // SAFETY: ends the child.
        assert!(in_child(|| unsafe { libc::raise(libc::SIGILL) } == 0).is_err());
        assert!(in_child(|| std::process::abort()).is_err());
    }
}
