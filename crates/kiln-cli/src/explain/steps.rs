//! The passes of a kernel or a schedule, each with its rewrites and the graph after it.

use super::kernel;
use super::listing::{line, listed};
use super::schedule::planned;
use super::units::{counted, cut};
use crate::outcome::{Failure, Outcome};
use kiln::record::{Difference, PassRun, Record, Step, passes};
use std::collections::HashSet;
use std::io::Write;

/// Expressions are cut here.
const MOST_TEXT: usize = 160;

/// Whose steps are shown, with a name for people.
struct Owner<'a> {
    name: String,
    steps: &'a [Step],
}

/// Shows the passes of kernels of this name, or of the schedule of this number: all in a list, or one with its rewrites and
/// its graph.
pub(super) fn show(
    record: &Record,
    (kernel, schedule): (Option<&str>, Option<usize>),
    pass: Option<&str>,
    out: &mut impl Write,
) -> Outcome {
    for owner in owners(record, kernel, schedule)? {
        let runs = passes(owner.steps);
        if runs.is_empty() {
            writeln!(out, "\n{}: the record has no passes of it", owner.name)?;
            continue;
        }
        match pass {
            None => list(record, &owner, &runs, out)?,
            Some(name) => one(record, &owner, &runs, name, out)?,
        }
    }
    Ok(())
}

fn owners<'a>(
    record: &'a Record,
    kernel: Option<&str>,
    schedule: Option<usize>,
) -> Outcome<Vec<Owner<'a>>> {
    if let Some(number) = schedule {
        let (at, schedule) = planned(record, number)?;
        return Ok(vec![Owner { name: format!("schedule {}", at + 1), steps: &schedule.steps }]);
    }
    let name = kernel.unwrap_or_default();
    let found = kernel::found(record, name);
    if found.is_empty() {
        return Err(kernel::missing(record, name));
    }
    Ok(found
        .into_iter()
        .map(|k| Owner { name: format!("kernel {}", k.name), steps: &k.steps })
        .collect())
}

/// A line for each pass.
fn list(record: &Record, owner: &Owner<'_>, runs: &[PassRun<'_>], out: &mut impl Write) -> Outcome {
    writeln!(out, "\nthe passes of {}; `--pass NAME` shows one of them", owner.name)?;
    writeln!(out, "  rewrites     gone      new    nodes  pass")?;
    for run in runs {
        let Difference { after, gone, new, .. } = record.difference(run.before, run.after);
        let [gone, new] = [gone, new].map(|ids| ids.len());
        let rewrites = rewrites(owner.steps, run).count();
        let name = format!("{} / {}", run.stage, run.pass);
        writeln!(out, "  {rewrites:>8} {gone:>8} {new:>8} {:>8}  {name}", after.len())?;
    }
    Ok(())
}

/// The passes of this name: decisions and rewrites in their order, and the graph.
fn one(
    record: &Record,
    owner: &Owner<'_>,
    runs: &[PassRun<'_>],
    name: &str,
    out: &mut impl Write,
) -> Outcome {
    let is_it =
        |run: &&PassRun<'_>| run.pass == name || format!("{}/{}", run.stage, run.pass) == name;
    let found: Vec<&PassRun<'_>> = runs.iter().filter(is_it).collect();
    if found.is_empty() {
        let mut names: Vec<&str> = runs.iter().map(|run| run.pass).collect();
        names.dedup();
        let (owner, names) = (&owner.name, names.join(", "));
        return Err(Failure::new(format!("{owner} has no pass {name}: its passes are {names}")));
    }
    for run in found {
        let difference = record.difference(run.before, run.after);
        let (stage, pass) = (run.stage, run.pass);
        writeln!(out, "\n{stage} / {pass} of {}", owner.name)?;
        if let Some(known) = kiln::passes().iter().find(|p| p.stage == stage && p.name == pass) {
            writeln!(out, "module {stage}::{pass} of kiln-compile; after it: {}", known.leaves)?;
        }
        led_to(record, owner.steps, run, out)?;
        graph(record, run, &difference, out)?;
    }
    Ok(())
}

fn rewrites<'a>(steps: &'a [Step], run: &'a PassRun<'_>) -> impl Iterator<Item = &'a Step> {
    let inner = run.inner.iter().map(|&at| &steps[at]);
    inner.filter(|step| matches!(step, Step::Rewrite { .. }))
}

/// The decisions and the rewrites, in order.
fn led_to(record: &Record, steps: &[Step], run: &PassRun<'_>, out: &mut impl Write) -> Outcome {
    let count = rewrites(steps, run).count();
    let decisions = counted(run.inner.len() - count, "decision");
    writeln!(out, "{}, {decisions}", counted(count, "rewrite"))?;
    for &at in &run.inner {
        match &steps[at] {
            Step::Rewrite { rule, file, line, before, after } => {
                writeln!(out, "  {rule} {file}:{line}")?;
                rewritten(record, *before, *after, out)?;
            }
            step => {
                kernel::prices(step)
                    .map_or(Ok(()), |prices| writeln!(out, "  decided: {prices}"))?;
            }
        }
    }
    Ok(())
}

/// A node as an expression that is not longer than people read.
pub(super) fn expression(record: &Record, node: u32) -> String {
    cut(&record.expression(node), MOST_TEXT).into_owned()
}

/// A node before and after a rule.
pub(super) fn rewritten(record: &Record, before: u32, after: u32, out: &mut impl Write) -> Outcome {
    let [was, is] = [before, after].map(|id| expression(record, id));
    writeln!(out, "      {was}\n    → {is}")?;
    Ok(())
}

/// The graph that a pass left, sources first; a linear program as a list.
fn graph(
    record: &Record,
    run: &PassRun<'_>,
    difference: &Difference,
    out: &mut impl Write,
) -> Outcome {
    if !run.changes() {
        let nodes = counted(difference.after.len(), "node");
        writeln!(out, "it changed nothing; the graph, {nodes}")?;
    } else {
        let (gone, new) = (difference.gone.len(), difference.new.len());
        writeln!(
            out,
            "the graph: - gone, {}; + new, {new} of {}",
            counted(gone, "node"),
            difference.after.len()
        )?;
    }
    let is_list = run.after.len() > 1 && 2 * run.after.len() >= difference.after.len();
    let new: HashSet<u32> = difference.new.iter().copied().collect();
    let mark = |id: u32| if new.contains(&id) { '+' } else { ' ' };
    difference.gone.iter().try_for_each(|&id| line(record, '-', id, out))?;
    match is_list {
        true => listed(record, run.after, mark, out),
        false => difference.after.iter().try_for_each(|&id| line(record, mark(id), id, out)),
    }
}
