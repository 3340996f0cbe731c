//! Files and lines beside the results: pictures, traces, single passes, rewrites, graphs of tensors, and what a
//! record costs.

use crate::seeing::stderr;
use kiln::Tensor;
use kiln_ir::text;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A place for files, which goes with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        Place(std::env::temp_dir().join(format!("kiln-shown-{name}-{}", std::process::id())))
    }

    fn text(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        let _ = fs::remove_file(&self.0);
    }
}

/// Settings by which a child compiles anew for the CPU, and prints names that depend on nothing else.
const ANEW: [(&str, &str); 3] = [("KILN_CACHE", "none"), ("LENGTHS", "0"), ("DEV", "CPU")];

fn said(program: &str, variable: &str, value: &str) -> String {
    stderr(program, &[&ANEW[..], &[(variable, value)]].concat())
}

#[test]
fn graphs_and_schedules_are_drawn() {
    let place = Place::new("graph");
    let text = said("two kernels", "GRAPH", place.text());
    assert!(text.contains("as pictures and as text"), "{text}");
    let read = |name: &str| fs::read_to_string(place.0.join(name)).expect(name);
    let mut drawn = 0;
    for file in fs::read_dir(&place.0).expect("a folder") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|e| e == "svg") {
            well_formed(&fs::read_to_string(&path).expect("text"), &path);
            drawn += 1;
        }
    }
    assert!(drawn >= 2);
    let (graph, schedule) = (read("002-graph.txt"), read("002-schedule.txt"));
    assert!(graph.starts_with("  0 ") && graph.contains("# matmul "), "{graph}");
    assert!(schedule.contains("kernel ") && schedule.contains("seeing.rs:"), "{schedule}");
    let picture = read("002-schedule.svg");
    assert!(picture.contains(" B</text>") && picture.contains("<path "), "{picture}");
    assert!(picture.contains(">a kernel</text>") && picture.contains("An edge goes"), "{picture}");
}

/// Tags that are closed in order, and no character that would open one.
fn well_formed(svg: &str, path: &Path) {
    let mut open = Vec::new();
    for part in svg.split('<').skip(1) {
        let (tag, rest) = part.split_once('>').unwrap_or_else(|| panic!("{path:?}: {part}"));
        assert!(!rest.contains('>'), "{path:?}: {part}");
        let name = tag.split(' ').next().expect("a name").to_owned();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop().as_deref(), Some(name), "{path:?}"),
            None if tag.ends_with('/') => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty() && svg.starts_with("<svg "), "{path:?}");
}

#[test]
fn a_profile_is_a_trace() {
    let place = Place::new("profile");
    let text = said("two kernels", "PROFILE", place.text());
    assert!(text.contains("for Perfetto"), "{text}");
    let trace = fs::read_to_string(&place.0).expect("a file");
    let events: Vec<Value> = serde_json::from_str(&trace).expect("JSON");
    let mut names: BTreeMap<(u64, String), usize> = BTreeMap::new();
    for event in &events {
        let pid = event["pid"].as_u64().expect("a process");
        let kind = event["ph"].as_str().expect("a kind");
        let name = event["name"].as_str().expect("a name").split(' ').next().expect("a word");
        if kind == "X" {
            assert!(event["dur"].as_f64().is_some_and(|d| d >= 0.0), "{event}");
        }
        *names.entry((pid, format!("{kind} {name}"))).or_default() += 1;
    }
    // the host schedules and compiles, the device launches and has memory
    for what in ["X schedule", "X compile", "M thread_name"] {
        assert!(names.contains_key(&(1, what.to_owned())), "{what} in {names:?}");
    }
    let launches = names.iter().filter(|((pid, name), _)| *pid > 1 && name.starts_with("X "));
    assert!(launches.map(|(_, count)| count).sum::<usize>() >= 2, "{names:?}");
    assert!(names[&(2, "C memory".to_owned())] >= 2, "{names:?}");
}

