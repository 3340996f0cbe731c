//! What is read inside a reduction, and how it moves along the loops.

use super::super::dot;
use super::super::ranges::axis_of;
use super::super::stage::value_strides;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// A value inside the reduction that may be staged.
pub(super) struct Operand {
    pub(super) strides: FxHashMap<u32, Option<i64>>,
    pub(super) axes: FxHashSet<u32>,
    pub(super) bytes: f64,
    /// The loops that gates of its loads depend on; some are gated.
    pub(super) gate: FxHashSet<u32>,
    pub(super) gated: bool,
    /// How many neighbours in memory are packed into an element.
    pub(super) parts: i64,
}

impl Operand {
    pub(super) fn of(ast: &UOp, value: &UOp) -> Operand {
        let nodes = toposort(value);
        let loads = nodes.iter().filter(|n| n.op() == Op::Load);
        let gates: Vec<&UOp> = loads.filter_map(|n| n.gate()).collect();
        let within = |gate: &&UOp| toposort(gate).into_iter().filter(|n| n.op() == Op::Range);
        Operand {
            strides: value_strides(value),
            axes: nodes.iter().filter(|n| n.op() == Op::Range).map(axis_of).collect(),
            bytes: value.dtype().size() as f64,
            gate: gates.iter().flat_map(within).map(|r| axis_of(&r)).collect(),
            gated: !gates.is_empty(),
            parts: dot::parts_of(ast, value),
        }
    }

    pub(super) fn moves(&self, axis: u32) -> bool {
        self.axes.contains(&axis)
    }

    pub(super) fn stride(&self, axis: u32) -> Option<i64> {
        self.strides.get(&axis).copied().unwrap_or(Some(0))
    }

    /// Bytes between neighbours along an axis. Where that is not known, few: a reason to stage must be known.
    pub(super) fn step(&self, axis: u32) -> f64 {
        let parts = self.stride(axis).map_or(1, i64::unsigned_abs) as f64;
        parts * self.bytes / self.parts as f64
    }
}
