//! Pass `choose` of stage `optimize`: chooses options for a kernel without measuring.
//!
//! A reduction whose operands are used again is planned as a whole: tile, blocks, staged operands, threads (`plan`,
//! `blocks`, or `inner` for inner products; prices are in `tile_price` and `memory_price`). A kernel without such a
//! plan is treated loop by loop, in this order:
//!
//! `vectors`: one loop of each nest becomes lanes, the one along which memory is read and written contiguously.
//! `align`: rows start at a cache line. `transpose`: transposes go by squares of lines. `across`: a reduction across rows
//! computes many columns at a time. `tile`: a small register tile, and unrolled short reductions. `stationary`: pixels pass by a
//! filter. `phases`: as many
//! rows at a time as a remainder in a condition needs. `accumulators`: several for a long reduction of short steps. `threads`: the
//! outermost loop that has all inside is divided among threads. Last, values that a loop after a reduction needs again are kept.
//!
//! Everything that decides the order of a sum is chosen for two threads, whatever their real number is (`order`).

mod accumulators;
mod align;
mod along;
mod across;
mod blocks;
mod chooser;
mod coalescing;
mod grid;
mod groups;
mod inner;
mod matrices;
mod memory_price;
mod operand;
mod order;
mod panels;
mod phases;
mod plan;
mod planner;
mod priced;
mod results;
mod rows;
mod squares;
mod stationary;
mod code_size;
mod threads;
mod tile;
mod tile_price;
mod transpose;
mod vectors;
mod windows;

use super::access::Kernel;
use super::dot;
use super::keep;
use super::nests::Nests;
use super::opt::Opt;
use super::room::{NOMINAL_THREADS, Room};
use crate::target::{Dot, Strategy, Target};
use chooser::{Around, Chooser, Context};
use kiln_ir::{DType, UOp};
use order::{Chosen, Form, Order};
use std::rc::Rc;

pub(super) use order::same_order;

/// The options for a kernel, so that its code stays within `room`. Those that decide the order of sums are the same for
/// any number of threads.
pub(super) fn choose(ast: &UOp, target: &Target, room: Room) -> Vec<Opt> {
    if let Strategy::Groups(groups) = target.strategy {
        let limits = grid::Limits { groups, costs: &target.costs };
        return if Nests::of(ast).is_some() { Vec::new() } else { groups::choose(ast, &limits) };
    }
    let whole = Whole::of(ast);
    let is_nominal = target.threads == NOMINAL_THREADS && room.nodes == room.order;
    if is_nominal || whole.kernel.sums().is_empty() {
        return whole.choose(target, room.nodes, None).0;
    }
    let nominal = Target { threads: NOMINAL_THREADS, ..target.clone() };
    let (options, orders) = whole.choose(&nominal, room.order, None);
    let (own, found) = whole.choose(target, room.nodes, Some(&orders));
    // if other tiles do not fit that order, the tiles too are those for that number of threads
    if found == orders { own } else { options }
}

/// The options for a kernel whose sums must add up like those of a general kernel with `applied` options. None if its sums are
/// over other loops, or no options give that order.
pub(super) fn choose_in_order(
    ast: &UOp,
    (general, applied): (&UOp, &[Opt]),
    target: &Target,
    room: Room,
) -> Option<Vec<Opt>> {
    let (whole, other) = (Whole::of(ast), Whole::of(general));
    if matches!(target.strategy, Strategy::Groups(_)) || whole.kernel.sums() != other.kernel.sums()
    {
        return None;
    }
    let nominal = Target { threads: NOMINAL_THREADS, ..target.clone() };
    let (options, orders) = other.choose(&nominal, room.order, None);
    let (own, found) = whole.choose(target, room.nodes, Some(&orders));
    (found == orders && same_order(general, &options, applied)).then_some(own)
}

/// A kernel as a whole.
struct Whole<'a> {
    ast: &'a UOp,
    nests: Option<Nests>,
    kernel: Rc<Kernel>,
}

impl Whole<'_> {
    fn of(ast: &UOp) -> Whole<'_> {
        Whole { ast, nests: Nests::of(ast), kernel: Rc::new(Kernel::of(ast)) }
    }

    /// The options and the order of sums of each nest; or the options with a given order.
    fn choose(
        &self,
        target: &Target,
        nodes: usize,
        orders: Option<&[Order]>,
    ) -> (Vec<Opt>, Vec<Order>) {
        if let Some(nests) = &self.nests {
            return choose_for_nests(&self.kernel, nests, target, nodes, orders);
        }
        let order = orders.and_then(|orders| orders.first()).cloned();
        let context = Context { around: None, order };
        let chosen = choose_for_nest(self.ast, &self.kernel, target, nodes, context);
        let order = Order::of(&self.kernel, &chosen, 0);
        (chosen.options, vec![order])
    }
}

