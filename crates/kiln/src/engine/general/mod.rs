//! General schedules: a graph that was seen with other lengths before gets a schedule for all of them.
//!
//! The graphs of one program at several lengths have one [`Closed::outline`]. After three of them (two, if a length grew by
//! one) it is known which numbers vary, and how these depend on each other ([`variables`]). One graph is enough if the
//! program names its variables ([`named`]) or fills a storage from the front ([`filled`]). Then the stage `schedule` runs
//! for graphs of the same outline with a few other lengths ([`witnesses`]), and from those comes a schedule for all lengths
//! between them ([`GeneralSchedule`]).
//!
//! What a graph gets depends on the graphs that the program has had before, in their order, and on nothing else.

mod filled;
mod form;
mod named;
mod quantities;
mod variables;
mod witnesses;

use super::cache::{self, Code, Ready, ReadyKernel};
use super::capture::Closed;
use super::device::Opened;
use super::families::{LEAST_ITERATIONS, Specialization};
use super::generations::{Generations, locked};
use super::measure::count;
use super::number::raw;
use super::observed::{self, Graph};
use super::profitable::Candidate;
use super::{Failure, env, search, testing};
use crate::device::Device;
use kiln_compile::lengths::{GeneralSchedule, Instance, KernelInstance, VaryingInstance};
use kiln_compile::schedule::ScheduledKernel;
use kiln_ir::observe::{self, Kind};
use kiln_ir::{Const, UOp};
use named::Named;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Instant;
use variables::Variables;
use witnesses::Witnesses;

/// So many graphs of an outline say that lengths vary. A program may run at two, for training and for tests.
const SEEN: usize = 3;

/// So many graphs of an outline are remembered: the latest.
const MOST_SEEN: usize = 8;

/// General schedules of one outline.
const MOST_SCHEDULES: usize = 16;

/// More lengths than this that vary independently would need too many schedules: each combination of ends is one.
const MOST_VARIABLES: usize = 8;

/// About how much memory a kernel of a general schedule takes: its nodes, and their numbers.
const KERNEL: usize = 32 << 10;

type Known = Generations<(u128, cache::Way), Arc<Mutex<Outline>>>;
static KNOWN: LazyLock<Mutex<Known>> =
    LazyLock::new(|| Mutex::new(Generations::new(env::cache_bytes() / 8)));

/// What is known of the graphs of one outline.
#[derive(Default)]
struct Outline {
    /// Those that no general schedule was for.
    seen: Vec<Sighting>,
    /// Oldest first.
    schedules: Vec<Arc<General>>,
    /// How many graphs there were that no general schedule was for.
    missed: usize,
    /// After so many of them another one is tried.
    next_try: usize,
}

/// The numbers of a graph.
struct Sighting {
    /// Lengths, then starts of slices.
    numbers: Vec<i64>,
    constants: Vec<Const>,
}

/// A graph on its device.
#[derive(Clone, Copy)]
struct At<'a> {
    closed: &'a Closed,
    device: &'a Device,
    opened: &'a Opened,
}

/// A general schedule with the code of its kernels.
struct General {
    variables: Variables,
    /// By constant: whether it is a launch-time scalar.
    variable: Vec<bool>,
    constants: Vec<Const>,
    /// Which of the constants are starts of slices. They are among the numbers.
    starts: Range<usize>,
    schedule: GeneralSchedule,
    /// By kernel, once it was needed.
    codes: Mutex<Vec<Option<Arc<Code>>>>,
    /// The key of the graph that it was made for.
    key: u128,
}

impl Sighting {
    fn of(closed: &Closed) -> Sighting {
        let constants: Vec<Const> = closed.constants().collect();
        let starts = constants[closed.starts()].iter().filter_map(|start| start.as_i128());
        let lengths = closed.lengths.iter().map(|&n| n as i64);
        let numbers = lengths.chain(starts.map(|n| n as i64)).collect();
        Sighting { numbers, constants }
    }
}

