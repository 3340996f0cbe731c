//! Remembers schedules and compiled kernels.
//!
//! A schedule is found by the key of its graph. The first graph of a key is compiled with its constants inside. If the
//! key comes again with other constants (a learning rate, a position), those that differ become launch-time scalars, so
//! the next value compiles nothing.

use super::capture::Closed;
use super::device::Opened;
use super::families::{self, Found, Specialization};
use super::generations::Generations;
use super::made::{Made, made, settings};
use super::measure::count;
use super::number::raw;
use super::observed::Graph;
use super::parallel::in_parallel;
use super::testing::Stages;
use super::{Failure, debug, env, observed, report, search, testing};
use crate::device::Device;
use kiln_compile::optimize::{Opt, Work};
use kiln_compile::pipeline::{self, Compiled, Settings};
use kiln_compile::schedule::{self, BufferRef, Choices, ScheduledKernel};
use kiln_ir::arg::Shape;
use kiln_ir::observe::{self, Kind};
use kiln_ir::uop::Mixer;
use kiln_ir::{Const, DType, UOp};
use kiln_runtime::{Kernel, Origin};
use rustc_hash::FxHashSet;
use std::hash::Hash;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

/// Variants of one graph with different constants compiled in. With more, all constants that ever differed become
/// scalars.
const MAX_VARIANTS: usize = 4;

/// A schedule that is ready to run.
pub(super) struct Ready {
    pub(super) kernels: Vec<ReadyKernel>,
    pub(super) schedule: schedule::Schedule,
    /// Type and shape of each root.
    pub(super) roots: Vec<(DType, Shape)>,
    /// Which roots may overwrite what, in the order of kernels.
    pub(super) overwrites: Vec<Overwrite>,
    /// By constant: whether it is a launch-time scalar.
    variable: Vec<bool>,
    /// All constants, as they were when it was compiled.
    constants: Vec<Const>,
    dtypes: Vec<DType>,
    /// How often it was found again.
    pub(super) runs: AtomicU64,
}

/// A root that may get the memory of a parameter: the kernel that reads this last stores the root, and reads nothing
/// after it is overwritten.
#[derive(Clone)]
pub(super) struct Overwrite {
    pub(super) root: usize,
    pub(super) slot: usize,
    /// Whether another root is the parameter unchanged.
    pub(super) is_shared: bool,
}

/// One kernel of it.
#[derive(Clone)]
pub(super) struct ReadyKernel {
    pub(super) code: Arc<Code>,
    /// Its arguments, and which of them may share memory.
    pub(super) plan: ScheduledKernel,
    /// If it changes parts of its first argument: the bytes from the first to the last that it stores.
    pub(super) stored: Range<usize>,
    /// Launch-time scalars after those of the plan: the numbers that its code does not contain.
    pub(super) numbers: Vec<i64>,
    /// What a launch does, if the code does not say so.
    pub(super) work: Option<Work>,
    /// If the code is general: how to make code for these numbers.
    pub(super) specialization: Option<Specialization>,
}

/// A compiled kernel, shared by all schedules that need the same.
pub(super) struct Code {
    pub(super) kernel: Arc<dyn Kernel>,
    pub(super) compiled: Compiled,
    /// The hash of the optimized kernel, which may not be kept.
    pub(super) key: u128,
}

impl ReadyKernel {
    /// Arithmetic operations and distinct bytes of one launch.
    pub(super) fn costs(&self) -> (u64, u64) {
        let program = &self.code.compiled.program;
        self.work.map_or((program.flops, program.bytes), |work| (work.flops, work.bytes))
    }

    /// What the kernel is called.
    pub(super) fn name(&self) -> &str {
        &self.code.compiled.program.name
    }
}

impl Code {
    /// About how much memory it takes.
    fn size(&self) -> usize {
        let Compiled { applied, program, .. } = &self.compiled;
        self.kernel.size() + program.size() + size_of_val(&applied[..]) + size_of::<Code>() + ENTRY
    }
}

/// What an entry of a table takes besides its parts, as far as that is known.
const ENTRY: usize = 256;

/// About how much memory a specialization takes: the numbers of a kernel.
const SPECIALIZATION: usize = 1 << 10;

