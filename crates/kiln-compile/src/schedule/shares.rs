//! Pass `shares` of stage `schedule`, and a part of pass `prepare`: sums over the windows that cover an element
//! (`Unwindow`). This is the gradient of a convolution for its input.
//!
//! Such an element is a sum over the positions at which a window covers it, and each term is a sum of products over
//! channels. As two nodes, the inner sums would be stored for every position of every window, and the price of the
//! outer sum would not include them. So pass `prepare` makes one sum of the two (`one_sum`).
//!
//! With a stride of `s`, an element is covered only at positions congruent to it modulo `s`. With a stride of 2 along
//! two axes, three quarters of the terms of one sum would be zero. So pass `shares` makes one sum for each residue,
//! over its own positions, and interleaves the results.

use super::choices::Choices;
use super::cost;
use crate::target::Costs;
use kiln_ir::affine::gcd;
use kiln_ir::arg::{Arg, Axes, PadAxis, ReduceOp, Shape, SliceAxis, WindowArg};
use kiln_ir::uop::{mapped, rebuild, toposort_all};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// More sums than this are not worth it: each is a kernel, and whoever needs the result reads all of them.
const MOST_RESIDUES: usize = 16;

/// One sum instead of a sum over window positions of sums: its summand, and the axes that it is summed along.
pub(super) fn one_sum(
    x: &UOp,
    axes: &Axes,
    costs: &Costs,
    choices: &Choices,
) -> Option<(UOp, Axes)> {
    if !is_over_positions(x, axes) {
        return None;
    }
    let (views, inner) = moved(x);
    let (Op::Reduce, Arg::Reduce { op: ReduceOp::Add, axes: within }) = (inner.op(), inner.arg())
    else {
        return None;
    };
    let summand = inner.src(0);
    // sums over positions only, as in pooling: axis after axis takes fewer additions
    if is_over_positions(summand, within) && within.len() == 1 {
        return None;
    }
    let kept = (0..summand.shape().len()).filter(|a| !within.contains(a));
    let last = summand.permute(kept.chain(within.iter().copied()).collect::<Axes>());
    let more: Shape = within.iter().map(|&a| summand.shape()[a]).collect();
    let summand = views.iter().rev().fold(last, |x, view| beside(view, &x, &more));
    let rank = summand.shape().len();
    let axes: Axes = axes.iter().copied().chain(rank - more.len()..rank).collect();
    let strided = strided(&summand, &axes);
    let pays = || choices.choose(pays(&summand, &axes, &strided, costs));
    (strided.is_empty() || pays()).then_some((summand, axes))
}

/// Whether the summand is an `Unwindow`, summed over the positions in its windows.
fn is_over_positions(x: &UOp, axes: &Axes) -> bool {
    matches!((x.op(), x.arg()), (Op::Unwindow, Arg::Window(w)) if axes.contains(&(w.axis + 1)))
}

/// The views that only move elements, outermost first, and the node under them.
fn moved(x: &UOp) -> (Vec<&UOp>, &UOp) {
    let (mut views, mut x) = (Vec::new(), x);
    while matches!(x.op(), Op::Reshape | Op::Permute | Op::Pad | Op::Slice | Op::Unwindow)
        && x.srcs().len() == 1
    {
        views.push(x);
        x = x.src(0);
    }
    (views, x)
}

/// The view of an `x` that has `more` axes after those that are viewed.
fn beside(view: &UOp, x: &UOp, more: &[usize]) -> UOp {
    match view.arg() {
        Arg::Shape(shape) => x.reshape(shape.iter().chain(more).copied().collect::<Shape>()),
        Arg::Axes(axes) => {
            let rank = axes.len();
            x.permute(axes.iter().copied().chain(rank..rank + more.len()).collect::<Axes>())
        }
        Arg::Pad(pads) => {
            let none = more.iter().map(|_| PadAxis::default());
            x.pad(&pads.iter().copied().chain(none).collect::<Vec<_>>())
        }
        Arg::Slice(slices) => {
            let whole = more.iter().map(|&n| SliceAxis::full(n));
            x.slice(&slices.iter().copied().chain(whole).collect::<Vec<_>>())
        }
        _ => view.viewed(x),
    }
}

