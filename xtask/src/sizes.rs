//! How long functions and files are, per crate. Reported, not enforced: a long function says why in a comment.

use crate::source::{File, Workspace, block_end, identifier};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Past this a file should have more than one subject, and a function a reason.
const LONG_FILE: usize = 400;
const LONG_FUNCTION: usize = 60;

#[derive(Default)]
struct Sizes {
    functions: Vec<usize>,
    files: Vec<usize>,
    long: Vec<String>,
}

/// A table of medians, and the names of what is long.
pub(crate) fn report(workspace: &Workspace) -> String {
    let mut packages: BTreeMap<&str, Sizes> = BTreeMap::new();
    for file in workspace.sources() {
        let sizes = packages.entry(file.package()).or_default();
        let lines = file.text.lines().count();
        sizes.files.push(lines);
        if lines > LONG_FILE {
            sizes.long.push(format!("  {} has {lines} lines", file.path));
        }
        for (name, line, length) in functions(file) {
            sizes.functions.push(length);
            if length > LONG_FUNCTION {
                sizes.long.push(format!("  {}:{line} {name} has {length} lines", file.path));
            }
        }
    }
    let mut out = format!(
        "{:22} {:>6} {:>6} {:>4} {:>4}   {:>5} {:>6} {:>4} {:>5}\n",
        "crate", "fns", "median", "p90", "max", "files", "median", "max", "lines"
    );
    for (name, sizes) in &mut packages {
        sizes.functions.sort_unstable();
        sizes.files.sort_unstable();
        let (f, n) = (&sizes.functions, &sizes.files);
        let (lines, max): (usize, usize) = (n.iter().sum(), at(n, 100));
        writeln!(
            out,
            "{name:22} {:6} {:6} {:4} {:4}   {:5} {:6} {max:4} {lines:5}",
            f.len(),
            at(f, 50),
            at(f, 90),
            at(f, 100),
            n.len(),
            at(n, 50)
        )
        .expect("a string grows");
    }
    let long: Vec<&String> = packages.values().flat_map(|s| &s.long).collect();
    for line in long {
        out += &format!("{line}\n");
    }
    out
}

/// The value that `percent` of the sorted ones do not exceed.
fn at(sorted: &[usize], percent: usize) -> usize {
    match sorted.len() {
        0 => 0,
        n => sorted[(n - 1) * percent / 100],
    }
}

/// Name, line and length of each function with a body.
fn functions(file: &File) -> Vec<(&str, usize, usize)> {
    let mut out = Vec::new();
    for start in file.words("fn") {
        let rest = &file.code[start + 2..];
        let name = identifier(rest.trim_start());
        let Some(open) = rest.find(['{', ';']) else { continue };
        if name.is_empty() || rest[open..].starts_with(';') {
            continue;
        }
        let end = block_end(&file.code, start + 2 + open);
        out.push((name, file.line(start), file.line(end - 1) - file.line(start) + 1));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured() {
        let code = "fn a() { 1 }\ntrait T { fn b(); }\nfn c()\n{\n  let f: fn(i32) = d;\n}\n";
        let file = File::new("crates/a/src/a.rs", code.to_string());
        assert_eq!(functions(&file), [("a", 1, 1), ("c", 3, 4)]);
        assert_eq!((at(&[1, 2, 3], 50), at(&[1, 2, 3], 100), at(&[], 50)), (2, 3, 0));
    }
}