impl Ready {
    /// For a graph with these constants.
    pub(super) fn new(
        closed: &Closed,
        kernels: Vec<ReadyKernel>,
        schedule: schedule::Schedule,
        variable: Vec<bool>,
    ) -> Ready {
        let root = |&r: &usize| (closed.node(r).dtype(), closed.node(r).shape().clone());
        let roots = closed.roots.iter().map(root).collect();
        let (dtypes, constants) =
            (closed.constant_dtypes().collect(), closed.constants().collect());
        let overwrites = overwrites(&kernels, &schedule, closed.leaves.len());
        let runs = AtomicU64::new(0);
        Ready { kernels, schedule, roots, overwrites, variable, constants, dtypes, runs }
    }

    /// The same with other code, after so many runs.
    pub(super) fn with(&self, kernels: Vec<ReadyKernel>, runs: u64) -> Ready {
        Ready {
            kernels,
            schedule: self.schedule.clone(),
            roots: self.roots.clone(),
            overwrites: self.overwrites.clone(),
            variable: self.variable.clone(),
            constants: self.constants.clone(),
            dtypes: self.dtypes.clone(),
            runs: AtomicU64::new(runs),
        }
    }

    /// About how much memory it takes, as if it alone held its kernels.
    fn size(&self) -> usize {
        let kernel = |k: &ReadyKernel| {
            let ScheduledKernel { args, vars, may_alias, origins, .. } = &k.plan;
            let lists = size_of_val(&args[..]) + size_of_val(&vars[..]);
            let more = size_of_val(&may_alias[..]) + size_of_val(&origins[..]);
            let own = if k.specialization.is_some() { SPECIALIZATION } else { 0 };
            let more = more + size_of_val(&k.numbers[..]) + own;
            size_of::<ReadyKernel>() + lists + more + k.code.size()
        };
        let schedule::Schedule { outputs, temps, .. } = &self.schedule;
        let lists = size_of_val(&outputs[..]) + size_of_val(&temps[..]);
        let own = size_of_val(&self.roots[..]) + size_of_val(&self.overwrites[..]);
        let own = own + self.constants.len() * (size_of::<Const>() + 2);
        self.kernels.iter().map(kernel).sum::<usize>() + lists + own + size_of::<Ready>() + ENTRY
    }

    /// Whether it computes this graph: all constants that are compiled in are equal.
    fn fits(&self, constants: impl Iterator<Item = Const>) -> bool {
        self.constants.iter().zip(constants).zip(&self.variable).all(|((a, b), v)| *v || *a == b)
    }

    /// The scalars to launch it with, as 8 raw bytes each.
    pub(super) fn scalars(&self, constants: impl Iterator<Item = Const>) -> Vec<i64> {
        let all = constants.zip(&self.dtypes).zip(&self.variable);
        all.filter(|(_, v)| **v).map(|((c, dtype), _)| raw(c, *dtype)).collect()
    }
}

/// Which roots may overwrite which of so many parameters.
fn overwrites(
    kernels: &[ReadyKernel],
    schedule: &schedule::Schedule,
    slots: usize,
) -> Vec<Overwrite> {
    let mut last_read = vec![0; slots];
    for (step, kernel) in kernels.iter().enumerate() {
        for arg in kernel.plan.args.iter().chain(&kernel.plan.starts_from) {
            if let BufferRef::Param(slot) = arg {
                last_read[*slot] = step;
            }
        }
    }
    let mut found = Vec::new();
    for (step, ReadyKernel { plan, .. }) in kernels.iter().enumerate() {
        let whole = plan.may_alias.iter().map(|&(new, old)| (plan.args[new], plan.args[old]));
        let partly = plan.starts_from.map(|old| (plan.args[0], old));
        for pair in whole.chain(partly) {
            let (BufferRef::Output(root), BufferRef::Param(slot)) = pair else { continue };
            if last_read[slot] == step {
                let is_shared = schedule.outputs.contains(&BufferRef::Param(slot));
                found.push(Overwrite { root, slot, is_shared });
            }
        }
    }
    found
}

/// By the graph's shape, the device, and how its kernels are compiled.
type Schedules = Generations<(u128, Way), Vec<Arc<Ready>>>;

/// The device, and how its kernels are compiled.
pub(super) type Way = (Arc<str>, How);

