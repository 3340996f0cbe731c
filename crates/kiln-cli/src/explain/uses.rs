//! Where one rule fired, and where a method's nodes went.

use super::names::named;
use super::steps::{expression, rewritten};
use super::units::time;
use crate::outcome::{Failure, Outcome};
use kiln::record::{Change, How, Lives, Node, PassRun, Record, Schedule, Step, passes};
use std::collections::{BTreeMap, HashSet};
use std::io::Write;

/// Shows where the rules of this name fired, and what they rewrote first.
pub(super) fn of_rule(record: &Record, name: &str, most: usize, out: &mut impl Write) -> Outcome {
    let uses = uses(record, name);
    let counted: Vec<_> = record.rules.iter().filter(|rule| rule.rule == name).collect();
    if uses.is_empty() && counted.is_empty() {
        let text = format!("no rule {name} was tried: `kiln explain FILE --rules` lists rules");
        return Err(Failure::new(text));
    }
    for rule in counted {
        let (fired, tried, took) = (rule.fired, rule.tried, time(rule.took));
        writeln!(
            out,
            "\n{name} {}:{}: fired {fired} times of {tried}, {took}",
            rule.file, rule.line
        )?;
    }
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    uses.iter().for_each(|each| *places.entry(&each.place).or_default() += 1);
    writeln!(out, "{} of its rewrites are in the record", uses.len())?;
    let mut places: Vec<(&str, usize)> = places.into_iter().collect();
    places.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (place, count) in places.iter().take(most) {
        writeln!(out, "{count:>6}  in {place}")?;
    }
    if places.len() > most {
        writeln!(out, "        and in {} other passes: --most shows more", places.len() - most)?;
    }
    writeln!(out, "the first of them")?;
    for Use { place, before, after } in uses.iter().take(most) {
        writeln!(out, "  in {place}")?;
        rewritten(record, *before, *after, out)?;
    }
    Ok(())
}

/// A rewrite, and the pass that it was for.
struct Use {
    place: String,
    before: u32,
    after: u32,
}

/// The rewrites of a rule, those of schedules first.
fn uses(record: &Record, name: &str) -> Vec<Use> {
    let schedules = record.schedules.iter().enumerate();
    let schedules = schedules.map(|(at, s)| (format!("schedule {}", at + 1), &s.steps[..]));
    let kernels = record.kernels.iter().map(|k| (format!("kernel {}", k.name), &k.steps[..]));
    let mut all = Vec::new();
    for (owner, steps) in schedules.chain(kernels) {
        for run in passes(steps) {
            let place = || format!("{owner}, pass {}", run.pass);
            let own = run.inner.iter().filter_map(|&at| match &steps[at] {
                Step::Rewrite { rule, before, after, .. } if rule == name => {
                    Some(Use { place: place(), before: *before, after: *after })
                }
                _ => None,
            });
            all.extend(own);
        }
    }
    all
}

/// Shows nodes by name. The name is that of a method, an op or a line. Of each line that made some there are its kernels; of
/// each node, its changes in the passes of its schedule.
pub(super) fn of_method(record: &Record, name: &str, most: usize, out: &mut impl Write) -> Outcome {
    let is_method = |by: &str| by.split(' ').next() == Some(name) || by.ends_with(name);
    let is_it = |node: &&Node| node.by.as_deref().is_some_and(is_method) || node.op() == name;
    let (mut seen, mut shown) = (HashSet::new(), 0);
    for (at, schedule) in record.schedules.iter().enumerate().filter(|(_, s)| !s.steps.is_empty()) {
        let mut shown_of = Tensors::of(record, at);
        for node in record.nodes_of(&schedule.roots).into_iter().filter(is_it) {
            if seen.insert((&node.label, &node.shape, &node.by)) {
                shown += 1;
                if shown <= most {
                    shown_of.show(node, out)?;
                }
            }
        }
    }
    if shown > most {
        writeln!(out, "\nand {} other nodes: --most shows more", shown - most)?;
    }
    match shown {
        0 => in_kernels(record, name, most, out),
        _ => Ok(()),
    }
}

