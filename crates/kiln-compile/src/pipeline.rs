//! The whole compiler, read from top to bottom: what each pass does, and the spec that it leaves true.
//!
//! A pass that panics, or leaves a graph that breaks its spec, is a `Bug`: an error that names the pass, the rule and
//! the graph, so that the program that asked for the kernel lives on.

use crate::lower;
use crate::optimize::{self, Opt, Optimized, Room};
use crate::render;
use crate::schedule::{self, Schedule};
use crate::target::Target;
use kiln_ir::program::Program;
use kiln_ir::{UOp, rewrite, spec, text};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice::from_ref;

/// A compiled-to-text kernel, and what may be shown of the way there.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The optimized kernel (spec `KERNEL`).
    pub ast: UOp,
    /// What the optimizer did.
    pub applied: Vec<Opt>,
    /// The result.
    pub program: Program,
    /// Why it has fewer options than were chosen for it, if it has.
    pub fallen: Option<Bug>,
}

/// A program of more operations than this is optimized again, with less room: what a vector cannot load in one piece is
/// loaded lane by lane, and compilers take more than linear time.
const MAX_OPS: usize = 1536;

/// How to compile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Whether to optimize; otherwise the loops stay as they were scheduled.
    pub optimize: bool,
    /// Whether to verify what each pass leaves.
    pub verify: bool,
    /// Whether a kernel for which a pass fails is compiled with fewer options, at last with none; else that is an error.
    pub fall_back: bool,
    /// What a test may wish: kernels with more options than this cannot be lowered.
    pub most_options: Option<usize>,
}

/// Tensor graph -> kernels.
pub fn schedule(roots: &[UOp]) -> Result<Schedule, Bug> {
    pass("schedule", roots, || schedule::schedule(roots))
}

