//! Facts that follow from a node's parts: shape and integer bounds.
//!
//! Callers have checked their shapes (`Tensor` methods for users, the spec for passes); a broken one is our bug.

use super::UOp;
use crate::arg::{Arg, Shape};
use crate::dtype::DType;
use crate::op::Op;
use std::sync::Arc;

/// The shape (`None` for rank 0) and the bounds.
pub(super) fn facts(
    op: Op,
    dtype: DType,
    srcs: &[UOp],
    arg: &Arg,
) -> (Option<Arc<Shape>>, (i64, i64)) {
    let shape = match (op, arg) {
        _ if op.is_alu() => elementwise_shape(srcs),
        (_, Arg::Shape(shape) | Arg::Composite { shape, .. }) => {
            Some(shape.clone()).filter(|s| !s.is_empty())
        }
        (Op::Update | Op::Vjp | Op::Remat, _) => srcs[0].0.shape.clone(),
        (Op::Gather, _) => srcs[1].0.shape.clone(),
        (Op::Load | Op::Store | Op::Prefetch | Op::End | Op::Sink | Op::Range | Op::Barrier, _) => {
            None
        }
        _ => match shape(op, dtype, srcs, arg) {
            Some(own) => Some(own).filter(|s| !s.is_empty()).map(Arc::new),
            None => elementwise_shape(srcs),
        },
    };
    (shape, bounds(op, dtype, srcs, arg))
}

/// The shape of a node that chooses one of its own.
fn shape(op: Op, dtype: DType, srcs: &[UOp], arg: &Arg) -> Option<Shape> {
    Some(match (op, arg) {
        // copied as bytes: `clone` goes element by element
        (Op::Buffer, Arg::Buffer { shape, .. }) | (Op::Param, Arg::Param { shape, .. }) => {
            Shape::from_slice(shape)
        }
        (Op::Permute, Arg::Axes(axes)) => axes.iter().map(|&a| srcs[0].shape()[a]).collect(),
        (Op::Pad, Arg::Pad(p)) => p.iter().zip(srcs[0].shape()).map(|(p, &n)| p.len(n)).collect(),
        (Op::Window, Arg::Window(w)) => {
            let mut shape = srcs[0].shape().clone();
            shape[w.axis] = w.count();
            shape.insert(w.axis + 1, w.size);
            shape
        }
        (Op::Unwindow, Arg::Window(w)) => {
            let mut shape = srcs[0].shape().clone();
            shape[w.axis] = w.len;
            shape
        }
        (Op::Slice, Arg::Slice(s)) => s.iter().map(|s| s.len).collect(),
        (Op::Reduce, Arg::Reduce { axes, .. }) => {
            let kept = srcs[0].shape().iter().enumerate().filter(|(i, _)| !axes.contains(i));
            kept.map(|(_, &n)| n).collect()
        }
        (Op::Bitcast, _) => bitcast_shape(srcs[0].shape(), srcs[0].dtype().size(), dtype.size()),
        _ => return None,
    })
}

/// All sources have one shape, but constants and other scalars (rank 0) fit any.
fn elementwise_shape(srcs: &[UOp]) -> Option<Arc<Shape>> {
    srcs.iter().find_map(|s| s.0.shape.clone())
}

/// The last axis holds the same bytes in elements of another size.
fn bitcast_shape(shape: &Shape, from: usize, to: usize) -> Shape {
    let mut shape = shape.clone();
    if let Some(last) = shape.last_mut().filter(|_| from != to) {
        *last = *last * from / to;
    }
    shape
}

const UNKNOWN: (i64, i64) = (i64::MIN, i64::MAX);

/// Inclusive bounds of an integer or bool value. Arithmetic that could leave the dtype's own range gives the dtype's
/// range: fixed-width integers wrap.
fn bounds(op: Op, dtype: DType, srcs: &[UOp], arg: &Arg) -> (i64, i64) {
    if dtype.is_float() || dtype == DType::Void {
        return UNKNOWN;
    }
    let all = dtype.int_bounds();
    let exact = match (op, arg) {
        (Op::Const, Arg::Const(c)) => {
            c.as_i128().and_then(|c| i64::try_from(c).ok()).map(|c| (c, c))
        }
        (Op::Var, Arg::Var { min, max, .. }) => Some((*min, *max)),
        (Op::Range, _) => Some((0, last_iteration(&srcs[0]))),
        (Op::Iota, Arg::Shape(s)) => Some((0, (s[0] as i64 - 1).max(0))),
        (Op::Pad | Op::Unwindow, _) => return (srcs[0].min().min(0), srcs[0].max().max(0)),
        _ if op.is_movement() => return (srcs[0].min(), srcs[0].max()),
        (Op::Splat | Op::Lane | Op::Shuffle, _) => return (srcs[0].min(), srcs[0].max()),
        (Op::Stack, _) => hull(srcs),
        (Op::Cast, _) if srcs[0].dtype().is_float() => None,
        // the bounds of a u64 say nothing where they end at i64's end
        (Op::Cast, _) if srcs[0].dtype() == DType::U64 && srcs[0].max() == i64::MAX => None,
        (Op::Cast, _) => Some((srcs[0].min(), srcs[0].max())),
        (Op::Where, _) => hull(&srcs[1..]),
        _ if op.is_comparison() => compare(op, srcs),
        _ if op.is_alu() && srcs.iter().all(|s| s.dtype().is_int()) => arithmetic(op, srcs),
        _ => None,
    };
    // A u64 may exceed what bounds can say.
    let unsayable = dtype == DType::U64 && exact.is_none_or(|(_, hi)| hi == i64::MAX);
    match exact {
        Some((lo, hi)) if !unsayable && all.0 <= lo && hi <= all.1 => (lo, hi),
        _ => all,
    }
}

