//! Part of pass `choose`: makes the order of a sum independent of the number of threads.
//!
//! Two kinds of options are chosen differently. Options on loops over outputs (tiles, blocks) depend on the number of
//! threads, so that all threads have as much to do. Options on a reduction's own loops (lanes, accumulators, blocks,
//! unrolling) decide the order of the additions, and so the last bits of the result. These are chosen once, for
//! `NOMINAL_THREADS` threads. Then the other options are chosen with these given.

use super::super::access::Kernel;
use super::super::nests::{Nests, Rows};
use super::super::opt::Opt;
use kiln_ir::arg::{RangeKind, ReduceOp};
use kiln_ir::scope::AxisSet;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};

/// How a nest is planned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// By a matrix unit.
    Matrices,
    /// A tile of packed products.
    Dots,
    /// A tile of vectors over outputs.
    Tile,
    /// A tile of inner products.
    Inner,
    /// Each loop by itself.
    Loops,
}

/// What is chosen for a kernel with one nest, or for one nest of several.
pub(super) struct Chosen {
    pub(super) options: Vec<Opt>,
    pub(super) form: Form,
}

/// Everything that decides the order in which a nest's reductions add up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Order {
    pub(super) form: Form,
    /// Options on the loops of reductions, whose axes are counted from the first inside of all nests.
    pub(super) options: Vec<Opt>,
}

/// Whether two lists of options for a collapsed kernel add up its sums in the same order.
pub(in super::super) fn same_order(ast: &UOp, a: &[Opt], b: &[Opt]) -> bool {
    !toposort(ast).iter().any(depends_on_order)
        || options_on_sums(ast, a) == options_on_sums(ast, b)
}

/// Whether a node's value depends on the order in which terms are combined: integers and extremes come out the same.
fn depends_on_order(node: &UOp) -> bool {
    let op = node.arg().reduce_op().filter(|_| node.op() == Op::Reduce);
    node.dtype().is_float() && matches!(op, Some(ReduceOp::Add | ReduceOp::Mul))
}

/// By nest, the part of an option list that decides the order of sums.
fn options_on_sums(ast: &UOp, options: &[Opt]) -> Vec<Vec<Opt>> {
    let of_nest = |kernel: &UOp, options: &[Opt], around| {
        let sums = Kernel::of(kernel).sums();
        options.iter().filter_map(|o| on_sums(o, &sums, around)).collect()
    };
    let (Some(nests), Some(&Opt::Rows { by, blocks })) = (Nests::of(ast), options.first()) else {
        return vec![of_nest(ast, options, 0)];
    };
    let apart = nests.apart(Rows { by, blocks });
    let lists = options.split(|o| matches!(o, Opt::Nest { .. })).skip(1);
    let kernels = apart.kernels.iter().zip(lists);
    kernels.map(|(kernel, options)| of_nest(kernel, options, apart.around)).collect()
}

impl Order {
    /// Of options for a kernel in which loops of smaller axes than `around` are around several nests.
    pub(super) fn of(kernel: &Kernel, chosen: &Chosen, around: u32) -> Order {
        let sums = kernel.sums();
        let options = chosen.options.iter().filter_map(|o| on_sums(o, &sums, around)).collect();
        Order { form: chosen.form, options }
    }
}

/// The option, as far as it decides the order of sums.
fn on_sums(option: &Opt, sums: &AxisSet, around: u32) -> Option<Opt> {
    let own = |axis: u32| sums.contains(axis).then(|| axis - around);
    match *option {
        // a loop inside a loop adds up in the same order
        Opt::Split { kind: RangeKind::Reduce, .. } => None,
        Opt::Split { kind, axis, by } => Some(Opt::Split { kind, axis: own(axis)?, by }),
        Opt::Block { axis, by } => Some(Opt::Block { axis: own(axis)?, by }),
        Opt::Align { axis, by } => Some(Opt::Align { axis: own(axis)?, by }),
        Opt::Dot { axis, parts } => Some(Opt::Dot { axis: own(axis)?, parts }),
        Opt::Mma { axes: [_, depth, _], by: [_, n, _] } => {
            Some(Opt::Mma { axes: [0, own(depth)?, 0], by: [0, n, 0] })
        }
        Opt::Keep { .. } | Opt::Subgroup { .. } | Opt::Combine { .. } => Some(*option),
        Opt::Stage { .. } | Opt::Share { .. } | Opt::Rows { .. } | Opt::Nest { .. } => None,
    }
}
