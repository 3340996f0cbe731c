//! Views: index maps from a tensor's elements to its storage's.
//!
//! A view is a graph of movement ops over a placeholder for the storage, so that the constructors of `kiln-ir` compose
//! and cancel neighbours as they are appended. Slices and permutations are moved in front of expansions where they
//! commute: what is left of an expansion then tells whether the view repeats elements.

use super::shape_args::Lengths;
use crate::error::{Fault, refuse};
use kiln_ir::arg::{Axes, Shape, SliceAxis};
use kiln_ir::reference::evaluate;
use kiln_ir::region::Region;
use kiln_ir::uop::Named;
use kiln_ir::{Arg, DType, Op, UOp};
use smallvec::{SmallVec, smallvec};
use std::cell::RefCell;

#[derive(Clone)]
pub(crate) struct View(UOp);

pub(crate) type Slices = SmallVec<[SliceAxis; 2]>;

thread_local! {
    /// The placeholder that was made last: most tensors are as large as the one before.
    static LAST: RefCell<Option<UOp>> = const { RefCell::new(None) };
}

impl View {
    /// All of a storage.
    pub(crate) fn whole(shape: &[usize], dtype: DType) -> View {
        let is_it = |node: &UOp| node.dtype() == dtype && node.shape().as_slice() == shape;
        let new = || UOp::param(0, dtype, Shape::from_slice(shape));
        // on a thread that ends there may be no last one any more
        let node = LAST.try_with(|last| match &mut *last.borrow_mut() {
            Some(node) if is_it(node) => node.clone(),
            last => last.insert(new()).clone(),
        });
        View(node.unwrap_or_else(|_| new()))
    }

    pub(crate) fn shape(&self) -> &Shape {
        self.0.shape()
    }

    /// A hash of the index map.
    pub(crate) fn hash(&self) -> u128 {
        self.0.hash()
    }

    pub(crate) fn dtype(&self) -> DType {
        self.0.dtype()
    }

    pub(crate) fn reshape(&self, shape: Shape) -> View {
        View(self.0.reshape(shape))
    }

    pub(crate) fn permute(&self, axes: Axes) -> View {
        View(permute(&self.0, axes))
    }

    pub(crate) fn expand(&self, shape: Shape) -> View {
        let missing = shape.len() - self.shape().len();
        let padded: Shape =
            std::iter::repeat_n(1, missing).chain(self.shape().iter().copied()).collect();
        View(self.0.reshape(padded).expand(shape))
    }

    pub(crate) fn slice(&self, slices: Slices) -> View {
        View(slice(&self.0, &slices))
    }

    /// The same, where it is known what numbers of it were made from.
    pub(crate) fn named_slice(&self, slices: Slices, named: &Named) -> View {
        let new = slice(&self.0, &slices);
        if new != self.0 {
            new.name_slice(&self.0, named);
        }
        View(new)
    }

    /// This view. It is known now what lengths of it were made from.
    pub(crate) fn named(self, named: &Named) -> View {
        self.0.name_numbers(named);
        self
    }

    /// The same bits as another dtype; the last axis must hold a whole number of its elements.
    pub(crate) fn bitcast(&self, dtype: DType) -> Result<View, Fault> {
        let (from, to) = (self.dtype().size(), dtype.size());
        let last = self.shape().last().copied();
        if from != to && last.is_none_or(|n| !(n * from).is_multiple_of(to)) {
            return refuse!(
                "{} {:?} has no whole number of {dtype} elements",
                self.dtype(),
                self.shape()
            );
        }
        let base = if self.0.op() == Op::Bitcast { self.0.src(0) } else { &self.0 };
        Ok(View(base.bitcast(dtype)))
    }

    /// What the view shows of `base`.
    pub(crate) fn of(&self, base: &UOp) -> UOp {
        if self.0.op() == Op::Param {
            return base.clone();
        }
        self.outward().iter().fold(base.clone(), |x, node| node.viewed(&x))
    }

    /// `base` with `value` where the view looks.
    pub(crate) fn written(&self, base: &UOp, value: &UOp) -> UOp {
        self.written_at(base, value, &self.distinct_positions())
    }

