//! Stage `optimize`: a kernel becomes an equal kernel that runs faster on a target.
//!
//! Every optimization splits a loop, changes how it runs, or stores a value in scratch (`Opt`). Only loop variables in
//! the expressions are replaced, so what a kernel computes stays the same. `choose` chooses the options; with
//! `NOOPT=1` there are none.

/// How long code may become.
mod room;
/// Facts about loop variables, and substitution.
mod ranges;
/// How each load and store moves along each loop.
mod access;
/// Options as data.
mod opt;
/// The loops that options change.
mod loops;
/// The application of options.
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
/// Operands in scratch that the work-items of a group share.
mod share;
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
/// Where a value counts.
mod counting;
/// One kernel for many numbers.
mod general;
/// Loops that must run in order.
mod ordered;
/// Sizes that a launch decides.
mod size;
/// Loop bounds tightened by predicates.
mod trim;
/// Reductions over the same loops.
mod fuse;
/// Neighbouring loops that index memory like one become one.
mod collapse;
/// The same of loops whose lengths a launch decides.
mod planes;
/// What a kernel takes from its loops.
mod forms;
/// Work-items that reduce together.
mod together;
/// Chooses options without measuring.
mod choose;
/// Kernel names.
mod name;

pub use general::{Counting, General, Skeleton, Work, is_profitable};
pub use neighbours::{drawn, neighbours};
pub use opt::Opt;
pub(crate) use room::Limits;
pub use room::{MAX_NODES, NOMINAL_THREADS, Room};

use crate::target::Target;
use kiln_ir::{UOp, spec};
use nests::Nests;

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
            _ => choose::choose(&self.ast, target, room),
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
    choose::same_order(ast, a, b)
}

/// The options for a kernel for which a general kernel ran with `applied` options so far: its sums add up in the same order, and
/// give the same bits. None if no options do that.
pub(crate) fn in_order(
    ast: &UOp,
    (general, applied): (&UOp, &[Opt]),
    target: &Target,
    room: Room,
) -> Option<Vec<Opt>> {
    choose::choose_in_order(&collapsed(ast), (&collapsed(general), applied), target, room)
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
        None => legal::check(ast, options),
    }
}

fn rewritten(ast: &UOp, options: &[Opt]) -> Result<UOp, String> {
    let rewritten = match Nests::of(ast).filter(|_| !options.is_empty()) {
        Some(nests) => nests.apply(options),
        None => options::rewritten(ast, options),
    };
    Ok(fuse::distribute(rewritten?))
}
