//! Part of pass `choose`: which options may be applied to a kernel, and why not the others. A legal option changes
//! nothing that a kernel computes, except for the order of sums. Whether it makes the kernel faster is not asked here.

use super::access::Kernel;
use super::align::Rows;
use super::loops::{Loops, Part, Standing, packed};
use super::opt::Opt;
use super::ranges::{axis_of, kind_of};
use super::together;
use kiln_ir::arg::RangeKind;
use kiln_ir::scope::AxisSet;
use kiln_ir::uop::find_all;
use kiln_ir::{Op, UOp};

/// Lanes of a vector, and neighbours of a copy, at most.
const MOST_LANES: usize = 64;

/// The facts about a kernel that decide whether an option is legal.
pub(super) struct Rules {
    kernel: Kernel,
    /// Whether all loops over outputs are around everything, and the loops of reductions around all of it or nothing.
    one_nest: bool,
    /// Axes of loops of reductions.
    reductions: Vec<u32>,
    /// Axes of loops of all reductions.
    shared: Vec<u32>,
    /// Axes of loops over outputs that are around everything.
    around: AxisSet,
    /// Axes of loops of reductions that items could divide.
    divisible: AxisSet,
    /// For each reduction, the axes of the loops around it and of its own.
    reduces: Vec<[AxisSet; 2]>,
    operands: usize,
    shareable: usize,
    /// Axes of loops that may be aligned to the rows that are stored.
    inside_rows: AxisSet,
    /// Whether a loop accesses memory after another one has stored to it: several writes to one tensor.
    is_sequence: bool,
}

/// Whether options may be applied to a kernel of one nest in this order; if not, the first that may not and why.
pub(super) fn check(ast: &UOp, options: &[Opt]) -> Result<(), String> {
    let ast = packed(ast, options)?;
    let mut loops = Loops::of(&ast);
    let rules = loops.rules(&ast);
    for (at, &opt) in options.iter().enumerate() {
        rules.check(&loops, &options[..at], opt).map_err(|why| format!("{opt}: {why}"))?;
        loops.apply(opt);
    }
    Ok(())
}

impl Loops {
    /// The facts that decide which options are legal for this kernel.
    pub(super) fn rules(&self, ast: &UOp) -> Rules {
        Rules::of(ast, self)
    }
}

impl Rules {
    fn of(ast: &UOp, loops: &Loops) -> Rules {
        let (ranges, operands) = (&loops.ranges, loops.operands().len());
        let shareable = loops.shareable().len();
        let kernel = Kernel::of(ast);
        let one_nest = is_one_nest(&kernel, ranges);
        let reduces = ranges.iter().filter(|r| kind_of(r) == RangeKind::Reduce);
        let reductions = reduces.map(axis_of).collect();
        let inside_rows = Rows::of(ast).map_or_else(AxisSet::default, |rows| {
            let axes = ranges.iter().map(axis_of);
            axes.filter(|&axis| rows.are_around(&kernel, axis)).collect()
        });
        let shared = together::axes(ast);
        let around = loops.around().clone();
        let reduces = together::reductions(ast);
        let divisible = together::divisible(&reduces, &around);
        Rules {
            kernel,
            one_nest,
            reductions,
            shared,
            around,
            divisible,
            reduces,
            operands,
            shareable,
            inside_rows,
            is_sequence: is_sequence(ast),
        }
    }

