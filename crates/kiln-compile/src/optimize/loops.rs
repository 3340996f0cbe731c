//! Part of passes `choose` and `options`: the loops of a kernel while options are applied to them, one by one.

use super::dot;
use super::opt::Opt;
use super::ranges::{axis_of, kind_of, ranges_of, size_of};
use super::stage::{loads, operands};
use kiln_ir::arg::RangeKind;
use kiln_ir::scope::AxisSet;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// A part of an original loop; two neighbouring iterations of it are `stride` iterations of the loop apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) range: usize,
    pub(super) size: usize,
    pub(super) stride: usize,
    pub(super) kind: RangeKind,
    /// 0 for the rest of a loop. Of two blocks the later one is further out and has the larger number.
    pub(super) block: usize,
    /// Which side of matrices it is (1 to 3); 0 for none.
    pub(super) side: usize,
    /// Whether it is done by the items that go along rows together. All such parts are one range.
    pub(super) along: bool,
}

/// A value that will be staged.
pub(super) struct Staged {
    pub(super) value: UOp,
    pub(super) depth: usize,
    pub(super) lanes: usize,
    /// The banks of the scratch in which the items of a group share it; 0 if each item has its own. Shared, `depth` counts the
    /// loops of the reduction only.
    pub(super) banks: usize,
}

/// The loops of a kernel while options are applied to them.
pub(super) struct Loops {
    /// The kernel's ranges in order of axis.
    pub(super) ranges: Vec<UOp>,
    pub(super) parts: Vec<Part>,
    /// Positions of the ranges that have been rounded up.
    pub(super) padded: BTreeSet<usize>,
    /// Positions of the aligned ranges, and the elements of a cache line.
    pub(super) aligned: BTreeMap<usize, usize>,
    pub(super) blocks: usize,
    /// The kernel.
    ast: UOp,
    /// The values of it that may be staged, once an option asks for them.
    operands: OnceCell<Vec<UOp>>,
    /// The loops that everything is inside of, once an option asks for them.
    around: OnceCell<AxisSet>,
    /// What it loads, once an option asks for that.
    loads: OnceCell<Vec<UOp>>,
    pub(super) staged: Vec<Staged>,
    /// Bytes of each value that may be kept; 0 for none.
    pub(super) kept: usize,
    /// How many items exchange partial results without scratch; 1 for none.
    pub(super) subgroup: usize,
    /// How many partial results are combined before all others; 1 for none.
    pub(super) combined: usize,
}

/// A loop after some options.
pub(super) struct Standing {
    /// The kind of the rest of it.
    pub(super) kind: RangeKind,
    /// Iterations that are left.
    pub(super) left: usize,
}

impl Loops {
    pub(super) fn of(ast: &UOp) -> Loops {
        let ranges = ranges_of(ast);
        let whole = |(i, r): (usize, &UOp)| Part {
            range: i,
            size: size_of(r),
            stride: 1,
            kind: kind_of(r),
            block: 0,
            side: 0,
            along: false,
        };
        Loops {
            parts: ranges.iter().enumerate().map(whole).collect(),
            ranges,
            padded: BTreeSet::new(),
            aligned: BTreeMap::new(),
            blocks: 0,
            ast: ast.clone(),
            operands: OnceCell::new(),
            around: OnceCell::new(),
            loads: OnceCell::new(),
            staged: Vec::new(),
            kept: 0,
            subgroup: 1,
            combined: 1,
        }
    }

    /// The kernel's loops before any option: axes and kinds.
    pub(super) fn axes(&self) -> Vec<(u32, RangeKind)> {
        self.ranges.iter().map(|r| (axis_of(r), kind_of(r))).collect()
    }

    /// The values that may be staged.
    pub(super) fn operands(&self) -> &[UOp] {
        self.operands.get_or_init(|| operands(&self.ast))
    }

    /// The values that items may share: those, or what a kernel without reductions loads.
    pub(super) fn shareable(&self) -> &[UOp] {
        let sums = self.ranges.iter().any(|r| kind_of(r) == RangeKind::Reduce);
        if sums { self.operands() } else { self.loads.get_or_init(|| loads(&self.ast)) }
    }

    /// The rest of the loop of this axis, if there is such a loop.
    pub(super) fn standing(&self, axis: u32) -> Option<Standing> {
        self.ranges.iter().find(|r| axis_of(r) == axis)?;
        let part = &self.parts[self.left(axis)];
        Some(Standing { kind: part.kind, left: part.size })
    }

