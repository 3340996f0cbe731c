//! Graphs that were scheduled and compiled apart although they are alike, and why.

use super::finding::{Finding, compiling};
use kiln::record::{Node, Record, Schedule};
use std::collections::{HashMap, HashSet};

/// Recompilations, each with what differs, and graphs that grow.
pub(super) fn findings(record: &Record) -> Vec<Finding> {
    let mut keys: Vec<Vec<(&Schedule, f64)>> = Vec::new();
    let mut place: HashMap<&str, usize> = HashMap::new();
    for (schedule, compiling) in record.schedules.iter().zip(compiling(record)) {
        let Some(took) = schedule.took else { continue };
        let at = *place.entry(&schedule.key).or_insert(keys.len());
        keys.resize_with(keys.len().max(at + 1), Vec::new);
        keys[at].push((schedule, took + compiling));
    }
    let mut all: Vec<Finding> = keys.iter().filter_map(|all| varied(record, all)).collect();
    all.extend(related(record, keys.iter().map(|all| all[0])));
    all
}

/// A graph that was scheduled again with the same key: numbers in it varied, and are arguments of launches from then on.
fn varied(record: &Record, all: &[(&Schedule, f64)]) -> Option<Finding> {
    let [(first, _), .., (last, _)] = all else { return None };
    let [before, after] = [first, last].map(|schedule| record.nodes_of(&schedule.roots));
    let stayed: HashSet<&str> = after.iter().map(|node| node.label.as_str()).collect();
    let is_gone = |node: &&&Node| node.sources.is_empty() && !stayed.contains(&node.label[..]);
    let gone: Vec<&str> =
        before.iter().filter(is_gone).map(|node| &node.label[..]).take(4).collect();
    let text = format!(
        "scheduled {} times, as numbers in it varied ({}): they are arguments of launches now, and there is nothing to do",
        all.len(),
        gone.join(", ")
    );
    Some(Finding { cost: all.iter().skip(1).map(|(_, cost)| cost).sum(), text })
}

/// What graphs of different keys have to do with each other.
fn related<'a>(record: &'a Record, new: impl Iterator<Item = (&'a Schedule, f64)>) -> Vec<Finding> {
    let mut forms: HashMap<String, Vec<(&Schedule, f64)>> = HashMap::new();
    let mut growing: HashMap<String, Vec<(&Schedule, f64)>> = HashMap::new();
    for (schedule, cost) in new {
        let nodes = record.nodes_of(&schedule.roots);
        forms.entry(form(&nodes)).or_default().push((schedule, cost));
        growing.entry(makers(&nodes).join("\n")).or_default().push((schedule, cost));
    }
    let again = forms.values().filter(|all| all.len() > 1).map(|all| recompiled(record, all));
    let grown = growing.values().filter_map(|all| grows(record, all));
    again.chain(grown).collect()
}

/// A graph without its numbers.
fn form(nodes: &[&Node]) -> String {
    let labels: Vec<String> = nodes.iter().map(|n| outline(&n.label)).collect();
    labels.join("\n")
}

/// The last schedule before this one whose graph differs from its graph in numbers alone, counted from 1, with the first of
/// them.
pub(super) fn alike(record: &Record, at: usize) -> Option<(usize, String)> {
    let new = &record.schedules[at];
    let own = form(&record.nodes_of(&new.roots));
    let is_alike = |old: &Schedule| old.took.is_some() && form(&record.nodes_of(&old.roots)) == own;
    let earlier = (0..at).rev().find(|&i| is_alike(&record.schedules[i]))?;
    Some((earlier + 1, difference(record, &record.schedules[earlier], new)))
}

/// A label without its numbers.
fn outline(label: &str) -> String {
    let mut text = String::with_capacity(label.len());
    for c in label.chars() {
        match c.is_ascii_digit() {
            true if text.ends_with('#') => {}
            true => text.push('#'),
            false => text.push(c),
        }
    }
    text
}

/// The lines that made the nodes, each once.
fn makers(nodes: &[&Node]) -> Vec<String> {
    let mut makers: Vec<String> = nodes.iter().filter_map(|n| n.by.clone()).collect();
    makers.sort();
    makers.dedup();
    makers
}

/// Graphs of one form were compiled: what differs between the first two.
fn recompiled(record: &Record, all: &[(&Schedule, f64)]) -> Finding {
    let cost = all.iter().skip(1).map(|(_, cost)| cost).sum();
    let what = difference(record, all[0].0, all[1].0);
    let advice = match all.len() {
        2 => "One more of them has a schedule for all lengths, and there is nothing to do",
        _ => "Keep lengths equal (pad, or the same batch), or pass what varies as a tensor",
    };
    let text =
        format!("recompiled: {} graphs are equal but for numbers: {what}. {advice}", all.len());
    Finding { cost, text }
}

/// What differs first between two graphs of one form.
fn difference(record: &Record, first: &Schedule, second: &Schedule) -> String {
    let [first, second] = [first, second].map(|schedule| record.nodes_of(&schedule.roots));
    let differs = |(a, b): &(&&Node, &&Node)| a.label != b.label;
    let Some((a, b)) = first.iter().zip(&second).find(differs) else {
        return "the dtype, the device or the order of nodes differs".to_owned();
    };
    let users = [a, b].map(|n| n.by.as_deref());
    let by = users.into_iter().flatten().next().map(str::to_owned);
    let by = by.or_else(|| maker_above(&second, b.id)).unwrap_or_default();
    format!("`{}` was `{}` {by}", b.label, a.label)
}

/// The line that made the first node that uses this one.
fn maker_above(nodes: &[&Node], id: u32) -> Option<String> {
    let mut below = HashSet::from([id]);
    for node in nodes {
        if node.sources.iter().any(|s| below.contains(s)) {
            if let Some(by) = &node.by {
                return Some(format!("below {by}"));
            }
            below.insert(node.id);
        }
    }
    None
}

/// Graphs that the same lines made and that become larger each time: a loop that never computes.
fn grows(record: &Record, all: &[(&Schedule, f64)]) -> Option<Finding> {
    let sizes: Vec<usize> = all.iter().map(|(s, _)| record.nodes_of(&s.roots).len()).collect();
    if sizes.len() < 3 || !sizes.windows(2).all(|pair| pair[0] < pair[1]) {
        return None;
    }
    let cost = all.iter().skip(1).map(|(_, cost)| cost).sum();
    let lines = makers(&record.nodes_of(&all[0].0.roots)).join(", ");
    let text = format!(
        "a graph that grows: {} graphs of {} to {} nodes, each with the one before in it, of {lines}. \
         Call `realize()` on what the loop carries over",
        sizes.len(),
        sizes[0],
        sizes[sizes.len() - 1],
    );
    Some(Finding { cost, text })
}
