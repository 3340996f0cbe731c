//! Graphs of one form: equal but for numbers. Each of them was scheduled and compiled apart, and something in them says why.

use super::finding::{Finding, compiling, nodes_of};
use kiln::record::{Node, Record, Schedule};
use std::collections::{HashMap, HashSet};

/// Recompilations, each with what differs, and graphs that grow.
pub(super) fn findings(record: &Record) -> Vec<Finding> {
    let compiling = compiling(record);
    let new = record.schedules.iter().zip(compiling).filter(|(s, _)| s.took.is_some());
    let mut forms: HashMap<String, Vec<(&Schedule, f64)>> = HashMap::new();
    let mut growing: HashMap<String, Vec<(&Schedule, f64)>> = HashMap::new();
    for (schedule, compiling) in new {
        let cost = schedule.took.unwrap_or(0.0) + compiling;
        let nodes = nodes_of(record, &schedule.roots);
        let form: Vec<String> = nodes.iter().map(|n| outline(&n.label)).collect();
        forms.entry(form.join("\n")).or_default().push((schedule, cost));
        growing.entry(makers(&nodes).join("\n")).or_default().push((schedule, cost));
    }
    let again = forms.values().filter(|all| all.len() > 1).map(|all| recompiled(record, all));
    let grown = growing.values().filter_map(|all| grows(record, all));
    again.chain(grown).collect()
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
    let [first, second] = [0, 1].map(|i| nodes_of(record, &all[i].0.roots));
    let differs = |(a, b): &(&&Node, &&Node)| a.label != b.label;
    let what = match first.iter().zip(&second).find(differs) {
        Some((a, b)) => {
            let users = [a, b].map(|n| n.by.as_deref());
            let by = users.into_iter().flatten().next().map(str::to_owned);
            let by = by.or_else(|| maker_above(&second, b.id)).unwrap_or_default();
            format!("`{}` was `{}` {by}", b.label, a.label)
        }
        None => "the dtype, the device or the order of nodes differs".to_owned(),
    };
    let text = format!(
        "recompiled: {} graphs are equal but for numbers: {what}. \
         Keep lengths equal (pad, or the same batch), or pass what varies as a tensor",
        all.len()
    );
    Finding { cost, text }
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
    let sizes: Vec<usize> = all.iter().map(|(s, _)| nodes_of(record, &s.roots).len()).collect();
    if sizes.len() < 3 || !sizes.windows(2).all(|pair| pair[0] < pair[1]) {
        return None;
    }
    let cost = all.iter().skip(1).map(|(_, cost)| cost).sum();
    let lines = makers(&nodes_of(record, &all[0].0.roots)).join(", ");
    let text = format!(
        "a graph that grows: {} graphs of {} to {} nodes, each with the one before in it, of {lines}. \
         Call `realize()` on what the loop carries over",
        sizes.len(),
        sizes[0],
        sizes[sizes.len() - 1],
    );
    Some(Finding { cost, text })
}
