//! The kernels of one schedule: what each reads and writes, and why it is not one with others.

use super::forms::alike;
use super::names::named;
use super::units::{size, time};
use crate::outcome::{Failure, Outcome};
use kiln::record::{PlannedKernel, Record, Schedule, Step};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Write;

/// Shows the schedule of this number, counted from 1.
pub(super) fn show(record: &Record, number: usize, out: &mut impl Write) -> Outcome {
    let (asked, schedule) = planned(record, number)?;
    origin(record, number - 1, out)?;
    writeln!(out, "\nthe kernels of schedule {number}, and why they are not fewer")?;
    let (users, names) = (Users::of(&schedule.kernels), named(record, asked, &schedule.kernels));
    for (at, kernel) in schedule.kernels.iter().enumerate() {
        writeln!(out, "{:>4}: {} {}", at + 1, names[at], described(kernel))?;
        for (node, later) in users.values(schedule, at) {
            let numbers: Vec<String> = later.iter().map(|k| (k + 1).to_string()).collect();
            let why = why(record, schedule, node);
            writeln!(out, "      not one with {}: {why}", numbers.join(", "))?;
        }
        for text in apart(schedule, &users.stored(schedule, at)) {
            writeln!(out, "      {text}")?;
        }
    }
    memory(schedule, out)
}

/// Who asked for a schedule, and why it was made.
fn origin(record: &Record, at: usize, out: &mut impl Write) -> Outcome {
    let Schedule { key, by, took, .. } = &record.schedules[at];
    let by = by.as_deref().unwrap_or("a replay");
    write!(out, "\nschedule {}: for {by}, key {key}, ", at + 1)?;
    match (took, alike(record, at)) {
        (None, _) => {
            let is_same = |s: &Schedule| s.key == *key && s.took.is_some();
            match record.schedules[..at].iter().rposition(is_same) {
                Some(made) => writeln!(out, "remembered: it is schedule {}", made + 1)?,
                None => writeln!(out, "remembered from before the record")?,
            }
        }
        (Some(took), None) => {
            writeln!(out, "made in {}, the first of its form in the record", time(*took))?;
        }
        (Some(took), Some((old, what))) => {
            let took = time(*took);
            writeln!(out, "made in {took}: as schedule {old}, but {what}")?;
        }
    }
    Ok(())
}

/// The temporaries: their places in the memory that they share, and the kernels between which each is needed.
fn memory(schedule: &Schedule, out: &mut impl Write) -> Outcome {
    let (shared, all) = schedule.memory;
    if schedule.temporaries.is_empty() {
        return Ok(writeln!(out, "\nno value is stored between its kernels")?);
    }
    writeln!(out, "\ntemporaries of {} in {} that they share", size(all), size(shared))?;
    writeln!(out, "      bytes     offset  kernels  temporary")?;
    for (at, temporary) in schedule.temporaries.iter().enumerate() {
        let (bytes, (first, last)) = (size(temporary.bytes), temporary.used);
        let kernels = format!("{} to {}", first + 1, last + 1);
        writeln!(out, "{bytes:>11} {:>10} {kernels:>8}  {at}", temporary.offset)?;
    }
    Ok(())
}

/// The schedule of this number, counted from 1: its place, and where it was made. One that was remembered has its kernels
/// and its steps there.
pub(super) fn planned(record: &Record, number: usize) -> Outcome<(usize, &Schedule)> {
    let asked = number.checked_sub(1).filter(|&at| at < record.schedules.len());
    let Some(asked) = asked else {
        let count = record.schedules.len();
        return Err(Failure::new(format!(
            "the record has {count} schedules, and none is number {number}"
        )));
    };
    let key = &record.schedules[asked].key;
    let is_same = |s: &&Schedule| s.key == *key && s.took.is_some();
    let made = record.schedules[..number].iter().rev().find(is_same);
    Ok((asked, made.unwrap_or(&record.schedules[asked])))
}

/// By name of memory: the kernels that have it as an argument.
struct Users<'a>(HashMap<&'a str, Vec<usize>>);

