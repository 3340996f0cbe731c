//! Part of pass `prefetch`: panels whose copy transposes. A panel is a part of a large argument that one loop copies to
//! scratch memory, and others compute with (`panels`). Here its rows in memory become its columns.
//!
//! Example: a product with 32 rows of weights, 144 elements of each. The copy waits for 288 cache lines: nine of each
//! row, and the rows are pages apart. Memory is idle while the product is computed. So a loop of the product also asks for
//! the next panel's lines. Its iterations are counted, `0, 1, 2, ..`, and each asks for a few: with 112 of them and 9
//! lines a row, iteration `i` asks for three lines, those of third `i % 3` of row `i / 3`.

use super::reads::{Access, Marks, mark, reads_large, step};
use crate::target::{LINE, Target};
use kiln_ir::affine::Affine;
use kiln_ir::arg::{RangeKind, Space};
use kiln_ir::rules::simplify;
use kiln_ir::uop::{kind_of, substitute};
use kiln_ir::{DType, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// How many lines an iteration asks for, at most.
const MOST: usize = 8;

/// A loop nest that copies a panel: what it loads in an iteration, and the loops around it, outermost first.
struct Copy<'a> {
    loads: Vec<&'a UOp>,
    loops: Vec<&'a UOp>,
}

/// Rows in memory: `count` of them, a `distance` apart, of which `len` elements are copied.
struct Rows {
    count: usize,
    distance: usize,
    len: usize,
}

/// Marks loops over panels, and returns the loads that copy what these ask for.
pub(super) fn marks<'a>(ops: &'a [UOp], target: &Target, marks: &mut Marks) -> FxHashSet<&'a UOp> {
    let (copies, reads) = accesses(ops, target);
    let mut found = FxHashSet::default();
    for (memory, copy) in &copies {
        let of_panel = reads.iter().filter(|read| read.op.memory() == *memory);
        // the loops that read most, not those of a few last rows
        let Some(read) = of_panel.max_by_key(|read| iterations(&read.loops)) else { continue };
        if let Some((place, prefetches)) = next(copy, read) {
            prefetches.into_iter().for_each(|prefetch| mark(marks, place, prefetch));
            found.extend(copy.loads.iter().copied());
        }
    }
    found
}

/// By panel, what copies to it across rows of large arguments; and the loads from scratch memory.
fn accesses<'a>(ops: &'a [UOp], target: &Target) -> (Vec<(&'a UOp, Copy<'a>)>, Vec<Access<'a>>) {
    let mut loops: Vec<&UOp> = Vec::new();
    let (mut copies, mut reads) = (Vec::new(), Vec::new());
    // large loads of the loop nest, since it began
    let mut loads: Vec<&UOp> = Vec::new();
    for op in ops {
        let is_scratch = || matches!(op.memory().arg().memory(), Some((Space::Scratch, ..)));
        match op.op() {
            Op::Range => {
                loads.clear();
                loops.push(op);
            }
            Op::End => drop(loops.pop()),
            Op::Load if op.memory().op() == Op::Param && reads_large(op, target) => loads.push(op),
            Op::Load if op.lanes() > 1 && is_scratch() => {
                reads.push(Access { op, loops: loops.clone() });
            }
            Op::Store if is_scratch() && op.src(2).op() == Op::Stack && loads.len() > 1 => {
                let loads = std::mem::take(&mut loads);
                copies.push((op.memory(), Copy { loads, loops: loops.clone() }));
            }
            _ => {}
        }
    }
    (copies, reads)
}

/// How often the innermost of some loops runs, if that is known.
fn iterations(loops: &[&UOp]) -> Option<usize> {
    loops.iter().try_fold(1, |all: usize, r| all.checked_mul(size_of(r)?))
}

fn size_of(range: &UOp) -> Option<usize> {
    range.src(0).as_int().and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0)
}