/// The graph with sums over positions split by residue, if that pays. Only elements that a view shows are summed: the
/// padding of a convolution's input, for example, is cut off from its gradient.
pub(super) fn by_residue(roots: Vec<UOp>, costs: &Costs, choices: &Choices) -> Vec<UOp> {
    let nodes = toposort_all(&roots, |_| true);
    if !nodes.iter().any(|n| n.op() == Op::Unwindow) {
        return roots;
    }
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in nodes {
        let again = |n: &UOp| rebuild(n, mapped(n, &done));
        let new = match (node.op(), node.arg(), node.srcs()) {
            (Op::Slice, Arg::Slice(slices), [sum]) => part(&again(sum), slices, costs, choices),
            (Op::Reduce, ..) => part(&again(&node), &whole(node.shape()), costs, choices),
            _ => None,
        };
        let new = new.unwrap_or_else(|| again(&node));
        new.copy_origin(&node);
        done.insert(node, new);
    }
    roots.iter().map(|r| done[r].clone()).collect()
}

type Slices = SmallVec<[SliceAxis; 2]>;

fn whole(shape: &[usize]) -> Slices {
    shape.iter().map(|&n| SliceAxis::full(n)).collect()
}

/// A part of a sum over window positions, as one sum or several.
fn part(sum: &UOp, slices: &Slices, costs: &Costs, choices: &Choices) -> Option<UOp> {
    let (Op::Reduce, Arg::Reduce { op: ReduceOp::Add, axes }) = (sum.op(), sum.arg()) else {
        return None;
    };
    let x = sum.src(0);
    let plain = slices.iter().all(|s| s.step == 1 && s.len > 0);
    if !plain || !is_over_positions(x, axes) {
        return None;
    }
    let strided = strided(x, axes);
    if strided.is_empty() || !choices.choose(pays(x, axes, &strided, costs)) {
        let part = x.slice(&before_sum(slices, x, axes));
        return (part != *x).then(|| part.reduce(ReduceOp::Add, axes.clone()));
    }
    let mut chosen: Vec<Vec<usize>> = vec![Vec::new()];
    for spread in &strided {
        let with = |chosen: Vec<usize>| {
            (0..spread.residues()).map(move |m| chosen.iter().copied().chain([m]).collect())
        };
        chosen = chosen.into_iter().flat_map(with).collect();
    }
    let of = |chosen: &Vec<usize>| of_residues(sum, &strided, chosen, slices);
    chosen.iter().filter_map(of).reduce(|a, b| a + b)
}

/// The slices of the summand for slices of the sum.
fn before_sum(slices: &Slices, x: &UOp, axes: &Axes) -> Slices {
    let mut kept = slices.iter();
    let axis = |(a, &n): (usize, &usize)| match axes.contains(&a) {
        true => SliceAxis::full(n),
        false => *kept.next().expect("one for each axis of the sum"),
    };
    x.shape().iter().enumerate().map(axis).collect()
}

/// Strided windows whose positions are summed over.
struct Spread {
    /// The `Unwindow` node.
    node: UOp,
    w: WindowArg,
    /// The axis of the summand that has the elements.
    axis: usize,
}

impl Spread {
    /// Two positions this far apart belong to the same residue.
    fn step(&self) -> usize {
        self.w.stride / gcd(self.w.stride as u64, self.w.dilation as u64) as usize
    }

    /// How many residues any window covers.
    fn residues(&self) -> usize {
        self.step().min(self.w.size)
    }

    /// The windows' elements at the positions `first`, `first + step` and so on, at their places among the elements of
    /// that residue.
    fn of_residue(&self, x: &UOp, first: usize) -> UOp {
        let (w, step) = (self.w, self.step());
        let size = (w.size - first).div_ceil(step);
        let mut slices: SmallVec<[SliceAxis; 4]> =
            x.shape().iter().map(|&n| SliceAxis::full(n)).collect();
        let distance = if size > 1 { step as isize } else { 1 };
        slices[w.axis + 1] = SliceAxis { start: first, step: distance, len: size };
        let dilation = w.dilation * step / w.stride;
        let len = w.count() + (size - 1) * dilation;
        x.slice(&slices).unwindow(WindowArg { axis: w.axis, len, size, stride: 1, dilation })
    }

