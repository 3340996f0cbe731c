//! Kernel -> an equivalent kernel that runs faster on a target.
//!
//! Every optimization is a split or a new kind of a loop (`Opt`), so what a kernel computes cannot change: the
//! expressions stay, only the loop variables in them are replaced. `heuristic` chooses; `NOOPT=1` chooses nothing.

/// What ranges say of themselves, what varies over them, how others take their place.
mod ranges;
/// Loops of a kernel, and how each access moves along them.
mod access;
/// Options as data, and their application.
mod options;
/// Loops that start with a line of memory.
mod align;
/// Which options may be applied.
mod legal;
/// What a search tries next.
mod neighbours;
/// Kernels with several nests.
mod nests;
/// Reductions in blocks.
mod carry;
/// Values computed into scratch before they are used.
mod stage;
/// Values that a reduction computes, kept for the loops after it.
mod keep;
/// Sums of products as dot products of what is packed.
mod dot;
/// Sums of products as products of matrices.
mod mma;
/// Loops that are rounded up.
mod gate;
/// Loops whose iterations may write the same element.
mod ordered;
/// Loops that skip what counts for nothing.
mod trim;
/// Two neighbouring loops that count like one become one.
mod collapse;
/// Which options to apply, without a search.
mod heuristic;
/// Kernel names.
mod name;

pub use neighbours::neighbours;
pub use options::Opt;

use crate::target::Target;
use kiln_ir::{UOp, spec};
use nests::Nests;
use options::Loops;

/// An optimized kernel and how it came about.
#[derive(Clone, Debug)]
pub struct Optimized {
    /// The kernel, named.
    pub ast: UOp,
    /// The options in the order in which they were applied.
    pub applied: Vec<Opt>,
}

/// Past this many nodes the kernel's text is not multiplied further.
pub const MAX_NODES: usize = 2000;

/// How many threads the order of sums is chosen for, whatever number a target has: the least that share anything.
pub const NOMINAL_THREADS: usize = 2;

/// How long the text of a kernel may become, in nodes, about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// All of it; with none, nothing is optimized.
    pub nodes: usize,
    /// What the order of sums is chosen for.
    pub order: usize,
}

impl Room {
    /// The same room for everything.
    pub fn of(nodes: usize) -> Room {
        Room { nodes, order: nodes }
    }
}

/// Optimizes by heuristic; without `enabled`, names the kernel and does no more.
pub fn optimize(ast: &UOp, target: &Target, enabled: bool) -> Optimized {
    optimize_within(ast, target, Room::of(if enabled { MAX_NODES } else { 0 }))
}

/// Optimizes by heuristic within some room; without any, names the kernel and does no more.
pub fn optimize_within(ast: &UOp, target: &Target, room: Room) -> Optimized {
    let ast = collapsed(ast);
    let options = if room.nodes > 0 { heuristic::choose(&ast, target, room) } else { Vec::new() };
    debug_assert_eq!(check(&ast, &options), Ok(()));
    rewritten(&ast, options).expect("chosen options are legal")
}

/// The kernel with neighbouring loops that count like one as one: what options are about.
pub fn collapsed(ast: &UOp) -> UOp {
    collapse::collapse(ast)
}

/// Whether two lists of options for a collapsed kernel add up its sums in the same order, and so give the same bits.
pub fn same_order(ast: &UOp, a: &[Opt], b: &[Opt]) -> bool {
    heuristic::same_order(ast, a, b)
}

/// Applies given options to a collapsed kernel; where one is illegal, the reason.
///
/// # Errors
/// An option that names no loop or operand of the kernel, or would change what it computes; loops that do not nest.
pub fn apply(ast: &UOp, options: &[Opt]) -> Result<Optimized, String> {
    check(ast, options)?;
    let optimized = rewritten(ast, options.to_vec())?;
    // loops that no longer nest show only when all options are applied
    spec::verify(&spec::KERNEL, &optimized.ast).map_err(|broken| broken.to_string())?;
    Ok(optimized)
}

/// Whether options may be applied in this order; if not, the first that may not and why.
///
/// # Errors
/// As [`apply`].
pub fn check(ast: &UOp, options: &[Opt]) -> Result<(), String> {
    match Nests::of(ast).filter(|_| !options.is_empty()) {
        Some(nests) => nests.check(options),
        None => check_nest(ast, options),
    }
}

fn check_nest(ast: &UOp, options: &[Opt]) -> Result<(), String> {
    let ast = packed(ast, options)?;
    let mut loops = Loops::of(&ast);
    let rules = loops.rules(&ast);
    for (at, &opt) in options.iter().enumerate() {
        rules.check(&loops, &options[..at], opt).map_err(|why| format!("{opt}: {why}"))?;
        loops.apply(opt);
    }
    Ok(())
}

/// The kernel whose loops the options are about: a `Dot`, which comes first, changes them.
fn packed(ast: &UOp, options: &[Opt]) -> Result<UOp, String> {
    match options.first() {
        Some(&Opt::Dot { axis, parts }) => dot::pack(ast, axis, parts),
        _ => Ok(ast.clone()),
    }
}

fn rewritten(ast: &UOp, options: Vec<Opt>) -> Result<Optimized, String> {
    let rewritten = match Nests::of(ast).filter(|_| !options.is_empty()) {
        Some(nests) => nests.apply(&options)?,
        None => rewritten_nest(ast, &options)?,
    };
    let free = ordered::ordered(ast).is_empty();
    Ok(Optimized { ast: trim::trim(&name::named(&rewritten), free), applied: options })
}

fn rewritten_nest(ast: &UOp, options: &[Opt]) -> Result<UOp, String> {
    let ast = packed(ast, options)?;
    let mut loops = Loops::of(&ast);
    options.iter().for_each(|&opt| loops.apply(opt));
    Ok(loops.rewrite(&ast))
}