    /// `base` with `value` at positions of the view's ground. Where the ground is other bits than the storage, what it
    /// is then is written as those, and put back as what it was.
    pub(crate) fn written_at(&self, base: &UOp, value: &UOp, at: &UOp) -> UOp {
        let (mut layers, mut x, mut moves) = (Vec::new(), base.clone(), Vec::new());
        for node in self.outward() {
            if node.op() != Op::Bitcast {
                moves.push(node);
                continue;
            }
            let seen = moves.iter().fold(x.clone(), |x, node| node.viewed(&x));
            layers.push((x, std::mem::take(&mut moves)));
            x = node.viewed(&seen);
        }
        let put = |x: &UOp, value: UOp, at: &UOp| match *at == whole(x) {
            true => value,
            false => x.update(&value, at),
        };
        layers.iter().rev().fold(put(&x, value.clone(), at), |value, (x, moves)| {
            let at = moves.iter().fold(whole(x), |at, node| node.viewed(&at));
            put(x, value.bitcast(x.dtype()), &at)
        })
    }

    /// What the view moves elements of: the storage, or what its last bitcast makes of it.
    pub(crate) fn ground(&self, base: &UOp) -> UOp {
        let bits = self.outward();
        let until = bits.iter().rposition(|node| node.op() == Op::Bitcast).map_or(0, |i| i + 1);
        bits[..until].iter().fold(base.clone(), |x, node| node.viewed(&x))
    }

    /// Where the view's elements are in its ground.
    pub(crate) fn positions(&self) -> UOp {
        let mut moves: SmallVec<[&UOp; 4]> =
            self.chain().take_while(|node| node.op() != Op::Bitcast).collect();
        moves.reverse();
        let ground = moves.first().map_or(&self.0, |node| node.src(0));
        moves.iter().fold(whole(ground), |at, node| node.viewed(&at))
    }

    /// The distance in the ground between neighbours along each axis, and where the first element is; `None` where the
    /// view has no such distances.
    pub(crate) fn strides(&self) -> Option<(i64, Lengths)> {
        strides(&self.positions())
    }

    /// The positions in a form that has nothing expanded, if nothing repeats. An axis that was expanded and then cut
    /// across stays in the view where a reshape stands between.
    fn distinct_positions(&self) -> UOp {
        let at = self.positions();
        if !is_expanded(&at) {
            return at;
        }
        let Some((offset, strides)) = self.strides() else { return at };
        let start = UOp::constant(offset, at.dtype()).broadcast_to(self.shape());
        strides.iter().enumerate().filter(|&(_, &stride)| stride != 0).fold(
            start,
            |sum, (axis, &stride)| {
                let mut line: Shape = self.shape().iter().map(|_| 1).collect();
                line[axis] = self.shape()[axis];
                let steps = UOp::iota(line[axis], at.dtype()) * stride;
                sum + steps.reshape(line).expand(self.shape().clone())
            },
        )
    }

    /// The view's nodes from the storage outward.
    fn outward(&self) -> SmallVec<[UOp; 4]> {
        let mut nodes: SmallVec<[UOp; 4]> = self.chain().cloned().collect();
        nodes.reverse();
        nodes
    }

    /// Whether some element of the storage is shown twice, or it is not known that none is: where an axis was expanded,
    /// only strides can tell.
    pub(crate) fn repeats(&self) -> bool {
        let repeats = |view: View| {
            let at = view.positions();
            is_expanded(&at) && at.numel() > 0 && !is_distinct(&at)
        };
        let below = self.chain().filter(|node| node.op() == Op::Bitcast);
        let grounds = below.map(|bits| View(bits.src(0).clone()));
        self.chain().any(|node| node.op() == Op::Expand)
            && std::iter::once(self.clone()).chain(grounds).any(repeats)
    }

    /// The storage's value when `value` is what the view shows, if the view shows every element exactly once.
    pub(crate) fn inverse(&self, value: &UOp) -> Option<UOp> {
        let partial = |node: &UOp| match node.op() {
            Op::Expand => true,
            // not the number of elements, which is 0 for many shapes
            Op::Slice => node.shape() != node.src(0).shape(),
            _ => false,
        };
        if self.chain().any(partial) {
            return None;
        }
        Some(self.chain().fold(value.clone(), |value, node| undo(node, &value)))
    }

    /// The view's nodes from the outermost to the storage's own, which is left out.
    fn chain(&self) -> impl Iterator<Item = &UOp> {
        let inside = |node: &&UOp| node.op() != Op::Param;
        std::iter::successors(Some(&self.0), |node| node.srcs().first()).take_while(inside)
    }
}

/// Every position of `x`.
fn whole(x: &UOp) -> UOp {
    UOp::positions(x.shape().clone())
}

fn is_expanded(at: &UOp) -> bool {
    std::iter::successors(Some(at), |node| node.srcs().first()).any(|node| node.op() == Op::Expand)
}

/// Up to this many positions are worked out to see how far apart they are.
const MOST_POSITIONS: usize = 1 << 16;

