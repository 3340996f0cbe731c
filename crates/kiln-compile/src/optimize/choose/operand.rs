//! Part of pass `choose`: what a reduction reads, and how it moves along the loops.

use super::super::access::value_strides;
use super::super::cover::{Group, groups};
use super::super::dot;
use kiln_ir::scope::AxisSet;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// A value inside the reduction that may be staged.
pub(super) struct Operand {
    pub(super) strides: FxHashMap<u32, Option<i64>>,
    pub(super) axes: AxisSet,
    pub(super) bytes: f64,
    /// The loops that predicates of its loads depend on, and whether any load has a predicate.
    pub(super) gate: AxisSet,
    pub(super) gated: bool,
    /// How many neighbours in memory are packed into an element.
    pub(super) parts: i64,
    /// Loops along which windows overlap.
    pub(super) windows: Vec<Group>,
    /// What a plan measures of it.
    pub(super) extent: Extent,
}

/// How much an operand reads in the loops of a plan. The prices of all tiles are made of it.
#[derive(Default)]
pub(super) struct Extent {
    /// How many values it takes in all of the loops, and how often each is used.
    pub(super) elements: f64,
    pub(super) uses: f64,
    pub(super) span: f64,
    /// The span without each of the plan's loops.
    pub(super) without: Vec<f64>,
}

impl Operand {
    pub(super) fn of(ast: &UOp, value: &UOp) -> Operand {
        let nodes = toposort(value);
        let loads = nodes.iter().filter(|n| n.op() == Op::Load);
        let gates: Vec<&UOp> = loads.filter_map(|n| n.gate()).collect();
        let mut gate = AxisSet::default();
        gates.iter().for_each(|g| gate.union_with(g.scope()));
        Operand {
            strides: value_strides(value),
            axes: value.scope().clone(),
            bytes: value.dtype().size() as f64,
            gate,
            gated: !gates.is_empty(),
            parts: dot::parts_of(ast, value),
            windows: groups(value),
            extent: Extent::default(),
        }
    }

    pub(super) fn moves(&self, axis: u32) -> bool {
        self.axes.contains(axis)
    }

    pub(super) fn stride(&self, axis: u32) -> Option<i64> {
        self.strides.get(&axis).copied().unwrap_or(Some(0))
    }

    /// Bytes between neighbours along an axis. An unknown stride counts as small: a reason to stage must be known.
    pub(super) fn step(&self, axis: u32) -> f64 {
        let parts = self.stride(axis).map_or(1, i64::unsigned_abs) as f64;
        parts * self.bytes / self.parts as f64
    }
}
