//! `unsafe` stands only in kiln-runtime, and each use of it says why it is sound.

use crate::finding::Finding;
use crate::source::{File, Workspace};

/// The one crate that talks to machines.
const ALLOWED: &str = "crates/kiln-runtime/";

/// How many lines above an `unsafe` its reason may start.
const NEAR: usize = 10;

pub(crate) fn check(workspace: &Workspace) -> Vec<Finding> {
    workspace.files.iter().flat_map(findings).collect()
}

fn findings(file: &File) -> Vec<Finding> {
    let mut out = Vec::new();
    for at in file.words("unsafe") {
        if let Some(message) = objection(file, at) {
            out.push(Finding { path: file.path.clone(), line: file.line(at), message });
        }
    }
    out
}

fn objection(file: &File, at: usize) -> Option<String> {
    let rest = file.code[at + "unsafe".len()..].trim_start();
    // the string of an ABI is blank in code
    let signature = rest.strip_prefix("extern").map_or(rest, str::trim_start);
    let wanted = match signature.strip_prefix("fn").map(str::trim_start) {
        Some(name) if name.starts_with('(') => return None, // a type of functions
        Some(_) => "# Safety",
        None if rest.starts_with('(') => return None, // `#[unsafe(no_mangle)]`
        None if rest.starts_with("extern") => "",     // declarations; each call is a block
        None => "SAFETY:",
    };
    if !file.path.starts_with(ALLOWED) {
        return Some(format!("`unsafe` has its place in {ALLOWED} only"));
    }
    (!near(file, at, wanted)).then(|| format!("no `{wanted}` near this `unsafe`"))
}

fn near(file: &File, at: usize, wanted: &str) -> bool {
    let line = file.line(at);
    file.text.lines().take(line).skip(line.saturating_sub(NEAR + 1)).any(|l| l.contains(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, code: &str) -> usize {
        findings(&File::new(path, code.to_string())).len()
    }

    #[test]
    fn unargued_and_misplaced_unsafe_is_found() {
        let inside = "crates/kiln-runtime/src/a.rs";
        assert_eq!(count("crates/kiln/src/a.rs", "// SAFETY: no\nunsafe { f() }"), 1);
        assert_eq!(count(inside, "unsafe { f() }"), 1);
        assert_eq!(count(inside, "// SAFETY: f has no precondition\nunsafe { f() }"), 0);
        assert_eq!(count(inside, "unsafe impl Send for A {}"), 1);
        assert_eq!(count(inside, "pub unsafe fn f() {}"), 1);
        assert_eq!(count(inside, "/// # Safety\n/// none\npub unsafe fn f() {}"), 0);
        assert_eq!(count(inside, "unsafe extern \"C\" { fn f(); }"), 0);
        assert_eq!(count(inside, "unsafe extern \"C\" fn f() {}"), 1);
        assert_eq!(count(inside, "type F = unsafe extern \"C\" fn(i32);"), 0);
    }
}
