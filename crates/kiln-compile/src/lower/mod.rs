//! Stage `lower`: a kernel over ranges becomes a linear list of ops that the target has (KERNEL to PROGRAM).
//!
//! Each pass removes one form, and no later pass knows it. Modules stand in the order of the passes:

mod mma;
mod vector;
mod expand;
mod reduce;
mod gate;
mod adjacent;
mod dot;
mod estimate;
pub mod decompose;
mod stream;
mod index;
mod linearize;
mod prefetch;

// What they share: loops, and arithmetic on indices.
mod nest;
mod fold;
mod slp;
mod transposed;

use crate::target::Target;
use estimate::Estimate;
use kiln_ir::arg::RangeKind;
use kiln_ir::program::{ParamInfo, Program, scratch_layout};
use kiln_ir::rules::simplify;
use kiln_ir::uop::{find_all, kind_of};
use kiln_ir::{DType, Op, UOp};
use rustc_hash::FxHashSet;

/// A kernel on its way to a program.
pub struct Lowering {
    /// Until it is a list.
    pub kernel: UOp,
    /// From then on.
    pub ops: Vec<UOp>,
    estimate: Estimate,
    /// How many iterations the threads of a launch share.
    threads: UOp,
    /// Slots of arguments that are written past the caches.
    streamed: FxHashSet<usize>,
}

/// The passes, each a step of [`Lowering`].
impl Lowering {
    /// Before the first pass.
    pub fn of(kernel: &UOp) -> Lowering {
        let shared = |n: &UOp| n.op() == Op::Range && kind_of(n) == RangeKind::Thread;
        let range = find_all(kernel, shared).pop();
        Lowering {
            kernel: kernel.clone(),
            ops: Vec::new(),
            estimate: Estimate::default(),
            threads: range.map_or(UOp::index(1), |range| range.src(0).clone()),
            streamed: FxHashSet::default(),
        }
    }

    pub(crate) fn matrices(&mut self, target: &Target) {
        self.kernel = mma::matrices(&self.kernel, target);
    }

    pub(crate) fn vectors(&mut self, target: &Target) {
        self.kernel = vector::vectorize(&self.kernel, target);
    }

    pub(crate) fn expand(&mut self) {
        self.kernel = expand::expand(&self.kernel);
    }

    pub(crate) fn reduce(&mut self, target: &Target) {
        self.kernel = reduce::lower_reduces(&self.kernel, target);
    }

    pub(crate) fn gates(&mut self) {
        self.kernel = gate::simplify_gates(&simplify(&self.kernel));
    }

    pub(crate) fn estimate(&mut self) {
        self.estimate = estimate::estimate(&self.kernel);
    }

    pub(crate) fn adjacent(&mut self) {
        self.kernel = adjacent::join_stores(&self.kernel);
    }

    pub(crate) fn dot(&mut self, target: &Target) {
        self.kernel = dot::without_units(&self.kernel, target);
    }

    pub(crate) fn decompose(&mut self, target: &Target) {
        self.kernel = decompose::decompose(&self.kernel, target);
    }

    pub(crate) fn stream(&mut self, target: &Target) {
        self.streamed = stream::streamed(&self.kernel, target);
    }

    pub(crate) fn index(&mut self) {
        self.kernel = index::lower_index(&self.kernel);
    }

    pub(crate) fn linearize(&mut self) {
        self.ops = linearize::linearize(&self.kernel);
    }

    pub(crate) fn prefetch(&mut self, target: &Target) {
        self.ops = prefetch::prefetch(std::mem::take(&mut self.ops), target);
    }

    /// After the last pass: the program, without text.
    pub fn program(self, name: &str) -> Program {
        let ops = self.ops;
        Program {
            name: name.into(),
            source: String::new(),
            params: params(&ops, &self.streamed),
            vars: vars(&ops),
            threads: self.threads,
            global: sizes(&ops, RangeKind::Global),
            local: sizes(&ops, RangeKind::Local),
            scratch_bytes: scratch_layout(&ops).1,
            flops: self.estimate.flops,
            bytes: self.estimate.bytes,
            accessed: self.estimate.accessed,
            ops,
        }
    }
}

/// A slot that the program does not mention is an empty argument.
fn params(ops: &[UOp], streamed: &FxHashSet<usize>) -> Vec<ParamInfo> {
    let absent =
        ParamInfo { dtype: DType::U8, len: 0, written: false, read: false, streamed: false };
    let mut params = Vec::new();
    for node in ops.iter().filter(|n| n.op() == Op::Param) {
        let len = node.known_len().unwrap_or(0);
        let info = ParamInfo { dtype: node.dtype(), len, ..absent.clone() };
        put(&mut params, node, info, &absent);
    }
    for node in ops.iter().filter(|n| matches!(n.op(), Op::Load | Op::Store)) {
        if let Some(slot) = node.memory().arg().slot() {
            params[slot].read |= node.op() == Op::Load;
            params[slot].written |= node.op() == Op::Store;
        }
    }
    for (slot, param) in params.iter_mut().enumerate() {
        param.streamed = streamed.contains(&slot);
    }
    params
}

fn vars(ops: &[UOp]) -> Vec<DType> {
    let mut vars = Vec::new();
    for node in ops.iter().filter(|n| n.op() == Op::Var) {
        put(&mut vars, node, node.dtype(), &DType::I64);
    }
    vars
}

/// Puts `value` in the slot of `node`; the list grows by `absent`.
fn put<T: Clone>(list: &mut Vec<T>, node: &UOp, value: T, absent: &T) {
    let slot = node.arg().slot().expect("a param or var has a slot");
    if list.len() <= slot {
        list.resize(slot + 1, absent.clone());
    }
    list[slot] = value;
}

/// Sizes of the ranges of one kind, in order of axis.
fn sizes(ops: &[UOp], kind: RangeKind) -> Vec<usize> {
    let mut found: Vec<(u32, usize)> = Vec::new();
    for node in ops.iter().filter(|n| n.op() == Op::Range) {
        let (axis, of) = node.arg().range().expect("a range");
        if of == kind {
            found.push((axis, node.src(0).as_int().expect("a constant size") as usize));
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, size)| size).collect()
}
