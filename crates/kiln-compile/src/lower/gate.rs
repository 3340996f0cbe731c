//! Pass `gate` of stage `lower`: simplifies predicates. Post-condition: no access has a constant predicate, a predicate
//! that is the same in every lane is a scalar, and no value is masked that a predicated load has masked already.

use super::fold;
use kiln_ir::uop::{Srcs, reaches, rebuild, remade};
use kiln_ir::{Const, Op, UOp};

/// Simplifies the gates of the kernel.
pub(super) fn simplify_gates(kernel: &UOp) -> UOp {
    let is_concerned = |node: &UOp| match node.op() {
        Op::Load | Op::Store => node.gate().is_some(),
        op => op == Op::Where,
    };
    if !reaches(kernel, |_| true, is_concerned) {
        return kernel.clone();
    }
    remade(kernel, |node, srcs| match node.op() {
        Op::Load => load(node, srcs),
        Op::Store => store(node, srcs),
        Op::Where => masked(&srcs).unwrap_or_else(|| rebuild(node, srcs)),
        _ => rebuild(node, srcs),
    })
}

fn load(node: &UOp, mut srcs: Srcs) -> UOp {
    let at = node.gate_source();
    if let Some(gate) = srcs.get(at).map(scalar_gate) {
        match gate.as_const() {
            Some(Const::Bool(false)) => return node.const_like(0),
            Some(_) => srcs.truncate(at),
            None => srcs[at] = gate,
        }
    }
    rebuild(node, srcs)
}

fn store(node: &UOp, mut srcs: Srcs) -> UOp {
    let at = node.gate_source();
    if let Some(gate) = srcs.get(at).map(scalar_gate) {
        match gate.as_const() {
            Some(Const::Bool(false)) => return fold::group(Vec::new()),
            Some(_) => srcs.truncate(at),
            None => match only_lane(&gate) {
                Some(lane) => return one_of(&srcs, lane),
                None => srcs[at] = gate,
            },
        }
    }
    rebuild(node, srcs)
}

/// The one lane in which a gate that nothing varies is true. LLVM 22 (AVX-512) stores 32 bits of such a lane where its
/// value was truncated to fewer, over its neighbours, so that it must not see one.
fn only_lane(gate: &UOp) -> Option<u16> {
    let varies = |n: &UOp| matches!(n.op(), Op::Range | Op::Load | Op::Var);
    if gate.lanes() == 1 || reaches(gate, |_| true, varies) {
        return None;
    }
    let is_on = |&i: &u16| {
        let lane = kiln_ir::rules::simplify(&fold::scalar_lane(gate, i));
        lane.as_const() != Some(Const::Bool(false))
    };
    let mut on = (0..gate.lanes()).filter(is_on);
    on.next().filter(|_| on.next().is_none())
}

/// The store of one lane of a vector; its gate is true.
fn one_of(srcs: &[UOp], lane: u16) -> UOp {
    let place = fold::add_constant(&srcs[1], lane as i64);
    UOp::store(&srcs[0], &place, &srcs[2].lane(lane), None)
}

/// The scalar of a condition that is the same in every lane.
fn scalar_gate(gate: &UOp) -> UOp {
    if gate.op() == Op::Splat { gate.src(0).clone() } else { gate.clone() }
}

/// `where(g, load(.., h), 0)` is the load alone where `h` implies `g`: a gated load is 0 where its gate is false.
fn masked(srcs: &[UOp]) -> Option<UOp> {
    let (mask, load, zero) = (&srcs[0], &srcs[1], scalar_gate(&srcs[2]));
    if !zero.is_const(0) || load.op() != Op::Load {
        return None;
    }
    let known = scalar_gate(load.gate()?).conjuncts();
    scalar_gate(mask).conjuncts().iter().all(|g| known.contains(g)).then(|| load.clone())
}
