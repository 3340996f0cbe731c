//! Pass `options` of stage `optimize`: defines the options and applies them. `VECTOR(axis 0, 16)` makes a loop of 100 a
//! loop of 7 around 16 lanes.

use super::align::Rows;
use super::carry::{carry, settle};
use super::cover::Covered;
use super::dot;
use super::gate::gate;
use super::keep::keep;
use super::legal::{Rules, Standing};
use super::mma::{through_scratch, without_matrices};
use super::ranges::{axis_of, kind_of, ranges_of, replace_all, size_of};
use super::stage::{Panel, operands, outer_loops, stage};
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::{Srcs, toposort};
use kiln_ir::{DType, Op, UOp};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// One optimization. Loops are named by their axes in the kernel before any option, operands by their positions in
/// `stage::operands`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Opt {
    /// Splits a loop: `by` neighbouring iterations become a range of kind `Upcast`, `Unroll` or `Vector`, and the loop
    /// over these groups stays. `Thread` changes the kind of the whole rest of the loop instead. If `by` does not
    /// divide the loop, the last group is partly empty, and its accesses get a predicate.
    Split {
        /// The kind of the inner range.
        kind: RangeKind,
        /// The loop's axis number.
        axis: u32,
        /// How many iterations.
        by: usize,
    },
    /// Blocks a loop over outputs: `by` neighbouring iterations become a loop inside all loops over outputs, except
    /// those of earlier blocks. Of a reduction's loop, the block stays where the loop is, and the loop over blocks
    /// moves outside of the loops over outputs: partial sums are carried in scratch.
    Block {
        /// The loop's axis number.
        axis: u32,
        /// How many iterations.
        by: usize,
    },
    /// Aligns a loop: it starts at the cache line, of `by` elements, in which the stored row starts. The up to `by` - 1
    /// iterations before the row do nothing. Comes before all other options.
    Align {
        /// The loop's axis number.
        axis: u32,
        /// How many elements.
        by: usize,
    },
    /// Packs the factors of the kernel's only sum of products into words, along a loop of the sum, and multiplies
    /// packed words. Comes first: later options see the shorter loop.
    Dot {
        /// The loop's axis number.
        axis: u32,
        /// The narrow types of the two factors.
        parts: [DType; 2],
    },
    /// Computes packed products with a matrix unit. Three loops give iterations to the sides of the matrices: a loop
    /// over outputs for rows, the reduction's for the depth, a loop over outputs for columns. The results are read from
    /// scratch. Follows a `Dot`.
    Mma {
        /// The loops' axis numbers: rows, depth, columns.
        axes: [u32; 3],
        /// The sides of the matrices.
        by: [usize; 3],
    },
    /// Stages an operand of a reduction: it is copied to scratch, in the order in which it is read, and read from
    /// there.
    Stage {
        /// Which operand.
        operand: usize,
        /// The number of loops around the copy: everything that is read further in is copied at once.
        depth: usize,
        /// How many neighbours are copied as a vector.
        lanes: usize,
    },
    /// Keeps values that a reduction computes and later loops need again, in scratch.
    Keep {
        /// The largest size of one value.
        bytes: usize,
    },
    /// For a kernel of several nests (`nests`): computes so many iterations of the innermost shared loop in one nest
    /// before the next nest.
    Rows {
        /// How many iterations.
        by: usize,
        /// How many such blocks make an iteration of a loop around all others; 0 where there is no such loop.
        blocks: usize,
    },
    /// The options that follow are for this nest. Their axes are those of `nests::Apart`.
    Nest {
        /// The number of the nest, in the order in which they run.
        nest: usize,
    },
}

impl fmt::Display for Opt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opt::Split { kind, axis, by } => {
                write!(f, "{}(axis {axis}, {by})", kind.name().to_uppercase())
            }
            Opt::Block { axis, by } => write!(f, "BLOCK(axis {axis}, {by})"),
            Opt::Align { axis, by } => write!(f, "ALIGN(axis {axis}, {by})"),
            Opt::Dot { axis, parts: [x, y] } => write!(f, "DOT(axis {axis}, {x} {y})"),
            Opt::Mma { axes: [r, d, c], by: [rows, depth, columns] } => {
                write!(f, "MMA(rows {r}, {rows}; depth {d}, {depth}; columns {c}, {columns})")
            }
            Opt::Stage { operand, depth, lanes } => {
                write!(f, "STAGE(operand {operand}, depth {depth}, {lanes})")
            }
            Opt::Keep { bytes } => write!(f, "KEEP({bytes} bytes)"),
            Opt::Rows { by, blocks } => write!(f, "ROWS({by}, {blocks})"),
            Opt::Nest { nest } => write!(f, "NEST({nest})"),
        }
    }
}

/// Reads what `Display` has written.
impl FromStr for Opt {
    type Err = String;

