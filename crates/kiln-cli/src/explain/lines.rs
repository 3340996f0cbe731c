//! Lines of the program whose values are computed again and again, by schedules of their own.

use super::finding::Finding;
use kiln::record::{Node, Record, Schedule};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What a node computes: its line, its label, and the shapes of its sources and itself.
type Value<'a> = (&'a str, &'a str, Vec<&'a [usize]>);

/// Lines of which several schedules compute equal values: of the same operation and shape.
pub(super) fn findings(record: &Record) -> Vec<Finding> {
    let mut values: HashMap<Value<'_>, HashSet<&str>> = HashMap::new();
    for schedule in record.schedules.iter().filter(|s| s.took.is_some()) {
        let computed = lines_of(schedule);
        for node in of_data(record.nodes_of(&schedule.roots)) {
            let line =
                node.by.as_deref().filter(|by| computed.contains(by) && !is_view(&node.label));
            if let Some(line) = line {
                let sources = node.sources.iter().map(|&s| &record.nodes[s as usize].shape[..]);
                let value = (line, node.label.as_str(), sources.chain([&node.shape[..]]).collect());
                values.entry(value).or_default().insert(&schedule.key);
            }
        }
    }
    let mut schedules_of: HashMap<&str, HashSet<&str>> = HashMap::new();
    for ((line, ..), schedules) in values.into_iter().filter(|(_, all)| all.len() > 1) {
        schedules_of.entry(line).or_default().extend(schedules);
    }
    let mut cost_of: HashMap<&str, (f64, usize)> = HashMap::new();
    for launch in &record.launches {
        for line in launch.methods.iter().filter(|m| tells_a_line(m)) {
            let all = cost_of.entry(line).or_default();
            (all.0, all.1) = (all.0 + launch.took, all.1 + 1);
        }
    }
    // lines that are computed by the same schedules are one finding
    let mut groups: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    for (line, schedules) in schedules_of.iter().filter(|(_, schedules)| schedules.len() > 1) {
        let mut schedules: Vec<&str> = schedules.iter().copied().collect();
        schedules.sort_unstable();
        groups.entry(schedules).or_default().push(line);
    }
    let finding = |(schedules, mut lines): (Vec<&str>, Vec<&str>)| {
        lines.sort_unstable();
        let largest = lines.iter().filter_map(|line| cost_of.get(line));
        let (cost, runs) = largest.copied().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
        let again = (schedules.len() - 1) as f64 / schedules.len() as f64;
        let text = format!(
            "computed again: {} different graphs compute what {} makes, in {runs} launches. \
             Call `realize()` on it, or read both results with one `kiln::realize`",
            schedules.len(),
            lines.join(", "),
        );
        Finding { cost: cost * again, text }
    };
    groups.into_iter().map(finding).collect()
}

/// The nodes that are computed from data. Others, as random numbers, look alike and are not.
fn of_data(nodes: Vec<&Node>) -> Vec<&Node> {
    let mut known: HashSet<u32> = HashSet::new();
    for node in &nodes {
        if node.label.starts_with("param") || node.sources.iter().any(|s| known.contains(s)) {
            known.insert(node.id);
        }
    }
    nodes.into_iter().filter(|node| known.contains(&node.id)).collect()
}

/// The lines that a schedule's kernels compute.
fn lines_of(schedule: &Schedule) -> HashSet<&str> {
    let methods = schedule.kernels.iter().flat_map(|kernel| &kernel.methods);
    methods.map(String::as_str).filter(|m| tells_a_line(m)).collect()
}

/// Whether a node only shows, or is a number.
fn is_view(label: &str) -> bool {
    let views =
        ["reshape", "expand", "permute", "slice", "pad", "window", "param", "const", "cast"];
    !label.contains(' ') || views.iter().any(|view| label.starts_with(view))
}

fn tells_a_line(method: &str) -> bool {
    method.contains(' ')
}
