//! Views: index maps from a tensor's elements to its storage's.
//!
//! A view is a graph of movement ops over a placeholder for the storage, so that the constructors of `kiln-ir` compose
//! and cancel neighbours as they are appended. Slices and permutations are moved in front of expansions where they
//! commute: what is left of an expansion then tells whether the view repeats elements.

use crate::error::{Fault, refuse};
use kiln_ir::arg::{Axes, Shape, SliceAxis};
use kiln_ir::{Arg, DType, Op, UOp};
use smallvec::{SmallVec, smallvec};

#[derive(Clone)]
pub(crate) struct View(UOp);

pub(crate) type Slices = SmallVec<[SliceAxis; 2]>;

impl View {
    /// All of a storage.
    pub(crate) fn whole(shape: &[usize], dtype: DType) -> View {
        View(UOp::param(0, dtype, Shape::from_slice(shape)))
    }

    pub(crate) fn shape(&self) -> &Shape {
        self.0.shape()
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
        self.outward().iter().fold(base.clone(), |x, node| node.viewed(&x))
    }

    /// `base` with `value` where the view looks. Where the view reads other bits, what it reads is written as those, and
    /// then put back as what it was.
    pub(crate) fn written(&self, base: &UOp, value: &UOp) -> UOp {
        let outward = self.outward();
        let (mut layers, mut x, mut moves) = (Vec::new(), base.clone(), Vec::new());
        for node in &outward {
            if node.op() != Op::Bitcast {
                moves.push(node);
                continue;
            }
            let seen = moves.iter().fold(x.clone(), |x, node| node.viewed(&x));
            layers.push((x, std::mem::take(&mut moves)));
            x = node.viewed(&seen);
        }
        layers.push((x, moves));
        layers.iter().rev().fold(value.clone(), |value, (x, moves)| {
            let value = value.bitcast(x.dtype());
            if moves.is_empty() {
                return value;
            }
            let whole = UOp::positions(x.shape().clone());
            x.update(&value, &moves.iter().fold(whole, |at, node| node.viewed(&at)))
        })
    }

    /// The view's nodes from the storage outward.
    fn outward(&self) -> SmallVec<[UOp; 4]> {
        let mut nodes: SmallVec<[UOp; 4]> = self.chain().cloned().collect();
        nodes.reverse();
        nodes
    }

    /// Whether some element of the storage is shown twice.
    pub(crate) fn repeats(&self) -> bool {
        self.chain().any(|node| node.op() == Op::Expand)
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

/// A slice, in front of an expansion: repeated axes are repeated less.
fn slice(x: &UOp, slices: &[SliceAxis]) -> UOp {
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
