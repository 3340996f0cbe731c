//! Random programs of views, writes and reads mean what they would mean if every line ran at once.
//!
//! A seed makes a program, an eager machine of a few lines says what it means, and kiln has to read the same bytes: twice
//! in one process, some with a second thread that reads along, some with failures before the launch that are asked again.
//! What fails is shrunk and printed as a Rust test. Seeds and numbers of programs: see `fuzz`.

mod check;
mod eager;
mod generate;
mod gradients;
mod jitted;
mod lazy;
mod calls;
mod machine;
mod numbers;
mod picks;
mod print;
mod program;
mod shrink;
mod views;

use crate::fuzz::{Rng, seeds};
use check::{Mode, ROUNDS, failure};
use kiln::Device;
use program::Line;

/// Failing programs of one run, at most: each is shrunk.
const MOST_FAILURES: usize = 5;

fn mode(seed: u64) -> Mode {
    match Rng(!seed).below(8) {
        0 => Mode::Beside,
        1 | 2 => Mode::Faults(seed),
        _ => Mode::Alone,
    }
}

/// The program of a seed, shrunk, and what is wrong with it; none if nothing is.
fn finding(seed: u64, devices: &[Device]) -> Option<String> {
    let (lines, mode) = (generate::program(seed), mode(seed));
    let whole = failure(&lines, devices, mode, ROUNDS)?;
    // what depends on threads does not fail every time
    let rounds = if mode == Mode::Beside { 10 * ROUNDS } else { ROUNDS };
    let fails = |lines: &[Line]| failure(lines, devices, mode, rounds).is_some();
    let lines = shrink::shrunk(lines, fails);
    let what = failure(&lines, devices, mode, rounds).unwrap_or(whole);
    let text = print::test(&format!("seed_{seed}"), &lines);
    Some(format!("// {devices:?} {mode:?}\n// {what}\n{text}"))
}

pub(crate) fn agree(devices: &[&str], n: u64) {
    let parse = |name: &&str| Device::parse(name).expect("a device");
    let devices: Vec<Device> = devices.iter().map(parse).collect();
    let findings = seeds(n).into_iter().filter_map(|seed| finding(seed, &devices));
    let findings: Vec<String> = findings.take(MOST_FAILURES).collect();
    assert!(findings.is_empty(), "{} fail:\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn writes_on_the_interpreter() {
    agree(&["INTERP"], 3000);
}

#[test]
fn writes_on_the_cpu() {
    agree(&["CPU"], 200);
}

#[test]
fn writes_on_three_devices() {
    agree(&["INTERP", "INTERP:1", "INTERP:2"], 1000);
    agree(&["CPU", "CPU:1", "INTERP"], 20);
}

#[test]
fn writes_on_three_cpus() {
    agree(&["CPU", "CPU:1", "CPU:2"], 50);
}
