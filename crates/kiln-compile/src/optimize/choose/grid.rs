//! Part of pass `choose`: what a device with groups allows, and the option that makes groups.

use super::super::opt::Opt;
use super::super::ranges::axis_of;
use crate::target::{Costs, Groups};
use kiln_ir::UOp;
use kiln_ir::arg::RangeKind;

/// What a device allows, and what things cost there.
pub(super) struct Limits<'a> {
    pub(super) groups: Groups,
    pub(super) costs: &'a Costs,
}

impl Limits<'_> {
    /// Items of a group, at most.
    pub(super) fn items(&self) -> usize {
        self.groups.most_items.min(self.costs.group_items)
    }
}

/// What is left of a loop are groups.
pub(super) fn group(range: &UOp) -> Opt {
    Opt::Split { kind: RangeKind::Global, axis: axis_of(range), by: 1 }
}

/// How many iterations of a loop a group's items do: all, if there is room, or the largest power of two that divides them,
/// if that is at least `least`, or one that does not.
pub(super) fn items(size: usize, room: usize, least: usize) -> usize {
    if size <= room {
        return size;
    }
    let most = 1 << room.max(1).ilog2();
    let powers = std::iter::successors(Some(most), |by| Some(by / 2)).take_while(|by| *by >= least);
    powers.into_iter().find(|by| size.is_multiple_of(*by)).unwrap_or(most)
}
