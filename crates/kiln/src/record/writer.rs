//! The observer that writes a record.

use super::ending::Ending;
use super::file::State;
use super::told::Telling;
use kiln_ir::observe::{Event, Observer};
use kiln_ir::rewrite::{self, Ruled};
use kiln_ir::uop::name_lines;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Writes each event to a file.
pub(crate) struct Recorder {
    started: Instant,
    /// What rules had done before.
    ruled: Vec<Ruled>,
    state: Mutex<State>,
}

impl Recorder {
    /// A record in a new file.
    pub(crate) fn create(path: &Path) -> io::Result<Recorder> {
        name_lines();
        let state = Mutex::new(State::create(path)?);
        Ok(Recorder { started: Instant::now(), ruled: rewrite::totals(), state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ending for Recorder {
    fn end(&self) -> io::Result<()> {
        let mut state = self.state();
        state.rules(&self.ruled);
        state.measure();
        state.flush()
    }
}

impl Observer for Recorder {
    fn see(&self, event: &Event<'_>) {
        let mut state = self.state();
        if state.is_done() {
            return;
        }
        let mut telling = Telling { started: self.started, state: &mut state };
        if let Some(line) = telling.line(event) {
            state.line(&line);
        }
    }
}
