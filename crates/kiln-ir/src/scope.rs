//! The scope of a node: the loops of a kernel that it is inside of. Every question about loops starts from here.

pub use crate::axis_set::AxisSet;
pub use crate::uop::{closed_ranges, inside};

use crate::op::Op;
use crate::uop::{UOp, axis_of, toposort_all};
use std::collections::BTreeMap;

/// The ranges among some nodes, by the number of their axis.
#[derive(Default)]
pub struct Ranges(BTreeMap<u32, UOp>);

impl Ranges {
    /// The ranges among `nodes`.
    pub fn among(nodes: &[UOp]) -> Ranges {
        let ranges = nodes.iter().filter(|n| n.op() == Op::Range);
        Ranges(ranges.map(|r| (axis_of(r), r.clone())).collect())
    }

    /// The ranges that `value` varies over.
    pub fn around(value: &UOp) -> Ranges {
        let nodes = toposort_all(std::slice::from_ref(value), |n| !n.scope().is_empty());
        Ranges::among(&nodes)
    }

    /// The ranges of these axes, in order of axis.
    pub fn of<'a>(&'a self, axes: &'a AxisSet) -> impl Iterator<Item = &'a UOp> {
        axes.iter().map(|axis| &self.0[&axis])
    }
}
