//! Rule names are unique, and libraries print in one place.

use crate::finding::Finding;
use crate::source::{File, Workspace, identifier};
use std::collections::BTreeMap;

/// Where text may go to a terminal: the binaries, this tool, and the one module that writes DEBUG output.
const MAY_PRINT: &[&str] = &[
    "crates/kiln-cli/",
    "crates/kiln-book/",
    "bench/",
    "xtask/",
    "crates/kiln/src/engine/debug.rs",
];

const PRINTERS: &[&str] = &["print", "println", "eprint", "eprintln", "dbg"];

pub(crate) fn prints(workspace: &Workspace) -> Vec<Finding> {
    workspace.sources().flat_map(printing).collect()
}

fn printing(file: &File) -> Vec<Finding> {
    if MAY_PRINT.iter().any(|p| file.path.starts_with(p)) {
        return Vec::new();
    }
    let mut out = Vec::new();
    for name in PRINTERS {
        for at in file.words(name).filter(|at| file.code[at + name.len()..].starts_with('!')) {
            let message = format!("`{name}!` in a library; DEBUG output is written in one module");
            out.push(Finding { path: file.path.clone(), line: file.line(at), message });
        }
    }
    out
}

pub(crate) fn rules(workspace: &Workspace) -> Vec<Finding> {
    let mut seen = BTreeMap::new();
    let mut out = Vec::new();
    for file in workspace.sources() {
        for (at, name) in rule_names(file) {
            let place = format!("{}:{}", file.path, file.line(at));
            if let Some(first) = seen.insert(name, place) {
                let message = format!("the rule `{name}` exists already at {first}");
                out.push(Finding { path: file.path.clone(), line: file.line(at), message });
            }
        }
    }
    out
}

/// The names in `rule!(name ..` and `rule_ctx!(ctx: Type, name ..`, with `grows` in front or not.
fn rule_names(file: &File) -> Vec<(usize, &str)> {
    let mut out = Vec::new();
    for (call, has_context) in [("rule!(", false), ("rule_ctx!(", true)] {
        for (at, _) in file.code.match_indices(call) {
            if file.code[..at].ends_with(crate::source::is_word) {
                continue;
            }
            let mut rest = file.code[at + call.len()..].trim_start();
            // the name is the word in front of the first `[`
            if has_context && let Some(bracket) = rest.find(" [") {
                let start = rest[..bracket].rfind(|c: char| !crate::source::is_word(c));
                rest = &rest[start.map_or(0, |i| i + 1)..];
            }
            rest = rest.strip_prefix("grows ").unwrap_or(rest).trim_start();
            let name = identifier(rest);
            if !name.is_empty() {
                out.push((at, name));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_rules() {
        let code = "rule!(add_zero [x] x + 0 => x), rule!(grows b [x: Int] x => x), rule_ctx!(s: Vec<UOp>, c [v] v => v), my_rule!(d [x])";
        let file = File::new("crates/a/src/a.rs", code.to_string());
        let mut names: Vec<&str> = rule_names(&file).into_iter().map(|(_, n)| n).collect();
        names.sort();
        assert_eq!(names, ["add_zero", "b", "c"]);
    }

    #[test]
    fn printing_is_found() {
        let file = File::new(
            "crates/kiln/src/a.rs",
            "eprintln!(\"x\"); sprint!(); fn print() {}".to_string(),
        );
        assert_eq!(printing(&file).len(), 1);
    }
}
