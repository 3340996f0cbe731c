//! Everything that DEBUG prints, to stderr: the one module of the library that prints.
//!
//! 1: devices, schedules. 2: a line per kernel. 3: decisions and options. 4: source. 5: graphs as text that parses
//! back. 6: linear programs. 7: machine code.
#![allow(clippy::print_stderr)]

use super::cache::{Ready, ReadyKernel};
use super::device::Opened;
use super::env::DEBUG;
use crate::Device;
use kiln_compile::pipeline::Compiled;
use kiln_compile::schedule::{Schedule, ScheduledKernel};
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp, text};
use kiln_runtime::{Loaded, Origin};
use std::collections::HashSet;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

fn at(level: i64) -> bool {
    DEBUG.get() >= level
}

/// Colour, where somebody can see it.
fn paint(text: &str, code: u8) -> String {
    static COLOR: LazyLock<bool> = LazyLock::new(|| {
        std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && std::io::stderr().is_terminal()
    });
    if *COLOR { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Messages that the runtime has queued, once each.
pub(super) fn warnings() {
    for warning in kiln_runtime::warnings::take() {
        eprintln!("kiln: warning: {warning}");
    }
}

pub(super) fn opened(name: &str, opened: &Opened) {
    warnings();
    if at(1) {
        eprintln!(
            "opened device {name} as {}: {}",
            opened.backend.name(),
            opened.backend.compiler()
        );
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

pub(super) fn schedule_hit(ready: &Ready) {
    if at(1) {
        eprintln!("scheduled {} kernels: schedule cache hit", ready.kernels.len());
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

/// One line per launch: device, number, name, arguments, memory, time, rates, and the methods that made the kernel.
pub(super) fn launched(device: &Device, kernel: &ReadyKernel, took: Duration, opened: &Opened) {
    if !at(2) {
        return;
    }
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    static TOTAL_NS: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed) + 1;
    let ns = took.as_nanos().max(1) as u64;
    let total = TOTAL_NS.fetch_add(ns, Ordering::Relaxed) + ns;
    let program = &kernel.code.compiled.program;
    let (us, total) = (ns as f64 / 1e3, total as f64 / 1e6);
    let (gflops, gbs) = (program.flops as f64 / ns as f64, program.bytes as f64 / ns as f64);
    let memory = opened.backend.memory_use().in_use as f64 / 1e9;
    let head = format!("*** {:<10} {number:4}", device.name());
    let head = if first_sight(&kernel.code.compiled.ast) { paint(&head, 32) } else { head };
    let name = colored_name(&kernel.code.compiled.ast);
    let pad = " ".repeat(36usize.saturating_sub(program.name.len()));
    eprintln!(
        "{head} {name}{pad} arg {:2} mem {memory:5.2} GB tm {us:9.2}us/{total:9.2}ms ({gflops:9.2} GFLOPS {gbs:6.1} GB/s) {:?}",
        program.params.len(),
        kernel.plan.origins
    );
}

fn first_sight(ast: &UOp) -> bool {
    static SEEN: LazyLock<Mutex<HashSet<u128>>> = LazyLock::new(Mutex::default);
    SEEN.lock().expect("debug lock").insert(ast.hash())
}

/// The kernel's name with each size in the colour of its loop's kind.
fn colored_name(ast: &UOp) -> String {
    let nodes = toposort(ast);
    let mut ranges: Vec<(u32, RangeKind, i64)> = nodes
        .iter()
        .filter(|n| n.op() == Op::Range)
        .filter_map(|n| n.arg().range().map(|(axis, kind)| (axis, kind, n.max() + 1)))
        .collect();
    ranges.sort_unstable();
    let letter = if nodes.iter().any(|n| n.op() == Op::Reduce) { "r" } else { "E" };
    let sizes = ranges.iter().map(|(_, kind, size)| paint(&size.to_string(), color(*kind)));
    std::iter::once(letter.to_owned()).chain(sizes).collect::<Vec<_>>().join(&paint("_", 90))
}

fn color(kind: RangeKind) -> u8 {
    match kind {
        RangeKind::Global | RangeKind::Thread => 34,
        RangeKind::Local => 36,
        RangeKind::Loop => 37,
        RangeKind::Reduce => 31,
        RangeKind::Upcast => 33,
        RangeKind::Vector => 93,
        RangeKind::Unroll => 35,
    }
}