    fn from_str(text: &str) -> Result<Opt, String> {
        let numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
        let numbers: Vec<usize> = numbers.collect();
        let name = text.split('(').next().unwrap_or_default();
        let kinds = [RangeKind::Upcast, RangeKind::Unroll, RangeKind::Vector, RangeKind::Thread];
        let kind = kinds.into_iter().find(|kind| kind.name().to_uppercase() == name);
        if name == "DOT" {
            return packing(text).ok_or_else(|| format!("{text:?} is not an option"));
        }
        match (name, kind, &numbers[..]) {
            (_, Some(kind), &[axis, by]) => Ok(Opt::Split { kind, axis: axis as u32, by }),
            ("BLOCK", None, &[axis, by]) => Ok(Opt::Block { axis: axis as u32, by }),
            ("ALIGN", None, &[axis, by]) => Ok(Opt::Align { axis: axis as u32, by }),
            ("STAGE", None, &[operand, depth, lanes]) => Ok(Opt::Stage { operand, depth, lanes }),
            ("MMA", None, &[r, rows, d, depth, c, columns]) => {
                let axes = [r, d, c].map(|axis| axis as u32);
                Ok(Opt::Mma { axes, by: [rows, depth, columns] })
            }
            ("KEEP", None, &[bytes]) => Ok(Opt::Keep { bytes }),
            ("ROWS", None, &[by, blocks]) => Ok(Opt::Rows { by, blocks }),
            ("NEST", None, &[nest]) => Ok(Opt::Nest { nest }),
            _ => Err(format!("{text:?} is not an option")),
        }
    }
}

/// Such as `DOT(axis 2, bf16 bf16)`.
fn packing(text: &str) -> Option<Opt> {
    let (axis, parts) = text.strip_prefix("DOT(axis ")?.strip_suffix(')')?.split_once(", ")?;
    let (x, y) = parts.split_once(' ')?;
    let parts = [DType::parse(x)?, DType::parse(y)?];
    Some(Opt::Dot { axis: axis.parse().ok()?, parts })
}

/// A part of an original loop; two neighbouring iterations of it are `stride` iterations of the loop apart.
#[derive(Clone, Copy, Debug)]
struct Part {
    range: usize,
    size: usize,
    stride: usize,
    kind: RangeKind,
    /// 0 for the rest of a loop. Of two blocks the later one is further out and has the larger number.
    block: usize,
    /// Which side of matrices it is (1 to 3); 0 for none.
    side: usize,
}

/// A value that will be staged.
struct Staged {
    value: UOp,
    depth: usize,
    lanes: usize,
}

