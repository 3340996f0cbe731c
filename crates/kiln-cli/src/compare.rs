//! `kiln compare`: the kernels of two recorded runs, for reviews of compiler changes.
//!
//! Two kernels are one if stage `schedule` left the same graph. What the later stages made of it may differ.

use crate::outcome::Outcome;
use clap::Args;
use kiln::record::{Kernel, Record};
use similar::TextDiff;
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Options {
    /// The record before the change: what `VIZ=1` writes
    base: PathBuf,
    /// The record after it
    now: PathBuf,
    /// Show the texts of kernels that differ, line by line
    #[arg(long)]
    text: bool,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let [base, now] = [Record::open(&options.base)?, Record::open(&options.now)?];
    let (base, now) = (kernels(&base), kernels(&now));
    let out = &mut std::io::stdout().lock();
    let (known, present) = (by_graph(&base), by_graph(&now));
    let pairs: Vec<[&Kernel; 2]> =
        now.iter().filter_map(|k| Some([*known.get(&k.scheduled[..])?, *k])).collect();
    let differ: Vec<&[&Kernel; 2]> = pairs.iter().filter(|[a, b]| a.source != b.source).collect();
    let gone: Vec<&&Kernel> =
        base.iter().filter(|k| !present.contains_key(&k.scheduled[..])).collect();
    let new: Vec<&&Kernel> = now.iter().filter(|k| !known.contains_key(&k.scheduled[..])).collect();
    for [before, after] in &differ {
        writeln!(out, "differs  {}", change(before, after))?;
        if options.text {
            let diff = TextDiff::from_lines(&before.source, &after.source);
            write!(out, "{}", diff.unified_diff().header("base", "now"))?;
        }
    }
    for kernel in &gone {
        writeln!(out, "gone     {}", one(kernel))?;
    }
    for kernel in &new {
        writeln!(out, "new      {}", one(kernel))?;
    }
    let same = pairs.len() - differ.len();
    let (differ, gone, new) = (differ.len(), gone.len(), new.len());
    writeln!(out, "{same} kernels are the same, {differ} differ, {gone} are gone, {new} are new")?;
    writeln!(out, "instructions of all: {}", ratio(total(&base), total(&now)))?;
    Ok(())
}

/// Each kernel once.
fn kernels(record: &Record) -> Vec<&Kernel> {
    let mut seen = HashSet::new();
    record.kernels.iter().filter(|kernel| seen.insert(&kernel.scheduled)).collect()
}

/// Kernels by the graph that stage `schedule` left.
fn by_graph<'a>(kernels: &[&'a Kernel]) -> HashMap<&'a str, &'a Kernel> {
    kernels.iter().map(|kernel| (&kernel.scheduled[..], *kernel)).collect()
}

fn total(kernels: &[&Kernel]) -> u64 {
    kernels.iter().map(|k| k.instructions).fold(0, u64::saturating_add)
}

fn ratio(before: u64, after: u64) -> String {
    let times = after as f64 / before.max(1) as f64;
    format!("{before} -> {after} ({times:.3} times)")
}

fn lines(kernel: &Kernel) -> usize {
    kernel.source.lines().count()
}

fn change(before: &Kernel, after: &Kernel) -> String {
    let options = match before.options == after.options {
        true => String::new(),
        false => format!(", [{}] -> [{}]", before.options.join(", "), after.options.join(", ")),
    };
    format!(
        "{}: {} -> {} lines, instructions {}{options}",
        after.name,
        lines(before),
        lines(after),
        ratio(before.instructions, after.instructions),
    )
}

fn one(kernel: &Kernel) -> String {
    let Kernel { name, instructions, options, .. } = kernel;
    format!(
        "{name}: {} lines, {instructions} instructions, [{}]",
        lines(kernel),
        options.join(", ")
    )
}
