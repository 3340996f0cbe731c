//! Facts about loop variables, for all passes of stage `optimize`: size and kind, which values depend on them, and
//! substitution.

pub(super) use kiln_ir::uop::{axis_of, kind_of};

use kiln_ir::arg::RangeKind;
use kiln_ir::rules::simplify;
use kiln_ir::scope::Ranges;
use kiln_ir::uop::{Srcs, find_all, rebuild, remade_all, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// The ranges of a kernel in order of axis.
pub(super) fn ranges_of(ast: &UOp) -> Vec<UOp> {
    let mut ranges = find_all(ast, |n| n.op() == Op::Range);
    ranges.sort_by_key(axis_of);
    ranges
}

/// The ranges among all nodes of a kernel, in order of axis.
pub(super) fn ranges_among(nodes: &[UOp]) -> Vec<UOp> {
    let mut ranges: Vec<UOp> = nodes.iter().filter(|n| n.op() == Op::Range).cloned().collect();
    ranges.sort_by_key(axis_of);
    ranges
}

/// The ranges that a value varies over, in order of axis.
pub(super) fn open_ranges(value: &UOp) -> Vec<UOp> {
    Ranges::around(value).of(value.scope()).cloned().collect()
}

/// Whether a range is a loop over outputs that stays one.
pub(super) fn is_outer(range: &UOp) -> bool {
    use RangeKind::{Global, Local, Loop, Thread};
    matches!(kind_of(range), Global | Local | Thread | Loop)
}

/// Whether it is a range of work-items.
pub(super) fn is_items(node: &UOp) -> bool {
    node.op() == Op::Range && kind_of(node) == RangeKind::Local
}

/// A range's number of iterations.
pub(super) fn size_of(range: &UOp) -> usize {
    range.src(0).as_int().expect("loops of a schedule have constant bounds") as usize
}

/// The values of nested loops, outermost first, at a position in all their iterations one after the other.
pub(super) fn parts(position: &UOp, loops: &[UOp]) -> Vec<UOp> {
    let (mut outside, mut inside) = (1, loops.iter().map(size_of).product::<usize>());
    let part = |r: &UOp| {
        inside /= size_of(r);
        let quotient = match inside {
            1 => position.clone(),
            _ => position.floordiv(&UOp::index(inside as i64)),
        };
        let part =
            if outside == 1 { quotient } else { quotient.floormod(&UOp::index(size_of(r) as i64)) };
        outside *= size_of(r);
        part
    };
    loops.iter().map(part).collect()
}

/// How many iterations nested loops have. Those of a kernel for many lengths may be more than a number holds.
pub(super) fn iterations<'a>(loops: impl IntoIterator<Item = &'a UOp>) -> usize {
    loops.into_iter().map(size_of).fold(1, usize::saturating_mul)
}

/// Replaces ranges by expressions over new ranges; what closed the old ranges closes the new ones.
pub(super) fn replace_ranges(ast: &UOp, map: &FxHashMap<UOp, (UOp, Srcs)>) -> UOp {
    replace_ranges_of(std::slice::from_ref(ast), map).pop().expect("one graph")
}

/// The same for graphs that share nodes.
pub(super) fn replace_ranges_of(graphs: &[UOp], map: &FxHashMap<UOp, (UOp, Srcs)>) -> Vec<UOp> {
    let end = |node: &UOp| value_in(map, node).cloned();
    remade_all(graphs, end, |node, srcs| rebuild_over(node, srcs, map))
}

/// [`replace_ranges`] of a simplified kernel, simplified again. Each node is made once, from sources in normal form.
pub(super) fn simplified_over(ast: &UOp, map: &FxHashMap<UOp, (UOp, Srcs)>) -> UOp {
    let end = |node: &UOp| value_in(map, node).map(simplify);
    let make = |node: &UOp, srcs: Srcs| simplify(&rebuild_over(node, srcs, map));
    remade_all(std::slice::from_ref(ast), end, make).pop().expect("one graph")
}

fn value_in<'a>(map: &'a FxHashMap<UOp, (UOp, Srcs)>, node: &UOp) -> Option<&'a UOp> {
    let range = Some(node).filter(|node| node.op() == Op::Range);
    Some(&map.get(range?)?.0)
}

fn rebuild_over(node: &UOp, srcs: Srcs, map: &FxHashMap<UOp, (UOp, Srcs)>) -> UOp {
    match node.op() {
        Op::End | Op::Reduce | Op::After => rebuild_closing(node, srcs, map),
        _ => rebuild(node, srcs),
    }
}

fn rebuild_closing(node: &UOp, new: Srcs, map: &FxHashMap<UOp, (UOp, Srcs)>) -> UOp {
    let mut srcs = Srcs::new();
    for (src, new) in node.srcs().iter().zip(new) {
        match map.get(src) {
            // several ranges may have become one
            Some((_, ranges)) => {
                let more = ranges.iter().filter(|r| !srcs.contains(r)).cloned();
                srcs.extend(more.collect::<Srcs>());
            }
            None => srcs.push(new),
        }
    }
    if srcs.len() == 1 {
        return srcs.swap_remove(0);
    }
    rebuild(node, srcs)
}

/// The graph with `new` in place of `old`.
pub(super) fn substitute(ast: &UOp, old: &UOp, new: &UOp) -> UOp {
    let end = |node: &UOp| (node == old).then(|| new.clone());
    remade_all(std::slice::from_ref(ast), end, rebuild).pop().expect("one graph")
}

/// The nodes that end a loop.
pub(super) fn closers(ast: &UOp, range: &UOp) -> Vec<UOp> {
    let closes = |n: &UOp| matches!(n.op(), Op::Reduce | Op::End) && n.srcs()[1..].contains(range);
    toposort(ast).into_iter().filter(closes).collect()
}

/// The number of a new loop.
pub(super) fn next_axis(ast: &UOp) -> u32 {
    ranges_of(ast).last().map_or(0, |r| axis_of(r) + 1)
}
