//! The names of a schedule's kernels, as they were compiled.

use kiln::record::{Launch, PlannedKernel, Record};
use std::collections::{HashMap, HashSet};

/// Names that several kernels have.
pub(super) struct Ambiguous<'a>(HashSet<&'a str>);

impl<'a> Ambiguous<'a> {
    pub(super) fn of(record: &'a Record) -> Ambiguous<'a> {
        let launched = record.launches.iter().map(|l| (&l.name[..], &l.kernel[..]));
        let compiled = record.kernels.iter().map(|k| (&k.name[..], &k.optimized[..]));
        let all: HashSet<(&str, &str)> = launched.chain(compiled).collect();
        let mut seen = HashSet::new();
        Ambiguous(
            all.into_iter().map(|(name, _)| name).filter(|name| !seen.insert(*name)).collect(),
        )
    }

    /// The name, with the beginning of the kernel's key if another kernel has the name too. `--kernel` takes either.
    pub(super) fn told_apart(&self, name: &str, key: &str) -> String {
        match self.0.contains(name) {
            true => format!("{name} ({})", key.get(..8).unwrap_or(key)),
            false => name.to_owned(),
        }
    }
}

/// The name of each kernel of a schedule of the record: by its graph, else by the launches that follow, if there are as many
/// as the schedule has kernels. A general kernel serves many graphs, and is found by its launches.
pub(super) fn named(record: &Record, schedule: usize, kernels: &[PlannedKernel]) -> Vec<String> {
    let compiled: HashMap<&str, &str> =
        record.kernels.iter().map(|k| (&k.scheduled[..], &k.name[..])).collect();
    let by_launch: HashMap<&str, &str> =
        record.launches.iter().map(|l| (&l.kernel[..], &l.name[..])).collect();
    let found: HashMap<&str, &str> =
        record.found.iter().map(|f| (&f.scheduled[..], &f.optimized[..])).collect();
    let (launches, apart) = (launches_of(record, schedule), Ambiguous::of(record));
    let name = |(at, kernel): (usize, &PlannedKernel)| {
        let own = &kernel.kernel[..];
        let ran = launches.get(at).filter(|_| launches.len() == kernels.len());
        let known = compiled.get(own).or_else(|| by_launch.get(found.get(own)?));
        let name = known.copied().or_else(|| ran.map(|launch| &launch.name[..]));
        name.map_or_else(|| "not compiled here".to_owned(), |name| apart.told_apart(name, own))
    };
    kernels.iter().enumerate().map(name).collect()
}

/// The launches between a schedule and the next one.
fn launches_of(record: &Record, schedule: usize) -> &[Launch] {
    let start = record.schedules[schedule].at;
    let end = record.schedules.get(schedule + 1).map_or(f64::INFINITY, |next| next.at);
    let place = |at: f64| record.launches.partition_point(|launch| launch.at < at);
    record.launches.get(place(start)..place(end)).unwrap_or(&[])
}
