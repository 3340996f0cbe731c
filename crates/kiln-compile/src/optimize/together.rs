//! Part of pass `options`: the work-items of a group go along rows together. Of a loop inside of a row each item does the
//! iterations that are as many apart as there are items. So neighbouring items access neighbours in memory.
//!
//! Of a reduction each item has a part then. It stores that in the scratch that the group shares. After a barrier each item
//! combines all parts, in their order, so all items know the result. If there are many parts, they combine some of them first,
//! and after one more barrier what that gave. What is stored once for a row is stored by the first item.
//!
//! Items of a subgroup exchange values without scratch. Each adds to its own value that of the item whose number differs in bit
//! 0, then in bit 1, and so on (a butterfly), until all have the sum. If there are several subgroups, scratch holds one result
//! for each.
//!
//! `sum over r < 1000 of x[r]` by 50 items becomes `scratch[l] = sum over r < 20 of x[50*r + l]`, a barrier, and
//! `sum over k < 50 of scratch[k]`.

use super::ranges::{axis_of, is_items, next_axis, ranges_among, size_of};
use super::share::barrier;
use kiln_ir::arg::{RangeKind, ReduceOp, Space};
use kiln_ir::scope::AxisSet;
use kiln_ir::uop::{Srcs, mapped, rebuild, toposort};
use kiln_ir::{DType, Op, UOp};
use rustc_hash::FxHashMap;

/// The items that go along a row together.
pub(super) struct Team {
    /// Their range.
    pub(super) item: UOp,
    /// How many of them exchange partial results without scratch; 1 for none.
    pub(super) lanes: usize,
    /// How many partial results are combined before all others; 1 for none.
    pub(super) parts: usize,
}

/// The kernel in which no reduction closes the team's range. New scratch memories are numbered from `id`.
pub(super) fn together(ast: &UOp, id: u32, team: &Team) -> UOp {
    let (nodes, item) = (toposort(ast), &team.item);
    let rows = ranges_among(&nodes).into_iter().filter(|r| is_items(r) && r != item).collect();
    let mut scratch = Scratch { rows, id, axis: next_axis(ast) };
    let mut done = FxHashMap::default();
    for node in nodes {
        let srcs = mapped(&node, &done);
        let divides = node.srcs().get(1..).is_some_and(|ranges| ranges.contains(item));
        let new = match node.op() {
            Op::Reduce if divides => team.combined(&node, srcs, &mut scratch),
            Op::End if !divides => by_the_first(&srcs[0], &srcs[1..], item),
            Op::Sink => {
                // a result without a loop around it
                let is_bare = |s: &UOp| s.op() == Op::Store;
                let close = |s: UOp| if is_bare(&s) { by_the_first(&s, &[], item) } else { s };
                rebuild(&node, srcs.into_iter().map(close).collect())
            }
            _ => rebuild(&node, srcs),
        };
        done.insert(node, new);
    }
    done[ast].clone()
}

/// All items have the value that is stored; one stores it.
fn by_the_first(store: &UOp, loops: &[UOp], item: &UOp) -> UOp {
    let first = item.lt(&UOp::index(1));
    let (at, mut srcs) = (store.gate_source(), Srcs::from(store.srcs()));
    match srcs.get(at) {
        Some(gate) => srcs[at] = gate.and(&first),
        None => srcs.push(first),
    }
    rebuild(store, srcs).end(loops.iter().chain([item]).cloned())
}

impl Team {
    /// The result of a reduction over `srcs`, some of whose iterations the items divide.
    fn combined(&self, reduce: &UOp, srcs: Srcs, scratch: &mut Scratch) -> UOp {
        let op = reduce.arg().reduce_op().expect("a reduce has an op");
        let own = srcs[1..].iter().filter(|r| **r != self.item).cloned();
        let part = srcs[0].reduce_ranges(op, own);
        let lanes = if is_exchanged(reduce.dtype()) { self.lanes } else { 1 };
        let masks =
            std::iter::successors(Some(1), |mask| Some(2 * mask)).take_while(|m| *m < lanes);
        let part = masks.fold(part, |x, mask| UOp::binary(op.alu(), &x, &x.shuffle(mask as u16)));
        let (mut value, mut of) = (part, lanes);
        for by in self.steps(size_of(&self.item) / lanes) {
            value = scratch.step(&self.item, (op, &value), of, by);
            of *= by;
        }
        value
    }

