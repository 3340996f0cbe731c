//! Which loops a node is inside of, and how the loops of a kernel nest. Several passes of stage `lower` share it.
//!
//! Every range is one loop, so two ranges in one scope (`kiln_ir::scope`) lie on one path of the loop tree.

use kiln_ir::arg::RangeKind;
use kiln_ir::scope::{AxisSet, inside};
use kiln_ir::uop::{axis_of, trip_count};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Numbers of ranges, ascending: outermost first.
pub(super) type Scope = SmallVec<[u32; 6]>;

/// The loop tree of a kernel. Ranges are numbered from the outside in.
pub(super) struct Nest {
    ranges: Vec<UOp>,
    /// The numbers of a set of axes.
    scopes: FxHashMap<AxisSet, Scope>,
    parents: Vec<Option<u32>>,
}

impl Nest {
    /// The loop tree of the nodes, which come sources first.
    pub(super) fn new(topo: &[UOp]) -> Nest {
        let mut ranges: Vec<UOp> = topo.iter().filter(|n| n.op() == Op::Range).cloned().collect();
        ranges.sort_by_key(outer_first);
        let scopes = numbered(topo, &ranges);
        let parents = parents(scopes.values(), ranges.len());
        Nest { ranges, scopes, parents }
    }

    /// The range with this number.
    pub(super) fn range(&self, number: u32) -> &UOp {
        &self.ranges[number as usize]
    }

    /// How many ranges there are.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The ranges that the node varies over.
    pub(super) fn scope(&self, node: &UOp) -> &Scope {
        &self.scopes[node.scope()]
    }

    /// The innermost loop that the node sits in.
    pub(super) fn block(&self, node: &UOp) -> Option<u32> {
        self.scope(node).last().copied()
    }

    /// The loop around this loop.
    pub(super) fn parent(&self, number: u32) -> Option<u32> {
        self.parents[number as usize]
    }

    /// The loop and all loops around it, innermost first.
    pub(super) fn path(&self, block: Option<u32>) -> impl Iterator<Item = u32> {
        std::iter::successors(block, |&b| self.parent(b))
    }

    /// How often a statement of this block runs. A bound that is given at launch counts as its largest value.
    pub(super) fn trips(&self, block: Option<u32>) -> u64 {
        self.path(block).map(|r| trip_count(self.range(r))).fold(1, u64::saturating_mul)
    }
}

/// Ranges that the launch divides come first, then a smaller axis is further out.
fn outer_first(range: &UOp) -> (bool, u32, u128) {
    let (axis, kind) = range.arg().range().expect("a range");
    let launched = matches!(kind, RangeKind::Global | RangeKind::Thread | RangeKind::Local);
    (!launched, axis, range.hash())
}

/// The sets of axes that occur, as numbers of ranges. A reduce runs in all of its ranges, even in those that its value
/// does not vary over.
fn numbered(topo: &[UOp], ranges: &[UOp]) -> FxHashMap<AxisSet, Scope> {
    let numbers: FxHashMap<u32, u32> = ranges.iter().map(axis_of).zip(0..).collect();
    let in_order = |axes: &AxisSet| {
        let mut scope: Scope = axes.iter().map(|axis| numbers[&axis]).collect();
        scope.sort_unstable();
        scope
    };
    let mut scopes = FxHashMap::default();
    let mut add = |axes: &AxisSet| {
        if !scopes.contains_key(axes) {
            scopes.insert(axes.clone(), in_order(axes));
        }
    };
    // neighbours often have one scope
    for run in topo.chunk_by(|a, b| a.scope() == b.scope()) {
        add(run[0].scope());
    }
    topo.iter().filter(|n| n.op() == Op::Reduce).for_each(|n| add(&inside(n)));
    scopes
}

/// Each range's parent is the innermost of the ranges that it meets further out; the others that it meets must then
/// lie around that parent.
fn parents<'a>(scopes: impl Iterator<Item = &'a Scope>, ranges: usize) -> Vec<Option<u32>> {
    let mut outer: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); ranges];
    for pair in scopes.flat_map(|scope| scope.windows(2)) {
        outer[pair[1] as usize].insert(pair[0]);
    }
    let mut parents = vec![None; ranges];
    for r in (0..outer.len()).rev() {
        let mut around = std::mem::take(&mut outer[r]);
        parents[r] = around.pop_last();
        if let Some(parent) = parents[r] {
            outer[parent as usize].append(&mut around);
        }
    }
    parents
}
