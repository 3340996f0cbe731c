//! Pass `mma` of stage `lower`: ranges of kind `Matrix` become `Mma` ops if the target has a matrix unit, else loops.
//! Post-condition: no range of kind `Matrix` is left.
//!
//! A value of an `Mma` has a whole matrix as its lanes. Its accumulator is set before the loops of the sum, to zero or
//! from scratch, updated inside, and stored after them. Elsewhere the sides are loops, and the last one over outputs
//! becomes vector lanes.

use crate::target::{Mma, Target};
use kiln_ir::affine::strides;
use kiln_ir::arg::{RangeKind, ReduceOp, Space};
use kiln_ir::scope::closed_ranges;
use kiln_ir::uop::{axis_of, free_local, kind_of, rebuild, remade, substitute, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use std::slice::from_ref;

/// Replaces every `Matrix` range of the kernel.
pub(super) fn matrices(kernel: &UOp, target: &Target) -> UOp {
    let nodes = toposort(kernel);
    if !nodes.iter().any(is_side) {
        return kernel.clone();
    }
    let mut next_id = free_local(&nodes);
    let mut products: FxHashMap<UOp, UOp> = FxHashMap::default();
    // for all products together: what one leaves in registers may stay there while another begins
    let mut taken = 0;
    for node in &nodes {
        let of = |unit| Product::of(node, unit).filter(|p| taken + p.registers() <= unit.registers);
        if let Some(product) = target.mmas.iter().find_map(of) {
            taken += product.registers();
            products.insert(node.clone(), product.effect(next_id));
            next_id += 1;
        }
    }
    as_loops(&substitute(from_ref(kernel), &products)[0])
}

fn is_side(node: &UOp) -> bool {
    node.op() == Op::Range && kind_of(node) == RangeKind::Matrix
}

/// A nest that stores a sum of matrix products to scratch.
struct Product<'a> {
    unit: &'a Mma,
    /// The part of the scratch that the nest writes, and where.
    store: UOp,
    /// Whether the product is added to what scratch holds.
    adds: bool,
    /// The operands, rows first.
    factors: [UOp; 2],
    /// Loops and unrolled ranges around the sum.
    around: Vec<UOp>,
    /// Loops of the sum.
    over: Vec<UOp>,
    /// Rows, depth, columns.
    sides: [UOp; 3],
}