/// The tensor graph of one schedule.
struct Tensors<'a> {
    record: &'a Record,
    /// The place of the schedule.
    at: usize,
    schedule: &'a Schedule,
    runs: Vec<PassRun<'a>>,
    lives: Lives<'a>,
    /// Whose node was shown last.
    of: Option<&'a str>,
}

impl<'a> Tensors<'a> {
    fn of(record: &'a Record, at: usize) -> Tensors<'a> {
        let schedule = &record.schedules[at];
        let (runs, lives) = (passes(&schedule.steps), record.lives(&schedule.steps));
        Tensors { record, at, schedule, runs, lives, of: None }
    }

    /// A node, and what the passes make of it. Nodes of one line have one heading.
    fn show(&mut self, node: &'a Node, out: &mut impl Write) -> Outcome {
        let by = node.by.as_deref().unwrap_or("the program");
        if self.of.replace(by) != Some(by) {
            self.heading(by, out)?;
        }
        let number = node.id;
        writeln!(out, "  %{number} {} of shape {:?}", node.label, node.shape)?;
        let life = self.lives.of(0, number);
        changes(self.record, &self.schedule.steps, &self.runs, &life.becomes, out)
    }

    /// A method with its line, and the kernels that it is computed in.
    fn heading(&self, by: &str, out: &mut impl Write) -> Outcome {
        let names = named(self.record, self.at, &self.schedule.kernels);
        let kernels = self.schedule.kernels.iter().zip(names).enumerate();
        let mine = kernels.filter(|(_, (kernel, _))| kernel.methods.iter().any(|m| m == by));
        let mine: Vec<String> =
            mine.map(|(at, (_, name))| format!("    {}: {name}", at + 1)).collect();
        let is_in = match mine.len() {
            0 => "no kernel of its own",
            _ => "computed in kernels",
        };
        writeln!(out, "\n{by}: in schedule {}, {is_in}", self.at + 1)?;
        mine.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        Ok(())
    }
}

fn changes(
    record: &Record,
    steps: &[Step],
    runs: &[PassRun<'_>],
    all: &[Change],
    out: &mut impl Write,
) -> Outcome {
    for change in all {
        let Some(run) = runs.iter().find(|run| run.step == change.step) else { continue };
        let is = match change.to {
            Some(to) => format!("%{to} {}", expression(record, to)),
            None => change.gone.unwrap_or_default().to_owned(),
        };
        writeln!(out, "    {} / {}: becomes {is}{}", run.stage, run.pass, how(change.how))?;
        by_rules(steps, &change.rules, out)?;
    }
    Ok(())
}

fn by_rules(steps: &[Step], rules: &[usize], out: &mut impl Write) -> Outcome {
    for &rule in rules {
        if let Step::Rewrite { rule, file, line, .. } = &steps[rule] {
            writeln!(out, "        by rule {rule} {file}:{line}")?;
        }
    }
    Ok(())
}

fn how(how: How) -> &'static str {
    match how {
        How::Sources => ", the same over new sources",
        How::Place => ", which stands in its place",
        _ => "",
    }
}

/// An op that tensor graphs do not have: how often it is in the kernels, and where one comes from.
fn in_kernels(record: &Record, name: &str, most: usize, out: &mut impl Write) -> Outcome {
    let is_it = |node: &&Node| node.op() == name;
    let mut shown = 0;
    for kernel in &record.kernels {
        let runs = passes(&kernel.steps);
        let made = runs
            .iter()
            .find_map(|run| Some((run, record.nodes_of(run.after).into_iter().find(is_it)?.id)));
        let Some((run, node)) = made.filter(|_| shown < most) else { continue };
        shown += 1;
        let text = expression(record, node);
        writeln!(out, "\nkernel {}, first in pass {}: %{node} {text}", kernel.name, run.pass)?;
        let life = record.lives(&kernel.steps).of(run.step, node);
        if let Some(Change { to: Some(was), rules, .. }) = life.comes_from.first() {
            writeln!(out, "  comes from {}", expression(record, *was))?;
            by_rules(&kernel.steps, rules, out)?;
        }
        changes(record, &kernel.steps, &runs, &life.becomes, out)?;
    }
    match shown {
        0 => Err(Failure::new(format!("no method, op or line of the record is {name}"))),
        _ => Ok(()),
    }
}
