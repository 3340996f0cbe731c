//! Pass `collapse` of stage `optimize`: puts loops in the order of memory and makes one loop of neighbours that index
//! memory like one. `E_64_64` over contiguous memory becomes `E_4096`.
//!
//! The other direction as well: a loop that indices divide into `i / 16` and `i % 16` becomes a loop over rows and one
//! within a row. Rows may be as short as the 2 of `x[i / 2]`.

use super::fuse::fuse;
use super::planes;
use super::ranges::{axis_of, kind_of, parts, ranges_among, simplified_over, size_of};
use crate::target::SHORTEST_ROW;
use kiln_ir::affine::{Affine, strides};
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::{Srcs, rebuild, remade, toposort, toposort_all};
use kiln_ir::{DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::smallvec;
use std::slice::from_ref;

/// Merges neighbours as long as no index gets harder.
pub(super) fn collapse(ast: &UOp) -> UOp {
    let ast = planes::merged(&kiln_ir::rules::simplify(ast));
    let nodes = in_order(apart(fuse(toposort(&ast))));
    let ranges = ranges_among(&nodes);
    let runs = runs(&nodes, &ranges);
    let merged = if runs.is_empty() { Some(nodes.clone()) } else { merge(&nodes, &runs) };
    root(&merged.unwrap_or_else(|| merged_by_pairs(nodes, ranges))).clone()
}

/// Where not all loops can be merged that look so: two at a time, innermost first.
fn merged_by_pairs(mut nodes: Vec<UOp>, mut ranges: Vec<UOp>) -> Vec<UOp> {
    let mut inner = ranges.len();
    while inner > 1 {
        inner -= 1;
        let pair = &ranges[inner - 1..=inner];
        let is_run = Uses::of(&nodes).run_on(&pair[0], &pair[1]);
        if let Some(merged) = is_run.then(|| merge(&nodes, from_ref(&pair))).flatten() {
            ranges = ranges_among(&merged);
            nodes = merged;
        }
    }
    nodes
}

/// The kernel that these are all nodes of, sources first.
fn root(nodes: &[UOp]) -> &UOp {
    nodes.last().expect("a kernel")
}

/// Splits a loop that indices divide into rows and columns. It then shows what varies over only one of the
/// two, and what is contiguous within a row.
fn apart(mut nodes: Vec<UOp>) -> Vec<UOp> {
    while let Some((range, row)) = divided(&nodes) {
        let split = toposort(&by_rows(&nodes, &range, row));
        if hardness(&split) >= hardness(&nodes) {
            break;
        }
        nodes = split;
    }
    nodes
}

/// A loop that some index divides into rows, and the length of a row; the shortest. A loop that writes in a row stays whole if
/// the rows are shorter than a vector.
fn divided(nodes: &[UOp]) -> Option<(UOp, i64)> {
    let stores = || nodes.iter().filter(|n| n.op() == Op::Store);
    let is_along = |r: &UOp| stores().any(|s| strides(s.src(1)).get(&axis_of(r)) == Some(&Some(1)));
    let divisions = nodes.iter().filter(|n| matches!(n.op(), Op::FloorDiv | Op::FloorMod));
    let rows = divisions.filter_map(|n| {
        let (range, row) = (n.src(0), n.src(1).as_int()?);
        let fits = range.op() == Op::Range
            && matches!(kind_of(range), RangeKind::Loop | RangeKind::Reduce)
            && (row >= SHORTEST_ROW || !is_along(range))
            && size_of(range).is_multiple_of(row as usize);
        fits.then(|| (range.clone(), row))
    });
    rows.min_by_key(|(range, row)| (*row, axis_of(range)))
}

/// The kernel with a loop as a loop over rows and one within them.
fn by_rows(nodes: &[UOp], divided: &UOp, row: i64) -> UOp {
    let parts = |r: &UOp| {
        let axis = 2 * axis_of(r);
        if r != divided {
            let moved = UOp::range(axis, kind_of(r), size_of(r));
            return (r.clone(), (moved.clone(), smallvec![moved]));
        }
        let high = UOp::range(axis, kind_of(r), size_of(r) / row as usize);
        let low = UOp::range(axis + 1, kind_of(r), row as usize);
        (r.clone(), (&high * row + &low, smallvec![high, low]))
    };
    let map: FxHashMap<UOp, (UOp, Srcs)> = ranges_among(nodes).iter().map(parts).collect();
    evened(&simplified_over(root(nodes), &map), 2 * axis_of(divided) + 1)
}

/// Multiplies out products of sums in an index, if the index then moves evenly along a loop. Example with a launch's length `n`:
/// `n * (32 * row + i) + (1 - n) * i` is `32 * (row * n) + i`.
fn evened(kernel: &UOp, axis: u32) -> UOp {
    let is_uneven = |index: &UOp| strides(index).get(&axis) == Some(&None);
    let even = |index: &UOp| {
        let form = if is_uneven(index) { Affine::multiplied_out(index) } else { None };
        form.map(|form| form.to_uop()).filter(|index| !is_uneven(index))
    };
    remade(kernel, |node, mut srcs| {
        if matches!(node.op(), Op::Load | Op::Store)
            && let Some(index) = even(&srcs[1])
        {
            srcs[1] = index;
        }
        rebuild(node, srcs)
    })
}

/// Nests the loops over outputs by the strides with which they write, if they are around everything. Otherwise what is
/// computed between two loops would be computed more often.
fn in_order(nodes: Vec<UOp>) -> Vec<UOp> {
    let Some(store) = nodes.iter().find(|n| n.op() == Op::Store) else { return nodes };
    let loops: Vec<UOp> =
        ranges_among(&nodes).into_iter().filter(|r| kind_of(r) == RangeKind::Loop).collect();
    let strides = strides(store.src(1));
    let stride = |r: &UOp| strides.get(&axis_of(r)).copied().flatten().filter(|s| *s > 0);
    let mut sorted = loops.clone();
    sorted.sort_by_key(|r| std::cmp::Reverse(stride(r)));
    let around = |n: &UOp| match n.op() {
        Op::End => loops.iter().all(|r| n.srcs()[1..].contains(r)),
        Op::Reduce => loops.iter().all(|r| n.scope().contains(axis_of(r))),
        _ => true,
    };
    if sorted == loops || !loops.iter().all(|r| stride(r).is_some()) || !nodes.iter().all(around) {
        return nodes;
    }
    let renamed = |(new, old): (&UOp, &UOp)| {
        let range = UOp::range(axis_of(new), RangeKind::Loop, size_of(old));
        (old.clone(), (range.clone(), smallvec![range]))
    };
    let map: FxHashMap<UOp, (UOp, Srcs)> = loops.iter().zip(&sorted).map(renamed).collect();
    toposort(&simplified_over(root(&nodes), &map))
}

/// Neighbouring loops that run on from one to the next.
fn runs<'a>(nodes: &[UOp], ranges: &'a [UOp]) -> Vec<&'a [UOp]> {
    let uses = Uses::of(nodes);
    let runs = ranges.chunk_by(|outer, inner| uses.run_on(outer, inner));
    runs.filter(|run| run.len() > 1).collect()
}

