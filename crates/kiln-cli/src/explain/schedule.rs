//! The kernels of one schedule: what each reads and writes, and why it is not one with a later one.

use super::units::size;
use crate::outcome::{Failure, Outcome};
use kiln::record::{PlannedKernel, Record, Schedule, Step};
use std::collections::{BTreeSet, HashMap};
use std::io::Write;

/// Shows the schedule of this number, counted from 1.
pub(super) fn show(record: &Record, number: usize, out: &mut impl Write) -> Outcome {
    let asked = number.checked_sub(1).and_then(|at| record.schedules.get(at));
    let Some(asked) = asked else {
        let count = record.schedules.len();
        return Err(Failure::new(format!(
            "the record has {count} schedules, and none is number {number}"
        )));
    };
    // one that was remembered has its kernels where it was made
    let is_same = |s: &&Schedule| s.key == asked.key && s.took.is_some();
    let schedule = record.schedules[..number].iter().rev().find(is_same).unwrap_or(asked);
    writeln!(out, "\nthe kernels of schedule {number}, and the stored values between them")?;
    let users = users(&schedule.kernels);
    for (at, kernel) in schedule.kernels.iter().enumerate() {
        writeln!(out, "{at:>4}: {}", described(kernel))?;
        let later: BTreeSet<usize> = kernel
            .arguments
            .iter()
            .flat_map(|(name, _)| &users[name.as_str()])
            .copied()
            .filter(|&user| user > at)
            .collect();
        for other in later {
            for node in schedule.between(at, other) {
                writeln!(out, "      not one with {other}: {}", why(record, schedule, node))?;
            }
        }
    }
    Ok(())
}

/// By name of memory: the kernels that have it as an argument.
fn users(kernels: &[PlannedKernel]) -> HashMap<&str, Vec<usize>> {
    let mut users: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, kernel) in kernels.iter().enumerate() {
        for (name, _) in &kernel.arguments {
            users.entry(name).or_default().push(at);
        }
    }
    users
}

fn described(kernel: &PlannedKernel) -> String {
    let arguments = kernel.arguments.iter().map(|(name, bytes)| format!("{name} {}", size(*bytes)));
    let arguments: Vec<String> = arguments.collect();
    format!("{} ({})", kernel.methods.join(", "), arguments.join(", "))
}

/// Why a value is stored: the prices, or that there was no choice.
fn why(record: &Record, schedule: &Schedule, node: u32) -> String {
    let priced = schedule.decisions_about(node).filter_map(priced).last();
    priced.unwrap_or_else(|| {
        let node = record.nodes.get(node as usize);
        let value = node.map_or_else(String::new, |n| format!("{} {:?}", n.label, n.shape));
        format!(
            "{value} is always stored: it is a result, a write, a part of a sum, or its user is full"
        )
    })
}

fn priced(step: &Step) -> Option<String> {
    let Step::Decision { about, alternatives, unit, chosen, .. } = step else { return None };
    let price =
        |(name, price): &(String, Option<f64>)| Some(format!("{name} {:.2} {unit}", (*price)?));
    let prices: Vec<String> = alternatives.iter().filter_map(price).collect();
    let chosen = &alternatives.get(*chosen)?.0;
    Some(format!("{about} is in {chosen}, estimated as {}", prices.join(", ")))
}
