//! The elements that a tensor of positions covers: whether they are a view, and their places in it.
//!
//! `Update` and `Gather` take positions, a tensor of integers. If the positions are a view of an `Iota`, the region is
//! known before anything runs.

use crate::arg::{Arg, SliceAxis};
use crate::op::Op;
use crate::uop::UOp;
use smallvec::SmallVec;

/// The view's nodes from the outermost to the innermost, if `at` is a view of row-major positions below `len`, and the
/// number of positions that it is a view of.
pub fn view_nodes(at: &UOp, len: usize) -> Option<(Vec<UOp>, usize)> {
    let mut nodes = Vec::new();
    let mut node = at;
    loop {
        match node.op() {
            Op::Iota => {
                let n = node.numel();
                return (n <= len).then_some((nodes, n));
            }
            Op::Reshape | Op::Permute | Op::Slice | Op::Expand => {
                nodes.push(node.clone());
                node = node.src(0);
            }
            _ => return None,
        }
    }
}

/// Whether `at` is a view of positions below `len` that shows none of them twice: it can be looked up where a position is.
pub fn is_one_to_one(at: &UOp, len: usize) -> bool {
    let repeats = |nodes: &[UOp]| nodes.iter().any(|n| n.op() == Op::Expand);
    view_nodes(at, len).is_some_and(|(nodes, _)| !repeats(&nodes))
}

/// The elements of `x` at the positions `at`, as a view, if they are one.
pub fn view(x: &UOp, at: &UOp) -> Option<UOp> {
    let (nodes, n) = view_nodes(at, x.numel())?;
    let flat = x.reshape([x.numel()].as_slice()).slice(&[SliceAxis::full(n)]);
    Some(nodes.iter().rev().fold(flat, |x, node| node.viewed(&x)))
}

/// A strided box of positions: those at `offset` plus a multiple of each stride.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// The first position.
    pub offset: i64,
    /// Length and stride of each axis, outermost first. Axes of length 1 are left out.
    pub axes: SmallVec<[(usize, i64); 4]>,
}

impl Region {
    /// The region of a view of positions; `None` if it is no view, or one that no strides describe.
    pub fn of(at: &UOp) -> Option<Region> {
        let (nodes, n) = view_nodes(at, usize::MAX)?;
        Region::through(nodes.iter().rev(), &[n])
    }

    /// The region that views, from the innermost to the outermost, show of row-major positions in `shape`.
    pub fn through<'a>(nodes: impl Iterator<Item = &'a UOp>, shape: &[usize]) -> Option<Region> {
        let all: Axes = SmallVec::from_slice(&[(shape.iter().product(), 1)]);
        let mut axes = reshaped(&all, shape)?;
        let mut offset = 0;
        for node in nodes {
            // where a slice starts may be known at launch only
            if node.srcs().len() > 1 {
                return None;
            }
            match node.arg() {
                Arg::Axes(order) => axes = order.iter().map(|&a| axes[a]).collect(),
                Arg::Slice(slices) => {
                    let moved = |(s, (_, stride)): (&SliceAxis, &(usize, i64))| {
                        offset += s.start as i64 * stride;
                        (s.len, stride * s.step as i64)
                    };
                    axes = slices.iter().zip(&axes).map(moved).collect();
                }
                Arg::Shape(shape) if node.op() == Op::Expand => {
                    let repeated = |(&n, &(len, stride)): (&usize, &(usize, i64))| {
                        (n, if len == n { stride } else { 0 })
                    };
                    axes = shape.iter().zip(&axes).map(repeated).collect();
                }
                Arg::Shape(shape) => axes = reshaped(&axes, shape)?,
                arg => unreachable!("{arg:?} is no view's"),
            }
        }
        axes.retain(|&mut (len, _)| len != 1);
        Some(Region { offset, axes })
    }

    /// How many positions there are, repeated ones counted.
    pub fn len(&self) -> usize {
        self.axes.iter().map(|&(len, _)| len).product()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The smallest position and the one after the largest; of no positions, nothing.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        if self.is_empty() {
            return None;
        }
        let reach = |&(len, stride): &(usize, i64)| (len as i64 - 1) * stride;
        let down: i64 = self.axes.iter().map(reach).filter(|&r| r < 0).sum();
        let up: i64 = self.axes.iter().map(reach).filter(|&r| r > 0).sum();
        Some((self.offset + down, self.offset + up + 1))
    }

    /// Whether the positions are one run without gaps, in order.
    pub fn is_run(&self) -> bool {
        let mut step = 1;
        self.axes.iter().rev().all(|&(len, stride)| {
            let fits = stride == step;
            step *= len as i64;
            fits
        })
    }

    /// Whether no position occurs twice, as far as strides that nest show it.
    pub fn is_distinct(&self) -> bool {
        let mut axes: Axes = self.axes.iter().map(|&(len, s)| (len, s.abs())).collect();
        axes.sort_unstable_by_key(|&(_, stride)| stride);
        let mut reach = 0;
        axes.iter().all(|&(len, stride)| {
            let beyond = stride > reach;
            reach += (len as i64 - 1) * stride;
            beyond
        })
    }
}

