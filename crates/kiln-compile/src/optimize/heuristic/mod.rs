//! Part of pass `choose`: chooses options for a kernel without measuring.
//!
//! A reduction whose operands are used again is planned as a whole: tile, blocks, staged operands, threads (`plan`,
//! `blocks`, or `inner` for inner products; prices are in `tile_price` and `memory_price`). A kernel without such a
//! plan is treated loop by loop, in this order:
//!
//! `vectors`: one loop of each nest becomes lanes, the one along which memory is read and written contiguously.
//! `align`: rows start at a cache line. `turn`: transposes go by squares of lines. `across`: a reduction across rows
//! computes many columns at a time. `tile`: a small register tile, and unrolled short reductions. `accumulators`:
//! several for a long reduction of short steps. `threads`: the outermost loop over outputs is divided among threads.
//! Last, values that a loop after a reduction needs again are kept.
//!
//! Everything that decides the order of a sum is chosen for two threads, whatever their real number is (`order`).

mod accumulators;
mod align;
mod across;
mod blocks;
mod inner;
mod matrices;
mod memory_price;
mod operand;
mod order;
mod plan;
mod rows;
mod text;
mod threads;
mod tile;
mod tile_price;
mod turn;
mod vectors;
mod windows;

use super::Room;
use super::access::Kernel;
use super::dot;
use super::keep;
use super::nests::Nests;
use super::options::Opt;
use super::ordered::ordered;
use super::ranges::{axis_of, ranges_of, size_of};
use crate::target::{Costs, Dot, Target};
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::toposort;
use kiln_ir::{DType, UOp};
use order::{Form, Order};

pub(super) use order::same_order;

/// The options for a kernel, so that its code stays within `room`.
pub(super) fn choose(ast: &UOp, target: &Target, room: Room) -> Vec<Opt> {
    order::choose(ast, target, room)
}

/// What is chosen for a kernel with one nest, or for one nest of several.
struct Chosen {
    options: Vec<Opt>,
    form: Form,
}

/// First how many rows are computed at a time, then the options of each nest, with the given order of sums.
fn choose_for_nests(
    ast: &UOp,
    nests: &Nests,
    target: &Target,
    nodes: usize,
    orders: Option<&[Order]>,
) -> (Vec<Opt>, Vec<Order>) {
    let threads = Chooser::new(ast, target, nodes, Context::default()).worth_threads();
    let (rows, thread) = rows::rows(nests, target, threads);
    let apart = nests.apart(rows);
    let mut options = vec![Opt::Rows { by: rows.by, blocks: rows.blocks }];
    let mut found = Vec::new();
    for (nest, kernel) in apart.kernels.iter().enumerate() {
        let around = Some(Around { number: apart.around, thread });
        let order = orders.and_then(|orders| orders.get(nest)).cloned();
        let chosen = choose_for_nest(kernel, target, nodes, Context { around, order });
        found.push(Order::of(kernel, &chosen, apart.around));
        options.push(Opt::Nest { nest });
        options.extend(chosen.options);
    }
    (options, found)
}

fn choose_for_nest(ast: &UOp, target: &Target, nodes: usize, context: Context) -> Chosen {
    let given = context.order.as_ref();
    let others = || match given {
        Some(_) => f64::INFINITY,
        None => price_without_matrices(ast, target, nodes),
    };
    let matrices = || matrices::plan(ast, target, nodes, &context, others);
    let alone = || context.around.is_none().then(matrices).flatten();
    let is_open = |form| given.is_none_or(|order| order.form == form);
    let matrices = is_open(Form::Matrices).then(alone).flatten();
    let packed = || is_open(Form::Dots).then(|| with_dots(ast, target, nodes, &context)).flatten();
    if let Some(chosen) = matrices.or_else(packed) {
        return chosen;
    }
    let mut chooser = Chooser::new(ast, target, nodes, context);
    if let Some(form) = chooser.plan(ast, target) {
        return Chosen { options: chooser.options, form };
    }
    chooser.vectors(vectors::lanes(ast, target));
    chooser.align(ast, target);
    chooser.upcast_lanes();
    chooser.turn(target);
    if !chooser.across(target) {
        chooser.tile(target);
    }
    chooser.unroll();
    chooser.accumulators(ast, target);
    chooser.threads(target);
    chooser.keep(ast, target);
    Chosen { options: chooser.options, form: Form::Loops }
}