/// The width of the search for kernels, how they are made, and `LENGTHS`.
pub(super) type How = (usize, Made, i64);
static SCHEDULES: LazyLock<Mutex<Schedules>> = LazyLock::new(remembering);

/// An empty map of schedules or kernels. It may hold twice its bound, so both maps together hold what `KILN_CACHE_MB`
/// allows.
fn remembering<K: Hash + Eq, V>() -> Mutex<Generations<K, V>> {
    Mutex::new(Generations::new(env::cache_bytes() / 4))
}

/// Every kernel that this process has compiled and remembers. Release builds keep no text of any.
pub fn stages() -> Vec<Stages> {
    let schedules = SCHEDULES.lock().expect("schedule cache");
    let kernels = schedules.values().flatten().flat_map(|ready| &ready.kernels);
    let stages = |k: &ReadyKernel| {
        let (scheduled, compiled) = (k.plan.ast.clone(), &k.code.compiled);
        let (optimized, program) = (compiled.ast.clone(), compiled.program.ops.clone());
        Stages { scheduled, optimized, program }
    };
    kernels.map(stages).collect()
}

/// The remembered schedule of a graph by its key.
pub(super) fn known(key: u128, device: &Device, constants: &[Const]) -> Option<Arc<Ready>> {
    let ready = fitting(&(key, way(device)), || constants.iter().copied())?;
    observed::remembered(Graph { key, device, last: None }, &ready.schedule, ready.kernels.len());
    Some(ready)
}

/// How kernels of a device are compiled now.
pub(super) fn way(device: &Device) -> Way {
    (device.shared_name(), (search::width(), made(), env::LENGTHS.get()))
}

fn variants(key: &(u128, Way)) -> Vec<Arc<Ready>> {
    SCHEDULES.lock().expect("schedule cache").get(key).cloned().unwrap_or_default()
}

/// The variant that computes a graph with these constants.
fn fitting<I: Iterator<Item = Const>>(
    key: &(u128, Way),
    constants: impl Fn() -> I,
) -> Option<Arc<Ready>> {
    let mut schedules = SCHEDULES.lock().expect("schedule cache");
    schedules.get(key)?.iter().find(|ready| ready.fits(constants())).cloned()
}

/// The remembered schedule of a closed graph.
pub(super) fn found(closed: &Closed, device: &Device) -> Option<Arc<Ready>> {
    let ready = fitting(&(closed.key, way(device)), || closed.constants())?;
    observed::remembered(graph(closed, device), &ready.schedule, ready.kernels.len());
    Some(ready)
}

/// Remembers a schedule of a closed graph.
pub(super) fn keep(closed: &Closed, device: &Device, ready: Ready) -> Arc<Ready> {
    let ready = Arc::new(ready);
    keep_as(closed.key, device, &ready);
    ready
}

/// Remembers a schedule by the key of a graph that it computes, in place of one for the same constants.
pub(super) fn keep_as(key: u128, device: &Device, ready: &Arc<Ready>) {
    let key = (key, way(device));
    let mut schedules = SCHEDULES.lock().expect("schedule cache");
    let is_same = |r: &Ready| r.constants == ready.constants && r.variable == ready.variable;
    // the latest variant is the most general: look at it first
    let others = schedules.get(&key).into_iter().flatten().filter(|r| !is_same(r)).cloned();
    let variants: Vec<_> = std::iter::once(ready.clone()).chain(others).collect();
    let bytes = variants.iter().map(|ready| ready.size()).sum();
    schedules.insert(key, variants, bytes);
}

/// What observers are told of a graph.
fn graph<'a>(closed: &'a Closed, device: &'a Device) -> Graph<'a> {
    Graph { key: closed.key, device, last: closed.last_root() }
}