    /// Applies a legal option.
    pub(super) fn apply(&mut self, opt: Opt) {
        match opt {
            Opt::Split { kind: kind @ (RangeKind::Thread | RangeKind::Global), axis, .. } => {
                let part = self.left(axis);
                self.parts[part].kind = kind;
            }
            Opt::Split { kind, axis, by } => {
                let along = kind == RangeKind::Local && !self.around().contains(axis);
                self.split(axis, by, |part| (part.kind, part.along) = (kind, along));
            }
            Opt::Block { axis, by } => {
                self.blocks += 1;
                let block = self.blocks;
                let left = self.left(axis);
                if self.parts[left].kind == RangeKind::Reduce {
                    self.split(axis, by, |_| ());
                    let outer = &mut self.parts[left];
                    (outer.kind, outer.block) = (RangeKind::Loop, block);
                } else {
                    self.split(axis, by, |part| part.block = block);
                }
            }
            Opt::Align { axis, by } => {
                let left = self.left(axis);
                let part = &mut self.parts[left];
                part.size += by - 1;
                self.padded.insert(part.range);
                self.aligned.insert(part.range, by);
            }
            Opt::Mma { axes, by } => {
                for (i, (&axis, by)) in axes.iter().zip(by).enumerate() {
                    self.split(axis, by, |part| {
                        (part.kind, part.side) = (RangeKind::Matrix, i + 1);
                    });
                }
            }
            // it made the kernel whose loops these are
            Opt::Dot { .. } => {}
            Opt::Stage { operand, depth, lanes } => {
                let value = self.operands()[operand].clone();
                self.staged.push(Staged { value, depth, lanes, banks: 0 });
            }
            Opt::Share { operand, depth, banks } => {
                let value = self.shareable()[operand].clone();
                self.staged.push(Staged { value, depth, lanes: 1, banks });
            }
            Opt::Keep { bytes } => self.kept = bytes,
            Opt::Subgroup { lanes } => self.subgroup = lanes,
            Opt::Combine { parts } => self.combined = parts,
            // a kernel with one nest has no use for them
            Opt::Rows { .. } | Opt::Nest { .. } => {}
        }
    }

    /// The axes of loops that everything is inside of.
    pub(super) fn around(&self) -> &AxisSet {
        self.around.get_or_init(|| {
            let nodes = toposort(&self.ast);
            let nests = nodes.iter().filter(|n| matches!(n.op(), Op::Store | Op::Reduce));
            let mut around: AxisSet = self.ranges.iter().map(axis_of).collect();
            nests.for_each(|n| around.retain(|axis| n.scope().contains(axis)));
            around
        })
    }

    /// The range of the items that go along rows together.
    pub(super) fn team(&self) -> Option<UOp> {
        let mut parts = self.parts.iter().filter(|p| p.size != 1).zip(0..);
        let (part, axis) = parts.find(|(part, _)| part.along)?;
        Some(UOp::range(axis, part.kind, part.size))
    }

    /// The part that is the rest of a loop.
    fn left(&self, axis: u32) -> usize {
        let range = self.ranges.iter().position(|r| axis_of(r) == axis);
        let range = range.expect("an option names a loop");
        let is_split = |kind: RangeKind| kind.is_expanded() || kind == RangeKind::Local;
        let is_left = |p: &Part| p.range == range && !is_split(p.kind) && p.block == 0;
        self.parts.iter().position(is_left).expect("a loop keeps its outer part")
    }

    fn split(&mut self, axis: u32, by: usize, make: impl Fn(&mut Part)) {
        let left = self.left(axis);
        let part = &mut self.parts[left];
        if !part.size.is_multiple_of(by) {
            part.size = part.size.next_multiple_of(by);
            self.padded.insert(part.range);
        }
        let mut inner = Part { size: by, ..*part };
        make(&mut inner);
        part.size /= by;
        part.stride *= by;
        self.parts.push(inner);
    }
}

/// The kernel whose loops the options are about: a `Dot`, which comes first, changes them.
pub(super) fn packed(ast: &UOp, options: &[Opt]) -> Result<UOp, String> {
    match options.first() {
        Some(&Opt::Dot { axis, parts }) => dot::pack(ast, axis, parts),
        _ => Ok(ast.clone()),
    }
}
