//! Everything that `DEBUG` prints, to stderr: the one module of the library that prints, as an observer of the process.
//!
//! 1: devices, schedules. 2: a line per kernel. 3: decisions and options. 4: source. 5: graphs as text that parses
//! back. 6: linear programs. 7: machine code.
#![allow(clippy::print_stderr)]

use super::env::{DEBUG, TRACK_MATCH_STATS};
use super::line::Launch;
use crate::record::Recorder;
use kiln_compile::pipeline::Bug;
use kiln_ir::observe::{self, Compilation, Event, Kind, Observer};
use kiln_ir::{UOp, rewrite, text};
use kiln_runtime::exit;
use kiln_runtime::warnings::warn_once;
use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Once, OnceLock};
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

/// Called before a device is first opened: what is to be watched is watched from here on.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let printer: Arc<dyn Observer> = Arc::new(Printer);
        let recorder = recorder().map(|recorder| -> Arc<dyn Observer> { recorder });
        observe::for_process([printer].into_iter().chain(recorder).collect());
        if TRACK_MATCH_STATS.get() > 0 {
            rewrite::set_tracking(true);
            exit::at_exit(report_rules);
        }
    });
}

/// The record that `VIZ` asks for, and its file.
static RECORD: OnceLock<(Arc<Recorder>, PathBuf)> = OnceLock::new();

/// Begins the record that `VIZ` asks for.
fn recorder() -> Option<Arc<Recorder>> {
    let path = match crate::scoped::text("VIZ")?.as_str() {
        "0" => return None,
        "1" => PathBuf::from(format!("kiln-{}.viz", std::process::id())),
        path => PathBuf::from(path),
    };
    match Recorder::create(&path) {
        Ok(recorder) => {
            let (recorder, _) = RECORD.get_or_init(|| (Arc::new(recorder), path));
            exit::at_exit(end_record);
            Some(recorder.clone())
        }
        Err(why) => {
            eprintln!("kiln: warning: VIZ: {}: {why}", path.display());
            None
        }
    }
}

fn end_record() {
    let Some((recorder, path)) = RECORD.get() else { return };
    let path = path.display();
    match recorder.end() {
        Ok(()) => eprintln!(
            "kiln: what happened is in {path}: `kiln viz {path}` shows it, `kiln explain {path}` sums it up"
        ),
        Err(why) => eprintln!("kiln: warning: VIZ: {path}: {why}"),
    }
}

fn report_rules() {
    eprint!("{}", rewrite::report(TRACK_MATCH_STATS.get() > 1));
}

/// Says something about what the library does, at DEBUG=1.
pub(crate) fn note(text: impl FnOnce() -> String) {
    if at(1) {
        eprintln!("kiln: {}", text());
    }
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

/// The process's observer: prints what `DEBUG` wants.
struct Printer;

impl Observer for Printer {
    fn wants(&self, kind: Kind) -> bool {
        match kind {
            Kind::News => at(1),
            Kind::Searches => true,
            Kind::Runs => at(2),
            Kind::Decisions => at(3),
            Kind::Steps => false,
        }
    }

    fn see(&self, event: &Event<'_>) {
        match *event {
            Event::Opened { device, backend, compiler, .. } => {
                eprintln!("opened device {device} as {backend}: {compiler}");
            }
            Event::Scheduled { kernels, took, arena_bytes, temporary_bytes, .. } => {
                scheduled(kernels, took, arena_bytes, temporary_bytes);
            }
            Event::Decision(decision) => eprintln!("  {decision}"),
            Event::Compiled(kernel) => compiled(kernel),
            Event::Searching { kernel, tried, gain } => searching(kernel, tried, gain),
            Event::Searched { .. } => searched(event),
            Event::Launched { .. } => launched(event),
            Event::Copied { device, from, bytes, start, end } => {
                copied(device, from, bytes, end - start);
            }
            _ => {}
        }
    }
}

fn copied(to: &str, from: &str, bytes: usize, took: Duration) {
    let us = took.as_secs_f64() * 1e6;
    let rate = bytes as f64 / took.as_nanos().max(1) as f64;
    eprintln!("*** {to:<10} copy of {bytes} B from {from} tm {us:9.2}us ({rate:6.1} GB/s)");
}

fn scheduled(kernels: usize, took: Option<Duration>, arena: usize, temporary: usize) {
    match took {
        None => eprintln!("scheduled {kernels} kernels: schedule cache hit"),
        Some(took) => {
            let ms = took.as_secs_f64() * 1e3;
            eprintln!(
                "scheduled {kernels} kernels in {ms:.2} ms, arena {arena} B for {temporary} B of temporaries"
            );
        }
    }
}

fn compiled(kernel: &Compilation<'_>) {
    let Compilation { scheduled, optimized, options, program, origin, disassemble, .. } = kernel;
    if at(3) {
        eprintln!("{}: {origin}, options [{}]", program.name, options.join(", "));
    }
    if at(5) {
        eprintln!("{}\n{}", text::print(scheduled), text::print(optimized));
    }
    if at(6) {
        eprintln!("{}", text::print_list(&program.ops));
    }
    if at(4) && !program.source.is_empty() {
        eprintln!("{}", program.source);
    }
    if at(7) {
        let none = || "no disassembler is at hand".to_owned();
        eprintln!("{}", disassemble().unwrap_or_else(none));
    }
}

/// How far a search is: a line that the next one replaces, where somebody can watch.
fn searching(kernel: &str, tried: usize, gain: f64) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[KBEAM {kernel}: {tried} tried, the best is {gain:.2} times as fast");
    }
}

/// What a search has found.
fn searched(event: &Event<'_>) {
    let Event::Searched { kernel, tried, ratio, options, is_taken, is_noted } = event else {
        return;
    };
    let is_terminal = std::io::stderr().is_terminal();
    if is_terminal {
        eprint!("\r\x1b[K");
    }
    if at(1) || !(*is_noted || is_terminal) {
        let (verdict, options) =
            (if *is_taken { "taken" } else { "not taken" }, options.join(", "));
        eprintln!("BEAM {kernel}: {tried} tried, {ratio:.2} times as fast, {verdict}: [{options}]");
    }
}

/// One line per launch.
fn launched(event: &Event<'_>) {
    let Event::Launched { device, kernel, key, program, work, methods, memory, start, end } =
        *event
    else {
        return;
    };
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    static TOTAL_NS: AtomicU64 = AtomicU64::new(0);
    let ns = (end - start).as_nanos().max(1) as u64;
    let launch = Launch {
        device,
        number: NUMBER.fetch_add(1, Ordering::Relaxed) + 1,
        is_first: is_first(key),
        kernel,
        program,
        work,
        memory: memory as u64,
        ns,
        total_ns: TOTAL_NS.fetch_add(ns, Ordering::Relaxed) + ns,
        methods,
    };
    eprintln!("{}", launch.line(is_colored()));
}

/// Kernels that are known to have been launched, at most.
const MOST_SEEN: usize = 1 << 16;

fn is_first(kernel: u128) -> bool {
    static SEEN: LazyLock<Mutex<HashSet<u128>>> = LazyLock::new(Mutex::default);
    let mut seen = SEEN.lock().expect("debug lock");
    if seen.len() >= MOST_SEEN {
        seen.clear();
    }
    seen.insert(kernel)
}
