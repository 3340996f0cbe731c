//! Part of pass `choose`: which options may be applied to a kernel, and why not the others. A legal option changes
//! nothing that a kernel computes, except for the order of sums. Whether it makes the kernel faster is not asked here.

use super::access::Kernel;
use super::align::Rows;
use super::options::{Loops, Opt};
use super::ordered::ordered;
use super::ranges::{axis_of, kind_of};
use kiln_ir::UOp;
use kiln_ir::arg::RangeKind;
use kiln_ir::scope::AxisSet;

/// Lanes of a vector, and neighbours of a copy, at most.
const MOST_LANES: usize = 64;

/// What about a kernel decides whether an option is legal.
pub(super) struct Rules {
    kernel: Kernel,
    /// Axes of loops that must run in their order.
    ordered: AxisSet,
    /// Whether all loops over outputs are around everything, and those of reductions around each of those.
    one_nest: bool,
    /// Axes of loops of reductions.
    reductions: Vec<u32>,
    operands: usize,
    /// Axes of loops that may start with lines of the rows that are stored.
    inside_rows: AxisSet,
}

/// How a loop stands while options are applied.
pub(super) struct Standing {
    /// What is left of it is a loop of this kind.
    pub(super) kind: RangeKind,
    /// Iterations that are left.
    pub(super) left: usize,
}

impl Rules {
    pub(super) fn of(ast: &UOp, ranges: &[UOp], operands: usize) -> Rules {
        let (kernel, ordered) = (Kernel::of(ast), ordered(ast));
        let one_nest = is_one_nest(&kernel, ranges, &ordered);
        let reduces = ranges.iter().filter(|r| kind_of(r) == RangeKind::Reduce);
        let reductions = reduces.map(axis_of).collect();
        let inside_rows = Rows::of(ast).map_or_else(AxisSet::default, |rows| {
            let axes = ranges.iter().map(axis_of);
            axes.filter(|&axis| rows.are_around(&kernel, axis)).collect()
        });
        Rules { kernel, ordered, one_nest, reductions, operands, inside_rows }
    }

    /// Whether an option may follow `before`, which have been applied to `loops`; if not, why.
    pub(super) fn check(&self, loops: &Loops, before: &[Opt], opt: Opt) -> Result<(), String> {
        match opt {
            Opt::Stage { operand, depth, lanes } => self.stage(before, operand, depth, lanes),
            Opt::Dot { .. } => ensure(before.is_empty(), "what is packed is packed first"),
            Opt::Mma { axes, by } => self.mma(loops, before, axes, by),
            Opt::Align { axis, by } => self.align(loops, before, axis, by),
            Opt::Rows { .. } | Opt::Nest { .. } => Err("the kernel has one nest".to_owned()),
            Opt::Keep { .. } => {
                ensure(!before.iter().any(is_mma), "a matrix unit's results are in scratch")?;
                let kept = before.iter().any(|o| matches!(o, Opt::Keep { .. }));
                ensure(!kept, "values are kept already")
            }
            Opt::Split { axis, by, .. } | Opt::Block { axis, by } => {
                let loop_ = loops.standing(axis);
                let loop_ = loop_.ok_or_else(|| format!("no loop has axis {axis}"))?;
                ensure(!self.ordered.contains(axis), "iterations of the loop may meet")?;
                // what is rounded up inside of a block would run into the next one
                let divides = by > 0 && loop_.left.is_multiple_of(by);
                ensure(
                    divides || !self.is_in_blocks(before, axis),
                    "it does not divide the block",
                )?;
                match opt {
                    Opt::Split { kind, .. } => self.split(before, kind, axis, by, &loop_),
                    _ => self.block(before, by, &loop_),
                }
            }
        }
    }

    fn split(
        &self,
        before: &[Opt],
        kind: RangeKind,
        axis: u32,
        by: usize,
        at: &Standing,
    ) -> Result<(), String> {
        let plain = matches!(at.kind, RangeKind::Loop | RangeKind::Reduce);
        ensure(plain, "threads share the loop")?;
        match kind {
            RangeKind::Thread => self.thread(before, axis, at),
            RangeKind::Vector => self.vector(before, axis, by, at),
            // iterations of a reduction get accumulators of their own, or one of all
            RangeKind::Upcast => fits(by, at),
            RangeKind::Unroll => {
                ensure(
                    at.kind == RangeKind::Reduce,
                    "a loop over outputs is upcast, not unrolled",
                )?;
                fits(by, at)
            }
            RangeKind::Global
            | RangeKind::Local
            | RangeKind::Loop
            | RangeKind::Reduce
            | RangeKind::Matrix => Err(format!("no option makes a loop {}", kind.name())),
        }
    }

    fn thread(&self, before: &[Opt], axis: u32, at: &Standing) -> Result<(), String> {
        ensure(at.kind == RangeKind::Loop, "threads cannot share a reduction")?;
        ensure(!before.iter().any(is_thread), "threads share a loop already")?;
        ensure(self.kernel.nests.iter().all(|n| n.contains(axis)), "something is outside of it")?;
        let outside = |o: &Opt| matches!(o, Opt::Stage { depth: 0, .. });
        ensure(!before.iter().any(outside), "something is staged outside of threads")
    }

