//! Part of passes `choose` and `options`: options as data, and as text: `VECTOR(axis 0, 16)`.

use kiln_ir::DType;
use kiln_ir::arg::RangeKind;
use std::fmt;
use std::str::FromStr;

/// One optimization. Loops are named by their axes in the kernel before any option, operands by their positions in
/// `stage::operands`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Opt {
    /// Splits a loop: `by` neighbouring iterations become a range of kind `Upcast`, `Unroll`, `Vector`, `Local` (the
    /// work-items of a group) or `Reduce` (a loop inside the reduction's). The loop over the rest stays. `Thread` and `Global`
    /// (the groups themselves) change the kind of the whole rest of the loop instead. If `by` does not divide the loop, the
    /// last range is partly empty, and its accesses get a predicate.
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
    /// Shares an operand of a reduction: the work-items of a group copy it to scratch together, and all read it from there.
    Share {
        /// Which operand.
        operand: usize,
        /// The number of the reduction's loops around the copy.
        depth: usize,
        /// In how many banks neighbouring words of scratch lie.
        banks: usize,
    },
    /// Keeps values that a reduction computes and later loops need again, in scratch.
    Keep {
        /// The largest size of one value.
        bytes: usize,
    },
    /// The items of a group that reduce together exchange partial results within subgroups of so many items, before they
    /// use scratch. Follows the `Local` split of the reduction.
    Subgroup {
        /// How many items: a power of two that divides them.
        lanes: usize,
    },
    /// The items of a group that reduce together combine so many partial results each, and after one more barrier what
    /// that gave. Follows the `Local` split of the reduction.
    Combine {
        /// How many: a divisor of those that go through scratch.
        parts: usize,
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
            Opt::Share { operand, depth, banks } => {
                write!(f, "SHARE(operand {operand}, depth {depth}, {banks})")
            }
            Opt::Keep { bytes } => write!(f, "KEEP({bytes} bytes)"),
            Opt::Subgroup { lanes } => write!(f, "SUBGROUP({lanes})"),
            Opt::Combine { parts } => write!(f, "COMBINE({parts})"),
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
        use RangeKind::{Global, Local, Reduce, Thread, Unroll, Upcast, Vector};
        let kinds = [Upcast, Unroll, Vector, Thread, Global, Local, Reduce];
        let kind = kinds.into_iter().find(|kind| kind.name().to_uppercase() == name);
        if name == "DOT" {
            return packing(text).ok_or_else(|| format!("{text:?} is not an option"));
        }
        match (name, kind, &numbers[..]) {
            (_, Some(kind), &[axis, by]) => Ok(Opt::Split { kind, axis: axis as u32, by }),
            ("BLOCK", None, &[axis, by]) => Ok(Opt::Block { axis: axis as u32, by }),
            ("ALIGN", None, &[axis, by]) => Ok(Opt::Align { axis: axis as u32, by }),
            ("STAGE", None, &[operand, depth, lanes]) => Ok(Opt::Stage { operand, depth, lanes }),
            ("SHARE", None, &[operand, depth, banks]) => Ok(Opt::Share { operand, depth, banks }),
            ("MMA", None, &[r, rows, d, depth, c, columns]) => {
                let axes = [r, d, c].map(|axis| axis as u32);
                Ok(Opt::Mma { axes, by: [rows, depth, columns] })
            }
            ("KEEP", None, &[bytes]) => Ok(Opt::Keep { bytes }),
            ("SUBGROUP", None, &[lanes]) => Ok(Opt::Subgroup { lanes }),
            ("COMBINE", None, &[parts]) => Ok(Opt::Combine { parts }),
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
