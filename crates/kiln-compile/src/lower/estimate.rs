//! Pass `estimate` of stage `lower`: counts the arithmetic operations and the distinct bytes of one launch. Both are
//! upper bounds if a predicate or a launch-time bound leaves something out.

use super::nest::Nest;
use kiln_ir::arg::Space;
use kiln_ir::uop::{toposort, trip_count};
use kiln_ir::{DType, Op, UOp};
use std::collections::BTreeMap;

/// Costs of one launch.
#[derive(Default)]
pub(super) struct Estimate {
    /// Arithmetic on data, index arithmetic and selection left out; a multiply-add is two.
    pub(super) flops: u64,
    /// Distinct bytes of arguments read plus distinct bytes written.
    pub(super) bytes: u64,
    /// Bytes that loads and stores of arguments and scratch move, each time that one runs.
    pub(super) accessed: u64,
}

/// Estimates a kernel whose reduces are loops and whose indices have dtype index still.
pub(super) fn estimate(kernel: &UOp) -> Estimate {
    let topo = toposort(kernel);
    let nest = Nest::new(&topo);
    let trips = |n: &UOp| nest.trips(nest.block(n));
    // of most nodes there is nothing to count
    let total = |each: fn(&UOp) -> u64| {
        let counted = topo.iter().map(|n| (n, each(n))).filter(|(_, count)| *count > 0);
        counted.map(|(n, count)| count.saturating_mul(trips(n))).fold(0, u64::saturating_add)
    };
    let flops = total(|n| operations(n).saturating_mul(n.lanes() as u64));
    let accessed = total(moved);
    Estimate { flops, bytes: bytes(&topo, &nest), accessed }
}

/// The bytes that a load or store moves once; none if they stay in registers.
fn moved(node: &UOp) -> u64 {
    let value = match node.op() {
        Op::Load => node,
        Op::Store => node.src(2),
        _ => return 0,
    };
    let memory = node.memory();
    let is_scratch = matches!(memory.arg().memory(), Some((Space::Scratch, ..)));
    let is_memory = memory.arg().slot().is_some() || is_scratch;
    if is_memory { value.lanes() as u64 * value.dtype().size() as u64 } else { 0 }
}

fn operations(node: &UOp) -> u64 {
    let is_data = |d: DType| d.is_float() || (d.is_int() && d != DType::Index);
    match node.op() {
        Op::Where => 0,
        Op::MulAdd => 2,
        Op::Dot => node.arg().parts().map_or(0, |[part, _]| 64 / part.bits() as u64),
        Op::Mma => {
            let dot = node.arg().parts().map_or(0, |[part, _]| 64 / part.bits() as u64);
            node.arg().mma().map_or(0, |[_, depth, _]| dot * depth as u64)
        }
        op if op.is_comparison() => is_data(node.src(0).dtype()) as u64,
        op if op.is_alu() => is_data(node.dtype()) as u64,
        _ => 0,
    }
}

/// An argument is touched at most once per value of the ranges that its index varies over, and at most in full.
fn bytes(topo: &[UOp], nest: &Nest) -> u64 {
    let mut touched: BTreeMap<(usize, bool), (u64, &UOp)> = BTreeMap::new();
    for node in topo {
        let lanes = match node.op() {
            Op::Load => node.lanes(),
            Op::Store => node.src(2).lanes(),
            _ => continue,
        };
        let memory = node.memory();
        let Some(slot) = memory.arg().slot() else { continue };
        let places = nest.scope(node.src(1)).iter().map(|&r| trip_count(nest.range(r)));
        let places = places.fold(lanes as u64, u64::saturating_mul);
        let entry = touched.entry((slot, node.op() == Op::Store)).or_insert((0, memory));
        entry.0 = entry.0.saturating_add(places);
    }
    let size = |(places, memory): &(u64, &UOp)| {
        (*places).min(memory.numel() as u64).saturating_mul(memory.dtype().size() as u64)
    };
    touched.values().map(size).fold(0, u64::saturating_add)
}
