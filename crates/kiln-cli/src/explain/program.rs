//! The lines of the program: what each made, and what that took.

use super::kernels::median;
use super::units::{rest, time};
use crate::outcome::Outcome;
use kiln::record::Record;
use std::collections::{BTreeSet, HashMap};
use std::io::Write;

/// What a line of the program made.
#[derive(Default)]
struct Made<'a> {
    methods: BTreeSet<&'a str>,
    nodes: usize,
    /// Names of kernels.
    kernels: BTreeSet<&'a str>,
    /// The times of their launches.
    launches: Vec<f64>,
}

/// Lines, most time first. The time of a kernel that several lines made is that of each of them.
pub(super) fn show(record: &Record, most: usize, out: &mut impl Write) -> Outcome {
    let lines = lines_of(record);
    let took = |made: &Made<'_>| made.launches.iter().sum::<f64>();
    let mut all: Vec<(&str, Made<'_>)> = lines.into_iter().collect();
    all.sort_by(|a, b| took(&b.1).total_cmp(&took(&a.1)).then_with(|| a.0.cmp(b.0)));
    writeln!(
        out,
        "\n{} lines of the program made nodes; the time of a kernel that several lines made is counted for each of them",
        all.len()
    )?;
    writeln!(out, "     time    median   runs    nodes  kernels  line")?;
    for (place, made) in all.iter().take(most) {
        let middle =
            if made.launches.is_empty() { "-".to_owned() } else { time(median(&made.launches)) };
        let methods: Vec<&str> = made.methods.iter().copied().collect();
        let kernels: Vec<&str> = made.kernels.iter().copied().take(MOST_NAMES).collect();
        let more = made.kernels.len().saturating_sub(MOST_NAMES);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        writeln!(
            out,
            "{:>9} {middle:>9} {:>6} {:>8} {:>8}  {place} {}: {}{more}",
            time(took(made)),
            made.launches.len(),
            made.nodes,
            made.kernels.len(),
            methods.join(", "),
            if kernels.is_empty() { "no kernel".to_owned() } else { kernels.join(", ") },
        )?;
    }
    write!(out, "{}", rest(all.len(), most, "lines"))?;
    Ok(())
}

/// So many kernels of a line are named.
const MOST_NAMES: usize = 4;

fn lines_of(record: &Record) -> HashMap<&str, Made<'_>> {
    let mut lines: HashMap<&str, Made<'_>> = HashMap::new();
    for (method, place) in
        record.nodes.iter().filter_map(|node| node.by.as_deref()?.split_once(' '))
    {
        let made = lines.entry(place).or_default();
        made.nodes += 1;
        made.methods.insert(method);
    }
    for launch in &record.launches {
        // a line that made several parts of a kernel has its time once
        let places: BTreeSet<&str> =
            launch.methods.iter().filter_map(|m| Some(m.split_once(' ')?.1)).collect();
        for place in places {
            let made = lines.entry(place).or_default();
            made.kernels.insert(&launch.name);
            made.launches.push(launch.took);
        }
        for (method, place) in launch.methods.iter().filter_map(|m| m.split_once(' ')) {
            lines.entry(place).or_default().methods.insert(method);
        }
    }
    lines
}