/// The schedule of a graph, from a general one if there is one or if it is time to make one.
pub(super) fn ready(
    closed: &Closed,
    device: &Device,
    opened: &Opened,
) -> Result<Option<Ready>, Failure> {
    if env::LENGTHS.get() == 0 || search::width() != 0 || closed.lengths.is_empty() {
        return Ok(None);
    }
    let sighting = Sighting::of(closed);
    let key = (closed.outline, cache::way(device));
    let shared = known(&key);
    let mut outline = locked(&shared);
    let found = outline.schedules.iter().find_map(|g| g.at(&sighting).map(|at| (g.clone(), at)));
    let at = At { closed, device, opened };
    if let Some((general, instance)) = found {
        drop(outline);
        observed::remembered(general.graph(device), &instance.schedule, instance.kernels.len());
        return general.ready(at, instance, None).map(Some);
    }
    outline.add(sighting);
    let start = Instant::now();
    let made = outline.make(closed, opened);
    locked(&KNOWN).insert(key, shared.clone(), outline.size());
    let Some(general) = made? else { return Ok(None) };
    let sighting = outline.seen.last().expect("just added");
    let Some(instance) = general.at(sighting) else { return Ok(None) };
    drop(outline);
    general.ready(at, instance, Some(start)).map(Some)
}

fn known(key: &(u128, cache::Way)) -> Arc<Mutex<Outline>> {
    locked(&KNOWN).get(key).cloned().unwrap_or_default()
}

impl Outline {
    /// About how much memory it takes.
    fn size(&self) -> usize {
        let sighting = |s: &Sighting| size_of_val(&s.numbers[..]) + size_of_val(&s.constants[..]);
        let kernels = self.schedules.iter().map(|general| general.schedule.kernels.len());
        kernels.sum::<usize>() * KERNEL + self.seen.iter().map(sighting).sum::<usize>()
    }

    fn add(&mut self, sighting: Sighting) {
        self.missed += 1;
        let is_known = |seen: &Sighting| seen.numbers == sighting.numbers;
        self.seen.retain(|seen| !is_known(seen));
        if self.seen.len() >= MOST_SEEN {
            self.seen.remove(0);
        }
        self.seen.push(sighting);
    }

    /// Whether enough is known to say that lengths vary.
    fn varies(&self, closed: &Closed) -> bool {
        let [first, second] = match &self.seen[..] {
            _ if closed.is_named => return true,
            [] => return false,
            [_] => return filled::is_filled(closed),
            [first, second] if env::LENGTHS.get() == 1 => [first, second],
            seen => return seen.len() >= SEEN || env::LENGTHS.get() > 1,
        };
        // a length that grows by one, as in a loop, will grow again
        let pairs = first.numbers.iter().zip(&second.numbers).take(closed.lengths.len());
        pairs.map(|(a, b)| a.abs_diff(*b)).filter(|by| *by > 0).min() == Some(1)
    }

    /// A general schedule for the graph that was added last, if enough have been seen.
    fn make(&mut self, closed: &Closed, opened: &Opened) -> Result<Option<Arc<General>>, Failure> {
        if !self.varies(closed)
            || self.missed < self.next_try
            || self.schedules.len() >= MOST_SCHEDULES
        {
            return Ok(None);
        }
        testing::step()?;
        let start = Instant::now();
        let made = General::of(closed, &self.seen, &self.schedules, opened);
        let took = start.elapsed();
        count(|c| c.schedule_ns += took.as_nanos() as u64);
        let Some(general) = made else {
            // its numbers may have no pattern
            self.next_try = 2 * self.missed;
            return Ok(None);
        };
        count(|c| c.scheduled += 1);
        let general = Arc::new(general);
        self.schedules.push(general.clone());
        Ok(Some(general))
    }
}

impl General {
    /// For graphs like those that were seen, the last of which is `closed`.
    fn of(
        closed: &Closed,
        seen: &[Sighting],
        before: &[Arc<General>],
        opened: &Opened,
    ) -> Option<General> {
        let by_name = Named::of(closed).and_then(|Named { variables, bounds }| {
            // others were made by programs of this outline that do not mean the same by it
            let fits = |sighting: &&Sighting| variables.point(&sighting.numbers).is_some();
            let alike: Vec<&Sighting> = seen.iter().filter(fits).collect();
            General::with(closed, &alike, before, opened, (variables, Some(&bounds)))
        });
        by_name.or_else(|| {
            let numbers: Vec<&[i64]> = seen.iter().map(|s| &s.numbers[..]).collect();
            let free = General::scalars(closed, before);
            let variables = Variables::of(&numbers, closed.lengths.len(), &free[closed.starts()]);
            let seen: Vec<&Sighting> = seen.iter().collect();
            General::with(closed, &seen, before, opened, (variables, None))
        })
    }

