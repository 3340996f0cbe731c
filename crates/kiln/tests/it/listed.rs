//! docs/api.md: every method of tensors, and what checks it. `UPDATE_EXPECT=1` writes it anew.

use crate::golden::methods::kernels;
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files under a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

/// What golden cases say of a method.
#[derive(Default)]
struct Golden {
    cases: usize,
    slopes: usize,
    dtypes: BTreeSet<String>,
}

fn golden() -> BTreeMap<String, Golden> {
    let mut all: BTreeMap<String, Golden> = BTreeMap::new();
    for path in files(&root().join("testdata/golden/methods")) {
        if path.extension().is_none_or(|e| e != "gz") {
            continue;
        }
        let (packed, mut text) = (fs::read(path).expect("a file"), String::new());
        GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("gzip of UTF-8");
        for line in text.lines() {
            let case: Value = serde_json::from_str(line).expect("JSON");
            let of = all.entry(case["m"].as_str().expect("a method").to_owned()).or_default();
            of.cases += 1;
            of.slopes += usize::from(case["g"].is_array());
            let inputs = case["x"].as_array().into_iter().flatten();
            of.dtypes.extend(inputs.filter_map(|x| x[0].as_str()).map(str::to_owned));
        }
    }
    all
}

/// The names after `pub fn` in a source, and those that its macros are given.
fn methods<'a>(source: &'a str, calls: &BTreeSet<&str>) -> Vec<&'a str> {
    let lines = source.lines().filter_map(|line| line.strip_prefix("    pub fn "));
    let plain = lines.filter_map(|line| line.split(['(', '<']).next());
    let plain = plain.filter(|name| !name.starts_with('$'));
    plain.chain(given(source).into_iter().filter(|name| calls.contains(name))).collect()
}

/// The words in lower case that a source gives to macros of its own which make methods: among them their names.
fn given(source: &str) -> Vec<&str> {
    let (mut words, mut makes) = (Vec::new(), BTreeSet::new());
    let (mut defined, mut inside) = ("", false);
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("macro_rules! ") {
            defined = rest.trim_end_matches(" {");
        } else if line.contains("pub fn $") {
            makes.insert(defined);
        } else if let Some(name) = line.strip_suffix("! {") {
            inside = makes.contains(name);
        } else if line == "}" {
            inside = false;
        } else if inside && !line.trim_start().starts_with(['/', '#']) {
            // what is in quotes is text
            let outside =
                line.split('"').step_by(2).flat_map(|part| part.split([' ', ';', '(', '|']));
            words.extend(outside.filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())));
        }
    }
    words
}

/// What is called in a source.
fn called(source: &str) -> impl Iterator<Item = &str> {
    let name = |part: &'_ str| part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let after = source.split('.').skip(1).chain(source.split("::").skip(1));
    after.filter_map(move |part| {
        Some(&part[..name(part)?]).filter(|n| part[n.len()..].starts_with('('))
    })
}

/// The tests that name a method, by file.
fn tests(sources: &[(String, String)], method: &str) -> Vec<String> {
    let calls = [format!(".{method}("), format!("::{method}("), format!("::{method})")];
    let names = |source: &str| calls.iter().any(|call| source.contains(call.as_str()));
    sources.iter().filter(|(_, source)| names(source)).map(|(file, _)| file.clone()).collect()
}

/// A range of counts.
fn range(counts: Option<&(u64, u64)>) -> String {
    match counts {
        None => String::new(),
        Some((least, most)) if least == most => most.to_string(),
        Some((least, most)) => format!("{least} to {most}"),
    }
}