/// The plan of a sum of products with a dot-product instruction of the target, if it is cheaper.
fn with_dots(ast: &UOp, target: &Target, nodes: usize, context: &Context) -> Option<Chosen> {
    let (packed, axis, parts) = packed_for_dots(ast, target)?;
    let mut chooser = Chooser::new(&packed, target, nodes, context.clone());
    let price = chooser.plan_price(&packed, target)? / dot::count(parts[0]) as f64;
    let plain = || Chooser::new(ast, target, nodes, context.clone()).plan_price(ast, target);
    if context.order.is_none() && plain().is_some_and(|plain| plain < price) {
        return None;
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
fn price_without_matrices(ast: &UOp, target: &Target, nodes: usize) -> f64 {
    let price =
        |ast: &UOp| Chooser::new(ast, target, nodes, Context::default()).least_price(ast, target);
    let packed = packed_for_dots(ast, target)
        .map_or(f64::INFINITY, |(packed, _, parts)| price(&packed) / dot::count(parts[0]) as f64);
    packed.min(price(ast))
}

struct Chooser {
    kernel: Kernel,
    /// Every loop, and how many of its iterations are left after the options so far.
    left: Vec<(usize, UOp)>,
    options: Vec<Opt>,
    costs: Costs,
    /// Whether predicated vectors are cheap.
    masks: bool,
    /// How long the code may become, in nodes.
    nodes: usize,
    /// How many times longer the code may still become.
    room: usize,
    /// The loops that are around other nests too.
    around: Option<Around>,
    /// The order of sums that was chosen before, if it was.
    order: Option<Order>,
}

/// What is decided before a nest is planned.
#[derive(Clone, Default)]
struct Context {
    around: Option<Around>,
    order: Option<Order>,
}

/// Loops around several nests. Nothing is done to them, except that threads share one.
#[derive(Clone, Copy)]
struct Around {
    /// They have smaller axes than this.
    number: u32,
    thread: Option<u32>,
}

impl Around {
    fn has(&self, range: &UOp) -> bool {
        axis_of(range) < self.number
    }
}

impl Chooser {
    fn new(ast: &UOp, target: &Target, nodes: usize, context: Context) -> Chooser {
        let Context { around, order } = context;
        // loops that must run in order stay as they are
        let ordered = ordered(ast);
        let is_around = |r: &UOp| around.is_some_and(|a| a.has(r));
        let free = |r: &UOp| is_around(r) || !ordered.contains(axis_of(r));
        let free = ranges_of(ast).into_iter().filter(free);
        Chooser {
            kernel: Kernel::of(ast),
            left: free.map(|r| (size_of(&r), r)).collect(),
            options: Vec::new(),
            costs: target.costs,
            masks: target.masks,
            nodes,
            room: nodes / toposort(ast).len().max(1),
            around,
            order,
        }
    }

    /// Whether a loop is around other nests, too.
    fn is_around(&self, i: usize) -> bool {
        self.around.is_some_and(|a| a.has(&self.left[i].1))
    }

    /// The position of the loop that was chosen for threads before the nest was looked at.
    fn chosen_thread(&self) -> Option<usize> {
        let thread = self.around?.thread?;
        self.left.iter().position(|(_, r)| axis_of(r) == thread)
    }

    /// Splits off a loop over blocks of `by` iterations, outside of earlier blocks.
    fn block(&mut self, i: usize, by: usize) {
        if by > 1 {
            self.options.push(Opt::Block { axis: axis_of(&self.left[i].1), by });
            self.left[i].0 = self.left[i].0.div_ceil(by);
        }
    }

    /// Keeps values that a loop after a reduction needs again, if they fit a share of the second cache.
    fn keep(&mut self, ast: &UOp, target: &Target) {
        let bytes = target.cache_bytes[1] / self.costs.cache_share;
        if keep::pays(ast, bytes) {
            self.options.push(Opt::Keep { bytes });
        }
    }

    fn apply(&mut self, kind: RangeKind, i: usize, by: usize) {
        if by == 1 && kind != RangeKind::Thread {
            return;
        }
        self.options.push(Opt::Split { kind, axis: axis_of(&self.left[i].1), by });
        self.left[i].0 = self.left[i].0.div_ceil(by);
        if kind != RangeKind::Vector {
            self.room /= by;
        }
    }
}
