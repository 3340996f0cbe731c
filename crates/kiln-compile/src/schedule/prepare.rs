//! Pass `prepare` of stage `schedule`: rewrites what only tensor graphs have.
//!
//! An update that stores nothing becomes `where(inside, value, base)`. `Mark`, `Detach`, `Vjp` and `After` disappear. A sum of
//! f16 or bf16 is accumulated in f32.

use super::choices::Choices;
use super::{index, one_hot, shares, split, terms, writes};
use crate::target::Costs;
use kiln_ir::arg::{Arg, PadAxis, ReduceOp, SliceAxis};
use kiln_ir::uop::{Srcs, mapped, rebuild, toposort_all};
use kiln_ir::{Op, UOp, region};
use rustc_hash::FxHashMap;

/// The roots, rewritten. Leaves no `Mark`, `Detach`, `Vjp` or `After`, and only updates that are stored.
pub(super) fn prepare(roots: &[UOp], costs: &Costs, choices: &Choices) -> Vec<UOp> {
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    let nodes = toposort_all(roots, |_| true);
    let stored = writes::stored(&nodes, roots);
    let mut storages = Storages::default();
    for node in nodes {
        let mut srcs = mapped(&node, &done);
        if stored.contains(&node) {
            srcs = storages.told_apart(srcs);
        }
        let new = match node.op() {
            Op::Update if !stored.contains(&node) => choice(&srcs[0], &srcs[1], &srcs[2]),
            _ => prepare_node(&node, srcs, costs, choices),
        };
        storages.note(&new);
        // a mark's source keeps its own method, and a parameter has none
        if !matches!(node.op(), Op::Mark | Op::Detach | Op::Vjp | Op::After) {
            new.copy_origin(&node);
        }
        done.insert(node, new);
    }
    roots.iter().map(|r| done[r].clone()).collect()
}

/// By update: the memory that its run of updates began with.
#[derive(Default)]
struct Storages(FxHashMap<UOp, UOp>);

impl Storages {
    fn note(&mut self, node: &UOp) {
        if node.op() == Op::Update {
            let first = self.first(node.src(0)).clone();
            self.0.insert(node.clone(), first);
        }
    }

    fn first<'a>(&'a self, node: &'a UOp) -> &'a UOp {
        let memory = writes::same_memory(node);
        self.0.get(memory).unwrap_or(memory)
    }

    /// The sources of a stored update, as nodes that are not its memory. A filler that is used elsewhere is made once
    /// more, and a value or position that is read from the overwritten memory is copied.
    fn told_apart(&self, mut srcs: Srcs) -> Srcs {
        let first = self.first(&srcs[0]).clone();
        for x in &mut srcs[1..] {
            if *self.first(x) == first && !is_filler(&first) {
                *x = x.contiguous();
            }
        }
        if is_filler(writes::same_memory(&srcs[0])) {
            srcs[0] = srcs[0].contiguous();
        }
        srcs
    }
}

/// Whether it is a constant or an `Iota`, perhaps viewed.
fn is_filler(node: &UOp) -> bool {
    let mut node = node;
    while node.op().is_movement() {
        node = node.src(0);
    }
    matches!(node.op(), Op::Const | Op::Iota)
}

fn prepare_node(node: &UOp, srcs: Srcs, costs: &Costs, choices: &Choices) -> UOp {
    match node.op() {
        Op::Mark | Op::Detach | Op::Vjp | Op::After => srcs[0].clone(),
        Op::Reduce => reduce(node, srcs, costs, choices),
        Op::Exp if is_less_its_largest(&srcs[0]) => {
            let zero = srcs[0].const_like(0.0);
            UOp::unary(Op::Exp, &srcs[0].minimum(&zero))
        }
        // through the constructor, which removes views that change nothing
        Op::Reshape => srcs[0].reshape(node.shape().clone()),
        _ => rebuild(node, srcs),
    }
}

/// Whether `x` is a value less its maximum along some axes (or less the larger of that and a number), and so never more
/// than 0. The exponential of that cannot overflow; a bound that changes nothing says so.
fn is_less_its_largest(x: &UOp) -> bool {
    let [value, largest] = x.srcs() else { return false };
    let kept = match largest.op() {
        Op::Expand => largest.src(0),
        _ => largest,
    };
    let least = if kept.op() == Op::Max { kept.src(0) } else { kept };
    let reduced = if least.op() == Op::Reshape { least.src(0) } else { least };
    let (Op::Sub, Arg::Reduce { op: ReduceOp::Max, axes }) = (x.op(), reduced.arg()) else {
        return false;
    };
    let is_kept = |(axis, n): (usize, &usize)| match axes.contains(&axis) {
        true => kept.shape()[axis] == 1,
        false => kept.shape()[axis] == *n,
    };
    let shape = value.shape();
    reduced.src(0) == value
        && kept.shape().len() == shape.len()
        && shape.iter().enumerate().all(is_kept)
}

