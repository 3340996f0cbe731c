//! Which crate, and which stage of the compiler, may use which. Data flows down this table and so do dependencies.

use crate::finding::Finding;
use crate::source::{File, Workspace, identifier};
use std::fs;

/// A crate, the crates of ours that it may use, and those that only its tests may use.
const CRATES: &[(&str, &[&str], &[&str])] = &[
    ("kiln-ir", &[], &[]),
    ("kiln-derive", &[], &[]),
    ("kiln-compile", &["kiln-ir"], &["kiln-runtime"]),
    ("kiln-runtime", &["kiln-ir"], &["kiln-compile"]),
    // its tests use it with all its features
    ("kiln", &["kiln-ir", "kiln-compile", "kiln-runtime", "kiln-derive"], &["kiln"]),
    ("kiln-models", &["kiln"], &[]),
    ("kiln-cli", &["kiln", "kiln-models"], &[]),
    ("kiln-book", &["kiln", "kiln-ir", "kiln-compile"], &[]),
];

/// Modules of kiln-compile that every stage may use.
const SHARED: &[&str] = &["target"];

/// Modules of kiln-compile that may use every stage.
const ABOVE_STAGES: &[&str] = &["lengths", "lib", "pass", "passes", "pipeline"];

/// Modules of kiln that its engine may use: it takes nodes and devices, and knows no tensor.
const BELOW_ENGINE: &[&str] = &["engine", "device", "error", "record", "scoped"];

/// Files of kiln-ir that serve every rule and name none.
const RULE_ENGINE: &[&str] = &["pattern", "rule", "rewrite"];

/// The `Cargo.toml`s against [`CRATES`].
pub(crate) fn crates(workspace: &Workspace) -> Vec<Finding> {
    let mut out = Vec::new();
    let folders = fs::read_dir(workspace.root.join("crates")).into_iter().flatten().flatten();
    let mut names: Vec<String> = folders
        .filter(|f| f.path().join("Cargo.toml").exists())
        .map(|f| f.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    for name in names {
        let path = format!("crates/{name}/Cargo.toml");
        let text = fs::read_to_string(workspace.root.join(&path)).expect("it exists");
        match CRATES.iter().find(|c| c.0 == name) {
            Some(&(_, normal, tests)) => out.extend(dependencies(&path, &text, normal, tests)),
            None => out.push(Finding {
                path,
                line: 0,
                message: "this crate is not in xtask's table of crates".to_string(),
            }),
        }
    }
    out
}

fn dependencies(path: &str, text: &str, normal: &[&str], tests: &[&str]) -> Vec<Finding> {
    let mut out = Vec::new();
    let mut section = "";
    for (i, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
        }
        let name = line.split(['.', '=', ' ']).next().unwrap_or("");
        let for_tests = section.ends_with("dev-dependencies") && tests.contains(&name);
        let ours =
            section.ends_with("dependencies") && (name == "kiln" || name.starts_with("kiln-"));
        if ours && !normal.contains(&name) && !for_tests {
            let message = format!("{name} may not be used here: dependencies point down only");
            out.push(Finding { path: path.to_string(), line: i + 1, message });
        }
    }
    out
}

/// No stage of kiln-compile imports another; the rule engine knows no rule, and kiln's engine no tensor.
pub(crate) fn stages(workspace: &Workspace) -> Vec<Finding> {
    workspace.sources().flat_map(stage_findings).collect()
}

fn stage_findings(file: &File) -> Vec<Finding> {
    if let Some(module) = top_module(file, "crates/kiln-compile/src/") {
        if ABOVE_STAGES.contains(&module) {
            return Vec::new();
        }
        let allowed = |m: &str| is_item(m) || m == module || SHARED.contains(&m);
        let message = |m: &str| {
            format!("stage `{module}` uses `{m}`: stages meet only as graphs that satisfy a spec")
        };
        return imports(file, allowed, message);
    }
    if top_module(file, "crates/kiln/src/") == Some("engine") {
        let message = |m: &str| format!("the engine names `{m}`, which is above it");
        return imports(file, |m| BELOW_ENGINE.contains(&m), message);
    }
    match top_module(file, "crates/kiln-ir/src/") {
        Some(module) if RULE_ENGINE.contains(&module) => {
            imports(file, |m| m != "rules", |m| format!("the rule engine names `{m}`"))
        }
        _ => Vec::new(),
    }
}

/// `lower` for `<src>/lower/x.rs` and `<src>/lower.rs`.
fn top_module<'a>(file: &'a File, src: &str) -> Option<&'a str> {
    let rest = file.path.strip_prefix(src)?;
    rest.split(['/', '.']).next()
}

fn imports(
    file: &File,
    allowed: impl Fn(&str) -> bool,
    message: impl Fn(&str) -> String,
) -> Vec<Finding> {
    let mut out = Vec::new();
    for (at, _) in
        file.code.match_indices("crate::").filter(|(at, _)| !file.code[..*at].ends_with('$'))
    {
        for module in named(&file.code[at + "crate::".len()..]) {
            if !allowed(module) {
                let line = file.line(at);
                out.push(Finding { path: file.path.clone(), line, message: message(module) });
            }
        }
    }
    out
}

/// Whether a name is an item of the root, such as a re-export, and no module.
fn is_item(name: &str) -> bool {
    name.starts_with(char::is_uppercase)
}

/// The first segments of what follows `crate::`: one name, or several in braces.
fn named(rest: &str) -> Vec<&str> {
    let Some(list) = rest.strip_prefix('{') else { return vec![identifier(rest)] };
    let mut depth = 0;
    let mut out = vec![identifier(list.trim_start())];
    for (i, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => out.push(identifier(list[i + 1..].trim_start())),
            _ => {}
        }
    }
    out.retain(|m| !m.is_empty());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, code: &str) -> usize {
        stage_findings(&File::new(path, code.to_string())).len()
    }

    #[test]
    fn a_stage_that_uses_another_is_found() {
        assert_eq!(count("crates/kiln-compile/src/lower/mod.rs", "use crate::render::c;"), 1);
        assert_eq!(
            count(
                "crates/kiln-compile/src/grad.rs",
                "use crate::{target::Target, lower::{a, b}, schedule};"
            ),
            2
        );
        assert_eq!(
            count(
                "crates/kiln-compile/src/lower/a.rs",
                "use crate::lower::b; pub(crate) fn f() {}"
            ),
            0
        );
        assert_eq!(count("crates/kiln-compile/src/pipeline.rs", "use crate::{lower, render};"), 0);
        assert_eq!(count("crates/kiln-ir/src/rewrite/fast.rs", "use crate::rules::algebra;"), 1);
        assert_eq!(count("crates/kiln-ir/src/check/mod.rs", "use crate::rules::algebra;"), 0);
        let engine = "crates/kiln/src/engine/bind.rs";
        assert_eq!(count(engine, "use crate::{Tensor, tensor::storage, device::Device};"), 2);
    }

    #[test]
    fn a_dependency_upward_is_found() {
        let text = "[dependencies]\nkiln-ir.workspace = true\nkiln = \"1\"\n[dev-dependencies]\nkiln-runtime = \"1\"\nkiln-cli = \"1\"";
        let found = dependencies("Cargo.toml", text, &["kiln-ir"], &["kiln-runtime"]);
        assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [3, 6]);
    }
}