/// The loops of a kernel while options are applied to them.
pub(super) struct Loops {
    /// The kernel's ranges in order of axis.
    ranges: Vec<UOp>,
    parts: Vec<Part>,
    /// Positions of the ranges that have been rounded up.
    padded: BTreeSet<usize>,
    /// Positions of the aligned ranges, and the elements of a cache line.
    aligned: BTreeMap<usize, usize>,
    blocks: usize,
    operands: Vec<UOp>,
    staged: Vec<Staged>,
    /// Bytes of each value that may be kept; 0 for none.
    kept: usize,
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
        };
        Loops {
            parts: ranges.iter().enumerate().map(whole).collect(),
            ranges,
            padded: BTreeSet::new(),
            aligned: BTreeMap::new(),
            blocks: 0,
            operands: operands(ast),
            staged: Vec::new(),
            kept: 0,
        }
    }

    /// The facts that decide which options are legal for this kernel.
    pub(super) fn rules(&self, ast: &UOp) -> Rules {
        Rules::of(ast, &self.ranges, self.operands.len())
    }

    /// The kernel's loops before any option: axes and kinds.
    pub(super) fn axes(&self) -> Vec<(u32, RangeKind)> {
        self.ranges.iter().map(|r| (axis_of(r), kind_of(r))).collect()
    }

    /// How many values may be staged.
    pub(super) fn operands(&self) -> usize {
        self.operands.len()
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
            Opt::Split { kind: RangeKind::Thread, axis, .. } => {
                let part = self.left(axis);
                self.parts[part].kind = RangeKind::Thread;
            }
            Opt::Split { kind, axis, by } => self.split(axis, by, |part| part.kind = kind),
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
                let value = self.operands[operand].clone();
                self.staged.push(Staged { value, depth, lanes });
            }
            Opt::Keep { bytes } => self.kept = bytes,
            // a kernel with one nest has no use for them
            Opt::Rows { .. } | Opt::Nest { .. } => {}
        }
    }

    /// The part that is the rest of a loop.
    fn left(&self, axis: u32) -> usize {
        let range = self.ranges.iter().position(|r| axis_of(r) == axis);
        let range = range.expect("an option names a loop");
        let is_left = |p: &Part| p.range == range && !p.kind.is_expanded() && p.block == 0;
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

    /// The kernel over the new loops. They are numbered by position: threads, the loops as they were, blocks, expanded
    /// ranges.
    pub(super) fn rewrite(mut self, ast: &UOp) -> UOp {
        self.sort_parts();
        let map = self.new_ranges(ast);
        let mut values: Vec<UOp> = self.staged.iter().map(|s| s.value.clone()).collect();
        let mut follow = |done: FxHashMap<UOp, UOp>, ast: &UOp| {
            values.iter_mut().for_each(|v| *v = done[v].clone());
            done[ast].clone()
        };
        // the predicates are written over the old ranges, and then replaced with everything else
        let (kernel, mut ast) = (ast, ast.clone());
        for &i in &self.padded {
            let range = &self.ranges[i];
            let below = range.lt(range.src(0));
            let valid = match self.aligned.contains_key(&i) {
                true => UOp::index(-1).lt(range).and(&below),
                false => below,
            };
            ast = follow(gate(&ast, range, &valid, |_| true), &ast);
        }
        ast = follow(replace_all(&ast, &map), &ast);
        let (loops, over) = (outer_loops(&ast), blocks_of_reductions(&ast));
        let panels: Vec<Vec<UOp>> = (self.staged.iter().zip(&values))
            .map(|(staged, value)| {
                let outer = loops.iter().take(staged.depth);
                let outer = outer.filter(|l| !over.contains(l) || is_reduced_over(&ast, value, l));
                outer.cloned().collect()
            })
            .collect();
        for (id, (outer, value)) in panels.into_iter().zip(&values).enumerate() {
            let lanes = self.staged[id].lanes;
            let covered = self.covered(kernel, &self.staged[id], &map, &outer);
            ast = stage(&ast, value, &Panel { id: id as u32, outer, lanes, covered });
        }
        let mut id = self.staged.len() as u32;
        for over in &over {
            ast = settle(&carry(&ast, over, &mut id));
        }
        if self.parts.iter().any(|p| p.kind == RangeKind::Matrix) {
            ast = if over.is_empty() { through_scratch(&ast, id) } else { ast };
            ast = without_matrices(&ast);
        }
        let ast = kiln_ir::rules::simplify(&ast);
        if self.kept > 0 { keep(&ast, self.kept) } else { ast }
    }

    /// What a panel of an operand holds, if its windows overlap.
    fn covered(
        &self,
        kernel: &UOp,
        staged: &Staged,
        map: &FxHashMap<UOp, (UOp, Srcs)>,
        outer: &[UOp],
    ) -> Option<Covered> {
        let has_matrices = self.parts.iter().any(|p| p.kind == RangeKind::Matrix);
        if has_matrices || dot::parts_of(kernel, &staged.value) > 1 {
            return None;
        }
        let padded: Vec<UOp> = self.padded.iter().map(|&i| self.ranges[i].clone()).collect();
        Covered::of(&staged.value, &padded, map, outer, staged.lanes)
    }

    /// Sorts the parts by nesting. A reduction is inside all loops over outputs, and so inside blocks.
    ///
    /// Of unrolled loops over outputs the longest is the outermost. In a tile of 3 vectors and 4 rows the 3 vectors are
    /// then held in registers while the rows pass one by one; the other way round 4 rows would be held.
    fn sort_parts(&mut self) {
        let blocks = self.blocks;
        self.parts.sort_by_key(|p| {
            let inner = blocks > 0 && (p.block > 0 || p.kind == RangeKind::Reduce);
            let order = if p.kind == RangeKind::Reduce { blocks } else { blocks - p.block };
            let order = if inner { order } else { 0 };
            let held = if p.kind == RangeKind::Upcast { Reverse(p.size) } else { Reverse(0) };
            let nesting = (p.kind != RangeKind::Thread, p.kind.is_expanded(), p.side, inner, order);
            (nesting, held, p.range)
        });
    }

    /// For each old range, its value over the new ones, and those.
    fn new_ranges(&self, ast: &UOp) -> FxHashMap<UOp, (UOp, Srcs)> {
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
        let mut map: FxHashMap<_, _> = self.ranges.iter().cloned().zip(replaced).collect();
        let rows = (!self.aligned.is_empty()).then(|| Rows::of(ast).expect("aligned to rows"));
        for (&i, &by) in &self.aligned {
            let past = rows.as_ref().expect("aligned to rows").past(by, &map);
            let (value, _) = map.get_mut(&self.ranges[i]).expect("every range has a value");
            *value = &*value - &past;
        }
        map
    }
}

/// Loops over blocks of a reduction: they are loops that some reduction still closes.
fn blocks_of_reductions(ast: &UOp) -> Vec<UOp> {
    let reduces = toposort(ast).into_iter().filter(|n| n.op() == Op::Reduce);
    let mut over: Vec<UOp> = reduces
        .flat_map(|r| r.srcs()[1..].to_vec())
        .filter(|r| kind_of(r) == RangeKind::Loop)
        .collect();
    over.sort_by_key(axis_of);
    over.dedup();
    over
}

/// Whether the value is part of a reduction over `range`: not if only another reduction of the kernel is in such blocks.
fn is_reduced_over(ast: &UOp, value: &UOp, range: &UOp) -> bool {
    let reduces = toposort(ast).into_iter().filter(|n| n.op() == Op::Reduce);
    let mut over = reduces.filter(|r| r.srcs()[1..].contains(range));
    over.any(|r| toposort(&r).contains(value))
}

fn scaled(range: &UOp, stride: usize) -> UOp {
    if stride == 1 { range.clone() } else { range * stride as i64 }
}