    /// The elements of a residue that are in a part of the axis, and the padding that puts them at their places.
    fn within(&self, first: usize, part: SliceAxis) -> Option<(SliceAxis, PadAxis)> {
        let (w, step) = (self.w, self.step());
        let start = first * w.dilation;
        let all = w.count() + (w.size - first - 1) / step * (w.dilation * step / w.stride);
        let below = |end: usize| end.saturating_sub(start).div_ceil(w.stride).min(all);
        let (from, to) = (below(part.start), below(part.start + part.len));
        let len = to.checked_sub(from).filter(|&n| n > 0)?;
        let before = start + from * w.stride - part.start;
        let after = part.len - before - (len - 1) * w.stride - 1;
        let pad = PadAxis { before, between: w.stride - 1, after };
        Some((SliceAxis { start: from, step: 1, len }, pad))
    }
}

/// All strided windows under views that only change the order of axes.
fn strided(x: &UOp, axes: &Axes) -> Vec<Spread> {
    let (mut found, mut node) = (Vec::new(), x);
    // for each axis of the node, which axis of `x` it is
    let mut place: Axes = (0..x.shape().len()).collect();
    loop {
        match (node.op(), node.arg()) {
            (Op::Permute, Arg::Axes(from)) => {
                let outer = place.clone();
                from.iter().zip(outer).for_each(|(&a, p)| place[a] = p);
            }
            (Op::Unwindow, Arg::Window(w)) => {
                let (axis, position) = (place[w.axis], place[w.axis + 1]);
                let summed = axes.contains(&position) && !axes.contains(&axis);
                if w.stride > 1 && w.count() > 0 && summed {
                    found.push(Spread { node: node.clone(), w: *w, axis });
                }
            }
            _ => return found,
        }
        node = node.src(0);
    }
}

fn pays(x: &UOp, axes: &Axes, strided: &[Spread], costs: &Costs) -> bool {
    let kernels: usize = strided.iter().map(Spread::residues).product();
    let apart: usize = strided.iter().map(|s| s.w.stride).product();
    let summed: usize = axes.iter().map(|&a| x.shape()[a]).product();
    let (all, sums) = (x.numel() as f64, (x.numel() / summed.max(1)) as f64);
    let in_vain = all - all / apart as f64;
    kernels <= MOST_RESIDUES && cost::pays_kernels(costs, in_vain, sums, x.dtype(), kernels)
}

/// The part of the sum for the residues with these first positions, with 0 for all other elements. None if there are no
/// such elements.
fn of_residues(sum: &UOp, strided: &[Spread], first: &[usize], part: &Slices) -> Option<UOp> {
    let (Arg::Reduce { axes, .. }, x) = (sum.arg(), sum.src(0)) else { return None };
    let mut pads: SmallVec<[PadAxis; 4]> = part.iter().map(|_| PadAxis::default()).collect();
    let mut part = part.clone();
    for (spread, &m) in strided.iter().zip(first) {
        let axis = spread.axis - axes.iter().filter(|&&a| a < spread.axis).count();
        (part[axis], pads[axis]) = spread.within(m, part[axis])?;
    }
    let summand = summand_of(x, strided, first);
    let summand = summand.slice(&before_sum(&part, &summand, axes));
    Some(summand.reduce(ReduceOp::Add, axes.clone()).contiguous().pad(&pads))
}

/// The summand for some residues only.
fn summand_of(x: &UOp, strided: &[Spread], first: &[usize]) -> UOp {
    let last = &strided.last().expect("some are strided").node;
    let (mut views, mut node) = (vec![x], x);
    while node != last {
        node = node.src(0);
        views.push(node);
    }
    let shown = |x: UOp, view: &&UOp| {
        let spread = strided.iter().zip(first).find(|(s, _)| s.node == **view);
        spread.map_or_else(|| view.viewed(&x), |(s, &m)| s.of_residue(&x, m))
    };
    views.iter().rev().fold(last.src(0).clone(), shown)
}