impl<'a> Users<'a> {
    fn of(kernels: &'a [PlannedKernel]) -> Users<'a> {
        let mut users: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, kernel) in kernels.iter().enumerate() {
            for (name, _) in &kernel.arguments {
                users.entry(name).or_default().push(at);
            }
        }
        Users(users)
    }

    /// The values that a kernel has in memory, with the later kernels that have them too.
    fn values(&self, schedule: &Schedule, at: usize) -> Vec<(u32, BTreeSet<usize>)> {
        let mut all = Vec::new();
        for (name, _) in &schedule.kernels[at].arguments {
            let later: BTreeSet<usize> =
                self.0[name.as_str()].iter().copied().filter(|&user| user > at).collect();
            // each value is told of by the kernel that stores it
            let is_stored_here = self.0[name.as_str()].first() == Some(&at);
            if let Some(node) = schedule.value(name).filter(|_| is_stored_here && !later.is_empty())
            {
                all.push((node, later));
            }
        }
        all
    }

    /// The values that a kernel stores.
    fn stored(&self, schedule: &Schedule, at: usize) -> Vec<u32> {
        let is_first = |name: &str| self.0[name].first() == Some(&at);
        let own = schedule.kernels[at].arguments.iter().filter(|(name, _)| is_first(name));
        own.filter_map(|(name, _)| schedule.value(name)).collect()
    }
}

/// Passes make one kernel of several. This is what they did with the kernel of these values.
fn apart(schedule: &Schedule, stored: &[u32]) -> Vec<String> {
    let decisions = stored.iter().flat_map(|&node| schedule.decisions_about(node));
    // one decision may be about several values
    let mut seen = HashSet::new();
    decisions.filter_map(by_pass).filter(|text| seen.insert(text.clone())).collect()
}

/// Such as `merge: a kernel of its own: they read nothing in common`.
fn by_pass(step: &Step) -> Option<String> {
    let Step::Decision { about, alternatives, chosen, note, .. } = step else { return None };
    let (pass, _) = about.split_once(": ")?;
    let chosen = &alternatives.get(*chosen)?.0;
    let prices = prices(step);
    let prices = if prices.is_empty() { String::new() } else { format!(", estimated as {prices}") };
    let note = if note.is_empty() { String::new() } else { format!(": {note}") };
    Some(format!("{pass}: {chosen}{prices}{note}"))
}

fn described(kernel: &PlannedKernel) -> String {
    let arguments = kernel.arguments.iter().map(|(name, bytes)| format!("{name} {}", size(*bytes)));
    let arguments: Vec<String> = arguments.collect();
    format!("{} ({})", kernel.methods.join(", "), arguments.join(", "))
}

/// Why a value is stored: the prices, the reason without any, or that there was no choice.
fn why(record: &Record, schedule: &Schedule, node: u32) -> String {
    let weighed = schedule.decisions_about(node).filter(|step| by_pass(step).is_none());
    weighed.filter_map(stored).last().unwrap_or_else(|| {
        let node = record.nodes.get(node as usize);
        let value = node.map_or_else(String::new, |n| format!("{} {:?}", n.label, n.shape));
        format!("{value} is always stored: it is a result, a write, or a part of a sum")
    })
}

fn stored(step: &Step) -> Option<String> {
    let Step::Decision { about, alternatives, chosen, note, .. } = step else { return None };
    let chosen = &alternatives.get(*chosen)?.0;
    Some(match prices(step) {
        none if none.is_empty() => format!("{about} is in {chosen}: {note}"),
        prices => format!("{about} is in {chosen}, estimated as {prices}"),
    })
}

fn prices(step: &Step) -> String {
    let Step::Decision { alternatives, unit, .. } = step else { return String::new() };
    let price =
        |(name, price): &(String, Option<f64>)| Some(format!("{name} {:.2} {unit}", (*price)?));
    let prices: Vec<String> = alternatives.iter().filter_map(price).collect();
    prices.join(", ")
}
