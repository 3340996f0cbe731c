//! Runs a program on kiln and compares it, line by line, with the eager machine.

use super::eager::{self, Handle};
use super::lazy::{self, Lazy};
use super::machine::Machine;
use super::program::{Line, Var};
use crate::fuzz::Rng;
use kiln::{Counts, Device, Tensor, measure, testing};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Reads of the second thread, at most.
const OTHER_READS: usize = 200;

/// In which company a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Alone,
    /// A second thread reads and realizes the same tensors all the time.
    Beside,
    /// Every second computation fails somewhere before it launches, and is asked for again. The number seeds where.
    Faults(u64),
}

/// All values that a variable ever has. None where devices may differ about one of them.
type History = BTreeMap<Var, Option<BTreeSet<Vec<u8>>>>;

/// What a program means.
struct Meaning {
    /// By line.
    reads: Vec<Vec<u8>>,
    peak: usize,
    history: History,
}

/// None for a program that has no meaning.
fn meaning(lines: &[Line], mode: Mode) -> Option<Meaning> {
    let mut history = History::new();
    let run = || -> Option<Vec<Vec<u8>>> {
        let (mut machine, mut ever) = (Machine::default(), BTreeMap::new());
        let mut reads = Vec::new();
        for line in lines {
            let mut read = Vec::new();
            for step in line.steps() {
                read = machine.run(&step)?;
                if mode == Mode::Beside {
                    // the second thread may hold what the program has dropped
                    ever.extend(machine.vars.clone());
                    remember(&mut history, &ever);
                }
            }
            reads.push(read);
        }
        Some(reads)
    };
    let (reads, peak) = eager::peak(run);
    reads.map(|reads| Meaning { reads, peak, history })
}

fn remember(history: &mut History, ever: &BTreeMap<Var, Handle>) {
    for (&var, handle) in ever {
        let values = history.entry(var).or_insert_with(|| Some(BTreeSet::new()));
        match (handle.elements(), values.as_mut()) {
            (Some(_), Some(values)) => _ = values.insert(handle.bytes()),
            _ => *values = None,
        }
    }
}

/// How often every program runs: the second time all schedules are known.
pub(super) const ROUNDS: usize = 2;

/// What is wrong with how kiln runs a program again and again, if something is.
pub(super) fn failure(
    lines: &[Line],
    devices: &[Device],
    mode: Mode,
    rounds: usize,
) -> Option<String> {
    let meaning = meaning(lines, mode)?;
    (0..rounds).find_map(|round| {
        let run = || measure(|| run(lines, devices, mode, &meaning));
        // a compiler that panics is one more finding
        let result = match catch_unwind(AssertUnwindSafe(run)) {
            // copies between devices cost kernels and memory of their own
            Ok((Ok(()), counts)) if mode == Mode::Alone && devices.len() == 1 => {
                cost(lines, &meaning, &counts)
            }
            Ok((result, _)) => result,
            Err(panic) => Err(panic.downcast_ref::<String>().cloned().unwrap_or_default()),
        };
        testing::fail_after(None);
        result.err().map(|what| format!("round {round}: {what}"))
    })
}

/// Nodes that are visited for a line, at most: a line makes some dozens, and each is passed twice before it is stored.
const VISITS: u64 = 30;

/// Work and memory are linear in the lines that run.
fn cost(lines: &[Line], meaning: &Meaning, counts: &Counts) -> Result<(), String> {
    let n = lines.iter().map(|line| line.steps().len() as u64).sum();
    let within = |what, is: u64, most: u64| match is <= most {
        true => Ok(()),
        false => Err(format!("{is} {what} for {n} lines, at most {most} expected")),
    };
    // a write that reads its own storage elsewhere is two, and is walked twice at most before it is stored
    within("kernels", counts.kernels, 4 * n)?;
    within("visited nodes", counts.visited, VISITS * n)?;
    within("compiled kernels", counts.compiled, 4 * n)?;
    within("schedules", counts.scheduled, n)?;
    // running sums make tables of their own
    match format!("{lines:?}").contains("CumSum") {
        true => Ok(()),
        false => within("bytes at once", counts.peak_memory, 2 * meaning.peak as u64 + 2048),
    }
}

fn run(lines: &[Line], devices: &[Device], mode: Mode, meaning: &Meaning) -> Result<(), String> {
    let (shared, done) = (Mutex::new(BTreeMap::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let other = (mode == Mode::Beside).then(|| scope.spawn(|| other_thread(&shared, &done)));
        let main =
            catch_unwind(AssertUnwindSafe(|| main_thread(lines, devices, mode, meaning, &shared)));
        done.store(true, Relaxed);
        if let Some(other) = other {
            let seen = other.join().map_err(|_| "the second thread panics".to_owned())??;
            seen.into_iter()
                .try_for_each(|(var, bytes)| was_ever(&meaning.history, var, &bytes))?;
        }
        main.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// What two threads see.
type Shared = Mutex<BTreeMap<Var, Tensor>>;

fn main_thread(
    lines: &[Line],
    devices: &[Device],
    mode: Mode,
    meaning: &Meaning,
    shared: &Shared,
) -> Result<(), String> {
    let mut lazy = Lazy::new(devices);
    let mut rng = if let Mode::Faults(seed) = mode { Some(Rng(seed)) } else { None };
    for (at, (line, wanted)) in lines.iter().zip(&meaning.reads).enumerate() {
        let got = match &mut rng {
            Some(rng) => with_fault(&mut lazy, line, rng),
            None => lazy.run(line).map_err(|error| error.to_string()),
        };
        let got = got.map_err(|error| format!("line {at} `{line}`: {error}"))?;
        if got != *wanted {
            return Err(format!("line {at} `{line}`: bytes {got:?}, not {wanted:?}"));
        }
        if mode == Mode::Beside {
            *shared.lock().expect("no panic") = lazy.vars.clone();
        }
    }
    Ok(())
}

/// Runs a line so that one of its first steps fails, and once more if that is what happened.
fn with_fault(lazy: &mut Lazy, line: &Line, rng: &mut Rng) -> Result<Vec<u8>, String> {
    if matches!(line, Line::Read(_) | Line::Realize(_)) && rng.one_in(2) {
        testing::fail_after(Some(rng.below(6)));
    }
    let first = lazy.run(line);
    let pending = testing::fail_after(None);
    match first {
        Err(error) if !pending && error.why().contains(testing::INJECTED) => {
            lazy.run(line).map_err(|error| format!("after a failure: {error}"))
        }
        result => result.map_err(|error| error.to_string()),
    }
}

/// Reads at random until the program ends.
fn other_thread(shared: &Shared, done: &AtomicBool) -> Result<Vec<(Var, Vec<u8>)>, String> {
    let (mut rng, mut seen) = (Rng(1), Vec::new());
    while !done.load(Relaxed) && seen.len() < OTHER_READS {
        let vars = shared.lock().expect("no panic").clone();
        let Some((&var, tensor)) = vars.iter().nth(rng.below(vars.len().max(1))) else {
            std::thread::yield_now();
            continue;
        };
        let read = || {
            if rng.one_in(3) {
                tensor.realize()?;
            }
            lazy::bytes(tensor)
        };
        let bytes = { read }().map_err(|error| format!("second thread reads v{var}: {error}"))?;
        seen.push((var, bytes));
    }
    Ok(seen)
}

fn was_ever(history: &History, var: Var, bytes: &[u8]) -> Result<(), String> {
    match &history[&var] {
        Some(values) if !values.contains(bytes) => {
            Err(format!("the second thread reads {bytes:?} of v{var}, which it never was"))
        }
        _ => Ok(()),
    }
}