/// A new schedule of a closed graph.
pub(super) fn make(closed: &Closed, device: &Device, opened: &Opened) -> Result<Ready, Failure> {
    testing::step()?;
    let start = Instant::now();
    let constants: Vec<Const> = closed.constants().collect();
    let known = variants(&(closed.key, way(device)));
    let variable = variable_constants(closed, &constants, &known);
    let roots = closed.build(&variable);
    let (mut schedule, _) = scheduled(&roots, opened, &Choices::default())?;
    let took = start.elapsed();
    count(|c| {
        c.scheduled += 1;
        c.schedule_ns += took.as_nanos() as u64;
    });
    let mut plans = std::mem::take(&mut schedule.kernels);
    let found = match search::width() {
        0 => families::general(closed.outline, plans.iter().map(|plan| &plan.ast), opened),
        _ => plans.iter().map(|_| None).collect(),
    };
    let more: Vec<_> = plans.iter_mut().zip(found).map(general).collect();
    observed::scheduled(graph(closed, device), &roots, &schedule, &plans, (start, took));
    let codes = compile_all(&plans, opened)?;
    let kernels = codes.into_iter().zip(plans).zip(more).map(|((code, plan), (stored, more))| {
        let plan = ScheduledKernel { ast: kept(plan.ast), ..plan };
        let Some(Found { numbers, work, specialization, .. }) = more else {
            let (numbers, work, specialization) = Default::default();
            return ReadyKernel { code, plan, stored, numbers, work, specialization };
        };
        let numbers = numbers.into_iter().map(|(value, dtype)| raw(value, dtype)).collect();
        ReadyKernel { code, plan, stored, numbers, work: Some(work), specialization }
    });
    Ok(Ready::new(closed, kernels.collect(), schedule, variable))
}

/// The schedule of a closed graph that has been built, and what was chosen for it.
pub(super) fn scheduled(
    roots: &[UOp],
    opened: &Opened,
    choices: &Choices,
) -> Result<(schedule::Schedule, Choices), Failure> {
    pipeline::schedule_with(roots, &opened.target, settings().checks, choices)
        .map_err(|bug| report::short(&bug.to_string()))
}

/// Puts the general kernel in place of one that has one. Returns the bytes that the kernel stores in its first argument,
/// if it changes that.
fn general((plan, found): (&mut ScheduledKernel, Option<Found>)) -> (Range<usize>, Option<Found>) {
    let stored = plan.stored_bytes();
    if let Some(found) = &found {
        (plan.ast, plan.vars) = (found.ast.clone(), plan.vars[..found.slot].to_vec());
    }
    (stored, found)
}

/// Which constants become scalars. In the first graph of a key: those by which many equal expressions differ, and those
/// that the program says will vary. In later graphs: those that have changed.
fn variable_constants(closed: &Closed, constants: &[Const], known: &[Arc<Ready>]) -> Vec<bool> {
    let Some(latest) = known.first() else { return closed.scalars() };
    let differs = |i: usize| latest.variable[i] || latest.constants[i] != constants[i];
    let ever = |i: usize| known.iter().any(|k| k.variable[i] || k.constants[i] != constants[i]);
    match known.len() < MAX_VARIANTS {
        true => (0..constants.len()).map(differs).collect(),
        false => (0..constants.len()).map(ever).collect(),
    }
}

/// The key of a kernel's code: the kernel, the backend, the target, how it is made, the width of a search. So
/// `CPU:1` and `CPU:2` share their code.
type Key = (u128, String, Arc<kiln_compile::target::Target>, Made, usize);
static CODES: LazyLock<Mutex<Generations<Key, Arc<Code>>>> = LazyLock::new(remembering);

/// Compiles the new kernels, on as many threads as the device has.
pub(super) fn compile_all(
    kernels: &[ScheduledKernel],
    opened: &Opened,
) -> Result<Vec<Arc<Code>>, Failure> {
    let start = Instant::now();
    let (mut new, mut seen) = (Vec::new(), FxHashSet::default());
    let width = search::width();
    let how = (width, testing::settings(settings()));
    for kernel in kernels {
        if !seen.insert(kernel.ast.id()) {
            continue;
        }
        match remembered(kernel, opened, width) {
            Some(code) => observed::found(&kernel.ast, code.key),
            None => {
                testing::step()?;
                new.push((kernel, search::options(kernel, opened)));
            }
        }
    }
    let origin = |(kernel, options): &(&ScheduledKernel, Option<Vec<Opt>>)| {
        compile(kernel, opened, options.as_deref(), how).map(|(_, origin)| origin)
    };
    tally(&in_parallel(&new, origin)?, start.elapsed());
    // another thread may have made the cache forget a kernel since
    let code = |k: &ScheduledKernel| match remembered(k, opened, width) {
        Some(code) => Ok(code),
        None => compile(k, opened, None, how).map(|(code, _)| code),
    };
    kernels.iter().map(code).collect()
}

