//! Pass `collapse` of stage `optimize`: puts loops in the order of memory and makes one loop of neighbours that index
//! memory like one. `E_64_64` over contiguous memory becomes `E_4096`.
//!
//! The other direction as well: a loop that indices divide into `i / 16` and `i % 16` becomes a loop over rows and one
//! within a row.

use super::ranges::{axis_of, kind_of, ranges_of, replace_ranges, size_of};
use kiln_ir::affine::strides;
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::{Srcs, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// The shortest row that a loop is split into: one vector.
const SHORTEST_ROW: i64 = 16;

/// Merges neighbours, innermost first, as long as no index gets harder.
pub(super) fn collapse(ast: &UOp) -> UOp {
    let ast = in_order(&apart(kiln_ir::rules::simplify(ast)));
    let (mut ranges, mut nodes) = (ranges_of(&ast), toposort(&ast));
    let mut inner = ranges.len();
    while inner > 1 {
        inner -= 1;
        if let Some(merged) = merge(&nodes, &ranges[inner - 1], &ranges[inner]) {
            ranges = ranges_of(root(&merged));
            nodes = merged;
        }
    }
    root(&nodes).clone()
}

/// The kernel that these are all nodes of, sources first.
fn root(nodes: &[UOp]) -> &UOp {
    nodes.last().expect("a kernel")
}

/// Splits a loop over outputs that indices divide into rows and columns. It then shows what varies over only one of the
/// two, and what is contiguous within a row.
fn apart(ast: UOp) -> UOp {
    let mut ast = ast;
    while let Some(split) = divided(&ast).map(|(range, row)| by_rows(&ast, &range, row)) {
        if hardness(&toposort(&split)) >= hardness(&toposort(&ast)) {
            break;
        }
        ast = split;
    }
    ast
}

/// A loop over outputs that some index divides into rows, and the length of a row; the shortest.
fn divided(ast: &UOp) -> Option<(UOp, i64)> {
    let nodes = toposort(ast);
    let divisions = nodes.iter().filter(|n| matches!(n.op(), Op::FloorDiv | Op::FloorMod));
    let rows = divisions.filter_map(|n| {
        let (range, row) = (n.src(0), n.src(1).as_int()?);
        let fits = range.op() == Op::Range
            && kind_of(range) == RangeKind::Loop
            && row >= SHORTEST_ROW
            && size_of(range).is_multiple_of(row as usize);
        fits.then(|| (range.clone(), row))
    });
    rows.min_by_key(|(range, row)| (*row, axis_of(range)))
}

/// The kernel with a loop as a loop over rows and one within them.
fn by_rows(ast: &UOp, divided: &UOp, row: i64) -> UOp {
    let parts = |r: &UOp| {
        let axis = 2 * axis_of(r);
        if r != divided {
            let moved = UOp::range(axis, kind_of(r), size_of(r));
            return (r.clone(), (moved.clone(), smallvec![moved]));
        }
        let high = UOp::range(axis, RangeKind::Loop, size_of(r) / row as usize);
        let low = UOp::range(axis + 1, RangeKind::Loop, row as usize);
        (r.clone(), (&high * row + &low, smallvec![high, low]))
    };
    let map: FxHashMap<UOp, (UOp, Srcs)> = ranges_of(ast).iter().map(parts).collect();
    kiln_ir::rules::simplify(&replace_ranges(ast, &map))
}

/// Nests the loops over outputs by the strides with which they write, if they are around everything. Otherwise what is
/// computed between two loops would be computed more often.
fn in_order(ast: &UOp) -> UOp {
    let nodes = toposort(ast);
    let Some(store) = nodes.iter().find(|n| n.op() == Op::Store) else { return ast.clone() };
    let loops: Vec<UOp> =
        ranges_of(ast).into_iter().filter(|r| kind_of(r) == RangeKind::Loop).collect();
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
        return ast.clone();
    }
    let renamed = |(new, old): (&UOp, &UOp)| {
        let range = UOp::range(axis_of(new), RangeKind::Loop, size_of(old));
        (old.clone(), (range.clone(), smallvec![range]))
    };
    let map: FxHashMap<UOp, (UOp, Srcs)> = loops.iter().zip(&sorted).map(renamed).collect();
    kiln_ir::rules::simplify(&replace_ranges(ast, &map))
}

/// The nodes of the kernel with one loop for two of the same kind that are always closed together.
fn merge(nodes: &[UOp], outer: &UOp, inner: &UOp) -> Option<Vec<UOp>> {
    let alike = kind_of(outer) == kind_of(inner) && counts_on(nodes, outer, inner);
    if !alike || !closed_together(nodes, outer, inner) {
        return None;
    }
    let n = size_of(inner);
    let both = UOp::range(axis_of(outer), kind_of(outer), size_of(outer) * n);
    let n = UOp::index(n as i64);
    let (high, low) = (both.floordiv(&n), both.floormod(&n));
    let ranges: Srcs = smallvec![both];
    let map: FxHashMap<UOp, (UOp, Srcs)> = FxHashMap::from_iter([
        (outer.clone(), (high, ranges.clone())),
        (inner.clone(), (low, ranges)),
    ]);
    let merged = toposort(&kiln_ir::rules::simplify(&replace_ranges(root(nodes), &map)));
    (hardness(&merged) <= hardness(nodes)).then_some(merged)
}

/// Whether the outer loop continues where the inner one ends, in all accesses that move evenly along both. Other
/// accesses would need divisions.
fn counts_on(nodes: &[UOp], outer: &UOp, inner: &UOp) -> bool {
    let accesses = nodes.iter().filter(|n| matches!(n.op(), Op::Load | Op::Store));
    accesses.map(|access| strides(access.src(1))).all(|strides| {
        let stride = |r: &UOp| strides.get(&axis_of(r)).copied().unwrap_or(Some(0));
        match (stride(outer), stride(inner)) {
            (Some(outer), Some(step)) => outer == step.saturating_mul(size_of(inner) as i64),
            _ => true,
        }
    })
}

fn closed_together(nodes: &[UOp], a: &UOp, b: &UOp) -> bool {
    let mut closers = nodes.iter().filter(|n| matches!(n.op(), Op::End | Op::Reduce));
    closers.all(|n| n.srcs()[1..].contains(a) == n.srcs()[1..].contains(b))
}

/// Divisions and remainders: what an index should not gain.
fn hardness(nodes: &[UOp]) -> usize {
    nodes.iter().filter(|n| matches!(n.op(), Op::FloorDiv | Op::FloorMod)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::DType;

    fn spread(n: usize, row: i64) -> UOp {
        let i = UOp::range(0, RangeKind::Loop, n);
        let param = |slot, n: usize| UOp::param(slot, DType::F32, [n].as_slice());
        let value = UOp::load(&param(1, n / row as usize), &i.floordiv(&UOp::index(row)));
        let store = UOp::store(&param(0, n), &i, &value, None);
        UOp::sink([store.end([i])])
    }

    #[test]
    fn a_loop_that_is_asked_for_by_row_is_two() {
        let sizes = |ast: &UOp| ranges_of(&collapse(ast)).iter().map(size_of).collect::<Vec<_>>();
        assert_eq!(sizes(&spread(1024, 32)), [32, 32]);
        assert_eq!(hardness(&toposort(&collapse(&spread(1024, 32)))), 0);
        // rows of less than a vector are better as they are
        assert_eq!(sizes(&spread(1024, 2)), [1024]);
    }
}
