//! Part of pass `build`: chooses the order of axes in which each temporary lies in memory.
//!
//! The lanes of a vector should be neighbours in memory in every kernel that touches the temporary. An axis that
//! windows slide along (convolution, pooling) is a bad last axis: one kernel writes it in a row, another reads it
//! shifted, strided and at borders. So another axis is last, one along which all its kernels count by one, such as
//! channels: `[8, 64, 28, 28]` is stored as `[8, 28, 28, 64]`. Whatever the same kernels touch at the same index
//! follows, and what they touch at an index that differs along this axis alone: both sides of a convolution of 1 x 1.
//! Programs never see a temporary, so they cannot tell.
//!
//! One case keeps its layout: a kernel also reads windows of a leaf or root, along that axis (a convolution of each
//! channel on its own). Those are row-major, and its lanes should be neighbours in them.

use super::assign::{Placement, Plan};
use super::index::{self, Index};
use super::writes::same_memory;
use kiln_ir::affine::Affine;
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// An axis is put last only if whole vectors fit it.
const LANES: usize = 8;

/// For each node whose memory does not end with its last axis, the axis with which it ends.
#[derive(Default)]
pub(super) struct Layouts(FxHashMap<usize, usize>);

impl Layouts {
    /// The position in memory of the element of node `i` at an index.
    pub(super) fn flatten(&self, i: usize, index: &Index, shape: &[usize]) -> UOp {
        let Some(&last) = self.0.get(&i) else { return index::flatten(index, shape) };
        let (mut index, mut shape) = (index.clone(), shape.to_vec());
        let (at, n) = (index.remove(last), shape.remove(last));
        index.push(at);
        shape.push(n);
        index::flatten(&index, &shape)
    }
}

/// Chooses for all temporaries of a plan.
pub(super) fn choose(plan: &Plan) -> Layouts {
    let mut chooser = Chooser {
        plan,
        sliding: FxHashMap::default(),
        accesses: FxHashMap::default(),
        ends: FxHashMap::default(),
        fixed: FxHashMap::default(),
        free: temporaries(plan),
        chosen: Layouts::default(),
    };
    let in_memory = |i: &usize| {
        plan.nodes[*i].op() == Op::Param || matches!(plan.placement[*i], Placement::Stored { .. })
    };
    let nodes: Vec<usize> = (0..plan.nodes.len()).filter(in_memory).collect();
    nodes.iter().for_each(|&i| chooser.find_slides(i));
    if chooser.sliding.values().any(|s| *s == Slide::Overlapping) {
        nodes.iter().for_each(|&i| chooser.find_neighbours(i));
        for i in nodes {
            if chooser.overlaps_at_the_end(i) {
                chooser.spread(i);
            }
        }
    }
    chooser.chosen
}

/// Nodes whose memory is invisible outside of the schedule and unchanged by updates.
fn temporaries(plan: &Plan) -> FxHashSet<usize> {
    let is_update = |n: &&UOp| n.op() == Op::Update;
    let updated = plan.nodes.iter().filter(is_update).flat_map(|u| [u, same_memory(u.src(0))]);
    let seen: FxHashSet<usize> =
        updated.map(|n| plan.position[n]).chain(plan.roots.iter().copied()).collect();
    let stored = |i: &usize| matches!(plan.placement[*i], Placement::Stored { .. });
    (0..plan.nodes.len()).filter(|i| stored(i) && !seen.contains(i)).collect()
}

/// How an index moves along an axis, if not by one plain loop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Slide {
    /// In steps of a loop: windows that do not overlap, an axis that was made of two, or one of those two.
    Apart,
    /// Two combinations of loops reach one element: overlapping windows.
    Overlapping,
}

struct Chooser<'a> {
    plan: &'a Plan,
    /// By kernel and loop: how the loop slides along an axis of some access.
    sliding: FxHashMap<(usize, UOp), Slide>,
    /// By kernel: the indices at which it accesses nodes.
    accesses: FxHashMap<usize, Vec<(&'a Index, usize)>>,
    /// By kernel: the nodes along whose last axis something slides.
    ends: FxHashMap<usize, Vec<usize>>,
    /// By kernel: the indices at which it reads windows of memory whose layout is fixed.
    fixed: FxHashMap<usize, Vec<Index>>,
    /// Nodes whose layout may still be chosen.
    free: FxHashSet<usize>,
    chosen: Layouts,
}

