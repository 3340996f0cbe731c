//! The whole compiler: runs the passes of every stage and limits the size of programs. After a bug it compiles the
//! kernel with fewer options.

use crate::lower::Lowering;
use crate::optimize::{self, Limits, NOMINAL_THREADS, Opt, Optimized, Optimizing, Room};
pub use crate::pass::Bug;
use crate::pass::Checks;
use crate::passes::{LOWER, OPTIMIZE, RENDER, SCHEDULE};
use crate::schedule::{Choices, Schedule, Scheduling};
use crate::target::{LEAST_SCRATCH, Target};
use kiln_ir::program::Program;
use kiln_ir::{Arg, UOp, spec};
use std::slice::from_ref;

/// A kernel compiled to text, with the steps on the way that may be shown.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The optimized kernel (spec `KERNEL`).
    pub ast: UOp,
    /// The options that were applied.
    pub applied: Vec<Opt>,
    /// The program, with its text.
    pub program: Program,
    /// The bug because of which it has fewer options than were chosen.
    pub fallen: Option<Bug>,
}

/// How to compile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Whether to optimize; otherwise the loops stay as they were scheduled.
    pub optimize: bool,
    /// Whether a kernel for which a pass fails is compiled with fewer options, at last with none. Otherwise that is an
    /// error.
    pub fall_back: bool,
    /// How passes are run.
    pub checks: Checks,
    /// For tests: kernels with more options than this cannot be lowered.
    pub most_options: Option<usize>,
}

/// Tensor graph -> kernels.
///
/// # Errors
/// A pass that fails: a bug of the compiler. The same holds for all functions that follow.
pub fn schedule(roots: &[UOp], target: &Target, checks: Checks) -> Result<Schedule, Bug> {
    Ok(schedule_with(roots, target, checks, &Choices::default())?.0)
}

/// The same with choices that were made before. Returns those that were made.
///
/// # Errors
/// A pass that fails.
pub fn schedule_with(
    roots: &[UOp],
    target: &Target,
    checks: Checks,
    choices: &Choices,
) -> Result<(Schedule, Choices), Bug> {
    let start = || Scheduling::of(roots, target, choices.clone());
    let done = SCHEDULE.run(start, &(), checks)?;
    Ok((done.schedule.expect("the last pass leaves it"), done.choices))
}

/// Kernel -> optimized kernel. Without options and with a limit of 0, it is only named and trimmed.
pub fn optimize(
    kernel: &UOp,
    options: Option<&[Opt]>,
    target: &Target,
    room: Room,
    checks: Checks,
) -> Result<Optimized, Bug> {
    let done = optimizing(kernel, options, target, room, checks)?;
    if let Some(why) = done.refused {
        return Err(Bug::new("options", why, from_ref(kernel)));
    }
    Ok(Optimized { ast: done.ast, applied: done.options.expect("chosen") })
}

fn optimizing(
    kernel: &UOp,
    options: Option<&[Opt]>,
    target: &Target,
    room: Room,
    checks: Checks,
) -> Result<Optimizing, Bug> {
    let start = || Optimizing::of(kernel, options.map(<[Opt]>::to_vec));
    OPTIMIZE.run(start, &(target.clone(), room), checks)
}

/// Optimized kernel -> program without text.
pub fn lower(kernel: &UOp, target: &Target, checks: Checks) -> Result<Program, Bug> {
    let Arg::Kernel { name } = kernel.arg() else { panic!("not a kernel: {kernel:?}") };
    Ok(LOWER.run(|| Lowering::of(kernel), target, checks)?.program(name))
}

/// Kernel -> program without text, as [`compile`] makes it.
///
/// # Errors
/// A pass that fails.
pub fn program(kernel: &UOp, target: &Target, settings: Settings) -> Result<Program, Bug> {
    Ok(within_limits(kernel, target, settings)?.1)
}

