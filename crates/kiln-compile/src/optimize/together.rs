//! Part of pass `options`: the work-items of a group reduce together. Each reduces the elements that are as many apart as
//! there are items, and stores its result in the scratch that they share. After a barrier each combines all results, in
//! their order, and the first stores what depends on them.
//!
//! Items of a subgroup exchange values without scratch. Each adds to its own value that of the item whose number differs in bit
//! 0, then in bit 1, and so on (a butterfly), until all have the sum. If there are several subgroups, scratch holds one result
//! for each.
//!
//! `sum over r < 1000 of x[r]` by 50 items becomes `scratch[l] = sum over r < 20 of x[50*r + l]`, a barrier, and
//! `sum over k < 50 of scratch[k]`.

use super::ranges::{axis_of, is_items, next_axis, size_of};
use super::share::barrier;
use kiln_ir::arg::{RangeKind, Space};
use kiln_ir::uop::{Srcs, mapped, rebuild, toposort};
use kiln_ir::{DType, Op, UOp};
use rustc_hash::FxHashMap;

/// The kernel in which no reduction closes a range of work-items. Scratch memories are numbered from `id`. Subgroups are of
/// `lanes` items.
pub(super) fn together(ast: &UOp, mut id: u32, lanes: usize) -> UOp {
    let nodes = toposort(ast);
    let items = |n: &UOp| n.srcs()[1..].iter().find(|r| is_items(r)).cloned();
    let reduces = nodes.iter().filter(|n| n.op() == Op::Reduce);
    let Some(item) = reduces.filter_map(items).next() else { return ast.clone() };
    let (mut axis, mut done) = (next_axis(ast), FxHashMap::default());
    for node in nodes {
        let srcs = mapped(&node, &done);
        let new = match node.op() {
            Op::Reduce if node.srcs()[1..].contains(&item) => {
                let new = combined(&node, srcs, &item, lanes, (id, axis));
                (id, axis) = (id + 1, axis + 1);
                new
            }
            Op::Store if node.memory().op() == Op::Param => by_the_first(&node, srcs, &item),
            Op::End => rebuild(&node, srcs.into_iter().chain([item.clone()]).collect()),
            // a result without a loop around it
            Op::Sink => {
                let close = |s: UOp| if s.op() == Op::Store { s.end([item.clone()]) } else { s };
                rebuild(&node, srcs.into_iter().map(close).collect())
            }
            _ => rebuild(&node, srcs),
        };
        done.insert(node, new);
    }
    done[ast].clone()
}

/// The result of a reduction over `srcs`, some of whose iterations the items divide.
fn combined(reduce: &UOp, srcs: Srcs, item: &UOp, lanes: usize, (id, axis): (u32, u32)) -> UOp {
    let op = reduce.arg().reduce_op().expect("a reduce has an op");
    let own = srcs[1..].iter().filter(|r| *r != item).cloned();
    let part = srcs[0].reduce_ranges(op, own);
    let lanes = if is_exchanged(reduce.dtype()) { lanes } else { 1 };
    let masks = std::iter::successors(Some(1), |mask| Some(2 * mask)).take_while(|m| *m < lanes);
    let part = masks.fold(part, |x, mask| UOp::binary(op.alu(), &x, &x.shuffle(mask as u16)));
    let parts = size_of(item) / lanes;
    if parts == 1 {
        return part;
    }
    let memory = UOp::local(Space::Scratch, id, parts, reduce.dtype(), 1);
    let by = UOp::index(lanes as i64);
    let (at, lane) = (item.floordiv(&by), UOp::binary(Op::FloorMod, item, &by));
    let is_first = (lanes > 1).then(|| lane.lt(&UOp::index(1)));
    let stored = UOp::store(&memory, &at, &part, is_first.as_ref());
    let filled = memory.after([barrier([stored].into_iter())]);
    let each = UOp::range(axis, RangeKind::Reduce, parts);
    UOp::load(&filled, &each).reduce_ranges(op, [each])
}

/// Types that every device with subgroups exchanges: numbers of 32 and 64 bits.
fn is_exchanged(dtype: DType) -> bool {
    dtype.size() >= 4 && dtype != DType::Index
}

/// All items have the value that is stored; one stores it.
fn by_the_first(store: &UOp, mut srcs: Srcs, item: &UOp) -> UOp {
    let first = item.lt(&UOp::index(1));
    let at = store.gate_source();
    match srcs.get(at) {
        Some(gate) => srcs[at] = gate.and(&first),
        None => srcs.push(first),
    }
    rebuild(store, srcs)
}

/// The axes of loops in which items could reduce together: those of all reductions that are not inside others.
pub(super) fn axes(ast: &UOp) -> Vec<u32> {
    let nodes = toposort(ast);
    let reduces = nodes.iter().filter(|n| n.op() == Op::Reduce);
    let closed: Vec<Vec<u32>> = reduces
        .map(|n| n.srcs()[1..].iter().filter(|r| r.op() == Op::Range).map(axis_of).collect())
        .collect();
    let Some(first) = closed.first() else { return Vec::new() };
    first.iter().copied().filter(|axis| closed.iter().all(|all| all.contains(axis))).collect()
}
