//! Pass `prefetch` of stage `lower`: marks loads that also prefetch what a later iteration reads.
//!
//! `rows` finds rows that several loops read, `streams` arguments that are read once. A prefetch is a hint: it may name
//! memory past the end of the argument.

mod reads;
mod rows;
mod streams;

use crate::target::Target;
use kiln_ir::uop::{Srcs, rebuild};
use kiln_ir::{Arg, Op, UOp};
use rustc_hash::FxHashMap;

/// The list of a program with such loads marked.
pub(super) fn prefetch(ops: Vec<UOp>, target: &Target) -> Vec<UOp> {
    let mut marks = rows::marks(&ops, target);
    marks.extend(streams::marks(&ops, target));
    if marks.is_empty() {
        return ops;
    }
    let mut new: FxHashMap<UOp, UOp> = FxHashMap::default();
    let marked = |op: UOp| {
        let srcs: Srcs = op.srcs().iter().map(|s| new.get(s).unwrap_or(s).clone()).collect();
        let made = match marks.get(&op) {
            Some(&ahead) => UOp::new(Op::Load, op.dtype(), op.lanes(), srcs, Arg::Prefetch(ahead)),
            None => rebuild(&op, srcs),
        };
        new.insert(op, made.clone());
        made
    };
    ops.into_iter().map(marked).collect()
}
