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
}

/// A program of more operations than this is optimized again, with less room: what a vector cannot load in one piece is
/// loaded lane by lane, and compilers take more than linear time.
const MAX_OPS: usize = 1536;

/// How to compile.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Whether to optimize; otherwise the loops stay as they were scheduled.
    pub optimize: bool,
    /// Whether to verify what each pass leaves.
    pub verify: bool,
}

/// Tensor graph -> kernels.
pub fn schedule(roots: &[UOp]) -> Result<Schedule, Bug> {
    pass("schedule", roots, || schedule::schedule(roots))
}

/// Kernel -> program text.
pub fn compile(kernel: &UOp, target: &Target, settings: Settings) -> Result<Compiled, Bug> {
    let verify = settings.verify;
    check("schedule", kernel, verify)?;
    let (optimized, mut program) = match settings.optimize {
        true => within_limits(kernel, target, verify)?,
        false => attempt(kernel, target, Room::of(0), verify)?,
    };
    let ast = optimized.ast;
    if verify && let Err(error) = spec::verify_program(&program.ops) {
        let what = format!("left a broken program: {error}");
        return Err(Bug { pass: "lower", what, rule: None, graph: text::print_list(&program.ops) });
    }
    program.source = pass("render", from_ref(&ast), || render::render(&program, target))?;
    Ok(Compiled { ast, applied: optimized.applied, program })
}

/// The optimized kernel and its program, of no more than [`MAX_OPS`] operations. The order of sums has the room in which it
/// fits for [`optimize::NOMINAL_THREADS`], so that it does not depend on how many there are.
fn within_limits(kernel: &UOp, target: &Target, verify: bool) -> Result<(Optimized, Program), Bug> {
    if target.threads == optimize::NOMINAL_THREADS {
        return shrunk(kernel, target, verify, Room::of).map(|(_, own, program)| (own, program));
    }
    let first = attempt(kernel, target, Room::of(optimize::MAX_NODES), verify)?;
    // for another number of threads it is not twice as long
    if first.1.ops.len() <= MAX_OPS / 2 {
        return Ok(first);
    }
    let nominal = Target { threads: optimize::NOMINAL_THREADS, ..target.clone() };
    let order = shrunk(kernel, &nominal, verify, Room::of)?.0.order;
    let own = shrunk(kernel, target, verify, |nodes| Room { nodes: nodes.min(order), order })?;
    Ok((own.1, own.2))
}

/// Half the room until the program is short enough.
fn shrunk(
    kernel: &UOp,
    target: &Target,
    verify: bool,
    room: impl Fn(usize) -> Room,
) -> Result<(Room, Optimized, Program), Bug> {
    let mut nodes = optimize::MAX_NODES;
    loop {
        let room = room(nodes);
        let (optimized, program) = attempt(kernel, target, room, verify)?;
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
    verify: bool,
) -> Result<(Optimized, Program), Bug> {
    let optimize = || optimize::optimize_within(kernel, target, room);
    let optimized = pass("optimize", from_ref(kernel), optimize)?;
    check("optimize", &optimized.ast, verify)?;
    let lower = || lower::lower(&optimized.ast, target);
    let program = pass("lower", from_ref(&optimized.ast), lower)?;
    Ok((optimized, program))
}

/// Scratch of a program that a search tries, at most.
const MAX_SCRATCH: usize = 16 << 20;

/// Kernel -> program text, with these options instead of the heuristic's.
///
/// # Errors
/// Options that are not legal, or lead to a program that is too large or broken: no bug of the program that asked.
pub fn compile_with(kernel: &UOp, target: &Target, options: &[Opt]) -> Result<Compiled, String> {
    let of = |bug: Bug| format!("{}: {}", bug.pass, bug.what);
    let apply = || optimize::apply(&optimize::collapsed(kernel), options);
    let optimized = pass("optimize", from_ref(kernel), apply).map_err(of)??;
    let ast = optimized.ast;
    let mut program = pass("lower", from_ref(&ast), || lower::lower(&ast, target)).map_err(of)?;
    if program.ops.len() > MAX_OPS || program.scratch_bytes > MAX_SCRATCH {
        let (ops, bytes) = (program.ops.len(), program.scratch_bytes);
        return Err(format!("too large: {ops} operations, {bytes} bytes of scratch"));
    }
    spec::verify_program(&program.ops).map_err(|broken| broken.to_string())?;
    let render = || render::render(&program, target);
    program.source = pass("render", from_ref(&ast), render).map_err(of)?;
    Ok(Compiled { ast, applied: optimized.applied, program })
}

/// A graph that breaks its spec is a bug of the pass that made it.
fn check(pass: &'static str, kernel: &UOp, verify: bool) -> Result<(), Bug> {
    let broken = if verify { spec::verify(&spec::KERNEL, kernel).err() } else { None };
    broken.map_or(Ok(()), |error| {
        let what = format!("left a broken kernel: {error}");
        Err(Bug { pass, what, rule: None, graph: text::print(kernel) })
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
    /// The graph as text that parses back.
    pub graph: String,
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bug in kiln: pass `{}`: {}", self.pass, self.what)?;
        if let Some(rule) = &self.rule {
            write!(f, "\nin rule {rule}")?;
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
        graph: graph.iter().map(text::print).collect(),
    })
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "panicked without a word".to_owned())
}