    fn vector(&self, before: &[Opt], axis: u32, by: usize, at: &Standing) -> Result<(), String> {
        let lanes = by.is_power_of_two() && (2..=MOST_LANES).contains(&by);
        ensure(lanes, "the lanes of a vector are a power of two")?;
        ensure(by < 2 * at.left, "half of the lanes would be empty")?;
        ensure(!before.iter().any(is_mma), "results of a matrix unit are read in its vectors")?;
        let meets = |o: &Opt| match *o {
            Opt::Split { kind: RangeKind::Vector, axis: other, .. } => {
                other == axis || self.kernel.together(other, axis)
            }
            _ => false,
        };
        ensure(!before.iter().any(meets), "an expression would have lanes of two loops")
    }

    fn align(&self, loops: &Loops, before: &[Opt], axis: u32, by: usize) -> Result<(), String> {
        ensure(before.iter().all(is_align), "lines come before all else")?;
        let again = before.iter().any(|o| matches!(o, Opt::Align { axis: a, .. } if *a == axis));
        ensure(!again, "the loop starts with a line already")?;
        ensure(by.is_power_of_two() && (2..=MOST_LANES).contains(&by), "no line is so long")?;
        ensure(!self.ordered.contains(axis), "iterations of the loop may meet")?;
        let known = loops.standing(axis).is_some() && self.inside_rows.contains(axis);
        ensure(known, "the loop is not inside of rows")
    }

    fn mma(
        &self,
        loops: &Loops,
        before: &[Opt],
        axes: [u32; 3],
        by: [usize; 3],
    ) -> Result<(), String> {
        ensure(matches!(before, [Opt::Dot { .. }]), "it follows right after what packs products")?;
        ensure(self.one_nest, "the kernel is more than one nest")?;
        ensure(by.iter().all(|n| (2..=MOST_LANES).contains(n)), "no matrix has such a side")?;
        ensure(by[2].is_power_of_two(), "the lanes of a vector are a power of two")?;
        ensure(axes[0] != axes[2], "rows are not columns")?;
        let kinds = [RangeKind::Loop, RangeKind::Reduce, RangeKind::Loop];
        for (axis, kind) in axes.into_iter().zip(kinds) {
            let is_such = loops.standing(axis).is_some_and(|at| at.kind == kind);
            ensure(is_such && !self.ordered.contains(axis), &format!("axis {axis} is no side"))?;
        }
        Ok(())
    }

    fn block(&self, before: &[Opt], by: usize, at: &Standing) -> Result<(), String> {
        ensure(!before.iter().any(is_align), "loops start with lines")?;
        ensure(self.one_nest, "the kernel is more than one nest")?;
        match at.kind {
            RangeKind::Loop => fits(by, at),
            RangeKind::Reduce => {
                ensure((1..=at.left).contains(&by), "so many iterations are not left")?;
                let blocks = self.reductions.iter().any(|&r| self.is_in_blocks(before, r));
                ensure(!blocks, "a reduction is in blocks already")
            }
            _ => Err("threads share the loop".to_owned()),
        }
    }

    /// Whether the loop is one of a reduction, and an earlier option has made blocks of it: what is left of it then is
    /// inside of each.
    fn is_in_blocks(&self, before: &[Opt], axis: u32) -> bool {
        let block = |o: &Opt| matches!(o, Opt::Block { axis: other, .. } if *other == axis);
        self.reductions.contains(&axis) && before.iter().any(block)
    }

    fn stage(
        &self,
        before: &[Opt],
        operand: usize,
        depth: usize,
        lanes: usize,
    ) -> Result<(), String> {
        ensure(operand < self.operands, "there is no such operand")?;
        ensure(!before.iter().any(is_align), "loops start with lines")?;
        ensure(self.one_nest, "the kernel is more than one nest")?;
        let same = |o: &Opt| matches!(o, Opt::Stage { operand: other, .. } if *other == operand);
        ensure(!before.iter().any(same), "the operand is staged already")?;
        ensure(depth > 0 || !before.iter().any(is_thread), "scratch belongs to one thread")?;
        let fits = lanes.is_power_of_two() && lanes <= MOST_LANES;
        ensure(fits, "the lanes of a copy are a power of two")
    }
}

/// Whether all free loops over outputs are around everything, and those of reductions around all of them or none.
fn is_one_nest(kernel: &Kernel, ranges: &[UOp], ordered: &AxisSet) -> bool {
    let of_kind = |kind| -> AxisSet {
        let ranges = ranges.iter().filter(|r| kind_of(r) == kind).map(axis_of);
        ranges.filter(|&axis| !ordered.contains(axis)).collect()
    };
    let (outputs, reduces) = (of_kind(RangeKind::Loop), of_kind(RangeKind::Reduce));
    kernel.is_one_nest(&outputs, &reduces)
}

fn is_thread(opt: &Opt) -> bool {
    matches!(opt, Opt::Split { kind: RangeKind::Thread, .. })
}

fn is_align(opt: &Opt) -> bool {
    matches!(opt, Opt::Align { .. })
}

fn is_mma(opt: &Opt) -> bool {
    matches!(opt, Opt::Mma { .. })
}

fn fits(by: usize, at: &Standing) -> Result<(), String> {
    ensure(by > 1, "one iteration is no part")?;
    ensure(by <= at.left, "so many iterations are not left")
}

fn ensure(holds: bool, why: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why.to_owned()) }
}
