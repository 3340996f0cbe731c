//! Files that the documents link to exist.

use crate::finding::Finding;
use crate::source::Workspace;
use std::fs;
use std::path::Path;

pub(crate) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut out = Vec::new();
    for folder in ["", "docs", "docs/book/src", "bench"] {
        let folder = workspace.root.join(folder);
        let mut paths: Vec<_> =
            fs::read_dir(&folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
        paths.sort();
        for path in paths.iter().filter(|p| p.extension().is_some_and(|e| e == "md")) {
            let text = fs::read_to_string(path).expect("a document is UTF-8");
            let name = path.strip_prefix(&workspace.root).expect("under the root");
            out.extend(broken(&name.to_string_lossy(), &text, &folder));
        }
    }
    out
}

/// Links to files, relative to the document's folder, that lead nowhere.
fn broken(name: &str, text: &str, folder: &Path) -> Vec<Finding> {
    let mut out = Vec::new();
    for (i, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split([')', '#']).next().unwrap_or("");
            if !target.is_empty() && !target.contains(':') && !folder.join(target).exists() {
                let message = format!("the link to {target} leads nowhere");
                out.push(Finding { path: name.to_string(), line: i + 1, message });
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_link_is_found() {
        let text = "[a](Cargo.toml) [b](https://x.y/z) [c](#here)\n[d](no/such.md#part)";
        let found = broken("x.md", text, Path::new(env!("CARGO_MANIFEST_DIR")));
        assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [2]);
    }
}
