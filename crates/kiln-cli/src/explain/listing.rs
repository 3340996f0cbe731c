//! Nodes as lines of text.

use crate::outcome::Outcome;
use kiln::record::Record;
use std::collections::HashSet;
use std::io::Write;

/// A linear program in its own order, indented by its loops, with a mark for each node.
pub(super) fn listed(
    record: &Record,
    ops: &[u32],
    mark: impl Fn(u32) -> char,
    out: &mut impl Write,
) -> Outcome {
    let listed: HashSet<u32> = ops.iter().copied().collect();
    let mut depth = 0usize;
    for &id in ops {
        let op = record.nodes[id as usize].op();
        depth = depth.saturating_sub(usize::from(op == "end"));
        let value = |id| value_of(record, id, |id| listed.contains(&id));
        one(record, (mark(id), depth, id), value, out)?;
        depth += usize::from(op == "range");
    }
    Ok(())
}

/// A node in a line of its own: `+   %7 = add f32 %5 %6`.
pub(super) fn line(record: &Record, mark: char, id: u32, out: &mut impl Write) -> Outcome {
    one(record, (mark, 0, id), |source| source, out)
}

/// The same after an indentation, with another node for each source.
fn one(
    record: &Record,
    (mark, depth, id): (char, usize, u32),
    value: impl Fn(u32) -> u32,
    out: &mut impl Write,
) -> Outcome {
    let node = &record.nodes[id as usize];
    let sources = node.sources.iter().map(|&source| operand(record, value(source)));
    let sources: Vec<String> = sources.collect();
    let by = node.by.as_ref().map_or_else(String::new, |by| format!("  # {by}"));
    let indent = "  ".repeat(depth);
    writeln!(out, "{mark} {indent}%{id} = {} {}{by}", node.label, sources.join(" "))?;
    Ok(())
}

/// A constant as it is, anything else by its number.
fn operand(record: &Record, id: u32) -> String {
    let label = &record.nodes[id as usize].label;
    let is_number =
        label.starts_with(|c: char| c.is_ascii_digit() || c == '-') && !label.contains(' ');
    if is_number { label.clone() } else { format!("%{id}") }
}

/// A linear program has no node that says only when a value is there: its order says so. Then the value is named.
fn value_of(record: &Record, mut id: u32, is_listed: impl Fn(u32) -> bool) -> u32 {
    let node = |id: u32| &record.nodes[id as usize];
    while let ("after", Some(&value)) = (node(id).op(), node(id).sources.first()) {
        if is_listed(id) {
            break;
        }
        id = value;
    }
    id
}