/// Kernel -> program text.
///
/// # Errors
/// A pass that fails with all options, and, if falling back is allowed, also with none.
pub fn compile(kernel: &UOp, target: &Target, settings: Settings) -> Result<Compiled, Bug> {
    check(kernel, settings.checks)?;
    let chosen = match settings.optimize {
        true => within_limits(kernel, target, settings),
        false => attempt(kernel, target, Room::of(0), settings),
    };
    match chosen.and_then(|(optimized, program)| rendered(optimized, program, target, settings)) {
        Err(bug) if settings.optimize && settings.fall_back => {
            fallen(kernel, target, settings, bug)
        }
        done => done,
    }
}

/// The kernel with half of the options that failed, or half of those, and so on, at last none.
fn fallen(kernel: &UOp, target: &Target, settings: Settings, bug: Bug) -> Result<Compiled, Bug> {
    let halves = std::iter::successors(Some(bug.options.len() / 2), |n| Some(n / 2));
    let mut fewer = halves.take_while(|n| *n > 0);
    let by_half =
        fewer.find_map(|n| with_options(kernel, target, &bug.options[..n], settings).ok());
    let compiled = match by_half {
        Some(compiled) => compiled,
        None => {
            let checks = Checks { verify: true, ..settings.checks };
            let plain = Settings { checks, ..settings };
            let (optimized, program) = attempt(kernel, target, Room::of(0), plain)?;
            rendered(optimized, program, target, plain)?
        }
    };
    Ok(Compiled { fallen: Some(bug), ..compiled })
}

/// The program with its text.
fn rendered(
    optimized: Optimized,
    program: Program,
    target: &Target,
    settings: Settings,
) -> Result<Compiled, Bug> {
    let Optimized { ast, applied } = optimized;
    let program = RENDER.run(|| program.clone(), target, settings.checks);
    let program = program.map_err(|bug| bug.with(&applied))?;
    Ok(Compiled { ast, applied, program, fallen: None })
}

/// The optimized kernel and its program, within its [`Limits`]. The order of sums gets the limit with
/// which it fits for [`NOMINAL_THREADS`], so that it does not depend on the number of threads.
fn within_limits(
    kernel: &UOp,
    target: &Target,
    settings: Settings,
) -> Result<(Optimized, Program), Bug> {
    if target.threads == NOMINAL_THREADS {
        return shrunk(kernel, target, settings, Room::of).map(|(_, own, program)| (own, program));
    }
    let limits = Limits::of(kernel);
    let first = attempt(kernel, target, Room::of(limits.nodes), settings)?;
    // with another number of threads it is not twice as long
    if first.1.ops.len() <= limits.ops / 2 && has_little_scratch(&first.1, target) {
        return Ok(first);
    }
    let nominal = Target { threads: NOMINAL_THREADS, ..target.clone() };
    let order = shrunk(kernel, &nominal, settings, Room::of)?.0.order;
    let own = shrunk(kernel, target, settings, |nodes| Room { nodes: nodes.min(order), order })?;
    Ok((own.1, own.2))
}

/// Whether the scratch of a thread fits the last cache. A general kernel has scratch for its longest lengths, which may be
/// gigabytes.
fn has_little_scratch(program: &Program, target: &Target) -> bool {
    program.scratch_bytes <= target.most_scratch()
}

/// A program that is too long even without options keeps those of the least limit, unless they make it so many times as long. A
/// loop of vectors and its end are two.
const LONGER: usize = 3;

/// Halves the limit until the program is short enough, and its scratch small enough, or without options: see [`LONGER`].
fn shrunk(
    kernel: &UOp,
    target: &Target,
    settings: Settings,
    room: impl Fn(usize) -> Room,
) -> Result<(Room, Optimized, Program), Bug> {
    type Done = (Room, Optimized, Program);
    let limits = Limits::of(kernel);
    let (mut nodes, mut longer): (usize, Option<Done>) = (limits.nodes, None);
    loop {
        let room = room(nodes);
        let optimized = optimize(kernel, None, target, room, settings.checks)?;
        // the same options make the same program
        let is_known = |(_, other, _): &Done| other.applied == optimized.applied;
        let done = match longer.take_if(|longer| is_known(longer)) {
            Some(done) => done,
            None => {
                let program = lowered_by_options(&optimized, target, settings)?;
                (room, optimized, program)
            }
        };
        let ops = done.2.ops.len();
        if ops <= limits.ops && has_little_scratch(&done.2, target) {
            return Ok(done);
        }
        if nodes == 0 {
            let is_close = |(_, _, program): &Done| {
                program.ops.len() < LONGER * ops && has_little_scratch(program, target)
            };
            return Ok(longer.filter(is_close).unwrap_or(done));
        }
        longer = Some(done);
        nodes /= 2;
    }
}

