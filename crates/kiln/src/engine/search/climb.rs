//! The beam search over option lists.
//!
//! In each round, every list that is one step from one of the best is compiled, on all threads, and timed. The search
//! ends with a round that finds nothing better. Lists that are illegal, too large, or fail are skipped.

use super::super::Failure;
use super::super::device::Opened;
use super::super::env;
use super::super::parallel::in_parallel;
use super::found::Outcome;
use super::trial::{Bench, Trial};
use kiln_compile::optimize::{self, Opt};
use kiln_compile::pipeline::{self, Compiled};
use kiln_compile::schedule::ScheduledKernel;
use kiln_ir::UOp;
use kiln_ir::observe::{self, Event};
use rustc_hash::FxHashSet;
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// Lists that are compiled before the first of them is timed.
const AT_ONCE: usize = 16;
/// Turns of a trial that is worth more than one, and of each in the end.
const TURNS: usize = 4;
const LAST_TURNS: usize = 15;
/// A trial that takes so much longer than the best has no further turn.
const HOPELESS: f64 = 1.3;
/// Steps of a list that is drawn at random, at most, and how many are drawn for one that is new and compiles.
const MOST_STEPS: usize = 10;
const MOST_DRAWS: usize = 4;
/// Trials that meet the heuristic's in the end.
const FINALISTS: usize = 3;

/// A search for a kernel's options.
pub(super) struct Climb<'a> {
    opened: &'a Opened,
    /// The kernel as options see it.
    ast: UOp,
    kernel: &'a ScheduledKernel,
    bench: Option<Bench>,
    deadline: Instant,
    /// The heuristic's options, then others, fastest first.
    start: Trial,
    best: Vec<Trial>,
    seen: FxHashSet<Vec<Opt>>,
    sources: FxHashSet<String>,
    tried: usize,
    /// Whether lists may change the order of a sum.
    reorders: bool,
}