/// Sums and products of f16 and bf16 are accumulated in f32 and rounded once. A reduction of no elements becomes its
/// identity: a loop would read from a buffer without elements.
fn reduce(node: &UOp, srcs: Srcs, costs: &Costs, choices: &Choices) -> UOp {
    let wide = node.dtype().accumulator();
    let Arg::Reduce { op, axes } = node.arg() else {
        unreachable!("a reduce has a reduce argument")
    };
    if axes.iter().any(|&a| srcs[0].shape()[a] == 0) {
        let identity = op.identity(node.dtype());
        return UOp::constant(identity, node.dtype()).broadcast_to(node.shape());
    }
    let x = srcs[0].cast(wide);
    if let (ReduceOp::Add, [axis]) = (op, axes.as_slice())
        && let Some(picked) = one_hot::looked_up(&x, *axis)
    {
        return picked.cast(node.dtype());
    }
    if *op == ReduceOp::Add
        && let Some((x, axes)) = shares::one_sum(&x, axes, costs, choices)
    {
        return x.reduce(ReduceOp::Add, axes).cast(node.dtype());
    }
    if *op == ReduceOp::Add
        && let Some(sum) = terms::in_groups(node, &x, axes, costs, choices)
    {
        return sum.cast(node.dtype());
    }
    let reduced = split::in_blocks(node, &x, *op, axes, costs, choices);
    reduced.unwrap_or_else(|| x.reduce(*op, axes.clone())).cast(node.dtype())
}

/// A select: `value` at the positions of the view `at`, elsewhere `base`.
fn choice(base: &UOp, value: &UOp, at: &UOp) -> UOp {
    let n = base.numel();
    let (nodes, seen) = region::view_nodes(at, n).expect("a region that is no view is stored");
    let back = |x: UOp| {
        let flat = nodes.iter().fold(x, |x, node| invert(node, &x));
        flat.pad(&[PadAxis { before: 0, between: 0, after: n - seen }])
            .reshape(base.shape().clone())
    };
    let inside = back(UOp::bool(true).broadcast_to(at.shape()));
    inside.where_(&back(value.broadcast_to(at.shape())), base)
}

/// The inverse of a view: its elements are put back where they came from, and all others are 0.
fn invert(view: &UOp, x: &UOp) -> UOp {
    let shape = view.src(0).shape();
    match view.arg() {
        Arg::Axes(axes) => {
            let mut inverse = axes.clone();
            axes.iter().enumerate().for_each(|(i, &a)| inverse[a] = i);
            x.permute(inverse)
        }
        Arg::Slice(slices) => match &view.srcs()[1..] {
            [] => unslice(x, slices, shape),
            starts => unslice_from(x, slices, starts, shape),
        },
        // repeated positions are stored, so there is no expansion here
        _ => x.reshape(shape.clone()),
    }
}

fn unslice(x: &UOp, slices: &[SliceAxis], shape: &[usize]) -> UOp {
    let flips: Vec<SliceAxis> = slices.iter().map(flip_if_negative).collect();
    let pads: Vec<PadAxis> = slices.iter().zip(shape).map(|(s, &n)| pad_of(s, n)).collect();
    x.slice(&flips).pad(&pads)
}

/// With as much padding on both sides as the slice could have been moved, and shown from where it was.
fn unslice_from(x: &UOp, slices: &[SliceAxis], starts: &[UOp], shape: &[usize]) -> UOp {
    let flips: Vec<SliceAxis> = slices.iter().map(flip_if_negative).collect();
    let mut pads = Vec::with_capacity(slices.len());
    let mut back = Vec::with_capacity(slices.len());
    for ((s, start), &n) in slices.iter().zip(starts).zip(shape) {
        if s.len == 0 {
            pads.push(pad_of(s, n));
            back.push(UOp::index(0));
            continue;
        }
        let (least, most) = s.starts(n);
        let between = if s.len > 1 { s.step.unsigned_abs() - 1 } else { 0 };
        pads.push(PadAxis { before: most - least, between, after: most - least });
        back.push(index::simplify(&(UOp::index(most as i64) - start.clone())));
    }
    let whole: Vec<SliceAxis> = shape.iter().map(|&n| SliceAxis::full(n)).collect();
    x.slice(&flips).pad(&pads).slice_from(&whole, back)
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