/// The largest value of a loop variable. A loop that may not run keeps a variable: if bounds decided its value, what is
/// inside would no longer vary over the loop, and be computed outside of it.
fn last_iteration(count: &UOp) -> i64 {
    let least = if count.min() >= 1 { 0 } else { 1 };
    count.max().saturating_sub(1).max(least)
}

fn hull(srcs: &[UOp]) -> Option<(i64, i64)> {
    Some((srcs.iter().map(UOp::min).min()?, srcs.iter().map(UOp::max).max()?))
}

fn compare(op: Op, srcs: &[UOp]) -> Option<(i64, i64)> {
    let (a, b) = (&srcs[0], &srcs[1]);
    if a.dtype().is_float() || a.dtype() == DType::U64 {
        return None;
    }
    let known = |b: bool| Some((b as i64, b as i64));
    let apart = a.max() < b.min() || b.max() < a.min();
    let same = a.min() == a.max() && b.min() == b.max() && a.min() == b.min();
    match op {
        Op::CmpLt if a.max() < b.min() => known(true),
        Op::CmpLt if a.min() >= b.max() => known(false),
        Op::CmpEq if apart => known(false),
        Op::CmpEq if same => known(true),
        Op::CmpNe if apart => known(true),
        Op::CmpNe if same => known(false),
        _ => None,
    }
}

/// Interval arithmetic; `None` where the op is not monotone enough to say, or a bound leaves i64.
fn arithmetic(op: Op, srcs: &[UOp]) -> Option<(i64, i64)> {
    // Bounds of 64-bit types stand for "unknown", except for exact index arithmetic.
    let known =
        |s: &UOp| (s.min(), s.max()) != UNKNOWN && (s.dtype() != DType::U64 || s.max() < i64::MAX);
    if !srcs.iter().all(known) {
        return None;
    }
    let (a0, a1) = (srcs[0].min(), srcs[0].max());
    if op == Op::Neg {
        return Some((a1.checked_neg()?, a0.checked_neg()?));
    }
    let (b0, b1) = (srcs.get(1)?.min(), srcs.get(1)?.max());
    Some(match op {
        Op::Add => (a0.checked_add(b0)?, a1.checked_add(b1)?),
        Op::Sub => (a0.checked_sub(b1)?, a1.checked_sub(b0)?),
        Op::Mul => corners((a0, a1), (b0, b1), i64::checked_mul)?,
        Op::Max => (a0.max(b0), a1.max(b1)),
        Op::Min => (a0.min(b0), a1.min(b1)),
        Op::FloorDiv if b0 > 0 => corners((a0, a1), (b0, b1), i64::checked_div_euclid)?,
        Op::TruncDiv if b0 > 0 => corners((a0, a1), (b0, b1), i64::checked_div)?,
        Op::FloorMod if b0 > 0 && a0 >= 0 => (0, (b1 - 1).min(a1)),
        Op::FloorMod if b0 > 0 => (0, b1 - 1),
        Op::TruncMod if b0 > 0 && a0 >= 0 => (0, (b1 - 1).min(a1)),
        Op::And if a0 >= 0 && b0 >= 0 => (0, a1.min(b1)),
        Op::Shr if b0 >= 0 && b1 < 63 => corners((a0, a1), (b0, b1), |x, y| Some(x >> y))?,
        _ => return None,
    })
}

/// The smallest and largest of `f` on the ends of two intervals; an end that is one point is computed once.
fn corners(
    (a0, a1): (i64, i64),
    (b0, b1): (i64, i64),
    f: impl Fn(i64, i64) -> Option<i64>,
) -> Option<(i64, i64)> {
    let (p, q) = (f(a0, b0)?, f(a1, b0)?);
    let (lo, hi) = (p.min(q), p.max(q));
    if b0 == b1 {
        return Some((lo, hi));
    }
    let (p, q) = (f(a0, b1)?, f(a1, b1)?);
    Some((lo.min(p.min(q)), hi.max(p.max(q))))
}
