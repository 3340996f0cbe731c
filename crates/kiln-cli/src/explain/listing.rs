//! Nodes as lines of text.

use crate::outcome::Outcome;
use kiln::record::Record;
use std::io::Write;

/// A linear program in its own order, indented by its loops, with a mark for each node.
pub(super) fn listed(
    record: &Record,
    ops: &[u32],
    mark: impl Fn(u32) -> char,
    out: &mut impl Write,
) -> Outcome {
    let mut depth = 0usize;
    for &id in ops {
        let op = record.nodes[id as usize].op();
        depth = depth.saturating_sub(usize::from(op == "end"));
        line(record, mark(id), depth, id, out)?;
        depth += usize::from(op == "range");
    }
    Ok(())
}

/// A node in a line of its own: `+   %7 = add f32 %5 %6`.
pub(super) fn line(
    record: &Record,
    mark: char,
    depth: usize,
    id: u32,
    out: &mut impl Write,
) -> Outcome {
    let node = &record.nodes[id as usize];
    let sources: Vec<String> = node.sources.iter().map(|&s| operand(record, s)).collect();
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
