//! Part of pass `choose`: how far each load and store moves with each iteration of each loop, and what operations cost.

use super::ordered::ordered_among;
use super::ranges::{axis_of, kind_of, ranges_among};
use kiln_ir::affine::strides;
use kiln_ir::arg::RangeKind;
use kiln_ir::rules::simplify;
use kiln_ir::scope::{AxisSet, inside};
use kiln_ir::uop::toposort;
use kiln_ir::{DType, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// A load or a store.
pub(super) struct Access {
    pub(super) is_store: bool,
    /// Elements moved by one step of each loop, by axis; loops that do not move it are left out, loops that move it
    /// unevenly have `None`.
    strides: FxHashMap<u32, Option<i64>>,
    /// Bytes of an element.
    pub(super) bytes: usize,
    /// Axes of the loops around it.
    pub(super) scope: AxisSet,
    /// Axes that its gate depends on.
    pub(super) gate: AxisSet,
}

impl Access {
    /// The step along a loop: `Some(0)` if it does not move.
    pub(super) fn stride(&self, axis: u32) -> Option<i64> {
        self.strides.get(&axis).copied().unwrap_or(Some(0))
    }

    /// Bytes between neighbours along a loop; none if it moves unevenly.
    pub(super) fn step(&self, axis: u32) -> Option<f64> {
        self.stride(axis).map(|stride| stride.unsigned_abs() as f64 * self.bytes as f64)
    }
}

/// The facts about a kernel that the heuristic uses.
pub(super) struct Kernel {
    pub(super) accesses: Vec<Access>,
    /// What is computed, reductions included: the axes of the loops around it, and how many additions it takes.
    pub(super) work: Vec<(AxisSet, f64)>,
    /// Sets of axes that occur together in one expression.
    pub(super) scopes: Vec<AxisSet>,
    /// For each reduction and each store, the axes of the loops around it.
    pub(super) nests: Vec<AxisSet>,
    /// For each arithmetic operation in the kernel's text, the axes of the loops around it.
    pub(super) operations: Vec<AxisSet>,
    /// Its loops, in order of axis.
    pub(super) ranges: Vec<UOp>,
    /// The axes of those that must run in order.
    pub(super) ordered: AxisSet,
    /// How many nodes it has.
    pub(super) nodes: usize,
    /// Bytes of the widest value; 1 if there are indices only.
    pub(super) widest: usize,
}

impl Kernel {
    pub(super) fn of(ast: &UOp) -> Kernel {
        let nodes = toposort(ast);
        let is_access = |n: &&UOp| matches!(n.op(), Op::Load | Op::Store);
        let access = |n: &UOp| Access {
            is_store: n.op() == Op::Store,
            strides: strides(n.src(1)),
            bytes: n.memory().dtype().size(),
            scope: n.scope().clone(),
            gate: n.gate().map(|g| g.scope().clone()).unwrap_or_default(),
        };
        Kernel {
            accesses: nodes.iter().filter(is_access).map(access).collect(),
            nests: nodes
                .iter()
                .filter(|n| matches!(n.op(), Op::Store | Op::Reduce))
                .map(|n| n.scope().clone())
                .collect(),
            operations: nodes
                .iter()
                .filter(|n| n.op().is_alu())
                .map(|n| n.scope().clone())
                .collect(),
            work: nodes.iter().filter_map(work).collect(),
            scopes: distinct(nodes.iter().map(inside)),
            ranges: ranges_among(&nodes),
            ordered: ordered_among(&nodes),
            nodes: nodes.len(),
            widest: nodes.iter().map(width).max().unwrap_or(1),
        }
    }

    /// The axes of loops of reductions.
    pub(super) fn sums(&self) -> AxisSet {
        let sums = self.ranges.iter().filter(|r| kind_of(r) == RangeKind::Reduce);
        sums.map(axis_of).collect()
    }

    /// Whether all loops over outputs are around everything, and the loops of reductions around all of a nest or
    /// nothing.
    pub(super) fn is_one_nest(&self, outputs: &AxisSet, reduces: &AxisSet) -> bool {
        let all_or_none = |nest: &AxisSet| reduces.is_subset(nest) || !reduces.intersects(nest);
        self.nests.iter().all(|nest| outputs.is_subset(nest) && all_or_none(nest))
    }

    /// Whether some expression depends on both loops.
    pub(super) fn together(&self, a: u32, b: u32) -> bool {
        self.scopes.iter().any(|s| s.contains(a) && s.contains(b))
    }
}

/// Bytes of a value; 1 of an index, which is not kept in vectors.
fn width(node: &UOp) -> usize {
    if matches!(node.dtype(), DType::Index | DType::Void) { 1 } else { node.dtype().size() }
}

/// What a node costs, in additions of one element. Indices and conditions are done beside that.
pub(super) fn operations(node: &UOp) -> f64 {
    let is_data = node.op().is_alu() && !matches!(node.dtype(), DType::Index | DType::Bool);
    if is_data { node.op().additions(node.dtype()) } else { 0.0 }
}

/// The axes of the loops around a computation, and its price in additions; none if it is done beside others.
fn work(node: &UOp) -> Option<(AxisSet, f64)> {
    match node.op() {
        Op::Reduce => Some((inside(node), 1.0)),
        _ => {
            Some((node.scope().clone(), operations(node))).filter(|(_, additions)| *additions > 0.0)
        }
    }
}

/// The sets without repetition, in order.
fn distinct(scopes: impl Iterator<Item = AxisSet>) -> Vec<AxisSet> {
    let mut seen = FxHashSet::default();
    scopes.filter(|scope| seen.insert(scope.clone())).collect()
}

/// The strides of the value's memory. If it reads several, of the one that moves along most loops.
pub(super) fn value_strides(value: &UOp) -> FxHashMap<u32, Option<i64>> {
    let loads = toposort(value).into_iter().filter(|n| n.op() == Op::Load);
    let all = loads.map(|l| strides(&simplify(l.src(1))));
    all.max_by_key(|s| s.len()).unwrap_or_default()
}
