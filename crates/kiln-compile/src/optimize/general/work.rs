//! Beside stage `optimize`, for general kernels: what a kernel does, counted before it is optimized.

use super::Skeleton;
use kiln_ir::scope::{AxisSet, inside};
use kiln_ir::uop::toposort;
use kiln_ir::{DType, Op, UOp};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What one launch of a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// How often the innermost loops run, added up.
    pub iterations: u64,
    /// Arithmetic on data.
    pub flops: u64,
    /// Distinct bytes of arguments that are read, plus those that are written.
    pub bytes: u64,
}

impl Skeleton {
    /// What the kernel does.
    pub fn work(&self) -> Work {
        let nodes = toposort(&self.ast);
        let ranges = nodes.iter().filter_map(|n| Some((n.arg().range()?.0, n.src(0).max())));
        let sizes: FxHashMap<u32, u64> = ranges.map(|(axis, n)| (axis, n.max(0) as u64)).collect();
        let trips =
            |axes: &AxisSet| axes.iter().map(|axis| sizes[&axis]).fold(1, u64::saturating_mul);
        let sum = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
        let ends = nodes.iter().filter(|n| matches!(n.op(), Op::Store | Op::Reduce));
        Work {
            iterations: sum(&mut ends.map(|n| trips(&inside(n)))),
            flops: sum(&mut nodes.iter().filter(|n| computes(n)).map(|n| trips(&inside(n)))),
            bytes: bytes(&nodes, trips),
        }
    }
}

/// Whether a node is arithmetic on data: not on indices, and no selection.
fn computes(node: &UOp) -> bool {
    let is_data = |d: DType| d.is_float() || (d.is_int() && d != DType::Index);
    match node.op() {
        Op::Where => false,
        op if op.is_comparison() => is_data(node.src(0).dtype()),
        op => (op.is_alu() || op == Op::Reduce) && is_data(node.dtype()),
    }
}

/// An argument is touched at most once per value of the ranges that its index varies over, and at most in full.
fn bytes(nodes: &[UOp], trips: impl Fn(&AxisSet) -> u64) -> u64 {
    let mut touched: BTreeMap<(usize, bool), (u64, &UOp)> = BTreeMap::new();
    for node in nodes.iter().filter(|n| matches!(n.op(), Op::Load | Op::Store)) {
        let memory = node.memory();
        let Some(slot) = memory.arg().slot() else { continue };
        let entry = touched.entry((slot, node.op() == Op::Store)).or_insert((0, memory));
        entry.0 = entry.0.saturating_add(trips(node.src(1).scope()));
    }
    let size = |(places, memory): &(u64, &UOp)| {
        (*places).min(memory.numel() as u64) * memory.dtype().size() as u64
    };
    touched.values().map(size).fold(0, u64::saturating_add)
}