fn page() -> String {
    let (golden, kernels, root) = (golden(), alone(kernels), root());
    let read = |path: &PathBuf| fs::read_to_string(path).expect("a source");
    let tests_folder = root.join("crates/kiln/tests/it");
    let sources: Vec<(String, String)> = files(&tests_folder)
        .iter()
        .filter(|path| !path.ends_with("listed.rs"))
        .map(|p| (p.strip_prefix(&tests_folder).expect("inside").display().to_string(), read(p)))
        .collect();
    let mut out = String::from(
        "# Methods of tensors, and what checks them\n\n\
         A test writes this file (`UPDATE_EXPECT=1 cargo test -p kiln --test it listed`). Each method also has a running \
         example. *Cases* and *gradients* count golden cases against PyTorch or NumPy; *dtypes* are the dtypes of their inputs. \
         *Kernels* is how many the first three of these cases launch, on the interpreter. For a method without golden cases of \
         its own name the table names the test files that call it.\n",
    );
    let library: Vec<String> = files(&root.join("crates/kiln/src")).iter().map(read).collect();
    let texts = library.iter().chain(sources.iter().map(|(_, text)| text));
    let calls: BTreeSet<&str> = texts.flat_map(|text| called(text)).collect();
    let mut listed = BTreeSet::new();
    let mut total = 0;
    let folder = root.join("crates/kiln/src/tensor");
    for path in files(&folder) {
        let source = read(&path);
        let mut rows = String::new();
        for method in methods(&source, &calls) {
            // a macro is also given what its methods are like
            let is_plain = source.contains(&format!("    pub fn {method}"));
            if !listed.insert(method.to_owned()) && !is_plain {
                continue;
            }
            total += 1;
            let launched = range(kernels.get(method));
            rows += &match golden.get(method) {
                Some(g) => {
                    let dtypes: Vec<&str> = g.dtypes.iter().map(String::as_str).collect();
                    let dtypes = dtypes.join(" ");
                    let (cases, slopes) = (g.cases, g.slopes);
                    format!("| `{method}` | {cases} | {slopes} | {launched} | {dtypes} |\n")
                }
                None => {
                    let files = tests(&sources, method);
                    let shown: Vec<&str> = files.iter().take(3).map(String::as_str).collect();
                    let by = if shown.is_empty() { "its example".into() } else { shown.join(", ") };
                    format!("| `{method}` | | | | {by} |\n")
                }
            };
        }
        if !rows.is_empty() {
            let name = path.strip_prefix(&folder).expect("inside").display().to_string();
            let name = name.replace('\\', "/");
            out += &format!(
                "\n## {name}\n\n| method | cases | gradients | kernels | dtypes, or tests |\n|---|---|---|---|---|\n{rows}"
            );
        }
    }
    let cases: usize = golden.values().map(|g| g.cases).sum();
    let slopes: usize = golden.values().map(|g| g.slopes).sum();
    out += &format!(
        "\n{total} methods; {cases} golden cases of {} calls, {slopes} of them with gradients.\n",
        golden.len()
    );
    out
}

/// Each graph is scheduled for itself: what other tests have run changes nothing.
fn alone<R>(f: impl FnOnce() -> R) -> R {
    kiln::with([("LENGTHS", 0)], f).expect("a setting")
}

#[test]
fn every_method_is_listed_with_what_checks_it() {
    let path = root().join("docs/api.md");
    let now = page();
    if std::env::var_os("UPDATE_EXPECT").is_some_and(|v| v == "1") {
        fs::write(&path, &now).expect("written");
    }
    let before = fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    // a test that computes an equal graph at the same time may leave a part of it in memory, which changes a count
    let now = if known(&before).eq(known(&now)) { now } else { page() };
    let differs = known(&before).zip(known(&now)).find(|(a, b)| a != b);
    assert!(
        differs.is_none(),
        "docs/api.md is not what the sources say ({differs:?}): UPDATE_EXPECT=1 writes it"
    );
    assert_eq!(known(&before).count(), known(&now).count(), "UPDATE_EXPECT=1 writes docs/api.md");
}

/// The lines of a page without the names of tests, which other tests may change.
fn known(page: &str) -> impl Iterator<Item = &str> {
    let last = |line: &&str| !line.contains(" methods; ");
    page.lines()
        .filter(last)
        .map(|line| line.split_once(" | | | | ").map_or(line, |(method, _)| method))
}