/// The first of some positions that are a view, and how far apart they are along each axis. A view of a few elements out
/// of what was expanded and reshaped is looked at position by position.
fn strides(at: &UOp) -> Option<(i64, Lengths)> {
    if let Some(region) = Region::of(at) {
        let mut strides = region.axes.iter().map(|&(_, stride)| stride);
        // a region leaves out axes of one element
        let stride = |&n: &usize| if n == 1 { 0 } else { strides.next().expect("an axis") };
        return Some((region.offset, at.shape().iter().map(stride).collect()));
    }
    let nodes = std::iter::successors(Some(at), |node| node.srcs().first());
    match is_expanded(at) && nodes.map(UOp::numel).all(|n| 0 < n && n <= MOST_POSITIONS) {
        true => fitted(at),
        false => None,
    }
}

/// The strides of positions that have some.
fn fitted(at: &UOp) -> Option<(i64, Lengths)> {
    let known = evaluate(at, &|_| unreachable!("positions have no leaves"));
    let known: Vec<i64> = known.iter().filter_map(|c| Some(c.as_i128()? as i64)).collect();
    let (mut found, mut strides, mut step) = (vec![known[0]], Lengths::new(), 1);
    for &n in at.shape().iter().rev() {
        let stride = if n == 1 { 0 } else { known[step] - known[0] };
        let rows = (0..n as i64).flat_map(|i| found.iter().map(move |p| p + i * stride));
        found = rows.collect();
        strides.push(stride);
        step *= n;
    }
    strides.reverse();
    (found == known).then_some((known[0], strides))
}

/// Whether positions are known to differ.
fn is_distinct(at: &UOp) -> bool {
    strides(at).is_some_and(|(offset, strides)| {
        let axes = at.shape().iter().copied().zip(strides).filter(|&(n, _)| n != 1).collect();
        Region { offset, axes }.is_distinct()
    })
}

/// `value`, a view `node` of something, as that something; the view keeps every element.
fn undo(node: &UOp, value: &UOp) -> UOp {
    let from = node.src(0);
    match (node.op(), node.arg()) {
        (Op::Reshape, _) => value.reshape(from.shape().clone()),
        (Op::Permute, Arg::Axes(axes)) => {
            let mut back: Axes = smallvec![0; axes.len()];
            axes.iter().enumerate().for_each(|(i, &a)| back[a] = i);
            value.permute(back)
        }
        // every element in another order, axis by axis: a flip, which is its own inverse
        (Op::Slice, Arg::Slice(slices)) => value.slice(slices),
        (Op::Bitcast, _) => value.bitcast(from.dtype()),
        (op, _) => unreachable!("a view that keeps every element has no {op}"),
    }
}

/// A permutation, in front of an expansion.
fn permute(x: &UOp, axes: Axes) -> UOp {
    if x.op() != Op::Expand {
        return x.permute(axes);
    }
    let shape: Shape = axes.iter().map(|&a| x.shape()[a]).collect();
    permute(x.src(0), axes).expand(shape)
}

/// A slice, in front of a bitcast that it cuts between elements of both sides, or of an expansion: repeated axes are
/// repeated less.
fn slice(x: &UOp, slices: &[SliceAxis]) -> UOp {
    let before = if x.op() == Op::Bitcast { before_bitcast(x, slices) } else { None };
    if let Some(slices) = before {
        return slice(x.src(0), &slices).bitcast(x.dtype());
    }
    if x.op() != Op::Expand {
        return x.slice(slices);
    }
    let inner = x.src(0);
    let shape: Shape = slices.iter().map(|s| s.len).collect();
    let repeated = |i: usize| inner.shape()[i] == 1 && x.shape()[i] != 1;
    let kept: Slices = slices
        .iter()
        .enumerate()
        .map(|(i, s)| if repeated(i) { SliceAxis::full(1) } else { *s })
        .collect();
    slice(inner, &kept).expand(shape)
}

/// The slices of what is cast that the slices of the bitcast `x` show, if there are such.
fn before_bitcast(x: &UOp, slices: &[SliceAxis]) -> Option<Slices> {
    let (from, to) = (x.src(0).dtype().size(), x.dtype().size());
    let mut before = Slices::from_slice(slices);
    if from == to {
        return Some(before);
    }
    let last = before.last_mut()?;
    if last.len > 1 && last.step != 1 {
        return None;
    }
    let scaled = |n: usize| (n * to).is_multiple_of(from).then_some(n * to / from);
    *last = SliceAxis { start: scaled(last.start)?, step: 1, len: scaled(last.len)? };
    Some(before)
}