impl<'a> Climb<'a> {
    pub(super) fn new(
        kernel: &'a ScheduledKernel,
        opened: &'a Opened,
        start: Compiled,
        deadline: Instant,
    ) -> Result<Climb<'a>, Failure> {
        Ok(Climb {
            opened,
            ast: optimize::collapsed(&kernel.ast),
            kernel,
            bench: Bench::new(&kernel.ast, &start.program, opened)?,
            deadline,
            seen: FxHashSet::from_iter([start.applied.clone()]),
            sources: FxHashSet::from_iter([start.program.source.clone()]),
            start: Trial::new(start, opened)?,
            best: Vec::new(),
            tried: 0,
            reorders: false,
        })
    }

    /// What the search comes to; none if nothing could be tried.
    pub(super) fn outcome(mut self, width: usize) -> Result<Option<Outcome>, Failure> {
        let Some(bench) = self.bench.take() else { return Ok(None) };
        for _ in 0..=TURNS {
            bench.turn(&mut self.start)?;
        }
        self.climb(&bench, width, usize::MAX);
        self.finals(&bench)
    }

    /// What `lists` others come to, half of them drawn at random, the rest by a search from the heuristic's.
    pub(super) fn compared(mut self, lists: usize) -> Result<Option<Outcome>, Failure> {
        let Some(bench) = self.bench.take() else { return Ok(None) };
        for _ in 0..=TURNS {
            bench.turn(&mut self.start)?;
        }
        self.reorders = true;
        let mut numbers = Numbers(self.ast.hash() as u64);
        let mut below = |n: usize| numbers.below(n);
        for _ in 0..MOST_DRAWS * lists / 2 / AT_ONCE {
            if self.tried >= lists / 2 || self.is_late() {
                break;
            }
            let draw = |_| optimize::drawn(&self.ast, 1 + below(MOST_STEPS), &mut below);
            let drawn: Vec<Vec<Opt>> = (0..AT_ONCE).map(draw).collect();
            self.attempt(&bench, drawn, FINALISTS);
        }
        self.climb(&bench, FINALISTS, lists);
        self.finals(&bench)
    }

    /// Rounds until one finds nothing better, or so many lists have been tried.
    fn climb(&mut self, bench: &Bench, width: usize, most: usize) {
        let mut least = self.least();
        while self.tried < most {
            self.round(bench, width);
            let now = self.least();
            if now >= least || self.is_late() {
                break;
            }
            least = now;
        }
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// The least time that is known.
    fn least(&self) -> Duration {
        self.best.first().map_or(self.start.least, |b| b.least.min(self.start.least))
    }

    /// Tries all that is one step from the `width` best.
    fn round(&mut self, bench: &Bench, width: usize) {
        let mut from: Vec<&Trial> = self.best.iter().chain([&self.start]).collect();
        from.sort_by_key(|t| t.least);
        let step = |t: &&Trial| optimize::neighbours(&self.ast, &t.compiled.applied);
        let mut next: Vec<Vec<Opt>> = from.iter().take(width).flat_map(step).collect();
        let start = &self.start.compiled.applied;
        let reorder = self.reorders || env::BEAM_REORDER.get() != 0;
        next.retain(|list| reorder || optimize::same_order(&self.ast, start, list));
        self.attempt(bench, next, width);
    }

    /// Compiles and times the lists that are new.
    fn attempt(&mut self, bench: &Bench, mut lists: Vec<Vec<Opt>>, width: usize) {
        lists.retain(|list| self.seen.insert(list.clone()));
        for some in lists.chunks(AT_ONCE) {
            if self.is_late() {
                return;
            }
            let trials = self.compiled(some);
            self.tried += trials.len();
            self.time(bench, trials);
            self.best.sort_by_key(|t| t.least);
            self.best.truncate(width.max(FINALISTS));
            let gain = self.start.least.as_secs_f64() / self.least().as_secs_f64();
            let (kernel, tried) = (&*self.start.compiled.program.name, self.tried);
            observe::see(&Event::Searching { kernel, tried, gain });
        }
    }

    /// Those of the lists that compile, and to code that is new.
    fn compiled(&mut self, lists: &[Vec<Opt>]) -> Vec<Trial> {
        let (ast, target) = (&self.kernel.ast, &self.opened.target);
        let compile = |options: &Vec<Opt>| pipeline::compile_with(ast, target, options).ok();
        let mut programs = all_that(lists, compile);
        programs.retain(|c| self.sources.insert(c.program.source.clone()));
        let opened = self.opened;
        all_that(&programs, |c| Trial::new(c.clone(), opened).ok())
    }

    /// Turns of the trials, one after the other; what is far from the best, or fails, has only two.
    fn time(&mut self, bench: &Bench, mut trials: Vec<Trial>) {
        for turn in 0..TURNS + 2 {
            trials.retain_mut(|trial| bench.turn(trial).is_ok());
            trials.sort_by_key(|t| t.least);
            let least = trials.first().map_or(self.least(), |t| t.least.min(self.least()));
            let has_hope = |t: &Trial| t.least.as_secs_f64() < least.as_secs_f64() * HOPELESS;
            if turn > 0 {
                // one stays: where others keep the processors busy, a lucky turn takes all hope from the rest
                let stay = self.best.is_empty() as usize;
                trials.truncate(trials.partition_point(has_hope).max(stay));
            }
        }
        self.best.extend(trials);
    }

    /// The best others against the heuristic's options, in turn; then the best of those once more, since the luckiest
    /// of several looks better than it is.
    fn finals(mut self, bench: &Bench) -> Result<Option<Outcome>, Failure> {
        let mut best: Vec<Trial> = self.best.drain(..).take(FINALISTS).collect();
        let mut all: Vec<&mut Trial> = best.iter_mut().chain([&mut self.start]).collect();
        let times = bench.duel(&mut all, LAST_TURNS)?;
        let fastest = (0..best.len()).min_by_key(|&i| times[i][1]);
        let Some(fastest) = fastest else { return Ok(None) };
        let mut best = best.swap_remove(fastest);
        let times = bench.duel(&mut [&mut self.start, &mut best], LAST_TURNS)?;
        // on a busy machine threads that wait for each other lose most: both the least times and the medians count
        let ratio = |i: usize| times[0][i].as_secs_f64() / times[1][i].as_secs_f64();
        let less = if ratio(0) < ratio(1) { 0 } else { 1 };
        Ok(Some(Outcome {
            heuristic: times[0][less],
            candidate: times[1][less],
            tried: self.tried,
            options: best.compiled.applied,
        }))
    }
}

/// A generator of numbers (Knuth's MMIX constants), the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// What can be made of the items, in their order.
fn all_that<T: Sync, R: Send>(items: &[T], make: impl Fn(&T) -> Option<R> + Sync) -> Vec<R> {
    let Ok(made) = in_parallel(items, |item| Ok::<_, Infallible>(make(item)));
    made.into_iter().flatten().collect()
}