fn attempt(
    kernel: &UOp,
    target: &Target,
    room: Room,
    settings: Settings,
) -> Result<(Optimized, Program), Bug> {
    let optimized = optimize(kernel, None, target, room, settings.checks)?;
    let program = lowered_by_options(&optimized, target, settings)?;
    Ok((optimized, program))
}

/// Its program; a bug says by which options.
fn lowered_by_options(
    optimized: &Optimized,
    target: &Target,
    settings: Settings,
) -> Result<Program, Bug> {
    lowered(optimized, target, settings).map_err(|bug| bug.with(&optimized.applied))
}

fn lowered(optimized: &Optimized, target: &Target, settings: Settings) -> Result<Program, Bug> {
    if settings.most_options.is_some_and(|most| optimized.applied.len() > most) {
        let what = "a test made this fail".to_string();
        return Err(Bug::new("lower", what, from_ref(&optimized.ast)));
    }
    lower(&optimized.ast, target, settings.checks)
}

/// Kernel -> program text, with these options instead of the heuristic's.
///
/// # Errors
/// Illegal options, or options by which the program becomes too large or broken. This is no bug of the caller.
pub fn compile_with(kernel: &UOp, target: &Target, options: &[Opt]) -> Result<Compiled, String> {
    with_options(kernel, target, options, Settings::default())
}

/// Kernel -> program text, for a kernel for which a general kernel ran with `applied` options so far. It gives the same bits.
///
/// # Errors
/// No options give the same order of sums, or the program becomes too large or broken.
pub fn compile_in_order(
    kernel: &UOp,
    general: (&UOp, &[Opt]),
    target: &Target,
    settings: Settings,
) -> Result<Compiled, String> {
    let room = Room::of(Limits::of(kernel).nodes);
    let options = optimize::in_order(kernel, general, target, room);
    with_options(kernel, target, &options.ok_or("its sums would add up otherwise")?, settings)
}

fn with_options(
    kernel: &UOp,
    target: &Target,
    options: &[Opt],
    settings: Settings,
) -> Result<Compiled, String> {
    let of = |bug: Bug| format!("{}: {}", bug.pass, bug.what);
    optimize::check(&optimize::collapsed(kernel), options)?;
    let (room, checks) = (Room::of(0), settings.checks);
    let done = optimizing(kernel, Some(options), target, room, checks).map_err(of)?;
    if let Some(why) = done.refused {
        return Err(why);
    }
    // loops that no longer nest show only when all options are applied
    spec::verify(&spec::KERNEL, &done.ast).map_err(|broken| broken.to_string())?;
    let optimized = Optimized { ast: done.ast, applied: options.to_vec() };
    let program = lowered(&optimized, target, settings).map_err(of)?;
    if program.ops.len() > Limits::of(kernel).ops || program.scratch_bytes > LEAST_SCRATCH {
        let (ops, bytes) = (program.ops.len(), program.scratch_bytes);
        return Err(format!("too large: {ops} operations, {bytes} bytes of scratch"));
    }
    spec::verify_program(&program.ops).map_err(|broken| format!("lower: {broken}"))?;
    rendered(optimized, program, target, settings).map_err(of)
}

/// A graph that breaks its spec is a bug of the stage that made it.
fn check(kernel: &UOp, checks: Checks) -> Result<(), Bug> {
    let broken = if checks.verify { spec::verify(&spec::KERNEL, kernel).err() } else { None };
    let bug =
        |broken: spec::SpecError| Bug::left(SCHEDULE.name, &broken.to_string(), from_ref(kernel));
    broken.map_or(Ok(()), |broken| Err(bug(broken)))
}
