//! Part of pass `trim`: the loops of a kernel, and the nodes that end them.

use super::super::ranges::{axis_of, ranges_among};
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};

/// The loops of a kernel, and what ends them.
pub(super) struct Ends {
    /// Outermost first.
    pub(super) ranges: Vec<UOp>,
    /// In the order in which they run.
    closers: Vec<UOp>,
    /// The number of a new loop.
    pub(super) next_axis: u32,
}

impl Ends {
    pub(super) fn of(ast: &UOp) -> Ends {
        let mut nodes = toposort(ast);
        let ranges = ranges_among(&nodes);
        let next_axis = ranges.last().map_or(0, |r| axis_of(r) + 1);
        nodes.retain(|n| matches!(n.op(), Op::Reduce | Op::End));
        Ends { ranges, closers: nodes, next_axis }
    }

    /// The loops in the order of their ends, the last one first: readers of scratch before its writers, outer loops before inner ones.
    pub(super) fn last_first(&self) -> Vec<UOp> {
        let end = |range: &UOp| self.closers.iter().rposition(|c| c.srcs()[1..].contains(range));
        let mut ranges: Vec<(Option<usize>, UOp)> =
            self.ranges.iter().map(|range| (end(range), range.clone())).collect();
        // stable: loops that end together stay outermost first
        ranges.sort_by_key(|(end, _)| std::cmp::Reverse(*end));
        ranges.into_iter().map(|(_, range)| range).collect()
    }

    /// The nodes that end the loop of `range`.
    pub(super) fn of_loop(&self, range: &UOp) -> Vec<UOp> {
        let closes = |n: &&UOp| n.srcs()[1..].contains(range);
        self.closers.iter().filter(closes).cloned().collect()
    }
}