#[test]
fn single_passes_are_shown() {
    let text = said("dense", "DEBUG_PASS", "expand,linearize,collapse,nosuch");
    let warning = text.lines().find(|line| line.contains("nosuch")).expect("a warning");
    assert!(warning.starts_with("kiln: warning: DEBUG_PASS: ") && warning.contains(" linearize, "));
    // headers name the kernel; a list of ops has its name, and a kernel without a name its key
    let of = |header: &str| -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix(header)).collect()
    };
    let names = of("--- before lower: expand of ");
    assert!(!names.is_empty() && names.iter().all(|n| n.starts_with(['r', 'E'])), "{text}");
    assert_eq!(names, of("--- after lower: linearize of "));
    let is_key = |key: &&str| key.len() == 9 && key.chars().all(|c| c.is_ascii_hexdigit());
    assert!(of("--- before optimize: collapse of ").iter().all(is_key), "{text}");
    let parts = text.split("--- before lower: expand of ").skip(1);
    let parts: Vec<&str> = parts.map(|part| part.split_once('\n').expect("a line").1).collect();
    assert!(!parts.is_empty(), "{text}");
    // what the pass writes out
    let is_written_out =
        |text: &str| [" unroll ", " upcast "].iter().any(|kind| text.contains(kind));
    let mut is_seen = false;
    for part in parts {
        let (before, rest) = part.split_once("--- after lower: expand of ").expect("both");
        let (_, rest) = rest.split_once('\n').expect("a line");
        is_seen |= is_written_out(before);
        let after = rest.split("\n---").next().expect("a text");
        let after: String = after
            .lines()
            .filter(|l| l.starts_with(['%', 's']))
            .fold(String::new(), |text, line| text + line + "\n");
        assert!(text::parse(before).is_ok(), "{before}");
        assert!(text::parse(&after).is_ok() && !is_written_out(&after), "{after}");
    }
    assert!(is_seen, "{text}");
    assert!(!text.contains("--- before lower: reduce"), "{text}");
}

#[test]
fn rewrites_are_kept() {
    let text = said("softmax", "TRACK_MATCH_STATS", "2");
    let line = text.lines().find(|line| line.contains("every rewrite is in ")).expect("where");
    let path = line.rsplit_once(" is in ").expect("a path").1;
    let rewrites = fs::read_to_string(path).expect("a file");
    fs::remove_file(path).expect("it is there");
    assert!(rewrites.lines().count() > 2, "{rewrites}");
    for line in rewrites.lines() {
        let (place, change) = line.split_once(": ").expect("a place");
        assert!(place.contains(".rs:") && change.contains(" -> "), "{line}");
    }
    // as many as the statistics say
    let total = text.lines().last().expect("a sum").split_whitespace().next();
    let total: usize = total.and_then(|n| n.parse().ok()).expect("a number");
    assert_eq!(rewrites.lines().count(), total);
}

#[test]
fn lines_of_the_program_are_named() {
    let text = said("two kernels", "DEBUG", "2");
    let launch = text.lines().find(|l| l.starts_with("***") && l.contains("'matmul'"));
    let launch = launch.expect("the product");
    assert!(launch.contains(" crates/kiln/tests/it/seeing.rs:"), "{launch}");
    let scheduled = text.lines().find(|line| line.starts_with("scheduled ")).expect("a line");
    assert!(scheduled.contains(" for ") && scheduled.contains("seeing.rs:"), "{scheduled}");
    // bytes once, and bytes each time: a product reads each element several times
    let (_, pair) = launch.split_once("GFLOPS").expect("rates");
    let (once, each) = pair.split_once(" GB/s").expect("bytes").0.split_once('|').expect("a pair");
    let [once, each] = [once, each].map(|n| n.trim().parse::<f64>().expect("a number"));
    assert!(each >= once, "{launch}");
}

#[test]
fn memory_and_caches_are_printed() {
    let text = said("add twice", "DEBUG", "8");
    for part in ["memory of CPU: block ", " is freed", "schedule cache hit by ", ", key "] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(text.contains("  0 add f32 [2, 3]  # add crates/"), "no tensor graph in\n{text}");
    assert!(!said("add twice", "DEBUG", "6").contains("memory of CPU"));
}

#[test]
fn a_tensor_shows_its_graph() {
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    let y = &x * 2.0;
    let text = (&y + &y).graph().expect("no error").to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("  0 add f32 [2, 2]  # add"), "{text}");
    assert!(lines[1].starts_with("  1   %0 = mul f32 [2, 2]  # mul"), "{text}");
    assert!(lines[2].starts_with("  2     buffer f32 id="), "{text}");
    assert_eq!(lines.last(), Some(&"  1   %0"), "{text}");
    y.realize().expect("computes");
    assert!(y.graph().expect("no error").to_string().starts_with("  0 buffer f32 id="));
    assert!(x.reshape([5]).graph().is_err());
    // a long chain is no deep recursion
    let long = (0..20_000).fold(x, |x, _| x + 1.0);
    let text = long.graph().expect("no error").depth(usize::MAX).to_string();
    assert!(text.lines().count() > 20_000);
}
