//! Files that the environment asks for, each written by an observer of the process.

use super::env::TRACK_MATCH_STATS;
use crate::record::{Ending, Pictures, Recorder, Rewrites, Trace};
use crate::scoped;
use kiln_ir::observe::Observer;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A file, or a folder, that is written.
struct Asked {
    /// The variable that asks for it.
    variable: &'static str,
    path: PathBuf,
    observer: Arc<dyn Ending>,
    /// What to do with it.
    advice: fn(&str) -> String,
}

static ASKED: OnceLock<Vec<Asked>> = OnceLock::new();

/// The observers that variables ask for, and errors of files that cannot be made.
pub(super) fn begin() -> (Vec<Arc<dyn Observer>>, Vec<String>) {
    let begun = [record(), profile(), graph(), rewrites()].into_iter().flatten();
    let (mut asked, mut failures) = (Vec::new(), Vec::new());
    for begun in begun {
        match begun {
            Ok(new) => asked.push(new),
            Err(why) => failures.push(why),
        }
    }
    let asked = ASKED.get_or_init(|| asked);
    (asked.iter().map(|a| -> Arc<dyn Observer> { a.observer.clone() }).collect(), failures)
}

/// Makes the files complete, and says what they are, or what is wrong.
pub(super) fn end() -> Vec<String> {
    let told = |asked: &Asked| {
        let path = asked.path.display().to_string();
        match asked.observer.end() {
            Ok(()) => format!("kiln: {}", (asked.advice)(&path)),
            Err(why) => format!("kiln: warning: {}: {path}: {why}", asked.variable),
        }
    };
    ASKED.get().into_iter().flatten().map(told).collect()
}

/// The file of a variable: `kiln-PID` and an ending, or the path in the variable.
fn path(variable: &str, end: &str) -> Option<PathBuf> {
    match scoped::text(variable)?.as_str() {
        "0" => None,
        "1" => Some(PathBuf::from(format!("kiln-{}{end}", std::process::id()))),
        path => Some(PathBuf::from(path)),
    }
}

/// Begins to write, if it is asked for.
fn ask<E: Ending + 'static>(
    variable: &'static str,
    path: Option<PathBuf>,
    create: impl FnOnce(&Path) -> io::Result<E>,
    advice: fn(&str) -> String,
) -> Option<Result<Asked, String>> {
    let path = path?;
    Some(match create(&path) {
        Ok(observer) => Ok(Asked { variable, path, observer: Arc::new(observer), advice }),
        Err(why) => Err(format!("kiln: warning: {variable}: {}: {why}", path.display())),
    })
}

fn record() -> Option<Result<Asked, String>> {
    ask("VIZ", path("VIZ", ".viz"), Recorder::create, |path| {
        format!(
            "what happened is in {path}: `kiln viz {path}` shows it, `kiln explain {path}` sums it up"
        )
    })
}

fn profile() -> Option<Result<Asked, String>> {
    ask("PROFILE", path("PROFILE", ".json"), Trace::create, |path| {
        format!("what ran when is in {path}, for Perfetto or chrome://tracing")
    })
}

fn graph() -> Option<Result<Asked, String>> {
    ask("GRAPH", path("GRAPH", "-graphs"), Pictures::create, |path| {
        format!("graphs and schedules are in {path}, as pictures and as text")
    })
}

fn rewrites() -> Option<Result<Asked, String>> {
    let name = format!("kiln-{}.rewrites", std::process::id());
    let path = (TRACK_MATCH_STATS.get() > 1).then(|| std::env::temp_dir().join(name));
    ask("TRACK_MATCH_STATS", path, Rewrites::create, |path| format!("every rewrite is in {path}"))
}
