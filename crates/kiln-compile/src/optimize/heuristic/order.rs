//! Part of pass `choose`: makes the order of a sum independent of the number of threads.
//!
//! Two kinds of options are chosen differently. Options on loops over outputs (tiles, blocks) depend on the number of
//! threads, so that all threads have as much to do. Options on a reduction's own loops (lanes, accumulators, blocks,
//! unrolling) decide the order of the additions, and so the last bits of the result. These are chosen once, for
//! `NOMINAL_THREADS` threads. Then the other options are chosen with these given.

use super::super::nests::Rows;
use super::super::options::Opt;
use super::super::ranges::{axis_of, kind_of, ranges_of};
use super::super::{NOMINAL_THREADS, Room};
use super::{Chooser, Chosen, Context, Nests, choose_for_nest, choose_for_nests};
use crate::target::Target;
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

/// Everything that decides the order in which a nest's reductions add up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Order {
    pub(super) form: Form,
    /// Options on the loops of reductions, whose axes are counted from the first inside of all nests.
    options: Vec<Opt>,
}

/// Options for a kernel. Those that decide the order of sums are the same for any number of threads.
pub(super) fn choose(ast: &UOp, target: &Target, room: Room) -> Vec<Opt> {
    let choose = |target: &Target, nodes, orders: Option<&[Order]>| match Nests::of(ast) {
        Some(nests) => choose_for_nests(ast, &nests, target, nodes, orders),
        None => {
            let order = orders.and_then(|orders| orders.first()).cloned();
            let chosen = choose_for_nest(ast, target, nodes, Context { around: None, order });
            let order = Order::of(ast, &chosen, 0);
            (chosen.options, vec![order])
        }
    };
    let is_nominal = target.threads == NOMINAL_THREADS && room.nodes == room.order;
    if is_nominal || sums_of(ast).is_empty() {
        return choose(target, room.nodes, None).0;
    }
    let nominal = Target { threads: NOMINAL_THREADS, ..target.clone() };
    let (options, orders) = choose(&nominal, room.order, None);
    let (own, found) = choose(target, room.nodes, Some(&orders));
    // if other tiles do not fit that order, the tiles too are those for that number of threads
    if found == orders { own } else { options }
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
        let sums = sums_of(kernel);
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

fn sums_of(ast: &UOp) -> AxisSet {
    let ranges = ranges_of(ast).into_iter();
    ranges.filter(|r| kind_of(r) == RangeKind::Reduce).map(|r| axis_of(&r)).collect()
}

impl Order {
    /// Of options for a kernel in which loops of smaller axes than `around` are around several nests.
    pub(super) fn of(ast: &UOp, chosen: &Chosen, around: u32) -> Order {
        let sums = sums_of(ast);
        let options = chosen.options.iter().filter_map(|o| on_sums(o, &sums, around)).collect();
        Order { form: chosen.form, options }
    }
}

/// The option, as far as it decides the order of sums.
fn on_sums(option: &Opt, sums: &AxisSet, around: u32) -> Option<Opt> {
    let own = |axis: u32| sums.contains(axis).then(|| axis - around);
    match *option {
        Opt::Split { kind, axis, by } => Some(Opt::Split { kind, axis: own(axis)?, by }),
        Opt::Block { axis, by } => Some(Opt::Block { axis: own(axis)?, by }),
        Opt::Align { axis, by } => Some(Opt::Align { axis: own(axis)?, by }),
        Opt::Dot { axis, parts } => Some(Opt::Dot { axis: own(axis)?, parts }),
        Opt::Mma { axes: [_, depth, _], by: [_, n, _] } => {
            Some(Opt::Mma { axes: [0, own(depth)?, 0], by: [0, n, 0] })
        }
        Opt::Keep { .. } => Some(*option),
        Opt::Stage { .. } | Opt::Rows { .. } | Opt::Nest { .. } => None,
    }
}

impl Chooser {
    /// How many iterations of a loop become this kind in the order that was chosen before.
    pub(super) fn given(&self, kind: RangeKind, i: usize) -> Option<usize> {
        self.given_option(i, |option, own| match *option {
            Opt::Split { kind: k, axis, by } if k == kind && axis == own => Some(by),
            _ => None,
        })
    }

    /// The size of a loop's blocks in that order.
    pub(super) fn given_block(&self, i: usize) -> Option<usize> {
        self.given_option(i, |option, own| match *option {
            Opt::Block { axis, by } if axis == own => Some(by),
            _ => None,
        })
    }

    fn given_option(&self, i: usize, find: impl Fn(&Opt, u32) -> Option<usize>) -> Option<usize> {
        let own = axis_of(&self.left[i].1) - self.around.map_or(0, |around| around.number);
        self.order.as_ref()?.options.iter().find_map(|option| find(option, own))
    }
}
