//! `BEAM=n`: searches for better options for a kernel than the heuristic's, by timing them on this machine.
//!
//! A search starts from the heuristic's options and continues from the `n` best lists that are known (`climb`). It
//! tries only options that the optimizer may apply to any kernel, and none that changes the order of a sum (except with
//! `BEAM_REORDER=1`), so results stay the same. The heuristic's options are kept unless others are faster by more than
//! `MARGIN` percent when both are timed in turn once more. The outcome is noted on disk, so the next process does not
//! search.

/// Steps from list to list.
mod climb;
/// What comes out.
mod found;
/// Kernels that are timed.
mod trial;

use super::device::Opened;
use super::{Failure, env, report};
use climb::Climb;
pub use found::Found;
use found::{Outcome, text};
use kiln_compile::optimize::Opt;
use kiln_compile::pass::Checks;
use kiln_compile::pipeline::{self, Compiled, Settings};
use kiln_compile::schedule::ScheduledKernel;
use kiln_compile::target::Language;
use kiln_ir::observe::{self, Event};
use std::cell::{Cell, RefCell};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the search for one kernel may take.
const A_KERNEL: Duration = Duration::from_secs(10);
/// What trying one list may take, where so many lists are to be tried.
const A_LIST: Duration = Duration::from_millis(100);

thread_local! {
    static WIDTH: Cell<Option<usize>> = const { Cell::new(None) };
    /// How many lists of options are tried for a kernel, half of them drawn at random; 0 for a search.
    static DRAWN: Cell<usize> = const { Cell::new(0) };
    static FOUND: RefCell<Vec<Found>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` with kernels searched for as under `BEAM=width` (0: not at all), whatever `BEAM` is, and gives what was found
/// for those that were compiled anew on this thread.
///
/// ```
/// use kiln::Tensor;
/// let (sum, found) = kiln::search(0, || (Tensor::from([1, 2, 3]) + 2).to_vec::<i32>());
/// assert_eq!((sum?, found.len()), (vec![3, 4, 5], 0));
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn search<R>(width: usize, f: impl FnOnce() -> R) -> (R, Vec<Found>) {
    searched(width, 0, f)
}

/// Runs `f` with each new kernel's options compared with `lists` others: half of them are drawn at random, half come from
/// a search, and any may change the order of a sum. How much faster the best is says how much the heuristic loses.
pub fn regret<R>(lists: usize, f: impl FnOnce() -> R) -> (R, Vec<Found>) {
    const WIDTH: usize = 4;
    searched(WIDTH, lists, f)
}

fn searched<R>(width: usize, lists: usize, f: impl FnOnce() -> R) -> (R, Vec<Found>) {
    let scope = Scope {
        width: WIDTH.replace(Some(width)),
        drawn: DRAWN.replace(lists),
        found: FOUND.take(),
    };
    let result = f();
    let found = FOUND.take();
    drop(scope);
    (result, found)
}

/// What held before a `search`, and holds again after it, also after a panic.
struct Scope {
    width: Option<usize>,
    drawn: usize,
    found: Vec<Found>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        WIDTH.set(self.width);
        DRAWN.set(self.drawn);
        FOUND.replace(std::mem::take(&mut self.found));
    }
}

/// How many lists of options a search goes on from; 0 means that there is none.
pub(super) fn width() -> usize {
    let asked = || usize::try_from(env::BEAM.get()).unwrap_or(0);
    if env::NOOPT.get() == 0 { WIDTH.get().unwrap_or_else(asked) } else { 0 }
}

/// Better options for a kernel than the heuristic's, if there are and somebody wants them.
pub(super) fn options(kernel: &ScheduledKernel, opened: &Opened) -> Option<Vec<Opt>> {
    let width = width();
    if width == 0 || opened.target.language == Language::Linear {
        return None;
    }
    // two searches at once would time each other
    static SEARCHING: Mutex<Duration> = Mutex::new(Duration::ZERO);
    let mut spent = SEARCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let start = Instant::now();
    let all = Duration::from_secs(u64::try_from(env::BEAM_SECONDS.get()).unwrap_or(0));
    let deadline = start + all.saturating_sub(*spent).min(A_KERNEL);
    let found = match DRAWN.get() {
        0 => noted_or_found(kernel, opened, width, deadline),
        lists => compared(kernel, opened, lists),
    };
    *spent += start.elapsed();
    let (found, options) = found.ok().flatten()?;
    shown(&found);
    let taken = found.is_taken.then_some(options);
    FOUND.with_borrow_mut(|all| all.push(found));
    taken
}

/// Shows what a search has found.
fn shown(found: &Found) {
    observe::see(&Event::Searched {
        kernel: &found.kernel,
        tried: found.tried,
        ratio: found.ratio(),
        options: &found.candidate,
        is_taken: found.is_taken,
        is_noted: found.is_noted,
    });
}

/// The heuristic's options.
fn chosen(kernel: &ScheduledKernel, opened: &Opened) -> Result<Compiled, Failure> {
    let checks = Checks { verify: cfg!(debug_assertions), spoiled: None };
    let settings = Settings { optimize: true, checks, ..Settings::default() };
    let start = pipeline::compile(&kernel.ast, &opened.target, settings);
    start.map_err(|bug| report::short(&bug.to_string()))
}

/// The heuristic's options against so many others.
fn compared(
    kernel: &ScheduledKernel,
    opened: &Opened,
    lists: usize,
) -> Result<Option<(Found, Vec<Opt>)>, Failure> {
    let start = chosen(kernel, opened)?;
    let about = (start.program.name.to_string(), text(&start.applied));
    let deadline = Instant::now() + lists as u32 * A_LIST;
    let outcome = Climb::new(kernel, opened, start, deadline)?.compared(lists)?;
    Ok(outcome.map(|outcome| Found::of(kernel, about, outcome, false)))
}

/// What was found, and the best options besides the heuristic's. None if there was nothing to try, or no time.
fn noted_or_found(
    kernel: &ScheduledKernel,
    opened: &Opened,
    width: usize,
    deadline: Instant,
) -> Result<Option<(Found, Vec<Opt>)>, Failure> {
    let start = chosen(kernel, opened)?;
    let (name, heuristic) = (start.program.name.to_string(), text(&start.applied));
    let about = format!(
        "options of kiln {} for {:032x} on {:?} beside {} by a search of width {width}, orders {}",
        env!("CARGO_PKG_VERSION"),
        kernel.ast.hash(),
        opened.target,
        heuristic.join(";"),
        env::BEAM_REORDER.get() != 0
    );
    let noted = opened.backend.note(&about).and_then(|note| Outcome::read(&note));
    let legal =
        |o: &Outcome| pipeline::compile_with(&kernel.ast, &opened.target, &o.options).is_ok();
    let (outcome, is_noted) = match noted.filter(legal) {
        Some(outcome) => (outcome, true),
        None => match Climb::new(kernel, opened, start, deadline)?.outcome(width)? {
            Some(outcome) => (outcome, false),
            None => return Ok(None),
        },
    };
    if !is_noted {
        opened.backend.set_note(&about, &outcome.written());
    }
    Ok(Some(Found::of(kernel, (name, heuristic), outcome, is_noted)))
}
