//! Stage `optimize`: a kernel becomes an equal kernel that runs faster on a target.
//!
//! Every optimization splits a loop, changes how it runs, or stores a value in scratch (`Opt`). Only loop variables in
//! the expressions are replaced, so what a kernel computes stays the same. `heuristic` chooses the options; with
//! `NOOPT=1` there are none.

/// Facts about loop variables, and substitution.
mod ranges;
/// How each load and store moves along each loop.
mod access;
/// Options as data, and their application.
mod options;
/// Loops that start at a cache line.
mod align;
/// Which options may be applied.
mod legal;
/// Option lists that a search tries next.
mod neighbours;
/// Kernels of several loop nests.
mod nests;
/// Reductions in blocks, with partial sums in scratch.
mod carry;
/// Staging: operands copied to scratch in the order in which they are read.
mod stage;
/// What overlapping windows cover.
mod cover;
/// Values of a reduction that a later loop reuses.
mod keep;
/// Sums of products as dot products of packed words.
mod dot;
/// Sums of products as products of a matrix unit.
mod mma;
/// Predicates of loops that are rounded up.
mod gate;
/// Loops that must run in order.
mod ordered;
/// Loop bounds tightened by predicates.
mod trim;
/// Neighbouring loops that index memory like one become one.
mod collapse;
/// Chooses options without measuring.
mod heuristic;
/// Kernel names.
mod name;

pub use neighbours::{drawn, neighbours};
pub use options::Opt;

use crate::target::Target;
use kiln_ir::{UOp, spec};
use nests::Nests;
use options::Loops;

/// A kernel of more nodes than this is not unrolled further.
pub const MAX_NODES: usize = 2000;

/// The number of threads that the order of sums is chosen for, whatever number a target has: the least that can share.
pub const NOMINAL_THREADS: usize = 2;

/// How long the code of a kernel may become, in nodes, about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// The limit for all options; 0 means that nothing is optimized.
    pub nodes: usize,
    /// The limit for which the order of sums is chosen.
    pub order: usize,
}

impl Room {
    /// The same room for everything.
    pub fn of(nodes: usize) -> Room {
        Room { nodes, order: nodes }
    }
}

/// An optimized kernel and how it came about.
#[derive(Clone, Debug)]
pub struct Optimized {
    /// The kernel, named.
    pub ast: UOp,
    /// The options in the order in which they were applied.
    pub applied: Vec<Opt>,
}

/// A kernel that is being optimized.
#[derive(Clone, Debug)]
pub struct Optimizing {
    /// As it is now.
    pub ast: UOp,
    /// The options, in the order in which they are applied; none before they are chosen.
    pub options: Option<Vec<Opt>>,
    /// Why the options cannot be applied, if they cannot. For several nests this shows only when they are applied.
    pub refused: Option<String>,
    /// Whether the loops over outputs may run in any order.
    free: bool,
}

/// The passes, each a step of [`Optimizing`].
impl Optimizing {
    /// Before the first pass; options that are given are not chosen.
    pub fn of(kernel: &UOp, options: Option<Vec<Opt>>) -> Optimizing {
        Optimizing { ast: kernel.clone(), options, refused: None, free: false }
    }

    pub(crate) fn collapse(&mut self) {
        self.ast = collapsed(&self.ast);
    }

    pub(crate) fn choose(&mut self, target: &Target, room: Room) {
        let choose = || match room.nodes {
            0 => Vec::new(),
            _ => heuristic::choose(&self.ast, target, room),
        };
        let options = self.options.take().unwrap_or_else(choose);
        debug_assert_eq!(check(&self.ast, &options), Ok(()));
        self.options = Some(options);
    }

    pub(crate) fn apply(&mut self) {
        let options = self.options.as_deref().unwrap_or(&[]);
        self.free = ordered::ordered(&self.ast).is_empty();
        match rewritten(&self.ast, options) {
            Ok(ast) => self.ast = ast,
            Err(why) => self.refused = Some(why),
        }
    }

    pub(crate) fn name(&mut self) {
        self.ast = name::named(&self.ast);
    }

    pub(crate) fn trim(&mut self) {
        self.ast = trim::trim(&self.ast, self.free);
    }
}

/// The kernel after pass `collapse`. Options name its loops.
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
    let mut optimizing = Optimizing::of(ast, Some(options.to_vec()));
    optimizing.apply();
    optimizing.name();
    optimizing.trim();
    if let Some(why) = optimizing.refused {
        return Err(why);
    }
    // loops that no longer nest show only when all options are applied
    spec::verify(&spec::KERNEL, &optimizing.ast).map_err(|broken| broken.to_string())?;
    Ok(Optimized { ast: optimizing.ast, applied: options.to_vec() })
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

fn rewritten(ast: &UOp, options: &[Opt]) -> Result<UOp, String> {
    match Nests::of(ast).filter(|_| !options.is_empty()) {
        Some(nests) => nests.apply(options),
        None => rewritten_nest(ast, options),
    }
}

fn rewritten_nest(ast: &UOp, options: &[Opt]) -> Result<UOp, String> {
    let ast = packed(ast, options)?;
    let mut loops = Loops::of(&ast);
    options.iter().for_each(|&opt| loops.apply(opt));
    Ok(loops.rewrite(&ast))
}
