//! `kiln explain`: what took the time in a recorded run, and why.

mod finding;
mod forms;
mod kernel;
mod kernels;
mod lines;
mod listing;
mod memory;
mod names;
mod program;
mod rules;
mod schedule;
mod steps;
mod units;
mod uses;

use crate::outcome::{Failure, Outcome};
use clap::Args;
use finding::{Finding, compiling};
use kiln::record::{Kernel, Record, Step};
use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use units::{counted, size, time};

#[derive(Args)]
pub(crate) struct Options {
    /// A record: what `VIZ=1` writes
    file: PathBuf,
    /// How many kernels, findings and decisions to show at most
    #[arg(long, default_value_t = 10)]
    most: usize,
    /// Show the kernels of the schedule of this number, and why they are not fewer
    #[arg(long, group = "view")]
    schedule: Option<usize>,
    /// Show the kernel of this name, such as r_64_16: where its code comes from, the loops after each of its options with
    /// their prices, its linear program, text and machine code, its launches and the roof
    #[arg(long, group = "view")]
    kernel: Option<String>,
    /// Show the lines of the program: nodes and kernels that each made, and their time
    #[arg(long, group = "view")]
    lines: bool,
    /// Show which rewrite rules took the time, and how often they fired
    #[arg(long, group = "view")]
    rules: bool,
    /// Show where the rewrite rule of this name fired, and what it rewrote
    #[arg(long, group = "view", value_name = "NAME")]
    rule: Option<String>,
    /// Show what becomes of nodes: of a method such as arange, of an op such as reduce, or of a line such as model.rs:37
    #[arg(long, group = "view", value_name = "METHOD")]
    find: Option<String>,
    /// With --kernel or --schedule: list its passes, with how much each changed
    #[arg(long, conflicts_with_all = ["lines", "rules", "rule", "find"])]
    passes: bool,
    /// With --kernel or --schedule: show one pass, with its rewrites in order and the graph that it left
    #[arg(long, value_name = "NAME", conflicts_with_all = ["lines", "rules", "rule", "find", "passes"])]
    pass: Option<String>,
}

impl Options {
    /// Whether passes are asked for.
    fn is_of_passes(&self) -> Outcome<bool> {
        let is_asked = self.passes || self.pass.is_some();
        if is_asked && self.kernel.is_none() && self.schedule.is_none() {
            return Err(Failure::new(
                "passes are those of a kernel or a schedule: --kernel NAME, or --schedule NUMBER",
            ));
        }
        Ok(is_asked)
    }
}

pub(crate) fn run(options: &Options) -> Outcome {
    let record = Record::open(&options.file)?;
    let mut out = std::io::stdout().lock();
    if options.is_of_passes()? {
        let of = (options.kernel.as_deref(), options.schedule);
        return steps::show(&record, of, options.pass.as_deref(), &mut out);
    }
    if let Some(name) = &options.rule {
        return uses::of_rule(&record, name, options.most, &mut out);
    }
    if let Some(name) = &options.find {
        return uses::of_method(&record, name, options.most, &mut out);
    }
    totals(&record, &mut out)?;
    if let Some(number) = options.schedule {
        return schedule::show(&record, number, &mut out);
    }
    if let Some(name) = &options.kernel {
        return kernel::show(&record, name, &mut out);
    }
    if options.lines {
        return program::show(&record, options.most, &mut out);
    }
    if options.rules {
        return rules::show(&record, options.most, &mut out);
    }
    let mut findings = forms::findings(&record);
    findings.extend(lines::findings(&record));
    findings.extend(copies(&record));
    findings.sort_by(|a, b| b.cost.total_cmp(&a.cost));
    if findings.is_empty() {
        writeln!(out, "nothing was compiled or computed more often than it had to be")?;
    }
    for finding in findings.iter().take(options.most) {
        writeln!(out, "{:>9}  {}", time(finding.cost), finding.text)?;
    }
    kernels::show(&record, options.most, &mut out)?;
    decisions(&record, options.most, &mut out)?;
    memory::show(&record, options.most, &mut out)
}

