//! Kernel -> an equivalent kernel that runs faster on a target.
//!
//! Every optimization is a split or a new kind of a loop (`Opt`), so what a kernel computes cannot change: the
//! expressions stay, only the loop variables in them are replaced. `heuristic` chooses; `NOOPT=1` chooses nothing.

/// Loops of a kernel, and how each access moves along them.
mod access;
/// Options as data, and their application.
mod options;
/// Reductions in blocks.
mod carry;
/// Values computed into scratch before they are used.
mod stage;
/// Values that a reduction computes, kept for the loops after it.
mod keep;
/// Loops that are rounded up.
mod gate;
/// Loops whose iterations may write the same element.
mod ordered;
/// Two neighbouring loops that count like one become one.
mod collapse;
/// Which options to apply, without a search.
mod heuristic;
/// Kernel names.
mod name;

pub use options::Opt;

use crate::target::Target;
use kiln_ir::UOp;
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

/// Optimizes by heuristic; without `enabled`, names the kernel and does no more.
pub fn optimize(ast: &UOp, target: &Target, enabled: bool) -> Optimized {
    optimize_within(ast, target, if enabled { MAX_NODES } else { 0 })
}

/// Optimizes by heuristic as long as there are no more than about `nodes` nodes; with none, names the kernel and does
/// no more.
pub fn optimize_within(ast: &UOp, target: &Target, nodes: usize) -> Optimized {
    let ast = collapse::collapse(ast);
    let options = if nodes > 0 { heuristic::choose(&ast, target, nodes) } else { Vec::new() };
    apply(&ast, &options)
}

/// Applies given options.
pub fn apply(ast: &UOp, options: &[Opt]) -> Optimized {
    let mut loops = Loops::of(ast);
    for &opt in options {
        loops.apply(opt);
    }
    let ast = loops.rewrite(ast);
    Optimized { ast: name::named(&ast), applied: options.to_vec() }
}
