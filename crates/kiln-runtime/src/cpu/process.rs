//! Runs a process that reads a text and may print messages. Its time and its output are limited; past a limit it is
//! ended, with all processes that it started.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

/// A process that prints more bytes of messages than this is ended.
const MOST_SAID: usize = 1 << 20;
/// The most bytes of messages in an error.
const MOST_SHOWN: usize = 4 << 10;
/// How often to check whether a process that has closed its output has ended.
const TICK: Duration = Duration::from_millis(1);

/// How a process ended.
pub(super) struct Output {
    pub(super) status: ExitStatus,
    /// The beginning of what it printed on standard error.
    pub(super) said: String,
}

/// Runs a command with `input` on its standard input.
pub(super) fn run(mut command: Command, input: &str, time: Duration) -> Result<Output, String> {
    let deadline = Instant::now() + time;
    // a group of its own, so that what it starts ends with it
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut running = Running(command.spawn().map_err(|error| error.to_string())?);
    // both pipes at once: one who complains before it has read everything must not block
    if let Some(mut pipe) = running.0.stdin.take() {
        let input = input.to_owned();
        in_background(move || drop(pipe.write_all(input.as_bytes())))?;
    }
    let said = listen(running.0.stderr.take().expect("is piped"))?;
    let late = || format!("takes longer than {} s", time.as_secs_f32());
    let said = match said.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(said) if said.len() < MOST_SAID => said,
        Ok(_) => return Err(format!("prints more than {MOST_SAID} bytes of messages")),
        Err(RecvTimeoutError::Timeout) => return Err(late()),
        Err(RecvTimeoutError::Disconnected) => return Err("its messages cannot be read".to_owned()),
    };
    let status = running.ended_by(deadline)?.ok_or_else(late)?;
    let said = String::from_utf8_lossy(&said[..said.len().min(MOST_SHOWN)]).into_owned();
    Ok(Output { status, said })
}

/// A thread that is never joined: it ends with the pipe that it serves.
fn in_background(run: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let thread = Builder::new().name("kiln-pipe".to_owned()).spawn(run);
    thread.map(drop).map_err(|error| error.to_string())
}

/// The output until its end, up to the limit.
fn listen(pipe: ChildStderr) -> Result<Receiver<Vec<u8>>, String> {
    let (sender, receiver) = channel();
    in_background(move || {
        let mut said = Vec::new();
        // what was said before an error counts
        let _ = pipe.take(MOST_SAID as u64).read_to_end(&mut said);
        let _ = sender.send(said);
    })?;
    Ok(receiver)
}

/// A process that is ended when this is dropped.
struct Running(Child);

impl Running {
    /// Its status, if it ends before the time limit.
    fn ended_by(&mut self, deadline: Instant) -> Result<Option<ExitStatus>, String> {
        loop {
            match self.0.try_wait().map_err(|error| error.to_string())? {
                None if Instant::now() < deadline => sleep(TICK),
                status => return Ok(status),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            // SAFETY: the group is that of a process which is ours and has not been waited for.
            unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
            let _ = self.0.wait();
        }
    }
}
