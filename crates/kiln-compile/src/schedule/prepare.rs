//! Rewrites what only tensor graphs know into plain values: an update becomes a choice between the value and the
//! base, notes disappear, and a sum of a narrow float is taken in a wider one.

use kiln_ir::arg::{Arg, Move, PadAxis, Shape, SliceAxis};
use kiln_ir::uop::{Srcs, rebuild, toposort_all};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// The roots, rewritten. Leaves: no `Update`, `Mark`, `Detach` or `After`.
pub(super) fn prepare(roots: &[UOp]) -> Vec<UOp> {
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in toposort_all(roots, |_| true) {
        let srcs: Srcs = node.srcs().iter().map(|s| done[s].clone()).collect();
        let new = prepare_node(&node, srcs);
        // a note's source has its own maker, and a parameter none
        if !matches!(node.op(), Op::Mark | Op::Detach | Op::After) {
            new.copy_origin(&node);
        }
        done.insert(node, new);
    }
    roots.iter().map(|r| done[r].clone()).collect()
}

fn prepare_node(node: &UOp, srcs: Srcs) -> UOp {
    match node.op() {
        Op::Mark | Op::Detach | Op::After => srcs[0].clone(),
        Op::Update => {
            update(&srcs[0], &srcs[1], node.arg().region().expect("an update has a region"))
        }
        Op::Reduce => reduce(node, srcs),
        // through the constructor, which drops views that have come to change nothing
        Op::Reshape => srcs[0].reshape(node.shape().clone()),
        _ => rebuild(node, srcs),
    }
}

/// Sums and products of f16 and bf16 are accumulated in f32 and rounded once. What combines nothing has no loop: it
/// would hold reads of a buffer that has no elements.
fn reduce(node: &UOp, srcs: Srcs) -> UOp {
    let wide = node.dtype().accumulator();
    let Arg::Reduce { op, axes } = node.arg() else {
        unreachable!("a reduce has a reduce argument")
    };
    if axes.iter().any(|&a| srcs[0].shape()[a] == 0) {
        let identity = op.identity(node.dtype());
        return UOp::constant(identity, node.dtype()).broadcast_to(node.shape());
    }
    srcs[0].cast(wide).reduce(*op, axes.clone()).cast(node.dtype())
}

/// `base` with `value` in the view `region`: where the region's inverse lands, the value; elsewhere the base.
fn update(base: &UOp, value: &UOp, region: &[Move]) -> UOp {
    let views = views(base, region);
    let inside = UOp::bool(true).broadcast_to(value.shape());
    let (mut value, mut inside) = (value.clone(), inside);
    for (m, before) in region.iter().zip(&views).rev() {
        value = invert(m, &value, before);
        inside = match m {
            // the mask has no bits to reinterpret, but an axis to bring to the base's length
            Move::Bitcast(_) => invert_bitcast_mask(&inside, before),
            _ => invert(m, &inside, before),
        };
    }
    inside.where_(&value, base)
}

/// The view before each move.
fn views(base: &UOp, region: &[Move]) -> Vec<UOp> {
    let mut views = vec![base.clone()];
    for m in region {
        views.push(views[views.len() - 1].apply_move(m));
    }
    views
}

/// Puts the elements of a view back to where they came from in `before`; what the view leaves out is 0.
fn invert(m: &Move, x: &UOp, before: &UOp) -> UOp {
    let shape = before.shape();
    match m {
        Move::Reshape(_) => x.reshape(shape.clone()),
        Move::Permute(axes) => {
            let mut inverse = axes.clone();
            axes.iter().enumerate().for_each(|(i, &a)| inverse[a] = i);
            x.permute(inverse)
        }
        Move::Slice(slices) => unslice(x, slices, shape),
        Move::Bitcast(_) => x.bitcast(before.dtype()),
        // only axes that stay 1 long get here: an expanded target is refused when it is written
        Move::Expand(_) => x.reshape(shape.clone()),
    }
}

fn invert_bitcast_mask(mask: &UOp, before: &UOp) -> UOp {
    let (now, then) = (mask.shape().last().copied(), before.shape().last().copied());
    match (now, then) {
        (Some(now), Some(then)) if now < then => {
            // one wide element covers several narrow ones
            let mut split: Shape = mask.shape().clone();
            split.push(1);
            let mut wide = split.clone();
            *wide.last_mut().expect("just pushed") = then / now;
            mask.reshape(split).expand(wide).reshape(before.shape().clone())
        }
        (Some(now), Some(then)) if now > then => {
            // narrow elements: a wide one counts as written if any of its parts is; the others keep their bits
            // because `Tensor` writes whole wide elements only
            let mut slices: Vec<SliceAxis> =
                mask.shape().iter().map(|&n| SliceAxis::full(n)).collect();
            *slices.last_mut().expect("not rank 0") =
                SliceAxis { start: 0, step: (now / then) as isize, len: then };
            mask.slice(&slices)
        }
        _ => mask.clone(),
    }
}

fn unslice(x: &UOp, slices: &[SliceAxis], shape: &[usize]) -> UOp {
    let flips: Vec<SliceAxis> = slices.iter().map(flip_if_negative).collect();
    let pads: Vec<PadAxis> = slices.iter().zip(shape).map(|(s, &n)| pad_of(s, n)).collect();
    x.slice(&flips).pad(&pads)
}

fn flip_if_negative(s: &SliceAxis) -> SliceAxis {
    match s.step < 0 && s.len > 0 {
        true => SliceAxis { start: s.len - 1, step: -1, len: s.len },
        false => SliceAxis::full(s.len),
    }
}

/// The padding that undoes a slice with the sign of its step taken away.
fn pad_of(s: &SliceAxis, n: usize) -> PadAxis {
    if s.len == 0 {
        return PadAxis { before: n, between: 0, after: 0 };
    }
    let last = (s.start as isize + s.step * (s.len as isize - 1)) as usize;
    let between = if s.len > 1 { s.step.unsigned_abs() - 1 } else { 0 };
    PadAxis { before: s.start.min(last), between, after: n - 1 - s.start.max(last) }
}
