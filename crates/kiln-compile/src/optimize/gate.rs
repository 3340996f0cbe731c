//! Part of pass `options`: a loop that was rounded up runs past its end. Its loads and stores get a predicate, and an
//! iteration past the end adds the identity to a reduction (0 to a sum).

use kiln_ir::uop::{Srcs, mapped, rebuild, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// The kernel in which everything that moves along `range` is done only if `valid` is true, such as `range < bound`.
/// (The range itself always meets that; the expression that will replace it may not.) The result maps each old node to
/// its new one.
///
/// Accesses for which `gated` is false have room past the end.
pub(super) fn gate(
    ast: &UOp,
    range: &UOp,
    valid: &UOp,
    gated: impl Fn(&UOp) -> bool,
) -> FxHashMap<UOp, UOp> {
    let nodes = toposort(ast);
    let (factors, repeated) = (packed_factors(&nodes, range), repeated_stores(&nodes, range));
    let mut moving: FxHashSet<UOp> = FxHashSet::default();
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in nodes {
        let closes = matches!(node.op(), Op::End | Op::Reduce) && node.srcs()[1..].contains(range);
        if node == *range || !closes && node.srcs().iter().any(|s| moving.contains(s)) {
            moving.insert(node.clone());
        }
        let mut srcs = mapped(&node, &done);
        match node.op() {
            Op::Load | Op::Store if !gated(&node) => {}
            Op::Load if moving.contains(node.src(1)) => add_gate(&mut srcs, 2, valid),
            Op::Store if moving.contains(node.src(1)) || repeated.contains(&node) => {
                add_gate(&mut srcs, 3, valid);
            }
            Op::Reduce if closes && !is_packed(&node) => {
                let op = node.arg().reduce_op().expect("a reduce has an op");
                let identity = srcs[0].const_like(op.identity(node.dtype()));
                if !is_gated(&srcs[0], valid, &identity) {
                    srcs[0] = valid.where_(&srcs[0], &identity);
                }
            }
            _ => {}
        }
        let new = match factors.contains(&node) {
            true => valid.where_(&rebuild(&node, srcs), &node.const_like(0)),
            false => rebuild(&node, srcs),
        };
        done.insert(node, new);
    }
    done
}

/// The stores that the loop over `range` repeats: of several to one element the last counts.
fn repeated_stores(nodes: &[UOp], range: &UOp) -> FxHashSet<UOp> {
    let ends = nodes.iter().filter(|n| n.op() == Op::End && n.srcs()[1..].contains(range));
    ends.map(|end| end.src(0).clone()).filter(|n| n.op() == Op::Store).collect()
}

/// Whether a reduction adds up products of what is packed.
fn is_packed(reduce: &UOp) -> bool {
    reduce.src(0).op() == Op::Dot && reduce.src(0).src(2).is_const(0)
}

/// The factors of packed products that are summed over the range. They, and not the product, are 0 past its end, so
/// that the zeros are staged with them.
fn packed_factors(nodes: &[UOp], range: &UOp) -> FxHashSet<UOp> {
    let over = |n: &&UOp| n.op() == Op::Reduce && n.srcs()[1..].contains(range);
    let sums = nodes.iter().filter(over).filter(|n| is_packed(n));
    sums.flat_map(|n| n.src(0).srcs()[..2].to_vec()).collect()
}

fn add_gate(srcs: &mut Srcs, at: usize, valid: &UOp) {
    match srcs.get(at) {
        Some(gate) if implies(gate, valid) => {}
        Some(gate) => srcs[at] = gate.and(valid),
        None => srcs.push(valid.clone()),
    }
}

/// Whether the terms of a reduction are its identity where this predicate is false.
fn is_gated(term: &UOp, valid: &UOp, identity: &UOp) -> bool {
    term.op() == Op::Where && term.src(2) == identity && implies(term.src(0), valid)
}

/// Whether a predicate says that a loop ends early enough. Example: `i < n` implies `i < 4096` for an `n` of at most 4096, which a
/// launch decides.
fn implies(gate: &UOp, valid: &UOp) -> bool {
    let is_less = |n: &UOp| n.op() == Op::CmpLt;
    let ends =
        |n: &UOp| is_less(n) && n.src(0) == valid.src(0) && n.src(1).max() <= valid.src(1).min();
    is_less(valid) && gate.conjuncts().iter().any(ends)
}
