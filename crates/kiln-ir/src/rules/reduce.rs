//! Reductions of which the value, or a factor of it, is the same in every iteration.

use crate::arg::{Arg, ReduceOp};
use crate::dtype::DType;
use crate::op::Op;
use crate::rule;
use crate::rule::Rule;
use crate::uop::{UOp, toposort};
use rustc_hash::FxHashSet;

pub(super) static RULES: &[Rule] = &[
    rule!(reduce_constant [n] n.on(&[Op::Reduce]) => without_ranges(n)),
    rule!(reduce_factor   [n] n.on(&[Op::Reduce]) => factor(n)),
];

/// The op of a reduction over ranges that starts from nothing.
fn kernel_op(n: &UOp) -> Option<ReduceOp> {
    if n.srcs().len() < 2 || n.initial().is_some() { None } else { n.arg().reduce_op() }
}

/// Ranges that the value does not depend on: a maximum is the value itself, an integer sum is a product.
fn without_ranges(n: &UOp) -> Option<UOp> {
    let op = kernel_op(n)?;
    let value = n.src(0);
    if op == ReduceOp::Add && value.dtype().is_float() {
        return None; // adding n times and multiplying by n round differently
    }
    if op == ReduceOp::Mul && value.dtype() != DType::Bool {
        return None;
    }
    let used: FxHashSet<usize> = toposort(value).iter().map(UOp::id).collect();
    let droppable = |r: &UOp| r.op() == Op::Range && !used.contains(&r.id()) && r.src(0).min() >= 1;
    let (dropped, kept): (Vec<UOp>, Vec<UOp>) = n.srcs()[1..].iter().cloned().partition(droppable);
    if dropped.is_empty() {
        return None;
    }
    let repeats = op == ReduceOp::Add && value.dtype() != DType::Bool;
    let times = dropped.iter().map(|r| r.src(0).cast(value.dtype()).splat(value.lanes()));
    let value = if repeats { times.fold(value.clone(), |v, t| v * t) } else { value.clone() };
    Some(value.reduce_ranges(op, kept))
}

/// `sum(x * c) = sum(x) * c` for integers, which wrap.
fn factor(n: &UOp) -> Option<UOp> {
    let value = n.src(0);
    let is_sum = kernel_op(n)? == ReduceOp::Add && value.dtype().is_int();
    if !is_sum || value.op() != Op::Mul || value.src(1).uniform().as_const().is_none() {
        return None;
    }
    let mut srcs: crate::uop::Srcs = n.srcs().into();
    srcs[0] = value.src(0).clone();
    let sum = UOp::new(Op::Reduce, n.dtype(), n.lanes(), srcs, Arg::clone(n.arg()));
    Some(sum * value.src(1))
}
