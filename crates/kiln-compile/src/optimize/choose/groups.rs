//! Part of pass `choose`: options for a device that runs thousands of work-items in groups.
//!
//! Items of a group that are neighbours access neighbours in memory, so that a group's accesses share cache lines
//! (coalescing). The innermost loops over outputs become the items, and what is left of all loops the groups. Each item
//! reduces by itself, several outputs at a time where they share operands. Or items go along rows together (`along`), if there
//! are few outputs, or if they then share more lines.

use super::super::access::{Access, Kernel};
use super::super::opt::Opt;
use super::super::ranges::{axis_of, iterations, kind_of, size_of};
use super::along::Rows;
use super::grid::{Limits, group, items};
use super::panels;
use super::squares;
use crate::target::Costs;
use kiln_ir::UOp;
use kiln_ir::arg::RangeKind;
use kiln_ir::scope::AxisSet;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// The options for a kernel of one nest; none for several, which one item computes.
pub(super) fn choose(ast: &UOp, limits: &Limits<'_>) -> Vec<Opt> {
    let kernel = Kernel::of(ast);
    let around_all = |axis| kernel.nests.iter().all(|nest| nest.contains(axis));
    let is_free = |r: &UOp| {
        let axis = axis_of(r);
        kind_of(r) == RangeKind::Loop && !kernel.ordered.contains(axis) && around_all(axis)
    };
    let loops: Vec<UOp> = kernel.ranges.iter().filter(|r| is_free(r)).cloned().collect();
    let rows = Rows { ast, kernel: &kernel, around: &loops, limits };
    let along = rows.choose();
    let is_needed = |options: &Vec<Opt>| is_needed(options, &kernel, &loops, limits);
    let needed = along.clone().filter(is_needed);
    let found = needed.or_else(|| panels::choose(ast, &loops, limits));
    let found = found.or_else(|| squares::choose(ast, &kernel, &loops, limits));
    found.unwrap_or_else(|| {
        let outputs = of_outputs(&kernel, &loops, limits);
        let is_less = |options: &Vec<Opt>| rows.price(options) < rows.price(&outputs);
        along.filter(is_less).unwrap_or(outputs)
    })
}

/// Whether there are too few outputs for items of their own, and a long reduction that items divide.
fn is_needed(options: &[Opt], kernel: &Kernel, loops: &[UOp], limits: &Limits<'_>) -> bool {
    let outputs = iterations(loops);
    let is_long = |r: &UOp| {
        let divides = |o: &Opt| matches!(*o, Opt::Split { axis, .. } if axis == axis_of(r));
        let is_sum = kind_of(r) == RangeKind::Reduce;
        is_sum && size_of(r) >= limits.costs.group_items && options.iter().any(divides)
    };
    outputs < limits.costs.group_outputs && kernel.ranges.iter().any(is_long)
}

/// The innermost loops over outputs become the items.
fn of_outputs(kernel: &Kernel, loops: &[UOp], limits: &Limits<'_>) -> Vec<Opt> {
    let costs = limits.costs;
    let tile = tile(kernel, loops, costs);
    let mut left: FxHashMap<u32, usize> = loops.iter().map(|r| (axis_of(r), size_of(r))).collect();
    for option in &tile {
        if let Opt::Split { axis, by, .. } = option {
            left.entry(*axis).and_modify(|size| *size /= by);
        }
    }
    // items before tiles: outputs of an item are as far apart as there are items, and neighbouring items stay neighbours
    let (mut options, mut room) = (Vec::new(), limits.items());
    for range in loops.iter().rev() {
        let by = items(left[&axis_of(range)], room, costs.group_least);
        if by > 1 {
            options.push(Opt::Split { kind: RangeKind::Local, axis: axis_of(range), by });
            room /= by;
        }
    }
    options.extend(tile);
    options.extend(loops.iter().map(group));
    options
}

/// Several outputs for an item along the two longest loops along which a reduction reads an operand again: each operand is
/// read once for all of them.
fn tile(kernel: &Kernel, loops: &[UOp], costs: &Costs) -> Vec<Opt> {
    let around: AxisSet = loops.iter().map(axis_of).collect();
    let in_reduction = |a: &&Access| !a.is_store && !a.scope.is_subset(&around);
    let loads: Vec<&Access> = kernel.accesses.iter().filter(in_reduction).collect();
    let by = costs.group_tile;
    let is_side = |r: &&UOp| {
        let again = loads.iter().any(|a| !a.scope.contains(axis_of(r)));
        again && size_of(r).is_multiple_of(by) && size_of(r) >= by * costs.group_least
    };
    let mut sides: Vec<&UOp> = loops.iter().filter(is_side).collect();
    sides.sort_by_key(|r| Reverse(size_of(r)));
    let upcast = |r: &&UOp| Opt::Split { kind: RangeKind::Upcast, axis: axis_of(r), by };
    sides.iter().take(2).map(upcast).collect()
}
