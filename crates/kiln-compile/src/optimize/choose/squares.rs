//! Part of pass `choose`: copies for a device with groups that read across the direction in which they write, such as
//! transposes. A group copies a square through scratch that its items share. So neighbouring items read neighbours in memory,
//! and write neighbours. (NVIDIA, CUDA C++ Best Practices Guide, Shared Memory: the transpose.)

use super::super::access::{Access, Kernel};
use super::super::legal::check;
use super::super::loops::Loops;
use super::super::opt::Opt;
use super::super::ranges::{axis_of, size_of};
use super::grid::{Limits, group};
use kiln_ir::UOp;
use kiln_ir::affine::strides;
use kiln_ir::arg::RangeKind;
use kiln_ir::rules::simplify;

/// The options for a kernel whose loops are all around everything, if it reads across.
pub(super) fn choose(
    ast: &UOp,
    kernel: &Kernel,
    loops: &[UOp],
    limits: &Limits<'_>,
) -> Option<Vec<Opt>> {
    let costs = limits.costs;
    let long = |r: &&UOp| size_of(r) >= costs.group_least;
    let columns = loops.last().filter(|_| kernel.ranges.len() == loops.len()).filter(long)?;
    let mut stores = kernel.accesses.iter().filter(|a| a.is_store);
    if !stores.all(|a| is_along(a, columns)) {
        return None;
    }
    let whole = Loops::of(ast);
    let loads = whole.shareable();
    let across: Vec<Option<&UOp>> =
        loads.iter().map(|load| read_along(load, columns, loops)).collect();
    let rows = across.iter().flatten().copied().find(|r| long(r))?;
    let operands = (0..loads.len()).filter(|i| across[*i] == Some(rows));
    let mut options = square(rows, columns, limits);
    options.extend(loops.iter().map(group));
    let share = |operand| Opt::Share { operand, depth: 0, banks: costs.group_banks };
    options.extend(operands.clone().map(share));
    let side = costs.group_neighbours;
    // rows are longer by one
    let bytes = operands.map(|i| (side + 1) * side * loads[i].dtype().size()).sum::<usize>();
    (bytes <= limits.groups.shared_bytes && check(ast, &options).is_ok()).then_some(options)
}

/// Whether neighbours along a loop are neighbours in memory.
fn is_along(access: &Access, range: &UOp) -> bool {
    access.stride(axis_of(range)).is_some_and(|stride| stride.abs() == 1)
}

/// The loop along which a load goes from neighbour to neighbour in memory, if it goes in larger steps along the columns.
fn read_along<'a>(load: &UOp, columns: &UOp, loops: &'a [UOp]) -> Option<&'a UOp> {
    let strides = strides(&simplify(load.src(1)));
    let stride = |r: &UOp| strides.get(&axis_of(r)).copied().flatten().map(i64::abs);
    let is_across = stride(columns).is_some_and(|stride| stride > 1);
    loops.iter().find(|r| is_across && stride(r) == Some(1))
}

/// Items along both sides of a square. Along rows each item copies several elements.
fn square(rows: &UOp, columns: &UOp, limits: &Limits<'_>) -> Vec<Opt> {
    let side = limits.costs.group_neighbours;
    let [height, width] = [rows, columns].map(|r| size_of(r).min(side));
    let width = width.min(limits.items());
    let items = (limits.items() / width).clamp(1, height);
    let split = |kind, range, by| Opt::Split { kind, axis: axis_of(range), by };
    let all = [
        split(RangeKind::Local, rows, items),
        split(RangeKind::Local, columns, width),
        split(RangeKind::Upcast, rows, height.div_ceil(items)),
    ];
    let is_split = |o: &Opt| matches!(o, Opt::Split { by, .. } if *by > 1);
    all.into_iter().filter(is_split).collect()
}
