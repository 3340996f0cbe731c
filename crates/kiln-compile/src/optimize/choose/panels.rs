//! Part of pass `choose`: products for a device with groups. The items of a group compute a block of outputs, several outputs
//! each, and share panels of both operands, a few terms at a time. So each element of an operand is read from memory once for
//! the whole block. (NVIDIA, CUDA C++ Programming Guide: the tiled product.)

use super::super::legal::check;
use super::super::opt::Opt;
use super::super::ranges::{axis_of, iterations, kind_of, size_of};
use super::super::stage::operands;
use super::grid::{Limits, group};
use crate::target::Costs;
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};

/// How a group goes along the loops of one operand that the other operand does not vary over.
struct Side {
    operand: usize,
    /// For each loop, its axis, items, and outputs of an item.
    loops: Vec<(u32, usize, usize)>,
}

impl Side {
    /// Outputs of a group.
    fn len(&self) -> usize {
        self.loops.iter().map(|(_, items, tile)| items * tile).product()
    }

    fn items(&self) -> usize {
        self.loops.iter().map(|(_, items, _)| items).product()
    }

    fn splits(&self, kind: RangeKind) -> impl Iterator<Item = Opt> {
        let by = move |&(axis, items, tile): &(u32, usize, usize)| {
            let by = if kind == RangeKind::Local { items } else { tile };
            (by > 1).then_some(Opt::Split { kind, axis, by })
        };
        self.loops.iter().filter_map(by)
    }
}

/// The options for a sum of products, over these loops over outputs. None if a group would read hardly anything again.
pub(super) fn choose(ast: &UOp, loops: &[UOp], limits: &Limits<'_>) -> Option<Vec<Opt>> {
    let costs = limits.costs;
    let nodes = toposort(ast);
    // panels of varying lengths would be copied to their longest
    let varies = nodes.iter().any(|n| n.op() == Op::Var);
    let sums: Vec<&UOp> = nodes.iter().filter(|n| n.op() == Op::Range).collect();
    let mut sums: Vec<UOp> =
        sums.into_iter().filter(|r| kind_of(r) == RangeKind::Reduce).cloned().collect();
    sums.sort_by_key(axis_of);
    if varies || iterations(&sums) < costs.group_terms {
        return None;
    }
    let operands = operands(ast);
    let sides = sides(&operands, loops, limits)?;
    let [rows, columns] = &sides;
    if rows.len() < costs.group_tile || columns.len() < costs.group_least {
        return None;
    }
    let bytes = sides.iter().map(|side| side.len() * operands[side.operand].dtype().size());
    let bytes: usize = bytes.sum();
    // rows of panels are longer than what they hold
    let spare = |terms: usize| 2 * costs.group_banks * costs.group_bank_bytes * terms;
    let fits = |terms: &usize| terms * bytes + spare(*terms) <= limits.groups.shared_bytes;
    let halves = std::iter::successors(Some(costs.group_terms), |terms| Some(terms / 2));
    let terms = halves.take_while(|terms| *terms > 1).find(fits)?;
    let (depth, split) = blocks(&sums, terms, costs);
    let share = |side: &Side| Opt::Share { operand: side.operand, depth, banks: costs.group_banks };
    let of_sides = |kind| sides.iter().flat_map(move |side| side.splits(kind));
    let mut options: Vec<Opt> = of_sides(RangeKind::Local).collect();
    options.extend(of_sides(RangeKind::Upcast));
    options.extend(loops.iter().map(group).chain(split));
    options.extend(sides.iter().map(share));
    check(ast, &options).is_ok().then_some(options)
}

/// Rows and columns of a group's block: the loops of one operand alone, and those of another. The innermost loop is of the
/// columns, if it is of one of them.
fn sides(operands: &[UOp], loops: &[UOp], limits: &Limits<'_>) -> Option<[Side; 2]> {
    let alone = |a: usize, b: usize| -> Vec<&UOp> {
        let varies = |operand: usize, r: &UOp| operands[operand].scope().contains(axis_of(r));
        loops.iter().filter(|r| varies(a, r) && !varies(b, r)).collect()
    };
    let pairs = (0..operands.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    let (a, b) =
        pairs.into_iter().find(|&(a, b)| !alone(a, b).is_empty() && !alone(b, a).is_empty())?;
    let innermost = |loops: &[&UOp]| loops.last().map(|r| axis_of(r));
    let a_is_inner = innermost(&alone(a, b)) > innermost(&alone(b, a));
    let (rows, columns) = if a_is_inner { (b, a) } else { (a, b) };
    let items = limits.items();
    let square = 1 << (items.ilog2() / 2);
    let side = |operand, other, room| Side {
        operand,
        loops: spread(&alone(operand, other), room, limits),
    };
    let rows_side = side(rows, columns, square);
    let room = (items / rows_side.items()).min(2 * square);
    Some([rows_side, side(columns, rows, room)])
}

/// Items, as many as there is room for, and outputs of each, along loops: the innermost first.
fn spread(loops: &[&UOp], room: usize, limits: &Limits<'_>) -> Vec<(u32, usize, usize)> {
    let (mut room, mut tile) = (room, limits.costs.group_tile);
    let mut spread = Vec::new();
    for range in loops.iter().rev() {
        let size = size_of(range);
        let items = if size <= room { size } else { 1 << room.ilog2() };
        let left = size.div_ceil(items);
        let is_full = |by: &usize| fills(left, *by, limits.costs);
        let by = (1..=tile.min(left)).rev().find(is_full).unwrap_or(1);
        (room, tile) = (room / items, tile / by);
        spread.push((axis_of(range), items, by));
    }
    spread.reverse();
    spread
}

/// Whether blocks of `by` iterations make a loop hardly longer.
fn fills(size: usize, by: usize, costs: &Costs) -> bool {
    size.next_multiple_of(by) as f64 <= size as f64 * costs.group_padding
}

/// How many loops of a reduction are around panels of so many terms, and how the innermost of them is divided.
fn blocks(sums: &[UOp], terms: usize, costs: &Costs) -> (usize, Option<Opt>) {
    let mut left = terms;
    for (at, range) in sums.iter().enumerate().rev() {
        let size = size_of(range);
        if size > left {
            let powers = (0..=left.ilog2()).rev().map(|power| 1 << power);
            let is_full = |by: &usize| fills(size, *by, costs);
            let by = powers.into_iter().find(is_full).unwrap_or(1);
            let split = Opt::Split { kind: RangeKind::Reduce, axis: axis_of(range), by };
            return (at + 1, (by > 1).then_some(split));
        }
        left /= size;
    }
    (0, None)
}