type Axes = SmallVec<[(usize, i64); 4]>;

/// The strides of a reshape: runs of axes that lie one inside the other are one, and split again.
fn reshaped(axes: &Axes, shape: &[usize]) -> Option<Axes> {
    if shape.contains(&0) {
        return Some(shape.iter().map(|&n| (n, 0)).collect());
    }
    let mut out: Axes = SmallVec::new();
    let mut from = axes.iter().copied().filter(|&(len, _)| len != 1).rev();
    // what is left of the axis that is being split: how many elements, how far apart
    let (mut left, mut stride) = (1, 1);
    for &n in shape.iter().rev() {
        if n == 1 {
            out.push((1, 0));
            continue;
        }
        if left == 1 {
            (left, stride) = from.next()?;
        }
        while left % n != 0 {
            let (more, outer) = from.next()?;
            if outer != stride * left as i64 {
                return None;
            }
            left *= more;
        }
        out.push((n, stride));
        (left, stride) = (left / n, stride * n as i64);
    }
    out.reverse();
    (left == 1 && from.next().is_none()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::evaluate;
    use smallvec::smallvec;

    /// A few views of 24 positions.
    fn some_views() -> Vec<UOp> {
        let grid = UOp::positions([4, 6].as_slice());
        let slice = |start, step, len| SliceAxis { start, step, len };
        let corner = grid.slice(&[slice(3, -1, 2), slice(1, 2, 3)]);
        vec![
            grid.clone(),
            corner.permute([1, 0].as_slice()),
            corner.reshape([6].as_slice()),
            grid.slice(&[slice(2, 1, 1), slice(5, 1, 1)]).reshape([].as_slice()),
            grid.permute([1, 0].as_slice()).reshape([24].as_slice()),
            grid.reshape([2, 2, 6].as_slice()).permute([1, 0, 2].as_slice()),
            grid.slice(&[slice(0, 2, 2), slice(0, 1, 6)]).reshape([2, 3, 2].as_slice()),
            grid.slice(&[slice(1, 1, 1), slice(0, 1, 6)]).expand([5, 6].as_slice()),
            grid.slice(&[slice(0, 1, 0), slice(0, 1, 6)]),
        ]
    }

    fn positions(at: &UOp) -> Vec<i64> {
        evaluate(at, &|_| unreachable!("no leaves"))
            .iter()
            .map(|c| c.as_i128().expect("an integer") as i64)
            .collect()
    }

    #[test]
    fn a_region_says_where_the_elements_are() {
        let without = some_views().iter().filter(|at| Region::of(at).is_none()).count();
        assert_eq!(without, 2, "a corner in a row, and a transposed grid in a row");
        for at in some_views() {
            let expected = positions(&at);
            let Some(region) = Region::of(&at) else { continue };
            let mut found = vec![region.offset];
            for &(len, stride) in &region.axes {
                let steps = |&p: &i64| (0..len as i64).map(move |i| p + i * stride);
                found = found.iter().flat_map(steps).collect();
            }
            assert_eq!(found, expected, "{at:?}");
            let bounds =
                expected.iter().min().map(|&low| (low, expected.iter().max().unwrap() + 1));
            assert_eq!(region.bounds(), bounds);
            assert_eq!(region.is_run(), expected.windows(2).all(|w| w[1] == w[0] + 1));
            let distinct = expected.iter().collect::<std::collections::BTreeSet<_>>().len();
            assert_eq!(region.is_distinct(), distinct == expected.len(), "{at:?}");
        }
    }

    #[test]
    fn a_view_of_positions_views_anything() {
        let x = UOp::param(0, crate::DType::I32, smallvec![4, 6]);
        for at in some_views() {
            let leaf = |_: &UOp| (0..24).map(crate::Const::Int).collect();
            let seen = evaluate(&view(&x, &at).expect("a view"), &leaf);
            assert_eq!(seen, evaluate(&x.gather(&at), &leaf));
        }
    }
}
