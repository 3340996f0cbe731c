//! `cargo bench -p kiln --bench regret`: how much faster the best of many options is than the heuristic's, for kernels
//! that the heuristic was not made for.
//!
//! The kinds of kernels, their sizes and dtypes follow from numbers that were fixed before anything was tuned (`kinds`).
//! For each kernel 300 other lists of options are tried: half of them are legal lists drawn at random, half come from a
//! search that starts at the heuristic's. A kernel's *regret* is the heuristic's time over the best time. The list is
//! sorted, worst first. `cargo bench -p kiln --bench regret -- 30` tries 30 lists, `-- 300 softmax` one kind only,
//! `-- 300 "" 2/7` the kinds 2, 9, 16, .. of the list: seven processes share the work.

#![allow(clippy::print_stdout, clippy::print_stderr)]

/// The programs whose kernels are looked at.
mod kinds;

use kiln::testing::regret;
use std::time::Duration;

/// Lists that are tried for a kernel.
const LISTS: usize = 300;
/// Kernels that take less are starts and ends more than work.
const LEAST: Duration = Duration::from_micros(10);

struct Row {
    kind: String,
    kernel: String,
    heuristic: Duration,
    best: Duration,
    options: String,
}

impl Row {
    fn regret(&self) -> f64 {
        (self.heuristic.as_secs_f64() / self.best.as_secs_f64()).max(1.0)
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let lists = args.first().and_then(|n| n.parse().ok()).unwrap_or(LISTS);
    let only = args.get(1).map_or("", String::as_str);
    let [part, parts] = args.get(2).map_or([0, 1], |text| share(text));
    let mut rows = Vec::new();
    let kinds = kinds::all().into_iter().skip(part).step_by(parts);
    for kind in kinds.filter(|k| k.name.contains(only)) {
        let program = (kind.build)();
        if let Some(error) = program.error() {
            panic!("{}: {error}", kind.name);
        }
        let (done, found) = regret(lists, || program.realize().map(drop));
        done.unwrap_or_else(|error| panic!("{}: {error}", kind.name));
        for found in found.into_iter().filter(|f| f.heuristic_time >= LEAST) {
            rows.push(Row {
                kind: kind.name.clone(),
                kernel: found.kernel,
                heuristic: found.heuristic_time,
                best: found.candidate_time,
                options: found.candidate.join(", "),
            });
            let row = rows.last().expect("just pushed");
            eprintln!("{:6.2} {} {} ({} tried)", row.regret(), row.kind, row.kernel, found.tried);
        }
    }
    report(rows);
}

/// Of `2/7`: the first kind, and how many lie from one kind to the next.
fn share(text: &str) -> [usize; 2] {
    let (part, parts) = text.split_once('/').expect("a part, such as 2/7");
    [part, parts].map(|n| n.parse().expect("a number"))
}

fn report(mut rows: Vec<Row>) {
    rows.sort_by(|a, b| b.regret().total_cmp(&a.regret()));
    println!("{:>6} {:>10} {:>10}  kernel", "regret", "heuristic", "best");
    for row in &rows {
        let [heuristic, best] = [row.heuristic, row.best].map(|t| t.as_secs_f64() * 1e6);
        let (kind, kernel) = (&row.kind, &row.kernel);
        println!("{:6.2} {heuristic:8.1}us {best:8.1}us  {kind}: {kernel}", row.regret());
        println!("{:30}{}", "", row.options);
    }
    let logs: f64 = rows.iter().map(|r| r.regret().ln()).sum();
    let mean = (logs / rows.len().max(1) as f64).exp();
    println!("{} kernels, geometric mean {mean:.3}", rows.len());
}
