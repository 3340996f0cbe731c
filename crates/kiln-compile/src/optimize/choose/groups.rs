//! Part of pass `choose`: options for a device that runs thousands of work-items in groups.
//!
//! Items of a group that are neighbours access neighbours in memory, so that a group's accesses share cache lines
//! (coalescing). So the innermost loops over outputs become the items, and what is left of all loops the groups. Each item
//! reduces by itself, several outputs at a time where they share operands.

use super::super::access::{Access, Kernel};
use super::super::legal::check;
use super::super::opt::Opt;
use super::super::ranges::{axis_of, kind_of, ranges_of, size_of};
use super::super::together;
use super::grid::{Limits, group};
use super::panels;
use crate::target::Costs;
use kiln_ir::UOp;
use kiln_ir::arg::RangeKind;
use kiln_ir::scope::AxisSet;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// The options for a kernel of one nest; none for several, which one item computes.
pub(super) fn choose(ast: &UOp, limits: &Limits<'_>) -> Vec<Opt> {
    let costs = limits.costs;
    let kernel = Kernel::of(ast);
    let around_all = |axis| kernel.nests.iter().all(|nest| nest.contains(axis));
    let is_free = |r: &UOp| {
        let axis = axis_of(r);
        kind_of(r) == RangeKind::Loop && !kernel.ordered.contains(axis) && around_all(axis)
    };
    let loops: Vec<UOp> = kernel.ranges.iter().filter(|r| is_free(r)).cloned().collect();
    let outputs: usize = loops.iter().map(size_of).product();
    if let Some((axis, by)) = together(ast, outputs, limits) {
        let items = Opt::Split { kind: RangeKind::Local, axis, by };
        let lanes = limits.groups.subgroup;
        let exchanges = lanes > 1 && by.is_multiple_of(lanes);
        let exchange = exchanges.then_some(Opt::Subgroup { lanes });
        let steps = steps(if exchanges { by / lanes } else { by }, costs);
        let options = loops.iter().map(group).chain([items]).chain(exchange).chain(steps);
        let options: Vec<Opt> = options.collect();
        if check(ast, &options).is_ok() {
            return options;
        }
    }
    if let Some(options) = panels::choose(ast, &loops, limits) {
        return options;
    }
    let tile = tile(&kernel, &loops, costs);
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

/// The loop of reductions that the items of a group divide, and how many they are, if there are too few outputs for items
/// of their own: a group for each row.
fn together(ast: &UOp, outputs: usize, limits: &Limits<'_>) -> Option<(u32, usize)> {
    let costs = limits.costs;
    let size = |axis: u32| ranges_of(ast).iter().find(|r| axis_of(r) == axis).map_or(1, size_of);
    let axis = together::axes(ast).into_iter().max_by_key(|axis| size(*axis))?;
    let by = items(size(axis), limits.items(), costs.group_least);
    (outputs < costs.group_outputs && size(axis) >= costs.group_items).then_some((axis, by))
}

/// The option by which items combine so many partial results in two steps, if that takes fewer reads than one.
fn steps(parts: usize, costs: &Costs) -> Option<Opt> {
    let reads = |first: &usize| first + parts / first;
    let divides = |first: &usize| parts.is_multiple_of(*first);
    let first = (2..=parts.isqrt()).rev().find(divides)?;
    let is_less = reads(&first) + costs.group_barrier < parts;
    is_less.then_some(Opt::Combine { parts: first })
}

/// How many iterations of a loop a group's items do: all, if there is room, or the largest power of two that divides them,
/// if that is at least `least`, or one that does not.
fn items(size: usize, room: usize, least: usize) -> usize {
    if size <= room {
        return size;
    }
    let most = 1 << room.max(1).ilog2();
    let powers = std::iter::successors(Some(most), |by| Some(by / 2)).take_while(|by| *by >= least);
    powers.into_iter().find(|by| size.is_multiple_of(*by)).unwrap_or(most)
}
