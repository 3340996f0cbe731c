//! The slowest kernels: each one's distance from the floor of the machine, and its limit: arithmetic, memory or launching.

use super::names::Ambiguous;
use super::units::time;
use crate::outcome::Outcome;
use kiln::record::{Launch, Record, Speed};
use std::collections::HashMap;
use std::io::Write;

/// All launches of a kernel.
struct Runs<'a> {
    took: f64,
    /// The time of each.
    each: Vec<f64>,
    last: &'a Launch,
}

impl Runs<'_> {
    /// The middle one of the times: on a busy machine some launches take long.
    fn median(&self) -> f64 {
        median(&self.each)
    }
}

/// The middle one of some times, of two the larger.
pub(super) fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The least time of a launch in microseconds, and what would take that time.
pub(super) fn floor(launch: &Launch, speed: Speed) -> (f64, &'static str) {
    let (flops, bytes) = launch.work;
    let parts = [
        (flops as f64 / speed.flops * 1e6, "compute"),
        (bytes as f64 / speed.bytes * 1e6, "memory"),
    ];
    parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).expect("there are two")
}

/// What limits a kernel that takes so long: arithmetic, memory, or, if there is too little of both, starting it.
pub(super) fn limit((least, what): (f64, &'static str), took: f64, speed: Speed) -> &'static str {
    if least < speed.launch && took < 8.0 * speed.launch { "launch" } else { what }
}

/// The kernels by their time, and the time that all of them would take on the floor.
pub(super) fn show(record: &Record, most: usize, out: &mut impl Write) -> Outcome {
    let mut by_kernel: HashMap<&str, Runs<'_>> = HashMap::new();
    for last in &record.launches {
        let new = Runs { took: 0.0, each: Vec::new(), last };
        let all = by_kernel.entry(&last.kernel).or_insert(new);
        (all.took, all.last) = (all.took + last.took, last);
        all.each.push(last.took);
    }
    let mut all: Vec<Runs<'_>> = by_kernel.into_values().collect();
    all.sort_by(|a, b| b.took.total_cmp(&a.took).then_with(|| a.last.name.cmp(&b.last.name)));
    let total: f64 = all.iter().map(|runs| runs.took).sum();
    writeln!(
        out,
        "\nkernels by time; rates are of the median launch; the floor is the least time of their arithmetic and memory, of caches less; \
         a name says r for a reduction or E for none, and the lengths of the loops r0, r1, .."
    )?;
    writeln!(out, "     time  share   runs    GFLOPS     GB/s   floor  limit    kernel")?;
    let apart = Ambiguous::of(record);
    all.iter().take(most).try_for_each(|runs| row(record, runs, &apart, total, out))
}

fn row(
    record: &Record,
    runs: &Runs<'_>,
    apart: &Ambiguous<'_>,
    total: f64,
    out: &mut impl Write,
) -> Outcome {
    let (took, count, last, each) = (runs.took, runs.each.len(), runs.last, runs.median());
    let rate = |work: u64| work as f64 / (each * 1e3).max(1e-9);
    let (share, limit) = match record.speed(&last.device) {
        None => ("?".to_owned(), "?"),
        Some(speed) => {
            let floor = floor(last, speed);
            (format!("{:.0}%", 100.0 * floor.0 / each.max(1e-9)), limit(floor, each, speed))
        }
    };
    writeln!(
        out,
        "{:>9} {:>5.1}% {count:>6} {:>9.2} {:>8.1} {share:>7}  {limit:<7}  {} {}",
        time(took),
        100.0 * took / total.max(1e-9),
        rate(last.work.0),
        rate(last.work.1),
        apart.told_apart(&last.name, &last.kernel),
        last.methods.join(", "),
    )?;
    Ok(())
}

/// The time that all launches would take on the floor; none if no device's speed is known.
pub(super) fn on_the_floor(record: &Record) -> Option<f64> {
    let mut speeds: HashMap<&str, Option<Speed>> = HashMap::new();
    let launches = record.launches.iter();
    let least = launches.map(|launch| {
        let known = speeds.entry(&launch.device).or_insert_with(|| record.speed(&launch.device));
        known.map(|speed| floor(launch, speed).0)
    });
    least.sum()
}
