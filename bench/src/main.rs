//! kiln, PyTorch eager, torch.compile and tinygrad, in turn in one run, and the floor that the hardware sets.
//!
//! The command starts one process for each of them (kiln's is this program again) and asks them in turn for a few
//! calls of a workload, round after round, so that whatever else the machine does falls on all of them alike. It
//! compares what they computed, and prints medians.
#![allow(clippy::print_stdout, clippy::print_stderr)]

/// What failed, for people.
mod failure;
/// The arguments of this program.
mod options;
/// Inputs that every process makes alike.
mod data;
/// What is measured.
mod workloads;
/// kiln's side of the conversation.
mod serve;
/// The other side: a process that runs workloads.
mod subject;
/// Where Python and its packages come from.
mod python;
/// How much memory a process takes.
mod memory;
/// Turns of all, round after round.
mod turns;
/// Tables for people and for files.
mod report;
/// The machine, the day, the versions.
mod machine;

use clap::Parser;
use failure::Failure;
use options::{Options, SERVE, START};
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use subject::Subject;
use workloads::{Case, cases};

fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some(START) => serve::start(),
        Some(SERVE) => serve::serve(),
        _ => bench(&Options::parse()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("kiln-bench: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the workloads. A reader of a pipe may stop early.
fn list(cases: &[&Case]) -> Result<(), Failure> {
    let lines: String = cases.iter().map(|c| format!("{:16} {}\n", c.name, c.what)).collect();
    match std::io::stdout().write_all(lines.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn bench(options: &Options) -> Result<(), Failure> {
    let cases = chosen(&options.names)?;
    if options.list {
        return list(&cases);
    }
    let mut subjects = vec![Subject::kiln(options.threads)?];
    subjects.extend(peers(options)?);
    let head = machine::describe(&subjects, options);
    println!("{head}\n\n{}", report::header(&subjects, options));
    let mut turns = turns::Turns::new(subjects, options)?;
    let mut lines = Vec::new();
    for case in cases {
        let measured = turns.measure(case);
        println!("{}", report::line(case, &measured));
        lines.push((case, measured));
    }
    let summary = report::summary(&turns.subjects, &lines);
    println!("\n{summary}");
    let is_whole = options.names.is_empty() && options.label.is_none();
    match is_whole || options.label.is_some() {
        true => report::write(&head, &turns.subjects, &lines, &summary, options),
        false => Ok(()),
    }
}

fn chosen(names: &[String]) -> Result<Vec<&'static Case>, Failure> {
    let cases = cases();
    if let Some(unknown) = names.iter().find(|n| !cases.clone().any(|c| c.name.starts_with(*n))) {
        return Err(format!("no workload is called {unknown}; --list shows all"));
    }
    // a whole name means just that one, a beginning all that begin so
    let is_whole = |n: &str| cases.clone().any(|c| c.name == n);
    let fits = |c: &Case, n: &str| c.name == n || !is_whole(n) && c.name.starts_with(n);
    let is_chosen = |c: &&Case| names.is_empty() || names.iter().any(|n| fits(c, n));
    Ok(cases.clone().filter(is_chosen).collect())
}

/// The peers that this machine has; what is missing is said once, and kiln is measured all the same.
fn peers(options: &Options) -> Result<Vec<Subject>, Failure> {
    let wanted: Vec<&String> = options.peers.iter().filter(|p| *p != "none").collect();
    if let Some(unknown) = wanted.iter().find(|p| !python::PEERS.contains(&p.as_str())) {
        return Err(format!("no peer is called {unknown}: {}", python::PEERS.join(", ")));
    }
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let python = match python::interpreter(options.python.as_deref()) {
        Ok(python) => python,
        Err(why) => {
            eprintln!("kiln-bench: no peers: {why}");
            return Ok(Vec::new());
        }
    };
    let mut found = Vec::new();
    for peer in wanted {
        match Subject::peer(&python, peer, options.threads) {
            Ok(subject) => found.push(subject),
            Err(why) => eprintln!("kiln-bench: without {peer}: {why}"),
        }
    }
    Ok(found)
}