/// The nodes of the kernel with one loop for each run, if no index gets harder.
fn merge(nodes: &[UOp], runs: &[&[UOp]]) -> Option<Vec<UOp>> {
    let map: FxHashMap<UOp, (UOp, Srcs)> = runs.iter().flat_map(|run| parts_of_one(run)).collect();
    let merged = toposort(&simplified_over(root(nodes), &map));
    (hardness(&merged) <= hardness(nodes)).then_some(merged)
}

/// The loops of a run as parts of one loop.
fn parts_of_one(run: &[UOp]) -> Vec<(UOp, (UOp, Srcs))> {
    let all = run.iter().map(size_of).product();
    let one = UOp::range(axis_of(&run[0]), kind_of(&run[0]), all);
    let parts = parts(&one, run).into_iter().zip(run);
    parts.map(|(part, r)| (r.clone(), (part, smallvec![one.clone()]))).collect()
}

/// What decides whether loops may be merged.
struct Uses<'a> {
    /// For each load and store, how far it moves along each loop.
    strides: Vec<FxHashMap<u32, Option<i64>>>,
    /// What closes loops.
    closers: Vec<&'a UOp>,
    /// Comparisons of indices.
    comparisons: Vec<&'a UOp>,
    hardness: usize,
}

impl<'a> Uses<'a> {
    fn of(nodes: &'a [UOp]) -> Uses<'a> {
        let accesses = nodes.iter().filter(|n| matches!(n.op(), Op::Load | Op::Store));
        let closers = nodes.iter().filter(|n| matches!(n.op(), Op::End | Op::Reduce));
        let is_comparison = |n: &&UOp| n.op().is_comparison() && n.src(0).dtype() == DType::Index;
        Uses {
            strides: accesses.map(|n| strides(n.src(1))).collect(),
            closers: closers.collect(),
            comparisons: nodes.iter().filter(is_comparison).collect(),
            hardness: hardness(nodes),
        }
    }

    /// Whether two loops of a kind are always closed together, and the outer one continues where the inner one ends.
    fn run_on(&self, outer: &UOp, inner: &UOp) -> bool {
        kind_of(outer) == kind_of(inner)
            && self.count_on(outer, inner)
            && self.are_closed_together(outer, inner)
            && !self.are_compared_apart(outer, inner)
    }

    /// Whether comparisons alone have more divisions than the whole kernel if the two are one loop: those of a row or a
    /// column with its length, which are the predicates of padding. This is known without rewriting the kernel.
    fn are_compared_apart(&self, outer: &UOp, inner: &UOp) -> bool {
        let varies = |n: &&&UOp| [outer, inner].iter().any(|r| n.scope().contains(axis_of(r)));
        let map = parts_of_one(&[outer.clone(), inner.clone()]).into_iter().collect();
        let compared = self.comparisons.iter().filter(varies);
        let merged: Vec<UOp> = compared.map(|n| simplified_over(n, &map)).collect();
        hardness(&toposort_all(&merged, |_| true)) > self.hardness
    }

    /// The outer loop continues in all accesses that move evenly along both. Other accesses would need divisions.
    fn count_on(&self, outer: &UOp, inner: &UOp) -> bool {
        self.strides.iter().all(|strides| {
            let stride = |r: &UOp| strides.get(&axis_of(r)).copied().unwrap_or(Some(0));
            match (stride(outer), stride(inner)) {
                (Some(outer), Some(step)) => outer == step.saturating_mul(size_of(inner) as i64),
                _ => true,
            }
        })
    }

    fn are_closed_together(&self, a: &UOp, b: &UOp) -> bool {
        let closes = |n: &UOp, range: &UOp| n.srcs()[1..].contains(range);
        self.closers.iter().all(|n| closes(n, a) == closes(n, b))
    }
}

/// Divisions and remainders: what an index should not gain.
fn hardness(nodes: &[UOp]) -> usize {
    nodes.iter().filter(|n| matches!(n.op(), Op::FloorDiv | Op::FloorMod)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::arg::ReduceOp;

    fn spread(n: usize, row: i64) -> UOp {
        let i = UOp::range(0, RangeKind::Loop, n);
        let param = |slot, n: usize| UOp::param(slot, DType::F32, [n].as_slice());
        let value = UOp::load(&param(1, n / row as usize), &i.floordiv(&UOp::index(row)));
        let store = UOp::store(&param(0, n), &i, &value, None);
        UOp::sink([store.end([i])])
    }

    #[test]
    fn a_loop_that_is_asked_for_by_row_is_two() {
        let sizes = |ast: &UOp| {
            ranges_among(&toposort(&collapse(ast))).iter().map(size_of).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&spread(1024, 32)), [32, 32]);
        assert_eq!(hardness(&toposort(&collapse(&spread(1024, 32)))), 0);
        // rows of less than a vector are better as they are
        assert_eq!(sizes(&spread(1024, 2)), [1024]);
    }

    /// `out[i] = sum of x[k / 32, i, k % 32]`: heads of 32 that are put together again.
    #[test]
    fn a_reduction_over_rows_of_heads_is_two() {
        let i = UOp::range(0, RangeKind::Loop, 7);
        let k = UOp::range(1, RangeKind::Reduce, 384);
        let param = |slot, n: usize| UOp::param(slot, DType::F32, [n].as_slice());
        let (head, feature) = (k.floordiv(&UOp::index(32)), k.floormod(&UOp::index(32)));
        let x = UOp::load(&param(1, 7 * 384), &(head * (7 * 32) + &i * 32 + feature));
        let sum = x.reduce_ranges(ReduceOp::Add, [k]);
        let kernel = UOp::sink([UOp::store(&param(0, 7), &i, &sum, None).end([i])]);
        let nodes = toposort(&collapse(&kernel));
        let sizes: Vec<usize> = ranges_among(&nodes).iter().map(size_of).collect();
        assert_eq!((sizes, hardness(&nodes)), (vec![7, 12, 32], 0));
    }

    /// The same for any number of rows, as a schedule for lengths that vary has it.
    #[test]
    fn rows_of_heads_are_contiguous_at_any_length() {
        let (i, n) = (UOp::range(0, RangeKind::Loop, 7), UOp::var(0, DType::Index, 7, 100));
        let k = UOp::range(1, RangeKind::Reduce, 384);
        let param = |slot, n: usize| UOp::param(slot, DType::F32, [n].as_slice());
        let feature = k.floormod(&UOp::index(32));
        let index = &i * 32 + &k * &n + (&n * -1 + 1) * feature;
        let sum = UOp::load(&param(1, 38400), &index).reduce_ranges(ReduceOp::Add, [k]);
        let kernel = UOp::sink([UOp::store(&param(0, 7), &i, &sum, None).end([i])]);
        let nodes = toposort(&collapse(&kernel));
        let inner = ranges_among(&nodes).pop().expect("three loops");
        let load = nodes.iter().find(|node| node.op() == Op::Load).expect("a load");
        assert_eq!(strides(load.src(1)).get(&axis_of(&inner)), Some(&Some(1)));
    }
}
