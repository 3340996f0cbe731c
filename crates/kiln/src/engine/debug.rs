//! Everything that `DEBUG` prints, to stderr: the one module of the library that prints, as an observer of the process.
//!
//! 1: devices, schedules. 2: a line per kernel. 3: decisions and options. 4: source, tensor graphs. 5: graphs as text that
//! parses back. 6: linear programs. 7: machine code, memory. 8: keys of caches. `DEBUG_PASS` shows single passes.
#![allow(clippy::print_stderr)]

use super::asked;
use super::env::{DEBUG, TRACK_MATCH_STATS};
use super::line::Launch;
use kiln_compile::pipeline::Bug;
use kiln_ir::observe::{self, Compilation, Event, Kind, Observer};
use kiln_ir::{Arg, UOp, rewrite, text};
use kiln_runtime::exit;
use kiln_runtime::warnings::warn_once;
use std::cell::RefCell;
use std::collections::HashSet;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Once};
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
        let (asked, failures) = asked::begin();
        failures.iter().for_each(|failure| eprintln!("{failure}"));
        exit::at_exit(|| asked::end().iter().for_each(|told| eprintln!("{told}")));
        let printer: Arc<dyn Observer> = Arc::new(Printer);
        observe::for_process([printer].into_iter().chain(asked).collect());
        warn_of_unknown_passes();
        if TRACK_MATCH_STATS.get() > 0 {
            rewrite::set_tracking(true);
            exit::at_exit(report_rules);
        }
    });
}

/// The passes that `DEBUG_PASS` names.
fn passes() -> &'static [String] {
    static PASSES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let text = crate::scoped::text("DEBUG_PASS").unwrap_or_default();
        text.split(',').map(|name| name.trim().to_owned()).filter(|n| !n.is_empty()).collect()
    });
    &PASSES
}

fn warn_of_unknown_passes() {
    let stages = kiln_compile::passes::listed();
    let known: Vec<&str> = stages.iter().flat_map(|s| &s.passes).map(|(name, _)| *name).collect();
    for pass in passes().iter().filter(|pass| !known.contains(&pass.as_str())) {
        let known = known.join(", ");
        eprintln!("kiln: warning: DEBUG_PASS: there is no pass {pass:?}; there are {known}");
    }
}

thread_local! {
    /// The name of the kernel that this thread lowers, or the beginning of its hash before it has one.
    static KERNEL: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Of which kernel a pass is: its name, and before it has one the beginning of its hash. `kiln explain --kernel` knows both.
/// A list of ops has no name, and is of the kernel before it. Passes of schedules have several kernels or none.
fn kernel_of(stage: &str, pass: &str, before: &[UOp], after: &[UOp]) -> String {
    if stage == "schedule" {
        return String::new();
    }
    let name = |node: &UOp| match node.arg() {
        Arg::Kernel { name } if !name.is_empty() => Some(name.to_string()),
        _ => None,
    };
    let graphs = [after, before].into_iter().filter(|graph| graph.len() == 1);
    let known = graphs.filter_map(|graph| name(&graph[0])).next();
    KERNEL.with_borrow_mut(|kernel| {
        match known {
            Some(name) => *kernel = name,
            // the first pass of a kernel: until it has a name, the key by which caches know it
            None if pass == "collapse" => {
                *kernel = format!("{:032x}", before[0].hash())[..9].to_owned();
            }
            None => {}
        }
        format!(" of {kernel}")
    })
}

/// The graph before and after a pass.
fn passed(stage: &str, pass: &str, before: &[UOp], after: &[UOp]) {
    let text = |graph: &[UOp]| match graph {
        [root] => text::print(root),
        // a list of ops, or several kernels
        _ if stage == "lower" || stage == "render" => text::print_list(graph),
        _ => graph.iter().map(text::print).collect::<Vec<_>>().join("\n"),
    };
    let kernel = kernel_of(stage, pass, before, after);
    let (before, after) = (text(before), text(after));
    eprintln!(
        "--- before {stage}: {pass}{kernel}\n{before}--- after {stage}: {pass}{kernel}\n{after}"
    );
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
            Kind::Steps => !passes().is_empty(),
        }
    }

    fn see(&self, event: &Event<'_>) {
        match *event {
            Event::Opened { device, backend, compiler, .. } => {
                eprintln!("opened device {device} as {backend}: {compiler}");
            }
            Event::Scheduled { .. } => scheduled(event),
            Event::Found { kernel, .. } if at(8) => {
                eprintln!("kernel {kernel:032x}: found in memory");
            }
            Event::Pass { stage, pass, before, after } if passes().iter().any(|p| p == pass) => {
                passed(stage, pass, before, after);
            }
            Event::Decision(decision) => eprintln!("  {decision}"),
            Event::Compiled(kernel) => compiled(kernel),
            Event::Searching { kernel, tried, gain } => searching(kernel, tried, gain),
            Event::Searched { .. } => searched(event),
            Event::Launched { .. } => launched(event),
            Event::Allocated { .. } | Event::Freed { .. } => memory(event),
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

/// Memory that came or went, at DEBUG=7.
fn memory(event: &Event<'_>) {
    match *event {
        Event::Allocated { device, block, bytes, holder, is_reused, .. } if at(7) => {
            let from = if is_reused { "kept memory" } else { "the system" };
            eprintln!("memory of {device}: block {block} of {bytes} B from {from}, for {holder}");
        }
        Event::Freed { device, block } if at(7) => {
            eprintln!("memory of {device}: block {block} is freed");
        }
        _ => {}
    }
}

fn scheduled(event: &Event<'_>) {
    let Event::Scheduled { key, roots, by, kernels, took, arena_bytes, temporary_bytes, .. } =
        *event
    else {
        return;
    };
    let line = by.map_or_else(String::new, |by| format!(", for {by}"));
    let Some(took) = took else {
        let key = if at(8) { format!(" by {key:032x}") } else { String::new() };
        return eprintln!("scheduled {kernels} kernels: schedule cache hit{key}{line}");
    };
    let ms = took.as_secs_f64() * 1e3;
    eprintln!(
        "scheduled {kernels} kernels in {ms:.2} ms, arena {arena_bytes} B for {temporary_bytes} B of temporaries{line}"
    );
    if at(4) {
        eprint!("{}", text::tree(roots, MOST_DEPTH));
    }
}

/// How deep the tensor graph is printed.
const MOST_DEPTH: usize = 100;

fn compiled(kernel: &Compilation<'_>) {
    let Compilation { scheduled, optimized, options, program, origin, disassemble, .. } = kernel;
    if at(3) {
        let key = if at(8) { format!(", key {:032x}", scheduled.hash()) } else { String::new() };
        eprintln!("{}: {origin}{key}, options [{}]", program.name, options.join(", "));
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
        eprintln!("{}", disassemble().map_or_else(none, |code| code.text));
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
