//! Loops in the order of memory, and neighbours that count like one become one: `E_64_64` over contiguous memory is
//! `E_4096`.

use super::ranges::{axis_of, kind_of, ranges_of, replace_ranges, size_of};
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::{Srcs, mapped, strides, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

/// Merges neighbours, innermost first, while it makes no index harder.
pub(super) fn collapse(ast: &UOp) -> UOp {
    let mut ast = in_order(&kiln_ir::rules::simplify(ast));
    let mut inner = ranges_of(&ast).len();
    while inner > 1 {
        inner -= 1;
        let ranges = ranges_of(&ast);
        if let Some(merged) = merge(&ast, &ranges[inner - 1], &ranges[inner]) {
            ast = merged;
        }
    }
    ast
}

/// The loops over outputs nested by how far apart they write, if they are around everything: what is computed between
/// loops would be computed more often.
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
        Op::Reduce => {
            let inside = toposort(n);
            loops.iter().all(|r| inside.contains(r))
        }
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

/// One loop for two of the same kind that are always closed together.
fn merge(ast: &UOp, outer: &UOp, inner: &UOp) -> Option<UOp> {
    let alike = kind_of(outer) == kind_of(inner) && counts_on(ast, outer, inner);
    if !alike || !closed_together(ast, outer, inner) {
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
    let merged = kiln_ir::rules::simplify(&once_each(&replace_ranges(ast, &map)));
    (hardness(&merged) <= hardness(ast)).then_some(merged)
}

/// Whether the outer loop goes on where the inner one ends, in all accesses that move evenly along both. Others would
/// need divisions.
fn counts_on(ast: &UOp, outer: &UOp, inner: &UOp) -> bool {
    let accesses = toposort(ast).into_iter().filter(|n| matches!(n.op(), Op::Load | Op::Store));
    accesses.map(|access| strides(access.src(1))).all(|strides| {
        let stride = |r: &UOp| strides.get(&axis_of(r)).copied().unwrap_or(Some(0));
        match (stride(outer), stride(inner)) {
            (Some(outer), Some(step)) => outer == step.saturating_mul(size_of(inner) as i64),
            _ => true,
        }
    })
}

fn closed_together(ast: &UOp, a: &UOp, b: &UOp) -> bool {
    let closers = toposort(ast).into_iter().filter(|n| matches!(n.op(), Op::End | Op::Reduce));
    closers.into_iter().all(|n| n.srcs()[1..].contains(a) == n.srcs()[1..].contains(b))
}

/// Both halves brought the merged range along; one is enough.
fn once_each(ast: &UOp) -> UOp {
    let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in toposort(ast) {
        let mut srcs = mapped(&node, &map);
        if matches!(node.op(), Op::End | Op::Reduce | Op::After) {
            let mut seen = FxHashSet::default();
            srcs.retain(|s| s.op() != Op::Range || seen.insert(s.id()));
        }
        let new = kiln_ir::uop::rebuild(&node, srcs);
        map.insert(node, new);
    }
    map[ast].clone()
}

/// Divisions and remainders: what an index should not gain.
fn hardness(ast: &UOp) -> usize {
    toposort(ast).iter().filter(|n| matches!(n.op(), Op::FloorDiv | Op::FloorMod)).count()
}