    /// By constant: whether it is a launch-time scalar in any case.
    fn scalars(closed: &Closed, before: &[Arc<General>]) -> Vec<bool> {
        let mut variable = closed.differing();
        for (at, variable) in variable.iter_mut().enumerate() {
            *variable |= before.iter().any(|general| general.variable[at]);
        }
        variable
    }

    /// With these variables, and bounds for them if those are known.
    fn with(
        closed: &Closed,
        seen: &[&Sighting],
        before: &[Arc<General>],
        opened: &Opened,
        (variables, bounds): (Variables, Option<&[(i64, i64)]>),
    ) -> Option<General> {
        let starts = closed.starts();
        let mut variable = General::scalars(closed, before);
        let last = seen.last()?;
        let point = variables.point(&last.numbers)?;
        if !(1..=MOST_VARIABLES).contains(&variables.count()) {
            return None;
        }
        let lengths = variables.varying(&last.numbers);
        for (at, variable) in variable.iter_mut().enumerate() {
            let differs = || seen.iter().any(|s| s.constants[at] != last.constants[at]);
            let follows = || bounds.is_some() && follows(last.constants[at], &lengths);
            match starts.contains(&at) {
                true => *variable = variables.is_free(closed.lengths.len() + at - starts.start),
                false => *variable |= differs() || follows(),
            }
        }
        let longest = variables.largest(seen.iter().map(|s| &s.numbers[..]));
        let witnesses = Witnesses {
            closed,
            variables: &variables,
            variable: &variable,
            longest: &longest,
            opened,
        };
        let schedule = witnesses.schedule(&point, bounds)?;
        let codes = Mutex::new(vec![None; schedule.kernels.len()]);
        let (constants, key) = (last.constants.clone(), closed.key);
        Some(General { variables, variable, constants, starts, schedule, codes, key })
    }

    /// The schedule of a graph with these numbers, if it is for them.
    fn at(&self, sighting: &Sighting) -> Option<Instance> {
        let point = self.variables.point(&sighting.numbers)?;
        let is_as_compiled = |at: usize| {
            let is_given = self.variable[at] || self.starts.contains(&at);
            is_given || self.constants[at] == sighting.constants[at]
        };
        let constants = 0..sighting.constants.len();
        (constants.len() == self.constants.len() && constants.into_iter().all(is_as_compiled))
            .then(|| self.schedule.at(&point))?
    }

