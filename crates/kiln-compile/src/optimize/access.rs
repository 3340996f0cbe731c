//! Part of pass `choose`: how far each load and store moves with each iteration of each loop, and what operations cost.

use super::ordered::ordered_among;
use super::ranges::{axis_of, kind_of, ranges_among, size_of};
use super::size::is_fixed;
use kiln_ir::affine::{Affine, strides};
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

/// A remainder that decides a condition: `(2 * i + j) % 3` has the terms 2 of `i` and 1 of `j`.
pub(super) struct Remainder {
    /// Axes, each with its factor.
    pub(super) terms: Vec<(u32, i64)>,
    /// What is divided by.
    pub(super) by: u64,
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
    /// The remainders of loops that decide conditions.
    pub(super) remainders: Vec<Remainder>,
    /// By axis, the loops that end where a launch says.
    decided: FxHashMap<u32, Trips>,
    /// The axes of those that must run in order.
    pub(super) ordered: AxisSet,
    /// How many nodes it has.
    pub(super) nodes: usize,
    /// Bytes of the widest value, as it is computed with; 1 if there are indices only.
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
            remainders: nodes.iter().filter_map(remainder).collect(),
            decided: nodes.iter().filter_map(decided).collect(),
            ordered: ordered_among(&nodes),
            nodes: nodes.len(),
            widest: nodes.iter().map(width).max().unwrap_or(1),
        }
    }

    /// How many iterations a loop has in a launch that is at a part of the way from the shortest to the longest.
    pub(super) fn trips(&self, range: &UOp, part: f64) -> usize {
        self.trips_of(range).at(part)
    }

    /// Whether a launch decides where some loop ends.
    pub(super) fn has_lengths(&self) -> bool {
        !self.decided.is_empty()
    }

    fn trips_of(&self, range: &UOp) -> Trips {
        let n = size_of(range);
        self.decided.get(&axis_of(range)).copied().unwrap_or(Trips { least: n, most: n })
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

    /// Whether one loop goes along the rows of all memory: neighbours are loaded and stored side by side.
    pub(super) fn is_of_rows(&self) -> bool {
        let goes_along = |axis| self.accesses.iter().all(|a| matches!(a.stride(axis), Some(0 | 1)));
        self.ranges.iter().map(axis_of).any(goes_along)
    }

    /// Whether some expression depends on both loops.
    pub(super) fn together(&self, a: u32, b: u32) -> bool {
        self.scopes.iter().any(|s| s.contains(a) && s.contains(b))
    }
}

/// How many iterations a loop may have.
///
/// A general kernel is for 2 rows as for 1024. It is planned for the geometric mean of both, 45: then it is at neither end a
/// larger factor off than at the other.
#[derive(Clone, Copy)]
struct Trips {
    least: usize,
    most: usize,
}

impl Trips {
    /// The number at a part of the way from the least to the most, on a logarithmic scale.
    fn at(&self, part: f64) -> usize {
        let [least, most] = [self.least, self.most].map(|n| n as f64);
        (least.powf(1.0 - part) * most.powf(part)).round() as usize
    }
}

/// Of a predicate that ends a loop where a launch says, the loop and how many iterations it may have.
fn decided(less: &UOp) -> Option<(u32, Trips)> {
    let [range, end] = Some(less).filter(|n| n.op() == Op::CmpLt)?.srcs() else { return None };
    if range.op() != Op::Range || !is_fixed(end) || end.as_int().is_some() {
        return None;
    }
    let most = end.max().clamp(1, size_of(range) as i64);
    let least = end.min().clamp(1, most);
    Some((axis_of(range), Trips { least: least as usize, most: most as usize }))
}

/// The remainder that a comparison is about, if it is one of loops alone.
fn remainder(comparison: &UOp) -> Option<Remainder> {
    let compared = Some(comparison).filter(|n| n.op().is_comparison())?.src(0);
    let [sum, by] = Some(compared).filter(|n| n.op() == Op::FloorMod)?.srcs() else { return None };
    let by = by.as_int()?.unsigned_abs();
    let sum = Affine::of(sum).filter(Affine::is_of_loops)?;
    Some(Remainder { terms: sum.terms.iter().map(|(r, k)| (axis_of(r), *k)).collect(), by })
}

/// Bytes of a value; 1 of an index, which is not kept in vectors. Narrow floats are computed with as wide ones.
fn width(node: &UOp) -> usize {
    match node.dtype() {
        DType::Index | DType::Void => 1,
        dtype if dtype.is_float() => dtype.size().max(DType::F32.size()),
        dtype => dtype.size(),
    }
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
