//! Part of pass `choose`: how many lines of memory a kernel accesses with given options, if neighbouring items share them. This
//! only compares options; INTERP counts what a kernel really does.

use super::super::access::{Access, Kernel};
use super::super::opt::Opt;
use super::super::ranges::{axis_of, size_of};
use crate::target::Costs;
use kiln_ir::arg::RangeKind;
use kiln_ir::scope::AxisSet;
use rustc_hash::FxHashSet;

/// Some of a group's items: from one to the next, each of these loops goes on by one iteration.
struct Spread {
    axes: AxisSet,
    items: usize,
}

/// Which loops the items of a group go along, and which loops are around everything.
pub(super) struct Grid<'a> {
    kernel: &'a Kernel,
    around: &'a AxisSet,
    options: &'a [Opt],
    costs: &'a Costs,
    /// Neighbours are along the last.
    spreads: Vec<Spread>,
}

impl Grid<'_> {
    pub(super) fn of<'a>(
        kernel: &'a Kernel,
        around: &'a AxisSet,
        options: &'a [Opt],
        costs: &'a Costs,
    ) -> Grid<'a> {
        let (mut apart, team): (Vec<_>, Vec<_>) =
            locals(options).partition(|(axis, _)| around.contains(*axis));
        apart.sort_unstable();
        let one = |(axis, items)| Spread { axes: [axis].into_iter().collect(), items };
        let mut spreads: Vec<Spread> = apart.into_iter().map(one).collect();
        if let Some(&(_, items)) = team.first() {
            let axes = team.iter().map(|(axis, _)| *axis).collect();
            spreads.push(Spread { axes, items });
        }
        Grid { kernel, around, options, costs, spreads }
    }

    /// The lines that all accesses of the kernel take.
    pub(super) fn lines(&self) -> f64 {
        let lines = |a: &Access| self.steps(&a.scope) * self.touched(a) as f64;
        self.kernel.accesses.iter().map(lines).sum()
    }

    /// How often neighbours execute what is inside of these loops.
    pub(super) fn steps(&self, scope: &AxisSet) -> f64 {
        let times = |axis: u32, size: usize| match scope.contains(axis) {
            true => size as f64,
            // all items do it, and once for a tile
            false if self.around.contains(axis) => (size / self.tile(axis)) as f64,
            false => 1.0,
        };
        let loops = self.kernel.ranges.iter().map(|r| times(axis_of(r), size_of(r)));
        let again = self.spreads.iter().filter(|s| !s.axes.intersects(&self.around_and(scope)));
        let again = again.map(|s| s.items as f64);
        loops.chain(again).product::<f64>() / self.neighbours() as f64
    }

    fn around_and(&self, scope: &AxisSet) -> AxisSet {
        AxisSet::union([self.around, scope].into_iter())
    }

    fn tile(&self, axis: u32) -> usize {
        let by = |o: &Opt| match *o {
            Opt::Split { kind: RangeKind::Upcast, axis: a, by } if a == axis => Some(by),
            _ => None,
        };
        self.options.iter().find_map(by).unwrap_or(1)
    }

    /// Items that execute a step at the same time.
    fn neighbours(&self) -> usize {
        let items: usize = self.spreads.iter().map(|s| s.items).product();
        items.min(self.costs.group_neighbours)
    }

    /// The lines of one step.
    fn touched(&self, access: &Access) -> usize {
        let line = self.costs.group_line as i64;
        let places = (0..self.neighbours()).map(|item| self.place(access, item).div_euclid(line));
        places.collect::<FxHashSet<i64>>().len()
    }

    /// How many bytes after the first item's element this item's element begins.
    fn place(&self, access: &Access, item: usize) -> i64 {
        let (mut left, mut place) = (item, 0);
        for spread in self.spreads.iter().rev() {
            let at = (left % spread.items) as i64;
            left /= spread.items;
            place += at * self.step(access, spread);
        }
        place
    }

    /// Bytes from an element of one item to that of the next. Elements that are apart unevenly are in different lines.
    fn step(&self, access: &Access, spread: &Spread) -> i64 {
        let Some(axis) = spread.axes.iter().find(|axis| access.scope.contains(*axis)) else {
            return 0;
        };
        let stride = access.stride(axis);
        stride.map_or(self.costs.group_line as i64, |stride| stride * access.bytes as i64)
    }
}

/// The loops that items go along, and how many items.
fn locals(options: &[Opt]) -> impl Iterator<Item = (u32, usize)> {
    options.iter().filter_map(|o| match *o {
        Opt::Split { kind: RangeKind::Local, axis, by } => Some((axis, by)),
        _ => None,
    })
}