    /// How many of so many parts are combined in each step.
    fn steps(&self, parts: usize) -> impl Iterator<Item = usize> {
        [self.parts, parts / self.parts].into_iter().filter(|by| *by > 1)
    }
}

/// The scratch of a group's partial results.
struct Scratch {
    /// The group's other items: each has rows of its own.
    rows: Vec<UOp>,
    /// The numbers of the next memory and the next loop.
    id: u32,
    axis: u32,
}

impl Scratch {
    /// A step: `of` neighbouring items have the same value each, and afterwards `by` times as many.
    fn step(&mut self, item: &UOp, (op, value): (ReduceOp, &UOp), of: usize, by: usize) -> UOp {
        let (count, index) = (size_of(item) / of, |n: usize| UOp::index(n as i64));
        let rows: usize = self.rows.iter().map(size_of).product();
        let row = self.rows.iter().fold(index(0), |at, r| at * size_of(r) as i64 + r);
        let row = row * count as i64;
        let memory = UOp::local(Space::Scratch, self.id, rows * count, value.dtype(), 1);
        let is_first = (of > 1).then(|| item.floormod(&index(of)).lt(&index(1)));
        let at = &row + item.floordiv(&index(of));
        let stored = UOp::store(&memory, &at, value, is_first.as_ref());
        let filled = memory.after([barrier([stored].into_iter())]);
        let each = UOp::range(self.axis, RangeKind::Reduce, by);
        let first = item.floordiv(&index(of * by)) * by as i64;
        (self.id, self.axis) = (self.id + 1, self.axis + 1);
        UOp::load(&filled, &(row + first + &each)).reduce_ranges(op, [each])
    }
}

/// Types that every device with subgroups exchanges: numbers of 32 and 64 bits.
fn is_exchanged(dtype: DType) -> bool {
    dtype.size() >= 4 && dtype != DType::Index
}

/// The axes of loops that all reductions have which are not inside others.
pub(super) fn axes(ast: &UOp) -> Vec<u32> {
    let nodes = toposort(ast);
    let reduces = nodes.iter().filter(|n| n.op() == Op::Reduce);
    let closed: Vec<Vec<u32>> = reduces.map(closed_axes).collect();
    let Some(first) = closed.first() else { return Vec::new() };
    first.iter().copied().filter(|axis| closed.iter().all(|all| all.contains(axis))).collect()
}

fn closed_axes(node: &UOp) -> Vec<u32> {
    node.srcs()[1..].iter().filter(|r| r.op() == Op::Range).map(axis_of).collect()
}

/// For each reduction of a kernel, the axes of the loops around it and of its own.
pub(super) fn reductions(ast: &UOp) -> Vec<[AxisSet; 2]> {
    let nodes = toposort(ast);
    let reduces = nodes.iter().filter(|n| n.op() == Op::Reduce);
    reduces.map(|n| [n.scope().clone(), closed_axes(n).into_iter().collect()]).collect()
}

/// The axes of reductions' loops that items could divide: those of reductions that are inside of nothing but the loops
/// `around` everything.
pub(super) fn divisible(reductions: &[[AxisSet; 2]], around: &AxisSet) -> AxisSet {
    let is_alone = |[scope, _]: &&[AxisSet; 2]| scope.is_subset(around);
    let (alone, inside): (Vec<_>, Vec<_>) = reductions.iter().partition(is_alone);
    let axes = |of: &[&[AxisSet; 2]]| AxisSet::union(of.iter().map(|[_, own]| own));
    let (mut alone, inside) = (axes(&alone), axes(&inside));
    alone.retain(|axis| !inside.contains(axis));
    alone
}