impl<'a> Product<'a> {
    /// The product that the node is, if the unit can compute it: sizes and types fit, and all matrices are contiguous.
    fn of(end: &UOp, unit: &'a Mma) -> Option<Product<'a>> {
        let store = if end.op() == Op::End { end.src(0) } else { return None };
        let (mut outputs, around): (Vec<UOp>, Vec<UOp>) =
            closed_ranges(end).cloned().partition(is_side);
        outputs.sort_by_key(axis_of);
        let [rows, columns] = <[UOp; 2]>::try_from(outputs).ok()?;
        if store.op() != Op::Store || store.gate().is_some() || store.memory().op() != Op::Local {
            return None;
        }
        let (sum, adds) = added(store)?;
        let (mut depth, over): (Vec<UOp>, Vec<UOp>) =
            closed_ranges(sum).cloned().partition(is_side);
        let sides = [rows, depth.pop()?, columns];
        let dot = sum.src(0);
        let is_dot = dot.op() == Op::Dot && dot.src(2).is_const(0) && dot.dtype() == unit.sum;
        let whole = sides.iter().zip(unit.shape).all(|(r, n)| r.src(0).is_const(n as i64));
        if !is_dot || !whole || over.iter().any(|r| kind_of(r).is_expanded()) {
            return None;
        }
        let product = |factors: [&UOp; 2]| Product {
            unit,
            store: store.clone(),
            adds,
            factors: factors.map(UOp::clone),
            around: around.clone(),
            over: over.clone(),
            sides: sides.clone(),
        };
        let [x, y] = dot.arg().parts()?;
        let swapped = [dot.src(1), dot.src(0)];
        let either = [([x, y], [dot.src(0), dot.src(1)]), ([y, x], swapped)];
        let fits = |(parts, factors)| {
            let product = product(factors);
            let fits = parts == unit.parts && product.is_contiguous() && product.are_apart();
            fits.then_some(product)
        };
        either.into_iter().find_map(fits)
    }

    /// Accumulators, and all matrices that a step of the sum loads.
    fn registers(&self) -> usize {
        let written_out = || self.around.iter().filter(|r| kind_of(r).is_expanded());
        let sizes = |index: &UOp| {
            let strides = strides(index);
            let moving = written_out().filter(|r| strides.contains_key(&axis_of(r)));
            moving.map(|r| r.src(0).max() as usize).product::<usize>()
        };
        let [x, y] = &self.factors;
        written_out().map(|r| r.src(0).max() as usize).product::<usize>()
            + sizes(x.src(1))
            + sizes(y.src(1))
    }

    fn is_contiguous(&self) -> bool {
        let [rows, depth, columns] = &self.sides;
        let [x, y] = &self.factors;
        let plain =
            |x: &UOp| x.op() == Op::Load && x.srcs().len() == 2 && x.memory().op() == Op::Local;
        let moves = |index: &UOp, by: [(&UOp, i64); 3]| {
            let strides = strides(index);
            by.iter().all(|(r, n)| strides.get(&axis_of(r)).copied().unwrap_or(Some(0)) == Some(*n))
        };
        let [_, words, lanes] = self.unit.shape.map(i64::from);
        plain(x)
            && plain(y)
            && moves(x.src(1), [(rows, words), (depth, 1), (columns, 0)])
            && moves(y.src(1), [(rows, 0), (depth, lanes), (columns, 1)])
            && moves(self.store.src(1), [(rows, lanes), (depth, 0), (columns, 1)])
    }

    /// Whether the operands are two different matrices: an instruction takes no register twice.
    fn are_apart(&self) -> bool {
        let [x, y] = self.matrices();
        x != y
    }

    /// The same effect by the unit, with accumulators in register memory number `id`: one for each unrolled iteration.
    fn effect(&self, id: u32) -> UOp {
        let (written_out, loops): (Vec<UOp>, Vec<UOp>) =
            self.around.iter().cloned().partition(|r| kind_of(r).is_expanded());
        let outer = self.store.src(0).srcs().iter().filter(|s| s.op() == Op::Range).cloned();
        let loops: Vec<UOp> = outer.chain(loops).collect();
        let lanes = self.unit.lanes();
        let count = written_out.iter().map(|r| r.src(0).max() as usize).product();
        let accumulators = UOp::local(Space::Register, id, count, self.unit.sum, lanes);
        let which = flat(&written_out);

        let [memory, place] = [self.store.src(0), &self.first(self.store.src(1))];
        let start = match self.adds {
            true => UOp::load_lanes(memory, place, None, lanes),
            false => UOp::constant(0, self.unit.sum).splat(lanes),
        };
        let begun = UOp::store(&accumulators.after(loops.clone()), &which, &start, None);
        let inside = [begun].into_iter().chain(loops).chain(self.over.iter().cloned());
        let running = accumulators.after(inside);
        let [x, y] = self.matrices();
        let sum = UOp::load(&running, &which);
        let product = UOp::mma(self.unit.parts, self.unit.shape, &x, &y, &sum);
        let update = UOp::store(&running, &which, &product, None);
        let done = accumulators.after([update.end(self.over.iter().cloned())]);
        let result = UOp::load(&done, &which);
        UOp::store(memory, place, &result, None).end(self.around.iter().cloned())
    }

    /// The operands as matrices.
    fn matrices(&self) -> [UOp; 2] {
        let [rows, depth, columns] = self.unit.shape;
        let [x, y] = &self.factors;
        [(x, rows * depth), (y, depth * columns)]
            .map(|(x, lanes)| UOp::load_lanes(x.src(0), &self.first(x.src(1)), None, lanes))
    }

    /// An index where a matrix starts.
    fn first(&self, index: &UOp) -> UOp {
        let zeros = self.sides.iter().map(|side| (side.clone(), UOp::index(0))).collect();
        kiln_ir::rules::simplify(&substitute(from_ref(index), &zeros)[0])
    }
}

/// The sum that is stored, and whether it is added to what scratch holds.
fn added(store: &UOp) -> Option<(&UOp, bool)> {
    let is_sum = |n: &UOp| n.op() == Op::Reduce && n.arg().reduce_op() == Some(ReduceOp::Add);
    let value = store.src(2);
    if is_sum(value) {
        return Some((value, false));
    }
    let is_there =
        |n: &UOp| n.op() == Op::Load && n.srcs().len() == 2 && n.srcs()[..2] == store.srcs()[..2];
    match (value.op(), value.srcs()) {
        (Op::Add, [a, b]) if is_sum(a) && is_there(b) => Some((a, true)),
        (Op::Add, [a, b]) if is_there(a) && is_sum(b) => Some((b, true)),
        _ => None,
    }
}

/// The row-major position over the ranges.
fn flat(ranges: &[UOp]) -> UOp {
    ranges.iter().fold(UOp::index(0), |at, r| at * r.src(0).max() + r)
}

/// The kernel with loops, and vectors over outputs, instead of sides.
fn as_loops(kernel: &UOp) -> UOp {
    let nodes = toposort(kernel);
    let mut kinds: FxHashMap<UOp, RangeKind> = FxHashMap::default();
    for node in nodes.iter().filter(|n| matches!(n.op(), Op::End | Op::Reduce)) {
        let mut sides: Vec<&UOp> = closed_ranges(node).filter(|r| is_side(r)).collect();
        sides.sort_by_key(|r| axis_of(r));
        let (inner, last) = match node.op() {
            Op::Reduce => (RangeKind::Reduce, RangeKind::Reduce),
            _ => (RangeKind::Loop, RangeKind::Vector),
        };
        for (i, side) in sides.iter().enumerate() {
            let kind = if i + 1 == sides.len() { last } else { inner };
            kinds.insert((*side).clone(), kind);
        }
    }
    remade(kernel, |node, srcs| match kinds.get(node) {
        Some(kind) => UOp::range(axis_of(node), *kind, node.src(0).max() as usize),
        None => rebuild(node, srcs),
    })
}
