//! The result of stage `schedule`: kernels in order, and the memory that they are called with.

use super::choices::Reason;
use kiln_ir::uop::toposort;
use kiln_ir::{Arg, DType, Op, UOp};
use std::ops::Range;

/// What a kernel reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum BufferRef {
    /// The closed graph's `Param` of this slot.
    Param(usize),
    /// The memory of the schedule's root of this number.
    Output(usize),
    /// The schedule's temporary of this number, in the arena.
    Temp(usize),
}

/// One kernel and the memory it is called with.
#[derive(Clone, Debug)]
pub struct ScheduledKernel {
    /// The kernel (spec `KERNEL`), not yet optimized.
    pub ast: UOp,
    /// What each of its `Param` slots stands for. Outputs come first.
    pub args: Vec<BufferRef>,
    /// Which of the closed graph's launch-time scalars each of the kernel's `Var` slots stands for.
    pub vars: Vec<usize>,
    /// Pairs of slots `(written, read)` that may be the same memory: within each iteration the reads come first and
    /// stay inside what that iteration writes.
    pub may_alias: Vec<(usize, usize)>,
    /// What the memory of its first argument must hold before it runs, as the kernel changes only parts of it. It may
    /// be the same memory.
    pub starts_from: Option<BufferRef>,
    /// The tensor methods whose nodes the kernel computes.
    pub origins: Vec<&'static str>,
}

impl ScheduledKernel {
    /// The bytes of each of its arguments. One that the kernel does not touch has none.
    pub fn argument_bytes(&self) -> Vec<usize> {
        let mut bytes = vec![0; self.args.len()];
        for node in toposort(&self.ast) {
            if let Arg::Param { slot, .. } = *node.arg() {
                bytes[slot] = node.numel() * node.dtype().size();
            }
        }
        bytes
    }

    /// If it changes parts of its first argument: the bytes of it from the first to the last that it stores.
    pub fn stored_bytes(&self) -> Range<usize> {
        let is_first = |node: &UOp| matches!(node.arg(), Arg::Param { slot: 0, .. });
        let mut all = 0..0;
        if self.starts_from.is_none() {
            return all;
        }
        for store in toposort(&self.ast).iter().filter(|n| n.op() == Op::Store) {
            let (param, index) = (store.memory(), store.src(1));
            if is_first(param) {
                let (size, len) = (param.dtype().size(), param.numel() as i64);
                let [start, end] = [index.min(), index.max().saturating_add(1)];
                let [start, end] = [start, end].map(|at| at.clamp(0, len) as usize * size);
                let is_empty = all.is_empty();
                all = if is_empty { start..end } else { all.start.min(start)..all.end.max(end) };
            }
        }
        all
    }
}

/// A temporary's place in the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Temp {
    /// Byte offset in the arena.
    pub offset: usize,
    /// The element type.
    pub dtype: DType,
    /// Length in elements.
    pub len: usize,
    /// The hash of the value's node.
    pub value: u128,
    /// The first and the last kernel that need it.
    pub used: (usize, usize),
}

/// The kernels of a closed graph, in an order in which they can run.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// In order.
    pub kernels: Vec<ScheduledKernel>,
    /// Where each root's value is found. Roots that need no kernel (a parameter itself) are `Param`.
    pub outputs: Vec<BufferRef>,
    /// Temporaries by number.
    pub temps: Vec<Temp>,
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// Why the kernels are right, where there could be another reason.
    pub(crate) reasons: Vec<Reason>,
}
