//! No circles of modules inside a crate.
//!
//! A file depends on another if it names something that is defined there (see `modules.rs`); tests do not
//! count. Files that depend on each other, directly or through others, are a circle; a parent and its child are one,
//! too. `mod child;` and a re-export make no parent depend on its child.

use crate::finding::Finding;
use crate::modules::Modules;
use crate::source::{File, Workspace};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Edges between the files of a crate, with the place of each.
type Edges = BTreeMap<(usize, usize), usize>;

pub(crate) fn check(workspace: &Workspace) -> Vec<Finding> {
    findings(&workspace.sources().collect::<Vec<_>>())
}

fn findings(files: &[&File]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in files.iter().filter(|f| f.path.contains("/src/")) {
        crates.entry(file.package()).or_default().push(file);
    }
    crates.values().flat_map(|files| in_crate(files)).collect()
}

/// The circles of a crate.
fn in_crate(files: &[&File]) -> Vec<Finding> {
    let edges = Modules::read(files).edges();
    circles(&edges).iter().map(|circle| finding(files, &edges, circle)).collect()
}

/// Which file leads to which, through any number of edges.
fn reached(edges: &Edges) -> BTreeSet<(usize, usize)> {
    let starts: BTreeSet<usize> = edges.keys().map(|e| e.0).collect();
    starts.iter().flat_map(|&s| before(edges, s).into_keys().map(move |to| (s, to))).collect()
}

/// What `start` leads to, each with the file before it on a shortest way.
fn before(edges: &Edges, start: usize) -> BTreeMap<usize, usize> {
    let mut out = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(from) = queue.pop_front() {
        for (&(_, to), _) in edges.range((from, 0)..(from + 1, 0)) {
            out.entry(to).or_insert_with(|| {
                queue.push_back(to);
                from
            });
        }
    }
    out
}

/// Sets of files that lead to each other.
fn circles(edges: &Edges) -> Vec<Vec<usize>> {
    let reached = reached(edges);
    let mut out: Vec<Vec<usize>> = Vec::new();
    for file in reached.iter().filter(|(from, to)| from == to).map(|e| e.0) {
        let same = |c: &&mut Vec<usize>| {
            reached.contains(&(file, c[0])) && reached.contains(&(c[0], file))
        };
        match out.iter_mut().find(same) {
            Some(circle) => circle.push(file),
            None => out.push(vec![file]),
        }
    }
    out
}

/// Says how many files a circle has, and a shortest way around from the first.
fn finding(files: &[&File], edges: &Edges, circle: &[usize]) -> Finding {
    let start = circle[0];
    let before = before(edges, start);
    let mut way = vec![start];
    let mut at = before[&start];
    while at != start {
        way.push(at);
        at = before[&at];
    }
    way.push(start);
    way.reverse();
    let place = |pair: &[usize]| files[pair[0]].line(edges[&(pair[0], pair[1])]);
    let steps = way.windows(2).map(|pair| {
        format!("{}:{} names {}", short(files[pair[0]]), place(pair), short(files[pair[1]]))
    });
    let steps: Vec<String> = steps.collect();
    let message = format!("a circle of {} modules: {}", circle.len(), steps.join(", "));
    Finding { path: files[start].path.clone(), line: place(&way[..2]), message }
}

/// The file's path inside its crate.
fn short(file: &File) -> &str {
    file.path.split_once("/src/").map_or(&file.path, |(_, inside)| inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in files of one crate.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> = files
            .iter()
            .map(|(name, code)| File::new(&format!("crates/x/src/{name}"), (*code).to_string()))
            .collect();
        let findings = findings(&files.iter().collect::<Vec<_>>());
        findings.iter().map(|f| f.to_string()).collect()
    }

    const LIB: (&str, &str) = ("lib.rs", "mod a; mod b; mod c;");
    const A: (&str, &str) = ("a.rs", "pub struct A;\n\nuse crate::b::B;");
    const B: (&str, &str) = ("b.rs", "use super::c::f; pub struct B;");

    #[test]
    fn a_circle_is_found_with_the_way_around() {
        let c = ("c.rs", "pub fn f() -> super::a::A { super::a::A }");
        assert_eq!(
            found(&[LIB, A, B, c]),
            [
                "crates/x/src/a.rs:3: a circle of 3 modules: a.rs:3 names b.rs, b.rs:1 names c.rs, c.rs:1 names a.rs"
            ]
        );
        assert!(found(&[LIB, A, B, ("c.rs", "pub fn f() {}")]).is_empty());
        let test = ("c.rs", "pub fn f() {}\n#[cfg(test)]\nmod tests { use crate::a::A; }");
        assert!(found(&[LIB, A, B, test]).is_empty());
    }

    #[test]
    fn a_parent_and_its_child_are_a_circle_unless_it_only_exports() {
        let child = ("a/b.rs", "use super::A; pub fn b(_: A) {}");
        let lib = ("lib.rs", "mod a;");
        let calls = ("a/mod.rs", "mod b; pub struct A; fn f() { b::b(A) }");
        assert_eq!(found(&[lib, calls, child]).len(), 1);
        let exports = ("a/mod.rs", "mod b; pub use b::b; pub struct A;");
        assert!(found(&[lib, exports, child]).is_empty());
    }
}
