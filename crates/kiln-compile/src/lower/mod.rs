//! KERNEL form to PROGRAM form: a graph over ranges becomes a linear list of ops that the target has.
//!
//! The passes run in the order of [`lower`], each a function from kernel to kernel whose post-condition is the first
//! paragraph of its module. Modules in that order:

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
mod ahead;

// What they share: loops, and arithmetic on indices.
mod nest;
mod fold;

use crate::target::Target;
use kiln_ir::arg::{RangeKind, Space};
use kiln_ir::program::{ParamInfo, Program};
use kiln_ir::rules::simplify;
use kiln_ir::{Arg, DType, Op, UOp};
use rustc_hash::FxHashSet;

/// The linear program of a kernel, without text.
pub fn lower(kernel: &UOp, target: &Target) -> Program {
    let Arg::Kernel { name } = kernel.arg() else { panic!("not a kernel: {kernel:?}") };
    let vectors = vector::vectorize(&mma::matrices(kernel, target), target);
    let expanded = expand::expand(&vectors);
    let reduced = reduce::lower_reduces(&expanded, target);
    let gated = gate::simplify_gates(&simplify(&reduced));
    let estimate = estimate::estimate(&gated);
    let joined = adjacent::join_stores(&gated);
    let dotted = dot::without_units(&joined, target);
    let machine = decompose::decompose(&dotted, target);
    let streamed = stream::streamed(&machine, target);
    let indexed = index::lower_index(&machine);
    let ops = ahead::fetch_ahead(linearize::linearize(&indexed), target);
    Program {
        name: name.clone(),
        source: String::new(),
        params: params(&ops, &streamed),
        vars: vars(&ops),
        threads: sizes(&ops, RangeKind::Thread).first().copied().unwrap_or(1),
        global: sizes(&ops, RangeKind::Global),
        local: sizes(&ops, RangeKind::Local),
        scratch_bytes: scratch_bytes(&ops),
        flops: estimate.flops,
        bytes: estimate.bytes,
        ops,
    }
}

/// A slot that the program does not mention is an empty argument.
fn params(ops: &[UOp], streamed: &FxHashSet<usize>) -> Vec<ParamInfo> {
    let absent =
        ParamInfo { dtype: DType::U8, len: 0, written: false, read: false, streamed: false };
    let mut params = Vec::new();
    for node in ops.iter().filter(|n| n.op() == Op::Param) {
        let info = ParamInfo { dtype: node.dtype(), len: node.numel(), ..absent.clone() };
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

/// Scratch memories follow each other in order of number, each at a multiple of 64 bytes.
fn scratch_bytes(ops: &[UOp]) -> usize {
    let bytes = |n: &UOp| match n.arg().memory() {
        Some((Space::Scratch, _, len)) => len * n.dtype().size() * n.lanes() as usize,
        _ => 0,
    };
    ops.iter().filter(|n| n.op() == Op::Local).map(|n| bytes(n).next_multiple_of(64)).sum()
}