/// The prefetches of the next panel, and the op before which they stand.
fn next<'a>(copy: &Copy<'_>, read: &Access<'a>) -> Option<(&'a UOp, Vec<UOp>)> {
    let shared = copy.loops.iter().zip(&read.loops).take_while(|(a, b)| a == b).count();
    let around = copy.loops[..shared].last().filter(|r| kind_of(r) != RangeKind::Thread)?;
    let (first, rows) = rows(&copy.loads, &copy.loops[shared..])?;
    let ahead = usize::try_from(step(first.src(1), around, 12)?).ok().filter(|&n| n > 0)?;
    let in_line = LINE / first.dtype().size();
    let lines = rows.len.div_ceil(in_line);
    let counted = &read.loops[shared..];
    let (depth, each) = asked(counted, rows.count * lines, lines)?;
    let start = start(first, &copy.loops[shared..])?;
    let (row, part) = place(&counted[..depth], &rows, lines / each)?;
    let constant = |n: usize| UOp::constant(n as i64, start.dtype());
    let index = &(&start + &row * constant(rows.distance)) + &part * constant(each * in_line);
    let ask =
        |i: usize| UOp::prefetch(first.src(0), &simplify(&(&index + constant(i * in_line))), ahead);
    Some((counted.get(depth).copied().unwrap_or(read.op), (0..each).map(ask).collect()))
}

/// How many of the loops are counted, as few as possible, and how many lines each of their iterations asks for, of so many in
/// all: a part of the lines of a row.
fn asked(loops: &[&UOp], all: usize, of_row: usize) -> Option<(usize, usize)> {
    (1..=loops.len()).find_map(|depth| {
        let least = all.div_ceil(iterations(&loops[..depth])?);
        let each = (least..=of_row).find(|each| of_row.is_multiple_of(*each))?;
        (each <= MOST).then_some((depth, each))
    })
}

/// What loads of an iteration and loops around them read, if these are rows of the same length at the same distance: the
/// load of the first row, and the rows.
fn rows<'a>(loads: &[&'a UOp], loops: &[&UOp]) -> Option<(&'a UOp, Rows)> {
    let mut all: Vec<(Affine, &UOp)> = Vec::new();
    for load in loads {
        all.push((Affine::of(load.src(1))?, load));
    }
    all.sort_by_key(|(index, _)| index.constant);
    let (index, first) = &all[0];
    let distance = all.get(1)?.0.constant - index.constant;
    let is_next = |two: &[(Affine, &UOp)]| {
        let ([a, b], [x, y]) = ([&two[0].0, &two[1].0], [two[0].1, two[1].1]);
        b.constant - a.constant == distance && a.terms == b.terms && x.memory() == y.memory()
    };
    if !all.windows(2).all(is_next) {
        return None;
    }
    let (mut count, mut len) = (all.len() as i64, first.lanes() as i64);
    let mut steps: Vec<(i64, &UOp)> = loops.iter().map(|r| (index.coefficient(r), *r)).collect();
    steps.sort_by_key(|(step, _)| *step);
    for (step, range) in steps {
        let times = size_of(range)? as i64;
        match step {
            _ if step == len && len < distance => len *= times,
            _ if step == count * distance => count *= times,
            _ => return None,
        }
    }
    let [count, distance, len] = [count, distance, len].map(|n| usize::try_from(n).ok());
    let rows = Rows { count: count?, distance: distance?, len: len? };
    (rows.len <= rows.distance).then_some((*first, rows))
}

/// The index where a copy starts.
fn start(load: &UOp, loops: &[&UOp]) -> Option<UOp> {
    let zero = |r: &&UOp| ((*r).clone(), UOp::constant(0, r.dtype()));
    let zeros: FxHashMap<UOp, UOp> = loops.iter().map(zero).collect();
    substitute(&[load.src(1).clone()], &zeros).pop().map(|index| simplify(&index))
}

/// The row and the part of it that an iteration of these loops asks for, of so many `parts`. Those too many ask for the
/// last row again, which is near by then.
fn place(loops: &[&UOp], rows: &Rows, parts: usize) -> Option<(UOp, UOp)> {
    let dtype = loops.first()?.dtype();
    if loops.iter().any(|r| r.dtype() != dtype) || !matches!(dtype, DType::I32 | DType::I64) {
        return None;
    }
    let constant = |n: usize| UOp::constant(n as i64, dtype);
    let mut count = constant(0);
    for r in loops {
        count = &(&count * r.src(0)) + *r;
    }
    let binary = |op, a: &UOp, n: usize| UOp::binary(op, a, &constant(n));
    let row = binary(Op::TruncDiv, &count, parts);
    Some((binary(Op::Min, &row, rows.count - 1), binary(Op::TruncMod, &count, parts)))
}