fn totals(record: &Record, out: &mut impl Write) -> Outcome {
    let launches: f64 = record.launches.iter().map(|l| l.took).sum();
    let scheduling: f64 = record.schedules.iter().filter_map(|s| s.took).sum();
    let compiling: f64 = compiling(record).iter().sum();
    let copying: f64 = record.copies.iter().map(|c| c.took).sum::<f64>() + 0.0;
    let new = record.schedules.iter().filter(|s| s.took.is_some()).count();
    let is_new = |kernel: &&Kernel| !kernel.origin.contains("disk");
    let compiled = record.kernels.iter().filter(is_new).count();
    let share = |floor: f64| format!(" ({:.0}% is the floor)", 100.0 * floor / launches.max(1e-9));
    let floor = kernels::on_the_floor(record).map_or_else(String::new, share);
    writeln!(
        out,
        "{}: {} {}{floor}, {new} of {} new {}, {} compiled and {} from the cache on disk {}, {} {}",
        record.program,
        counted(record.launches.len(), "launch"),
        time(launches),
        counted(record.schedules.len(), "schedule"),
        time(scheduling),
        counted(compiled, "kernel"),
        record.kernels.len() - compiled,
        time(compiling),
        counted(record.copies.len(), "copy"),
        time(copying),
    )?;
    for device in
        record.devices.iter().filter(|d| record.launches.iter().any(|l| l.device == d.name))
    {
        writeln!(out, "{} is {}: {}", device.name, device.backend, device.compiler)?;
    }
    if record.is_full {
        writeln!(out, "the record is cut: it has as many bytes as VIZ_MB allows")?;
    }
    if record.damaged > 0 {
        writeln!(out, "{} lines of the record are damaged", record.damaged)?;
    }
    Ok(())
}

/// Copies between devices, and copies of values that are written to while they are still needed.
fn copies(record: &Record) -> Vec<Finding> {
    let mut by_pair: HashMap<(&str, &str), (usize, usize, f64)> = HashMap::new();
    for copy in &record.copies {
        let all = by_pair.entry((&copy.from, &copy.device)).or_default();
        (all.0, all.1, all.2) = (all.0 + 1, all.1 + copy.bytes, all.2 + copy.took);
    }
    let finding = |((from, to), (count, bytes, cost)): ((&str, &str), (usize, usize, f64))| {
        let (text, size) = (counted(count, "copy"), size(bytes));
        let text = match from == to {
            false => format!("{text} from {from} to {to}, {size} in all"),
            true => format!(
                "{text} within {to}, {size} in all: a write changes a value that is still needed as it was, by a tensor \
                 of the program or by a gradient. Drop the old one, or write within `kiln::no_grad`"
            ),
        };
        Finding { cost, text }
    };
    by_pair.into_iter().map(finding).collect()
}

/// Values that were stored, and fusions that were refused, by what the alternative costs.
fn decisions(record: &Record, most: usize, out: &mut impl Write) -> Outcome {
    let steps = record.schedules.iter().flat_map(|s| &s.steps);
    let mut shown: Vec<(f64, String)> = Vec::new();
    for step in steps {
        let Step::Decision { about, alternatives, unit, chosen, note, .. } = step else { continue };
        let price = |(_, price): &(String, Option<f64>)| *price;
        let Some(own) = price(&alternatives[*chosen]) else { continue };
        let others = alternatives.iter().enumerate().filter(|(at, _)| at != chosen);
        let best = others.filter_map(|(_, other)| Some((price(other)?, &other.0)));
        let Some((other, name)) = best.min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
        let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
        let text = format!(
            "{about}: {} costs {own:.2} {unit}, {name} {other:.2}{note}",
            alternatives[*chosen].0
        );
        shown.push((other.max(own), text));
    }
    shown.sort_by(|a, b| b.0.total_cmp(&a.0));
    shown.dedup_by(|a, b| a.1 == b.1);
    if !shown.is_empty() {
        writeln!(out, "\nwhy values are stored or computed where they are used")?;
    }
    for (_, text) in shown.into_iter().take(most) {
        writeln!(out, "  {text}")?;
    }
    Ok(())
}