/// First how many rows are computed at a time, then the options of each nest, with the given order of sums.
fn choose_for_nests(
    whole: &Rc<Kernel>,
    nests: &Nests,
    target: &Target,
    nodes: usize,
    orders: Option<&[Order]>,
) -> (Vec<Opt>, Vec<Order>) {
    let chooser = Chooser::new(whole, target, nodes, Context::default());
    let usual = nests.launch(&|range| chooser.trips(range));
    let (rows, thread) = rows::rows(&usual, target, chooser.worth_threads());
    let apart = nests.apart(rows);
    let mut options = vec![Opt::Rows { by: rows.by, blocks: rows.blocks }];
    let mut found = Vec::new();
    for (nest, ast) in apart.kernels.iter().enumerate() {
        let around = Some(Around { number: apart.around, thread });
        let order = orders.and_then(|orders| orders.get(nest)).cloned();
        let kernel = Rc::new(Kernel::of(ast));
        let chosen = choose_for_nest(ast, &kernel, target, nodes, Context { around, order });
        found.push(Order::of(&kernel, &chosen, apart.around));
        options.push(Opt::Nest { nest });
        options.extend(chosen.options);
    }
    (options, found)
}

fn choose_for_nest(
    ast: &UOp,
    kernel: &Rc<Kernel>,
    target: &Target,
    nodes: usize,
    context: Context,
) -> Chosen {
    let given = context.order.as_ref();
    let others = || match given {
        Some(_) => f64::INFINITY,
        None => price_without_matrices(ast, kernel, target, nodes),
    };
    let matrices = || matrices::plan(ast, target, nodes, &context, others);
    let alone = || context.around.is_none().then(matrices).flatten();
    let is_open = |form| given.is_none_or(|order| order.form == form);
    let matrices = is_open(Form::Matrices).then(alone).flatten();
    let packed =
        || is_open(Form::Dots).then(|| with_dots(ast, kernel, target, nodes, &context)).flatten();
    if let Some(chosen) = matrices.or_else(packed) {
        return chosen;
    }
    let mut chooser = Chooser::new(kernel, target, nodes, context);
    if let Some(form) = chooser.plan(ast, target) {
        return Chosen { options: chooser.options, form };
    }
    chooser.vectors(vectors::lanes(kernel, target));
    chooser.align(ast, target);
    chooser.upcast_lanes();
    chooser.transpose(target);
    if !chooser.across(target) {
        chooser.tile(target);
    }
    let stationary = chooser.stationary(ast, target);
    chooser.unroll(stationary.as_ref().map_or(1, |filter| filter.unrolled));
    chooser.phases();
    let bytes = chooser.kept_bytes(target);
    let repeated = keep::repeated(ast, bytes);
    if let Some((reduced, again)) = &repeated {
        chooser.unroll_again(reduced, again);
    }
    chooser.accumulators(ast, target);
    stationary.iter().for_each(|filter| chooser.pass_by(filter));
    chooser.threads(target);
    stationary.iter().for_each(|filter| chooser.copy_filter(filter));
    chooser.options.extend(repeated.map(|_| Opt::Keep { bytes }));
    Chosen { options: chooser.options, form: Form::Loops }
}

/// The plan of a sum of products with a dot-product instruction of the target, if it is cheaper.
fn with_dots(
    ast: &UOp,
    kernel: &Rc<Kernel>,
    target: &Target,
    nodes: usize,
    context: &Context,
) -> Option<Chosen> {
    let (packed, axis, parts) = packed_for_dots(ast, target)?;
    let kernel_of_packed = Rc::new(Kernel::of(&packed));
    let mut chooser = Chooser::new(&kernel_of_packed, target, nodes, context.clone());
    let price = chooser.plan_price(&packed, target)? / dot::count(parts[0]) as f64;
    let plain = || Chooser::new(kernel, target, nodes, context.clone()).plan_price(ast, target);
    if context.order.is_none()
        && let Some(plain) = plain()
    {
        let ways = [("dot products", price), ("multiply-adds", plain)];
        priced::between("sums of products", "cycles a point", ways, (plain < price) as usize);
        if plain < price {
            return None;
        }
    }
    chooser.options.push(Opt::Dot { axis, parts });
    chooser.plan(&packed, target)?;
    Some(Chosen { options: chooser.options, form: Form::Dots })
}

/// The kernel with its products packed for a dot product that the target has: along which axis, and of what.
fn packed_for_dots(ast: &UOp, target: &Target) -> Option<(UOp, u32, [DType; 2])> {
    let fits = |unit: &Dot| dot::axis(ast, unit.parts, unit.sum).map(|axis| (axis, unit.parts));
    let (axis, parts) = target.dots.iter().find_map(fits)?;
    Some((dot::pack(ast, axis, parts).ok()?, axis, parts))
}

/// The price of a point of a sum of products in vectors, packed or not.
fn price_without_matrices(ast: &UOp, kernel: &Rc<Kernel>, target: &Target, nodes: usize) -> f64 {
    let price = |ast: &UOp, kernel: &Rc<Kernel>| {
        Chooser::new(kernel, target, nodes, Context::default()).least_price(ast, target)
    };
    let packed = packed_for_dots(ast, target).map_or(f64::INFINITY, |(packed, _, parts)| {
        price(&packed, &Rc::new(Kernel::of(&packed))) / dot::count(parts[0]) as f64
    });
    packed.min(price(ast, kernel))
}
