//! Part of pass `choose`: items of a group that go along rows together, in every reduction and in loops over what is stored of a
//! row. Neighbouring items then access neighbours, where the items of different rows would be as far apart as rows are.

use super::super::access::Kernel;
use super::super::loops::Loops;
use super::super::opt::Opt;
use super::super::ranges::{axis_of, is_outer, iterations, size_of};
use super::coalescing::Grid;
use super::grid::{Limits, group, items};
use crate::target::Costs;
use kiln_ir::arg::RangeKind;
use kiln_ir::scope::AxisSet;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use std::cmp::Reverse;

/// A kernel whose loops `around` everything are done by groups.
pub(super) struct Rows<'a> {
    pub(super) ast: &'a UOp,
    pub(super) kernel: &'a Kernel,
    pub(super) around: &'a [UOp],
    pub(super) limits: &'a Limits<'a>,
}

impl Rows<'_> {
    /// The options, if there is a row that is long enough.
    pub(super) fn choose(&self) -> Option<Vec<Opt>> {
        let loops = self.inner_loops();
        let by = self.team(size_of(loops.first()?))?;
        let local = |r: &UOp| Opt::Split { kind: RangeKind::Local, axis: axis_of(r), by };
        let rows = self.rows(by);
        let all = rows.iter().copied().chain(loops.iter().map(local));
        let options = legal(self.ast, all.chain(steps(by, self.limits).options()));
        (options.starts_with(&rows) && options.len() > rows.len()).then_some(options)
    }

    /// The loops that items could divide. Those of reductions come first, then those along which neighbours share most lines.
    fn inner_loops(&self) -> Vec<UOp> {
        let costs = self.limits.costs;
        let is_long = |r: &&UOp| !self.around.contains(r) && size_of(r) >= costs.group_least;
        let mut loops: Vec<UOp> = self.kernel.ranges.iter().filter(is_long).cloned().collect();
        loops.sort_by_cached_key(|r| {
            (is_outer(r), self.lines_along(r), Reverse(size_of(r)), axis_of(r))
        });
        loops
    }

    /// The lines that neighbours along a loop take for one step of each access there.
    fn lines_along(&self, range: &UOp) -> usize {
        let line = self.limits.costs.group_line as f64;
        let inside = self.kernel.accesses.iter().filter(|a| a.scope.contains(axis_of(range)));
        let bytes = inside.map(|a| a.step(axis_of(range)).map_or(line, |step| step.min(line)));
        bytes.sum::<f64>() as usize
    }

    /// How many items go along rows of this length: as many as take the fewest steps.
    fn team(&self, length: usize) -> Option<usize> {
        let (least, most) = (self.limits.costs.group_least, self.limits.items());
        let powers = std::iter::successors(Some(least), |by| Some(2 * by));
        let powers = powers.take_while(|by| *by <= most.min(length));
        let fits = powers.filter(|by| self.scratch(*by) <= self.limits.groups.shared_bytes);
        fits.min_by_key(|by| {
            length.div_ceil(*by) + steps(*by, self.limits).price(self.limits.costs)
        })
    }

    /// Bytes of the partial results of so many items, at most: those of a second step are fewer than those of the first.
    fn scratch(&self, items: usize) -> usize {
        2 * items * self.reductions() * self.kernel.widest
    }

    fn reductions(&self) -> usize {
        toposort(self.ast).iter().filter(|n| n.op() == Op::Reduce).count()
    }

    /// All loops around rows as groups. A group has several rows if there are enough of them, or to be as many items as
    /// execute a step at the same time.
    fn rows(&self, by: usize) -> Vec<Opt> {
        let (limits, costs) = (self.limits, self.limits.costs);
        let count = iterations(self.around);
        let is_enough = count.saturating_mul(by) > costs.group_outputs;
        let most = if is_enough { limits.items() } else { costs.group_neighbours };
        let room = most.min(limits.items()) / by;
        let room = room.min(limits.groups.shared_bytes / self.scratch(by).max(1));
        let innermost = self.around.last().filter(|_| room > 1);
        let local = innermost.map(|r| (axis_of(r), items(size_of(r), room, 2)));
        let local = local.filter(|(_, by)| *by > 1);
        let local = local.map(|(axis, by)| Opt::Split { kind: RangeKind::Local, axis, by });
        local.into_iter().chain(self.around.iter().map(group)).collect()
    }

    /// The lines that a kernel takes with these options. A read of scratch counts as one.
    pub(super) fn price(&self, options: &[Opt]) -> f64 {
        let around: AxisSet = self.around.iter().map(axis_of).collect();
        let grid = Grid::of(self.kernel, &around, options, self.limits.costs);
        let sums = self.kernel.sums();
        let team = options.iter().filter_map(|o| match *o {
            Opt::Split { kind: RangeKind::Local, axis, by } if sums.contains(axis) => Some(by),
            _ => None,
        });
        let reads = |by: usize| steps(by, self.limits).price(self.limits.costs) as f64;
        let combined = team.map(|by| grid.steps(&around) * reads(by));
        grid.lines() + combined.sum::<f64>()
    }
}

/// Those of the options that are legal after those before.
fn legal(ast: &UOp, all: impl Iterator<Item = Opt>) -> Vec<Opt> {
    let (mut loops, mut options) = (Loops::of(ast), Vec::new());
    let rules = loops.rules(ast);
    for option in all {
        if rules.check(&loops, &options, option).is_ok() {
            loops.apply(option);
            options.push(option);
        }
    }
    options
}

/// How items combine their partial results.
struct Steps {
    /// Items that exchange them without scratch; 1 for none.
    lanes: usize,
    /// Partial results that are combined first, and those that are left.
    parts: [usize; 2],
}

fn steps(items: usize, limits: &Limits<'_>) -> Steps {
    let lanes = limits.groups.subgroup;
    let lanes = if items.is_multiple_of(lanes) { lanes } else { 1 };
    let all = items / lanes;
    let split = |first: usize| Steps { lanes, parts: [first, all / first] };
    let divisors = (1..=all.isqrt()).filter(|first| all.is_multiple_of(*first)).map(split);
    divisors.min_by_key(|steps| steps.price(limits.costs)).expect("one divides all")
}

impl Steps {
    fn options(&self) -> impl Iterator<Item = Opt> {
        let exchange = (self.lanes > 1).then_some(Opt::Subgroup { lanes: self.lanes });
        let combine = self.parts[0] > 1 && self.parts[1] > 1;
        exchange.into_iter().chain(combine.then_some(Opt::Combine { parts: self.parts[0] }))
    }

    /// What each item reads and exchanges; a barrier counts as several reads.
    fn price(&self, costs: &Costs) -> usize {
        let scratch = self.parts.iter().filter(|parts| **parts > 1);
        self.lanes.ilog2() as usize
            + scratch.map(|parts| parts + costs.group_barrier).sum::<usize>()
    }
}