impl Chooser<'_> {
    fn find_slides(&mut self, i: usize) {
        for request in &self.plan.requests[i] {
            for (slide, ranges) in request.index.iter().filter_map(slide) {
                for range in ranges {
                    let known = self.sliding.entry((request.kernel, range)).or_insert(slide);
                    *known = slide.max(*known);
                }
            }
        }
    }

    fn find_neighbours(&mut self, i: usize) {
        for (r, request) in self.plan.requests[i].iter().enumerate() {
            self.accesses.entry(request.kernel).or_default().push((&request.index, i));
            if self.at_the_end(i, r).is_some() {
                self.ends.entry(request.kernel).or_default().push(i);
            }
            let own = request.index.last().and_then(slide).map(|(slide, _)| slide);
            if own == Some(Slide::Overlapping) && !self.free.contains(&i) {
                self.fixed.entry(request.kernel).or_default().push(request.index.clone());
            }
        }
    }

    /// How demand `r` slides along the last axis of a node's memory: by its own index, or by a loop that slides
    /// elsewhere.
    fn at_the_end(&self, i: usize, r: usize) -> Option<Slide> {
        let request = &self.plan.requests[i][r];
        let last = request.index.last()?;
        let own = slide(last).map(|(slide, _)| slide);
        own.max(self.sliding.get(&(request.kernel, last.clone())).copied())
    }

    fn overlaps_at_the_end(&self, i: usize) -> bool {
        let overlaps = |r| self.at_the_end(i, r) == Some(Slide::Overlapping);
        (0..self.plan.requests[i].len()).any(overlaps)
    }

    /// The axis to put last: `wanted` if it is a good one, else the best one, the next outward along which all kernels
    /// count by one. If there is none, one along which kernels count by one here, and elsewhere in steps.
    fn plain_axis(&self, i: usize, wanted: Option<usize>) -> Option<usize> {
        let outer = self.plan.nodes[i].shape().len().checked_sub(1)?;
        let candidates =
            || wanted.into_iter().chain((1..outer).rev()).filter(|a| (1..outer).contains(a));
        let axis = |allowed| candidates().find(|&a| self.has_vectors(i, a, allowed));
        axis(None).or_else(|| axis(Some(Slide::Apart)))
    }

    /// Whether an axis has whole vectors, and kernels slide along it at most as is allowed.
    fn has_vectors(&self, i: usize, axis: usize, allowed: Option<Slide>) -> bool {
        let slide = |kernel, at: &UOp| match counted(at) {
            Some(range) => self.sliding.get(&(kernel, range)).copied(),
            None => Some(Slide::Overlapping),
        };
        let mut slides = self.plan.requests[i].iter().map(|r| slide(r.kernel, &r.index[axis]));
        self.plan.nodes[i].shape()[axis].is_multiple_of(LANES) && slides.all(|s| s <= allowed)
    }

    /// Whether a kernel that touches the node moves windows of memory with a fixed layout along this axis.
    fn is_fixed(&self, i: usize, axis: usize) -> bool {
        self.plan.requests[i].iter().any(|request| {
            let mut fixed = self.fixed.get(&request.kernel).into_iter().flatten();
            fixed.any(|index| index.contains(&request.index[axis]))
        })
    }

    /// Puts an axis last for a node, and for everything that kernels touch together with it.
    fn spread(&mut self, first: usize) {
        let mut stack = vec![(first, None)];
        while let Some((i, wanted)) = stack.pop() {
            if !self.free.remove(&i) {
                continue;
            }
            let Some(axis) = self.plain_axis(i, wanted).filter(|&a| !self.is_fixed(i, a)) else {
                continue;
            };
            self.chosen.0.insert(i, axis);
            for request in &self.plan.requests[i] {
                let ends = self.ends.get(&request.kernel).into_iter().flatten();
                stack.extend(ends.map(|&end| (end, None)));
                let accesses = self.accesses[&request.kernel].iter();
                let beside = accesses.filter(|(index, _)| is_beside(index, &request.index, axis));
                stack.extend(beside.map(|&(_, node)| (node, Some(axis))));
            }
        }
    }
}

/// Whether two indices agree but along an axis: those at which a convolution of 1 x 1 reads and writes differ in the
/// channel.
fn is_beside(one: &Index, other: &Index, axis: usize) -> bool {
    let agree = |a: usize| a == axis || one[a] == other[a];
    one.len() == other.len() && (0..one.len()).all(agree)
}

/// The loop that an index counts by one, from 0 or from a constant: a part of what `cat` joins begins after the others.
fn counted(at: &UOp) -> Option<UOp> {
    let mut sum = Affine::of(at).filter(Affine::is_of_loops)?;
    let (range, step) = sum.terms.pop()?;
    (sum.terms.is_empty() && step == 1).then_some(range)
}

/// The loops that an index adds up, if they are several, or divides by a constant.
fn slide(at: &UOp) -> Option<(Slide, Vec<UOp>)> {
    if let (Op::FloorDiv | Op::FloorMod, [divided, by]) = (at.op(), at.srcs()) {
        let is_loop = divided.op() == Op::Range && by.as_int().is_some();
        return is_loop.then(|| (Slide::Apart, vec![divided.clone()]));
    }
    let mut steps = Affine::of(at).filter(Affine::is_of_loops)?.terms;
    steps.sort_by_key(|(_, stride)| *stride);
    let (mut reach, mut slide) = (0i64, Slide::Apart);
    for (range, stride) in &steps {
        if *stride <= reach {
            slide = Slide::Overlapping;
        }
        reach = reach.saturating_add(stride.saturating_mul(range.max()));
    }
    (steps.len() > 1).then(|| (slide, steps.into_iter().map(|(range, _)| range).collect()))
}
