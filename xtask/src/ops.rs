//! Which folder may speak of which ops, against `xtask/ops.txt`: adding an op should touch its table, its meaning, its
//! gradient and its spelling, and nothing else.
//!
//! A line of the table is a folder (or file), a colon, and either the ops that it may name or `all`, with a reason
//! after `#`. The longest path that fits decides. `tidy --bless` writes the lists anew; a folder's `all` stays.

use crate::finding::Finding;
use crate::source::{File, Workspace, identifier};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::ExitCode;

const TABLE: &str = "xtask/ops.txt";

struct Entry {
    folder: String,
    /// `None` for `all`.
    ops: Option<BTreeSet<String>>,
    line: usize,
}

fn entries(text: &str) -> Vec<Entry> {
    let mut out = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let rule = line.split('#').next().unwrap_or("").trim();
        if let Some((folder, ops)) = rule.split_once(':') {
            let ops: BTreeSet<String> = ops.split_whitespace().map(str::to_string).collect();
            let ops = Some(ops).filter(|ops| !ops.contains("all"));
            out.push(Entry { folder: folder.trim().to_string(), ops, line: i + 1 });
        }
    }
    out
}

/// The entry with the longest path that holds the file.
fn entry<'e>(entries: &'e [Entry], file: &File) -> Option<&'e Entry> {
    let holds = |e: &&Entry| {
        file.path.strip_prefix(&e.folder).is_some_and(|r| r.is_empty() || r.starts_with('/'))
    };
    entries.iter().filter(holds).max_by_key(|e| e.folder.len())
}

/// The ops that a file names, each with its first place.
fn named(file: &File) -> BTreeMap<&str, usize> {
    let mut out = BTreeMap::new();
    for at in file.words("Op") {
        let Some(rest) = file.code[at..].strip_prefix("Op::") else { continue };
        let name = identifier(rest);
        // `Op::ALL` and `Op::parse` are no ops
        let is_op = name.starts_with(|c: char| c.is_uppercase())
            && name.contains(|c: char| c.is_lowercase());
        if is_op {
            out.entry(name).or_insert(at);
        }
    }
    out
}

pub(crate) fn check(workspace: &Workspace) -> Vec<Finding> {
    let text = fs::read_to_string(workspace.root.join(TABLE)).expect("the table exists");
    findings(&entries(&text), workspace.sources().filter(|f| f.package() != "xtask"))
}

fn findings<'a>(table: &[Entry], files: impl Iterator<Item = &'a File>) -> Vec<Finding> {
    let mut out = Vec::new();
    for file in files {
        for (name, at) in named(file) {
            let message = match entry(table, file) {
                None => format!("Op::{name} is named in a folder that {TABLE} does not list"),
                Some(Entry { ops: Some(ops), line, .. }) if !ops.contains(name) => format!(
                    "Op::{name} is not on this folder's list ({TABLE}:{line}); `tidy --bless` puts it there"
                ),
                Some(_) => continue,
            };
            out.push(Finding { path: file.path.clone(), line: file.line(at), message });
        }
    }
    out
}

/// Writes each list anew from what the source names.
pub(crate) fn bless(workspace: &Workspace) -> ExitCode {
    let path = workspace.root.join(TABLE);
    let text = fs::read_to_string(&path).expect("the table exists");
    let table = entries(&text);
    let mut used: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for file in workspace.sources() {
        if let Some(entry) = entry(&table, file) {
            used.entry(entry.line).or_default().extend(named(file).into_keys());
        }
    }
    let mut out = String::new();
    for (i, line) in text.lines().enumerate() {
        let listed = table.iter().find(|e| e.line == i + 1 && e.ops.is_some());
        match listed {
            Some(entry) => {
                let ops: Vec<&str> = used.get(&(i + 1)).into_iter().flatten().copied().collect();
                let reason = line.split_once('#').map_or(String::new(), |(_, r)| format!("  #{r}"));
                let line = format!("{}: {}{reason}", entry.folder, ops.join(" "));
                out += &format!("{}\n", line.trim_end());
            }
            None => out += &format!("{line}\n"),
        }
    }
    fs::write(&path, out).expect("the table is writable");
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_off_the_list_is_found() {
        let table = entries("# x\ncrates/a: Add Mul\ncrates/a/deep: all  # meaning\n");
        let file = |path: &str, code: &str| File::new(path, code.to_string());
        let files = [
            file("crates/a/x.rs", "Op::Add; Op::Sub; Op::ALL; Op::parse; MyOp::Div"),
            file("crates/a/deep/x.rs", "Op::Sub"),
            file("crates/ab/x.rs", "Op::Add"),
        ];
        let found = findings(&table, files.iter());
        let paths: Vec<&str> = found.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(paths, ["crates/a/x.rs", "crates/ab/x.rs"]);
        assert!(found[0].message.contains("Op::Sub"));
    }
}
