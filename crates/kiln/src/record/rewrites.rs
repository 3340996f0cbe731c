//! The rewrites of a program as text: what `TRACK_MATCH_STATS=2` keeps.

use super::bounded::Bounded;
use super::ending::Ending;
use kiln_ir::observe::{Event, Kind, Observer};
use kiln_ir::text;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Writes a line for each rewrite: the rule, its file and line, the node before, and the node after.
pub(crate) struct Rewrites(Mutex<Bounded>);

impl Rewrites {
    pub(crate) fn create(path: &Path) -> io::Result<Rewrites> {
        Ok(Rewrites(Mutex::new(Bounded::create(path)?)))
    }
}

impl Observer for Rewrites {
    fn wants(&self, kind: Kind) -> bool {
        kind == Kind::Steps
    }

    fn see(&self, event: &Event<'_>) {
        let Event::Rewrite { rule, place: (file, line), before, after } = *event else { return };
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !out.is_done() {
            let [before, after] = [before, after].map(text::describe);
            let text = format!("{rule} {file}:{line}: {before} -> {after}\n");
            out.put(text.as_bytes(), b"there is no room for more: see VIZ_MB\n");
        }
    }
}

impl Ending for Rewrites {
    fn end(&self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).end(b"")
    }
}