/// Kernel -> program text.
///
/// # Errors
/// A pass that fails, by the compiler's own fault: with all options, or, if falling back is allowed, even without any.
pub fn compile(kernel: &UOp, target: &Target, settings: Settings) -> Result<Compiled, Bug> {
    check("schedule", kernel, settings.verify)?;
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

/// The kernel with half of the options with which it failed, or half of those, or none.
fn fallen(kernel: &UOp, target: &Target, settings: Settings, bug: Bug) -> Result<Compiled, Bug> {
    let halves = std::iter::successors(Some(bug.options.len() / 2), |n| Some(n / 2));
    let mut fewer = halves.take_while(|n| *n > 0);
    let by_half =
        fewer.find_map(|n| with_options(kernel, target, &bug.options[..n], settings).ok());
    let compiled = match by_half {
        Some(compiled) => compiled,
        None => {
            let plain = Settings { verify: true, ..settings };
            let (optimized, program) = attempt(kernel, target, Room::of(0), plain)?;
            rendered(optimized, program, target, plain)?
        }
    };
    Ok(Compiled { fallen: Some(bug), ..compiled })
}

/// The program with its text.
fn rendered(
    optimized: Optimized,
    mut program: Program,
    target: &Target,
    settings: Settings,
) -> Result<Compiled, Bug> {
    let Optimized { ast, applied } = optimized;
    if settings.verify
        && let Err(error) = spec::verify_program(&program.ops)
    {
        let what = format!("left a broken program: {error}");
        let graph = text::print_list(&program.ops);
        return Err(Bug { pass: "lower", what, rule: None, options: applied, graph });
    }
    let render = || render::render(&program, target);
    program.source = pass("render", from_ref(&ast), render).map_err(|bug| bug.with(&applied))?;
    Ok(Compiled { ast, applied, program, fallen: None })
}

/// The optimized kernel and its program, of no more than [`MAX_OPS`] operations. The order of sums has the room in which it
/// fits for [`optimize::NOMINAL_THREADS`], so that it does not depend on how many there are.
fn within_limits(
    kernel: &UOp,
    target: &Target,
    settings: Settings,
) -> Result<(Optimized, Program), Bug> {
    if target.threads == optimize::NOMINAL_THREADS {
        return shrunk(kernel, target, settings, Room::of).map(|(_, own, program)| (own, program));
    }
    let first = attempt(kernel, target, Room::of(optimize::MAX_NODES), settings)?;
    // for another number of threads it is not twice as long
    if first.1.ops.len() <= MAX_OPS / 2 {
        return Ok(first);
    }
    let nominal = Target { threads: optimize::NOMINAL_THREADS, ..target.clone() };
    let order = shrunk(kernel, &nominal, settings, Room::of)?.0.order;
    let own = shrunk(kernel, target, settings, |nodes| Room { nodes: nodes.min(order), order })?;
    Ok((own.1, own.2))
}

/// Half the room until the program is short enough.
fn shrunk(
    kernel: &UOp,
    target: &Target,
    settings: Settings,
    room: impl Fn(usize) -> Room,
) -> Result<(Room, Optimized, Program), Bug> {
    let mut nodes = optimize::MAX_NODES;
    loop {
        let room = room(nodes);
        let (optimized, program) = attempt(kernel, target, room, settings)?;
        if program.ops.len() <= MAX_OPS || nodes == 0 {
            return Ok((room, optimized, program));
        }
        nodes /= 2;
    }
}

fn attempt(
    kernel: &UOp,
    target: &Target,
    room: Room,
    settings: Settings,
) -> Result<(Optimized, Program), Bug> {
    let optimize = || optimize::optimize_within(kernel, target, room);
    let optimized = pass("optimize", from_ref(kernel), optimize)?;
    let failed = |bug: Bug| bug.with(&optimized.applied);
    check("optimize", &optimized.ast, settings.verify).map_err(failed)?;
    let program = lowered(&optimized, target, settings).map_err(failed)?;
    Ok((optimized, program))
}

fn lowered(optimized: &Optimized, target: &Target, settings: Settings) -> Result<Program, Bug> {
    let many = settings.most_options.is_some_and(|most| optimized.applied.len() > most);
    pass("lower", from_ref(&optimized.ast), || {
        assert!(!many, "a test made this fail");
        lower::lower(&optimized.ast, target)
    })
}

/// Scratch of a program that a search tries, at most.
const MAX_SCRATCH: usize = 16 << 20;

/// Kernel -> program text, with these options instead of the heuristic's.
///
/// # Errors
/// Options that are not legal, or lead to a program that is too large or broken: no bug of the program that asked.
pub fn compile_with(kernel: &UOp, target: &Target, options: &[Opt]) -> Result<Compiled, String> {
    with_options(kernel, target, options, Settings::default())
}

fn with_options(
    kernel: &UOp,
    target: &Target,
    options: &[Opt],
    settings: Settings,
) -> Result<Compiled, String> {
    let of = |bug: Bug| format!("{}: {}", bug.pass, bug.what);
    let apply = || optimize::apply(&optimize::collapsed(kernel), options);
    let optimized = pass("optimize", from_ref(kernel), apply).map_err(of)??;
    let program = lowered(&optimized, target, settings).map_err(of)?;
    if program.ops.len() > MAX_OPS || program.scratch_bytes > MAX_SCRATCH {
        let (ops, bytes) = (program.ops.len(), program.scratch_bytes);
        return Err(format!("too large: {ops} operations, {bytes} bytes of scratch"));
    }
    rendered(optimized, program, target, Settings { verify: true, ..settings }).map_err(of)
}

/// A graph that breaks its spec is a bug of the pass that made it.
fn check(pass: &'static str, kernel: &UOp, verify: bool) -> Result<(), Bug> {
    let broken = if verify { spec::verify(&spec::KERNEL, kernel).err() } else { None };
    broken.map_or(Ok(()), |error| {
        let what = format!("left a broken kernel: {error}");
        Err(Bug { pass, what, rule: None, options: Vec::new(), graph: text::print(kernel) })
    })
}

/// The compiler's own fault: which pass, which rule if it is one, and the graph that it happened on.
#[derive(Clone, Debug)]
pub struct Bug {
    /// The pass that failed.
    pub pass: &'static str,
    /// What it said.
    pub what: String,
    /// The rewrite rule in which it happened, with file and line.
    pub rule: Option<String>,
    /// The options that had been chosen.
    pub options: Vec<Opt>,
    /// The graph as text that parses back.
    pub graph: String,
}

impl Bug {
    /// It happened with these options.
    fn with(self, options: &[Opt]) -> Bug {
        Bug { options: options.to_vec(), ..self }
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bug in kiln: pass `{}`: {}", self.pass, self.what)?;
        if let Some(rule) = &self.rule {
            write!(f, "\nin rule {rule}")?;
        }
        if !self.options.is_empty() {
            let options: Vec<String> = self.options.iter().map(ToString::to_string).collect();
            write!(f, "\nwith options [{}]", options.join(", "))?;
        }
        write!(f, "\non the graph\n{}", self.graph)
    }
}

impl std::error::Error for Bug {}

/// Runs a pass. One that panics runs once more, watched, to find out in which rule.
fn pass<T>(name: &'static str, graph: &[UOp], run: impl Fn() -> T) -> Result<T, Bug> {
    catch_unwind(AssertUnwindSafe(&run)).map_err(|panic| Bug {
        pass: name,
        what: message(&*panic),
        rule: rewrite::blame(|| drop(run())),
        options: Vec::new(),
        graph: graph.iter().map(text::print).collect(),
    })
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "panicked without a word".to_owned())
}
