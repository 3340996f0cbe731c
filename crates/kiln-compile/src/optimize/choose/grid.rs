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
