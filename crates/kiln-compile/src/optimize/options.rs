//! Options as data, and their application: a loop becomes an outer loop and an inner part of another kind.

use super::gate::gate;
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::{Srcs, rebuild, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use std::fmt;

/// One step of optimization: `by` neighbouring iterations of loop `axis` (as numbered in the kernel before any option)
/// become `kind`. `by` divides what is left of the loop, but for `Vector`: there the last vector may be partly empty,
/// and its accesses are gated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Opt {
    /// `Upcast`, `Unroll`, `Vector`, or `Thread` for the whole rest of the loop.
    pub kind: RangeKind,
    /// The loop's axis number.
    pub axis: u32,
    /// How many iterations.
    pub by: usize,
}

impl fmt::Display for Opt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(axis {}, {})", self.kind.name().to_uppercase(), self.axis, self.by)
    }
}

/// A part of an original loop: `stride` iterations of it apart.
#[derive(Clone, Copy, Debug)]
struct Part {
    range: usize,
    size: usize,
    stride: usize,
    kind: RangeKind,
}

/// The loops of a kernel while options are applied to them.
pub(super) struct Loops {
    /// The kernel's ranges in order of axis.
    ranges: Vec<UOp>,
    parts: Vec<Part>,
    /// Positions of the ranges that have been rounded up to whole vectors.
    padded: Vec<usize>,
}

/// The ranges of a kernel in order of axis.
pub(super) fn ranges_of(ast: &UOp) -> Vec<UOp> {
    let mut ranges: Vec<UOp> = toposort(ast).into_iter().filter(|n| n.op() == Op::Range).collect();
    ranges.sort_by_key(axis_of);
    ranges
}

/// A range's axis number.
pub(super) fn axis_of(range: &UOp) -> u32 {
    range.arg().range().expect("a range has a range argument").0
}

/// A range's kind.
pub(super) fn kind_of(range: &UOp) -> RangeKind {
    range.arg().range().expect("a range has a range argument").1
}

/// A range's number of iterations.
pub(super) fn size_of(range: &UOp) -> usize {
    range.src(0).as_int().expect("loops of a schedule have constant bounds") as usize
}

impl Loops {
    pub(super) fn of(ast: &UOp) -> Loops {
        let ranges = ranges_of(ast);
        let whole = |(i, r): (usize, &UOp)| Part {
            range: i,
            size: size_of(r),
            stride: 1,
            kind: kind_of(r),
        };
        let padded = Vec::new();
        Loops { padded, parts: ranges.iter().enumerate().map(whole).collect(), ranges }
    }

    /// Splits the outer part of a loop; `Thread` renames it.
    pub(super) fn apply(&mut self, opt: Opt) {
        let range = self
            .ranges
            .iter()
            .position(|r| axis_of(r) == opt.axis)
            .expect("an option names a loop");
        let outer = self.parts.iter().position(|p| p.range == range && !p.kind.is_expanded());
        let part = &mut self.parts[outer.expect("a loop keeps its outer part")];
        if opt.kind == RangeKind::Thread {
            part.kind = RangeKind::Thread;
            return;
        }
        if !part.size.is_multiple_of(opt.by) {
            assert_eq!(opt.kind, RangeKind::Vector, "{opt} does not divide {}", part.size);
            self.padded.push(range);
            part.size = part.size.next_multiple_of(opt.by);
        }
        let inner = Part { range, size: opt.by, stride: part.stride, kind: opt.kind };
        part.size /= opt.by;
        part.stride *= opt.by;
        self.parts.push(inner);
    }

    /// The kernel over the new loops, numbered by position: threads, then the loops as they were, then what will be
    /// expanded.
    pub(super) fn rewrite(mut self, ast: &UOp) -> UOp {
        self.parts.sort_by_key(|p| (p.kind != RangeKind::Thread, p.kind.is_expanded(), p.range));
        let mut replaced: Vec<(UOp, Srcs)> = vec![(UOp::index(0), Srcs::new()); self.ranges.len()];
        for (axis, part) in self.parts.iter().filter(|p| p.size != 1).enumerate() {
            let new = UOp::range(axis as u32, part.kind, part.size);
            let (value, ranges) = &mut replaced[part.range];
            *value = if value.is_const(0) {
                scaled(&new, part.stride)
            } else {
                &*value + scaled(&new, part.stride)
            };
            ranges.push(new);
        }
        let map: FxHashMap<UOp, (UOp, Srcs)> = self.ranges.iter().cloned().zip(replaced).collect();
        // the gates are written over the old ranges, and replaced with everything else
        let gated = self.padded.iter().fold(ast.clone(), |ast, &i| gate(&ast, &self.ranges[i]));
        kiln_ir::rules::simplify(&replace_ranges(&gated, &map))
    }
}

fn scaled(range: &UOp, stride: usize) -> UOp {
    if stride == 1 { range.clone() } else { range * stride as i64 }
}

/// Replaces ranges by expressions over new ranges; what closed the old ranges closes the new ones.
pub(super) fn replace_ranges(ast: &UOp, map: &FxHashMap<UOp, (UOp, Srcs)>) -> UOp {
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in toposort(ast) {
        let new = match (map.get(&node), node.op()) {
            (Some((value, _)), _) => value.clone(),
            (None, Op::End | Op::Reduce | Op::After) => rebuild_closing(&node, &done, map),
            (None, _) => rebuild(&node, node.srcs().iter().map(|s| done[s].clone()).collect()),
        };
        done.insert(node, new);
    }
    done[ast].clone()
}

fn rebuild_closing(
    node: &UOp,
    done: &FxHashMap<UOp, UOp>,
    map: &FxHashMap<UOp, (UOp, Srcs)>,
) -> UOp {
    let mut srcs = Srcs::new();
    for src in node.srcs() {
        match map.get(src) {
            Some((_, ranges)) => srcs.extend(ranges.iter().cloned()),
            None => srcs.push(done[src].clone()),
        }
    }
    if srcs.len() == 1 {
        return srcs.swap_remove(0);
    }
    rebuild(node, srcs)
}
