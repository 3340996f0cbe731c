//! Source files that a record names: the page shows lines of them.

use kiln::record::{Record, Step};
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A source file may have so many bytes.
const MOST: u64 = 4 << 20;

/// The names of source files in a record. A record may be somebody else's, so nothing but Rust source is read.
pub(super) fn named(record: &Record) -> HashSet<String> {
    let makers = record.nodes.iter().filter_map(|node| node.by.as_deref());
    let methods = record.launches.iter().flat_map(|l| &l.methods).map(String::as_str);
    let places = makers.chain(methods).filter_map(|text| text.split_once(' ')?.1.rsplit_once(':'));
    let schedules = record.schedules.iter().flat_map(|s| &s.steps);
    let steps = schedules.chain(record.kernels.iter().flat_map(|k| &k.steps));
    let rules = steps.filter_map(|step| match step {
        Step::Rewrite { file, .. } => Some(file.as_str()),
        _ => None,
    });
    let all = places.map(|(file, _)| file).chain(rules);
    all.filter(|file| file.ends_with(".rs")).map(str::to_owned).collect()
}

/// The text of a file, if it is one of these and can be read.
pub(super) fn text(named: &HashSet<String>, file: &str) -> Option<String> {
    let path = named.get(file).map(Path::new)?;
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(MOST).read_to_string(&mut text).ok()?;
    Some(text)
}