    /// Whether an option may follow `before`, which have been applied to `loops`. If not, the error says why.
    pub(super) fn check(&self, loops: &Loops, before: &[Opt], opt: Opt) -> Result<(), String> {
        ensure(
            !uses_scratch(&opt) || !before.iter().any(is_grouped),
            "work-groups are chosen after what uses scratch",
        )?;
        let shares = before.iter().any(|o| matches!(o, Opt::Share { .. }));
        ensure(!shares || matches!(opt, Opt::Share { .. }), "operands are shared last")?;
        match opt {
            Opt::Stage { operand, depth, lanes } => self.stage(before, operand, depth, lanes),
            Opt::Subgroup { lanes } => self.subgroup(loops, before, lanes),
            Opt::Combine { parts } => self.combine(loops, before, parts),
            Opt::Share { operand, banks, .. } => {
                ensure(banks > 0, "scratch has a bank at least")?;
                self.share(loops, before, operand)
            }
            Opt::Dot { .. } => ensure(before.is_empty(), "packing must be the first option"),
            Opt::Mma { axes, by } => self.mma(loops, before, axes, by),
            Opt::Align { axis, by } => self.align(loops, before, axis, by),
            Opt::Rows { .. } | Opt::Nest { .. } => {
                Err("it needs a kernel of several nests".to_owned())
            }
            Opt::Keep { .. } => {
                ensure(
                    !before.iter().any(is_mma),
                    "the results of a matrix unit are in scratch already",
                )?;
                let kept = before.iter().any(|o| matches!(o, Opt::Keep { .. }));
                ensure(!kept, "an earlier option keeps values already")
            }
            Opt::Split { axis, by, .. } | Opt::Block { axis, by } => {
                let loop_ = loops.standing(axis);
                let loop_ = loop_.ok_or_else(|| format!("no loop has axis {axis}"))?;
                ensure(
                    !self.kernel.ordered.contains(axis),
                    "two iterations of the loop may write the same element",
                )?;
                // a block that is rounded up would run into the next one
                let divides = by > 0 && loop_.left.is_multiple_of(by);
                ensure(
                    divides || !self.is_in_blocks(before, axis),
                    "it must divide the block of the reduction",
                )?;
                match opt {
                    Opt::Split { kind: RangeKind::Local, .. } if !self.around.contains(axis) => {
                        self.along(loops, before, axis, by)?;
                        fits(by, &loop_)
                    }
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
        ensure(plain, "the loop is divided among threads already")?;
        match kind {
            RangeKind::Thread => self.thread(before, axis, at),
            RangeKind::Global => self.groups(before, axis, at),
            RangeKind::Local => {
                self.groups(before, axis, at)?;
                ensure(
                    !before.iter().any(uses_scratch),
                    "the items of a group would share scratch that one item fills",
                )?;
                fits(by, at)
            }
            RangeKind::Vector => self.vector(before, axis, by, at),
            // each iteration of a reduction gets an accumulator of its own, or all share one
            RangeKind::Upcast => fits(by, at),
            RangeKind::Unroll => {
                ensure(
                    at.kind == RangeKind::Reduce,
                    "only a reduction is unrolled; a loop over outputs is upcast",
                )?;
                fits(by, at)
            }
            RangeKind::Reduce => {
                ensure(at.kind == RangeKind::Reduce, "the loop is not a reduction's")?;
                ensure(!before.iter().any(uses_scratch), "what uses scratch has its own blocks")?;
                fits(by, at)
            }
            RangeKind::Loop | RangeKind::Matrix => {
                Err(format!("no option gives a loop the kind {}", kind.name()))
            }
        }
    }

    fn thread(&self, before: &[Opt], axis: u32, at: &Standing) -> Result<(), String> {
        ensure(at.kind == RangeKind::Loop, "a reduction cannot be divided among threads")?;
        ensure(!before.iter().any(is_thread), "another loop is divided among threads already")?;
        ensure(!before.iter().any(is_grouped), "another loop is done by work-groups already")?;
        self.around_all(before, axis)
    }

    /// Whether a loop is around everything, so that what is inside of it may be divided.
    fn around_all(&self, before: &[Opt], axis: u32) -> Result<(), String> {
        ensure(
            self.kernel.nests.iter().all(|n| n.contains(axis)),
            "not everything that the kernel computes is inside of the loop",
        )?;
        let outside = |o: &Opt| matches!(o, Opt::Stage { depth: 0, .. });
        ensure(
            !before.iter().any(outside),
            "an operand is staged outside of the loop, and scratch belongs to one thread",
        )
    }

    /// Whether the items that go along rows together may divide a loop.
    fn along(&self, loops: &Loops, before: &[Opt], axis: u32, by: usize) -> Result<(), String> {
        let is_divisible = self.divisible.contains(axis) || !self.reductions.contains(&axis);
        ensure(is_divisible, "the reduction is inside of another loop")?;
        ensure(self.kernel.ordered.is_empty(), "a loop must run in its order")?;
        ensure(!self.is_sequence, "a loop would need what other items store in another one")?;
        let is_around = |p: &&Part| self.around.contains(axis_of(&loops.ranges[p.range]));
        let is_done = |p: &Part| matches!(p.kind, RangeKind::Global | RangeKind::Local);
        ensure(
            loops.parts.iter().filter(is_around).all(|p| is_done(p) || p.size == 1),
            "all loops around everything must be done by groups before",
        )?;
        ensure(before.iter().all(is_grouped), "a loop is split already")?;
        self.whole_rows(loops, axis)?;
        let mut team = loops.parts.iter().filter(|p| p.along);
        let meets = |p: &Part| {
            let other = axis_of(&loops.ranges[p.range]);
            other == axis || self.kernel.together(other, axis)
        };
        ensure(!team.clone().any(meets), "the items divide a loop around it or inside of it")?;
        ensure(team.all(|p| p.size == by), "the items have another number")
    }

    /// Whether all items have read whole rows before one stores a part of a row, which may be written over what is read: they
    /// know the result of a reduction that they divide only when all have read.
    fn whole_rows(&self, loops: &Loops, axis: u32) -> Result<(), String> {
        let team = loops.parts.iter().filter(|p| p.along);
        let team: AxisSet = team.map(|p| axis_of(&loops.ranges[p.range])).collect();
        let is_read = |[around, own]: &[AxisSet; 2]| around.contains(axis) || own.intersects(&team);
        ensure(
            self.reductions.contains(&axis) || self.reduces.iter().all(is_read),
            "a reduction outside of the loop is not divided",
        )
    }

    /// How many items go along rows together; none if they reduce nothing.
    fn team(&self, loops: &Loops) -> Result<usize, String> {
        let divides = |p: &&Part| p.along && kind_of(&loops.ranges[p.range]) == RangeKind::Reduce;
        let part = loops.parts.iter().find(divides);
        part.map(|p| p.size).ok_or_else(|| "no items reduce together".to_owned())
    }

    /// Whether the items that reduce together may exchange their results by so many.
    fn subgroup(&self, loops: &Loops, before: &[Opt], lanes: usize) -> Result<(), String> {
        ensure(before.iter().all(is_grouped), "it must follow the splits that make items")?;
        let is_subgroup = lanes.is_power_of_two() && (2..=MOST_LANES).contains(&lanes);
        ensure(is_subgroup, "a subgroup has a power of two of items, at most 64")?;
        ensure(self.team(loops)?.is_multiple_of(lanes), "a subgroup would have too few items")
    }

    /// Whether the items that reduce together may combine so many partial results first.
    fn combine(&self, loops: &Loops, before: &[Opt], parts: usize) -> Result<(), String> {
        let last = before.last();
        let follows = last.is_some_and(|o| is_grouped(o) || matches!(o, Opt::Subgroup { .. }));
        ensure(follows, "it must follow the splits that make items")?;
        let all = self.team(loops)? / loops.subgroup;
        let divides = parts > 1 && parts < all && all.is_multiple_of(parts);
        ensure(divides, "it must divide the partial results")
    }

    /// Whether a loop, or a part of it, may be done by groups of work-items.
    fn groups(&self, before: &[Opt], axis: u32, at: &Standing) -> Result<(), String> {
        ensure(at.kind == RangeKind::Loop, "the items of a group cannot share a reduction")?;
        ensure(!before.iter().any(is_thread), "another loop is divided among threads already")?;
        ensure(!before.iter().any(is_align), "a loop is aligned, which excludes this option")?;
        self.around_all(before, axis)
    }

    fn vector(&self, before: &[Opt], axis: u32, by: usize, at: &Standing) -> Result<(), String> {
        let lanes = by.is_power_of_two() && (2..=MOST_LANES).contains(&by);
        ensure(lanes, "a vector has a power of two of lanes, at most 64")?;
        ensure(by < 2 * at.left, "at least half of the lanes would be empty")?;
        ensure(
            !before.iter().any(is_mma),
            "the results of a matrix unit are read in vectors of its own",
        )?;
        let meets = |o: &Opt| match *o {
            Opt::Split { kind: RangeKind::Vector, axis: other, .. } => {
                other == axis || self.kernel.together(other, axis)
            }
            _ => false,
        };
        ensure(!before.iter().any(meets), "an expression would vary over the lanes of two loops")
    }

    fn align(&self, loops: &Loops, before: &[Opt], axis: u32, by: usize) -> Result<(), String> {
        ensure(before.iter().all(is_align), "loops are aligned before all other options")?;
        let again = before.iter().any(|o| matches!(o, Opt::Align { axis: a, .. } if *a == axis));
        ensure(!again, "the loop is aligned already")?;
        ensure(
            by.is_power_of_two() && (2..=MOST_LANES).contains(&by),
            "a cache line has a power of two of elements, at most 64",
        )?;
        ensure(
            !self.kernel.ordered.contains(axis),
            "two iterations of the loop may write the same element",
        )?;
        let known = loops.standing(axis).is_some() && self.inside_rows.contains(axis);
        ensure(known, "the loop is not inside of the loops over the rows that the kernel stores")
    }

    fn mma(
        &self,
        loops: &Loops,
        before: &[Opt],
        axes: [u32; 3],
        by: [usize; 3],
    ) -> Result<(), String> {
        ensure(
            matches!(before, [Opt::Dot { .. }]),
            "it must follow right after the option that packs the products",
        )?;
        ensure(self.one_nest, "the loops of the kernel are not one nest")?;
        ensure(
            by.iter().all(|n| (2..=MOST_LANES).contains(n)),
            "a side of a matrix has 2 to 64 elements",
        )?;
        ensure(by[2].is_power_of_two(), "a vector has a power of two of lanes, at most 64")?;
        ensure(axes[0] != axes[2], "rows and columns must be different loops")?;
        let kinds = [RangeKind::Loop, RangeKind::Reduce, RangeKind::Loop];
        for (axis, kind) in axes.into_iter().zip(kinds) {
            let is_such = loops.standing(axis).is_some_and(|at| at.kind == kind);
            ensure(
                is_such && !self.kernel.ordered.contains(axis),
                &format!("loop {axis} cannot be a side of a matrix"),
            )?;
        }
        Ok(())
    }

    fn block(&self, before: &[Opt], by: usize, at: &Standing) -> Result<(), String> {
        ensure(!before.iter().any(is_align), "a loop is aligned, which excludes this option")?;
        ensure(self.one_nest, "the loops of the kernel are not one nest")?;
        match at.kind {
            RangeKind::Loop => fits(by, at),
            RangeKind::Reduce => {
                ensure((1..=at.left).contains(&by), "the loop has fewer iterations left")?;
                let blocks = self.reductions.iter().any(|&r| self.is_in_blocks(before, r));
                ensure(!blocks, "a reduction is blocked already")
            }
            _ => Err("the loop is divided among threads already".to_owned()),
        }
    }

    /// Whether the loop is a reduction's and an earlier option has blocked it: the rest of it is then inside of each
    /// block.
    fn is_in_blocks(&self, before: &[Opt], axis: u32) -> bool {
        let block = |o: &Opt| matches!(o, Opt::Block { axis: other, .. } if *other == axis);
        self.reductions.contains(&axis) && before.iter().any(block)
    }

    /// Whether the items of a group may share an operand: all of them come to each copy equally often.
    fn share(&self, loops: &Loops, before: &[Opt], operand: usize) -> Result<(), String> {
        ensure(operand < self.shareable, "the kernel has no operand of this number")?;
        ensure(self.one_nest, "the loops of the kernel are not one nest")?;
        ensure(!before.iter().any(uses_scratch), "scratch of one item is not shared")?;
        let same = |o: &Opt| matches!(o, Opt::Share { operand: other, .. } if *other == operand);
        ensure(!before.iter().any(same), "the operand is shared already")?;
        let is_item = |p: &&Part| p.kind == RangeKind::Local && p.size > 1;
        let mut items = loops.parts.iter().filter(is_item).map(|p| kind_of(&loops.ranges[p.range]));
        ensure(items.clone().next().is_some(), "there are no work-items that could share it")?;
        ensure(items.all(|kind| kind == RangeKind::Loop), "the items reduce together")?;
        let all = self.reductions.iter().all(|axis| self.shared.contains(axis));
        ensure(all, "the reductions of the kernel have loops of their own")
    }

    fn stage(
        &self,
        before: &[Opt],
        operand: usize,
        depth: usize,
        lanes: usize,
    ) -> Result<(), String> {
        ensure(operand < self.operands, "the kernel has no operand of this number")?;
        ensure(!before.iter().any(is_align), "a loop is aligned, which excludes this option")?;
        ensure(self.one_nest, "the loops of the kernel are not one nest")?;
        let same = |o: &Opt| matches!(o, Opt::Stage { operand: other, .. } if *other == operand);
        ensure(!before.iter().any(same), "the operand is staged already")?;
        ensure(
            depth > 0 || !before.iter().any(is_thread),
            "scratch belongs to one thread, so the copy must be inside of the loop over threads",
        )?;
        let fits = lanes.is_power_of_two() && lanes <= MOST_LANES;
        ensure(fits, "a copy has a power of two of lanes, at most 64")
    }
}

/// Whether all free loops over outputs are around everything, and those of reductions around all of them or none.
fn is_one_nest(kernel: &Kernel, ranges: &[UOp]) -> bool {
    let of_kind = |kind| -> AxisSet {
        let ranges = ranges.iter().filter(|r| kind_of(r) == kind).map(axis_of);
        ranges.filter(|&axis| !kernel.ordered.contains(axis)).collect()
    };
    let (outputs, reduces) = (of_kind(RangeKind::Loop), of_kind(RangeKind::Reduce));
    kernel.is_one_nest(&outputs, &reduces)
}

/// Whether something in a kernel comes after a store to memory.
fn is_sequence(ast: &UOp) -> bool {
    !find_all(ast, |n| n.op() == Op::After && n.memory().op() == Op::Param).is_empty()
}

/// Whether an option puts values into scratch.
fn uses_scratch(opt: &Opt) -> bool {
    matches!(opt, Opt::Stage { .. } | Opt::Keep { .. } | Opt::Block { .. } | Opt::Mma { .. })
}

fn is_grouped(opt: &Opt) -> bool {
    matches!(opt, Opt::Split { kind: RangeKind::Global | RangeKind::Local, .. })
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
    ensure(by > 1, "a split needs at least two iterations")?;
    ensure(by <= at.left, "the loop has fewer iterations left")
}

fn ensure(holds: bool, why: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why.to_owned()) }
}