fn tally(done: &[(Origin, Duration)], took: Duration) {
    let number = |which: Origin| done.iter().filter(|(o, _)| *o == which).count() as u64;
    let lowering: Duration = done.iter().map(|(_, lowering)| *lowering).sum();
    count(|c| {
        c.compiled += number(Origin::Compiled);
        c.loaded += number(Origin::Disk);
        c.compile_ns += took.as_nanos() as u64;
        c.lower_ns += lowering.as_nanos() as u64;
    });
}

fn key(kernel: &UOp, opened: &Opened, width: usize) -> Key {
    let backend = opened.backend.name().to_owned();
    (kernel.hash(), backend, opened.target.clone(), made(), width)
}

fn remembered(kernel: &ScheduledKernel, opened: &Opened, width: usize) -> Option<Arc<Code>> {
    CODES.lock().expect("kernel cache").get(&key(&kernel.ast, opened, width)).cloned()
}

/// Compiles a kernel, under `options` if a search has found some.
fn compile(
    kernel: &ScheduledKernel,
    opened: &Opened,
    options: Option<&[Opt]>,
    (width, settings): (usize, Settings),
) -> Result<(Arc<Code>, (Origin, Duration)), Failure> {
    let start = Instant::now();
    let ast = testing::maybe_broken(&kernel.ast);
    let found = options.and_then(|o| pipeline::compile_with(&ast, &opened.target, o).ok());
    let compiled = match found {
        Some(compiled) => compiled,
        None => pipeline::compile(&ast, &opened.target, settings)
            .map_err(|bug| report::short(&bug.to_string()))?,
    };
    if let Some(bug) = &compiled.fallen {
        debug::fell_back(&ast, bug, &report::filed(&bug.to_string()));
    }
    load(&kernel.ast, compiled, start, key(&kernel.ast, opened, width), opened)
}

/// Machine code of a compiled kernel, remembered by its key.
fn load(
    kernel: &UOp,
    compiled: Compiled,
    start: Instant,
    known_by: Key,
    opened: &Opened,
) -> Result<(Arc<Code>, (Origin, Duration)), Failure> {
    let lowering = start.elapsed();
    let loaded = match made() {
        (_, true) => opened.backend.load_with_lines(&compiled.program),
        (_, false) => opened.backend.load(&compiled.program),
    };
    let loaded = loaded.map_err(|error| report::short(&error.to_string()))?;
    observed::compiled(kernel, &compiled, &loaded, start);
    let key = compiled.ast.hash();
    let code = Arc::new(Code { kernel: loaded.kernel, compiled: worth_keeping(compiled), key });
    CODES.lock().expect("kernel cache").insert(known_by, code.clone(), code.size());
    Ok((code, (loaded.origin, lowering)))
}

/// Code of a kernel for which a general kernel ran with these options so far. None if none gives the same bits.
pub(super) fn compile_in_order(
    kernel: &UOp,
    (general, applied): (&UOp, &[Opt]),
    opened: &Opened,
) -> Option<Arc<Code>> {
    let mut mixer = Mixer::default();
    [kernel.hash(), general.hash()].into_iter().for_each(|word| mixer.add(word));
    let mut known_by = key(kernel, opened, search::width());
    known_by.0 = mixer.finish128();
    if let Some(code) = CODES.lock().expect("kernel cache").get(&known_by) {
        return Some(code.clone());
    }
    let start = Instant::now();
    let settings = testing::settings(settings());
    let compiled = pipeline::compile_in_order(kernel, (general, applied), &opened.target, settings);
    let (code, done) = load(kernel, compiled.ok()?, start, known_by, opened).ok()?;
    tally(&[done], start.elapsed());
    Some(code)
}

/// A compiled kernel without its operations and text, which are most of it.
fn worth_keeping(mut compiled: Compiled) -> Compiled {
    if !cfg!(debug_assertions) {
        (compiled.program.ops, compiled.program.source) = Default::default();
    }
    Compiled { ast: kept(compiled.ast), ..compiled }
}

/// The graph of a kernel if it may be looked at again, else an empty one: living nodes make lookups of others slower.
pub(super) fn kept(ast: UOp) -> UOp {
    if cfg!(debug_assertions) || observe::is_wanted(Kind::Runs) { ast } else { UOp::sink([]) }
}
