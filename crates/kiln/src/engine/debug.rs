//! Everything that `DEBUG` prints, to stderr: the one module of the library that prints.
//!
//! 1: devices, schedules. 2: a line per kernel. 3: decisions and options. 4: source. 5: graphs as text that parses
//! back. 6: linear programs. 7: machine code.
#![allow(clippy::print_stderr)]

use super::env::{DEBUG, TRACK_MATCH_STATS};
use super::line::Launch;
use super::search::Found;
use crate::device::Device;
use kiln_compile::pipeline::{Bug, Compiled};
use kiln_compile::schedule::{Schedule, ScheduledKernel};
use kiln_ir::{UOp, rewrite, text};
use kiln_runtime::warnings::warn_once;
use kiln_runtime::{Backend, Loaded, Origin, exit};
use std::collections::HashSet;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, Once};
use std::time::Duration;

fn at(level: i64) -> bool {
    DEBUG.get() >= level
}

/// Whether somebody can see colour.
fn is_colored() -> bool {
    static COLORED: LazyLock<bool> = LazyLock::new(|| {
        crate::scoped::text("NO_COLOR").is_none() && std::io::stderr().is_terminal()
    });
    *COLORED
}

/// Called before the compiler first runs: what is to be watched is watched from here on.
pub(super) fn started() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if TRACK_MATCH_STATS.get() > 0 {
            rewrite::set_tracking(true);
            exit::at_exit(report_rules);
        }
    });
}

fn report_rules() {
    eprint!("{}", rewrite::report(TRACK_MATCH_STATS.get() > 1));
}

/// Messages that the runtime has queued, once each.
pub(super) fn warnings() {
    for warning in kiln_runtime::warnings::take() {
        eprintln!("kiln: warning: {warning}");
    }
}

/// A kernel is compiled with fewer options than were chosen for it; what failed is in a file.
pub(super) fn fell_back(kernel: &UOp, bug: &Bug, file: &str) {
    let (pass, key) = (bug.pass, kernel.hash());
    warn_once(format!(
        "bug in kiln: pass `{pass}` failed on kernel {key:032x}, which may be slow now; its graph is in {file}"
    ));
    warnings();
}

pub(super) fn opened(name: &str, backend: &dyn Backend) {
    warnings();
    if at(1) {
        eprintln!("opened device {name} as {}: {}", backend.name(), backend.compiler());
    }
}

pub(super) fn scheduled(schedule: &Schedule, took: Duration) {
    if at(1) {
        let (n, temps) = (
            schedule.kernels.len(),
            schedule.temps.iter().map(|t| t.len * t.dtype.size()).sum::<usize>(),
        );
        let ms = took.as_secs_f64() * 1e3;
        eprintln!(
            "scheduled {n} kernels in {ms:.2} ms, arena {} B for {temps} B of temporaries",
            schedule.arena_bytes
        );
    }
    if at(3) {
        schedule.decisions.iter().for_each(|d| eprintln!("  {d}"));
    }
}

pub(super) fn schedule_hit(kernels: usize) {
    if at(1) {
        eprintln!("scheduled {kernels} kernels: schedule cache hit");
    }
}

pub(super) fn compiled(kernel: &ScheduledKernel, compiled: &Compiled, loaded: &Loaded) {
    if at(3) {
        let applied: Vec<String> = compiled.applied.iter().map(ToString::to_string).collect();
        let origin = match loaded.origin {
            Origin::Compiled => "compiled",
            Origin::Disk => "from the cache on disk",
            Origin::Memory => "compiled before",
            Origin::Interpreted => "interpreted",
        };
        eprintln!("{}: {origin}, options [{}]", compiled.program.name, applied.join(", "));
    }
    if at(5) {
        eprintln!("{}\n{}", text::print(&kernel.ast), text::print(&compiled.ast));
    }
    if at(6) {
        eprintln!("{}", text::print_list(&compiled.program.ops));
    }
    if at(4) && !compiled.program.source.is_empty() {
        eprintln!("{}", compiled.program.source);
    }
    if at(7) {
        let none = || "no disassembler is at hand".to_owned();
        eprintln!("{}", loaded.kernel.disassemble().unwrap_or_else(none));
    }
}

/// Whether there is a line per launch.
pub(super) fn shows_launches() -> bool {
    at(2)
}

/// How far a search is: a line that the next one replaces, where somebody can watch.
pub(super) fn searching(kernel: &str, tried: usize, gain: f64) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[KBEAM {kernel}: {tried} tried, the best is {gain:.2} times as fast");
    }
}

/// What a search has found.
pub(super) fn searched(found: &Found) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    if at(1) || !(found.is_noted || std::io::stderr().is_terminal()) {
        let verdict = if found.is_taken { "taken" } else { "not taken" };
        let (kernel, ratio) = (&found.kernel, found.ratio());
        let options = found.candidate.join(", ");
        eprintln!(
            "BEAM {kernel}: {} tried, {ratio:.2} times as fast, {verdict}: [{options}]",
            found.tried
        );
    }
}

/// One line per launch.
pub(super) fn launched(
    device: &Device,
    compiled: &Compiled,
    origins: &[&'static str],
    took: Duration,
    backend: &dyn Backend,
) {
    if !shows_launches() {
        return;
    }
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    static TOTAL_NS: AtomicU64 = AtomicU64::new(0);
    let ns = took.as_nanos().max(1) as u64;
    let launch = Launch {
        device: device.name(),
        number: NUMBER.fetch_add(1, Ordering::Relaxed) + 1,
        is_first: is_first(&compiled.ast),
        compiled,
        memory: backend.memory_use().in_use as u64,
        ns,
        total_ns: TOTAL_NS.fetch_add(ns, Ordering::Relaxed) + ns,
        origins,
    };
    eprintln!("{}", launch.line(is_colored()));
}

/// Kernels that are known to have been launched, at most.
const MOST_SEEN: usize = 1 << 16;

fn is_first(ast: &UOp) -> bool {
    static SEEN: LazyLock<Mutex<HashSet<u128>>> = LazyLock::new(Mutex::default);
    let mut seen = SEEN.lock().expect("debug lock");
    if seen.len() >= MOST_SEEN {
        seen.clear();
    }
    seen.insert(ast.hash())
}
