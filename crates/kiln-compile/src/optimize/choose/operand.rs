//! Part of pass `choose`: what a reduction reads, and how it moves along the loops.

use super::super::access::value_strides;
use super::super::cover::{Group, groups};
use super::super::dot;
use super::super::forms::is_end_of_loop;
use super::super::ranges::axis_of;
use super::super::size::strides;
use kiln_ir::affine::Affine;
use kiln_ir::scope::AxisSet;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// A value inside the reduction that may be staged.
pub(super) struct Operand {
    pub(super) strides: FxHashMap<u32, Option<i64>>,
    /// The largest strides along axes where a launch decides them.
    decided: FxHashMap<u32, i64>,
    pub(super) axes: AxisSet,
    pub(super) bytes: f64,
    /// The loops of its loads' predicates, and whether there are any. A predicate that only ends a loop does not count: it is like
    /// the padding of a loop of known length.
    pub(super) gate: AxisSet,
    pub(super) gated: bool,
    /// Whether any load has a predicate, also one that only ends a loop.
    pub(super) predicated: bool,
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
        let gates = loads.filter_map(|n| n.gate()).flat_map(UOp::conjuncts);
        let (ends, gates): (Vec<UOp>, Vec<UOp>) = gates.partition(is_end_of_loop);
        let mut gate = AxisSet::default();
        gates.iter().for_each(|g| gate.union_with(g.scope()));
        Operand {
            strides: value_strides(value),
            decided: decided_strides(&nodes),
            axes: value.scope().clone(),
            bytes: value.dtype().size() as f64,
            gate,
            gated: !gates.is_empty(),
            predicated: !ends.is_empty() || !gates.is_empty(),
            parts: dot::parts_of(ast, value),
            windows: groups(ast, value),
            extent: Extent::default(),
        }
    }

    /// Whether a launch decides how far apart neighbours along an axis are. Then the address of each has to be computed.
    pub(super) fn is_decided(&self, axis: u32) -> bool {
        self.stride(axis).is_none() && self.decided.contains_key(&axis)
    }

    pub(super) fn moves(&self, axis: u32) -> bool {
        self.axes.contains(axis)
    }

    pub(super) fn stride(&self, axis: u32) -> Option<i64> {
        self.strides.get(&axis).copied().unwrap_or(Some(0))
    }

    /// Bytes between neighbours along an axis. One that a launch decides counts as its largest, as the lengths of loops do. Any
    /// other that is unknown counts as small: a reason to stage must be known.
    pub(super) fn step(&self, axis: u32) -> f64 {
        let decided = || self.decided.get(&axis).copied().unwrap_or(1);
        let parts = self.stride(axis).unwrap_or_else(decided).unsigned_abs() as f64;
        parts * self.bytes / self.parts as f64
    }
}

/// The largest strides of what is loaded, by axis, where launch-time scalars are factors of them: 1024 along `i` in `i * n` for
/// `n` up to 1024.
fn decided_strides(nodes: &[UOp]) -> FxHashMap<u32, i64> {
    let loads = nodes.iter().filter(|n| n.op() == Op::Load);
    let terms = loads.filter_map(|n| Affine::of(n.src(1))).flat_map(|sum| sum.terms);
    let strides = terms.filter_map(|(term, factor)| strides(&term, factor)).flatten();
    let mut largest = FxHashMap::default();
    for (range, stride) in strides.filter(|(_, stride)| !stride.factors.is_empty()) {
        let most = largest.entry(axis_of(&range)).or_insert(0);
        *most = stride.most().unwrap_or(i64::MAX).max(*most);
    }
    largest
}