    fn graph<'a>(&self, device: &'a Device) -> Graph<'a> {
        Graph { key: self.key, device, last: None }
    }

    /// The schedule with its code. Observers are shown it if it is new.
    fn ready(
        self: &Arc<General>,
        At { closed, device, opened }: At<'_>,
        Instance { schedule, kernels }: Instance,
        made_since: Option<Instant>,
    ) -> Result<Ready, Failure> {
        let plans: Vec<_> = (0..kernels.len()).map(|k| self.plan(k, &kernels[k], opened)).collect();
        if let Some(start) = made_since.filter(|_| observe::is_wanted(Kind::News)) {
            let roots = closed.build(&self.variable);
            let kernels: Vec<_> = plans.iter().map(|plan| plan.kernel.clone()).collect();
            let graph = Graph { last: closed.last_root(), ..self.graph(device) };
            observed::scheduled(graph, &roots, &schedule, &kernels, (start, start.elapsed()));
        }
        let codes = self.codes(&plans, opened)?;
        let all = kernels.into_iter().zip(plans).zip(codes).enumerate();
        let kernels = all.map(|(k, ((instance, plan), code))| self.kernel(k, instance, plan, code));
        let kernels = kernels.collect();
        Ok(Ready::new(closed, kernels, schedule, self.variable.clone()))
    }

    /// Kernel `k` with its code.
    fn kernel(
        self: &Arc<General>,
        k: usize,
        instance: KernelInstance,
        Plan { kernel, lengths }: Plan,
        code: Arc<Code>,
    ) -> ReadyKernel {
        let general = instance.varying.filter(|_| lengths != Lengths::These);
        let numbers = general.as_ref().and_then(|v| v.scalars.clone()).unwrap_or_default();
        let work = general.as_ref().map(|v| v.work);
        let specialization = general
            .filter(|v| v.work.iterations >= LEAST_ITERATIONS)
            .map(|v| self.specialization(k, v, kernel.ast.clone()));
        ReadyKernel {
            code,
            plan: ScheduledKernel { ast: cache::kept(kernel.ast), ..kernel },
            stored: instance.stored,
            numbers: numbers.into_iter().map(|(n, dtype)| raw(n, dtype)).collect(),
            work,
            specialization,
        }
    }

    /// A general kernel that is `k`, and the one with these numbers in it.
    fn specialization(
        self: &Arc<General>,
        k: usize,
        varying: VaryingInstance,
        ast: UOp,
    ) -> Specialization {
        let general = self.clone();
        Arc::new(move || Some([ast.clone(), general.schedule.kernels[k].exact(&varying)?]))
    }

    /// The kernel that runs: one for all lengths, or if that takes much more time one for lengths near these, or for these.
    fn plan(&self, k: usize, instance: &KernelInstance, opened: &Opened) -> Plan {
        let general = &self.schedule.kernels[k];
        let mut kernel = general.plan.clone();
        let Some(varying) = &instance.varying else {
            return Plan { kernel, lengths: Lengths::All };
        };
        let is_profitable = |ast: &UOp| {
            let Some(numbers) = varying.scalars.as_deref() else { return false };
            let (slot, iterations) = (kernel.vars.len(), varying.work.iterations);
            let candidate = Candidate { ast, slot, numbers, iterations };
            candidate.is_profitable(|| general.exact(varying), opened)
        };
        let near = || general.near(varying).filter(is_profitable);
        let lengths = if is_profitable(&kernel.ast) {
            Lengths::All
        } else if let Some(near) = near() {
            kernel.ast = near;
            Lengths::Near
        } else {
            kernel.ast = general.exact(varying).expect("its numbers vary");
            Lengths::These
        };
        Plan { kernel, lengths }
    }

    /// The code of each kernel. That of general kernels is remembered here.
    fn codes(&self, plans: &[Plan], opened: &Opened) -> Result<Vec<Arc<Code>>, Failure> {
        let known = locked(&self.codes).clone();
        let is_known = |k: usize| plans[k].lengths == Lengths::All && known[k].is_some();
        let new: Vec<usize> = (0..plans.len()).filter(|&k| !is_known(k)).collect();
        let kernels: Vec<_> = new.iter().map(|&k| plans[k].kernel.clone()).collect();
        let mut made = cache::compile_all(&kernels, opened)?.into_iter();
        let mut codes = known;
        new.iter().for_each(|&k| codes[k] = made.next());
        let mut remembered = locked(&self.codes);
        let general = new.iter().filter(|&&k| plans[k].lengths == Lengths::All);
        general.for_each(|&k| remembered[k] = codes[k].clone());
        Ok(codes.into_iter().map(|code| code.expect("known or made")).collect())
    }
}

/// Whether a constant may have been made from one of these lengths: the factor of a mean, the bound of a mask.
fn follows(constant: Const, lengths: &[i64]) -> bool {
    let c = constant.as_f64();
    let is_made = |&n: &i64| {
        let n = n as f64;
        c.abs() == n || c == 1.0 / n || c == f64::from(1.0 / n as f32)
    };
    lengths.iter().any(is_made)
}

/// A kernel to run.
struct Plan {
    kernel: ScheduledKernel,
    lengths: Lengths,
}

/// For which lengths a kernel's code is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lengths {
    All,
    /// Those near the ones that run ([`optimize::General::near`](kiln_compile::optimize::General::near)).
    Near,
    These,
}
