//! Part of pass `options`: panels that the work-items of a group share. An operand that a reduction reads many times is copied to
//! scratch by all items together, and read from there after a barrier. (NVIDIA, CUDA C++ Programming Guide, Shared Memory:
//! the tiled product of matrices.)
//!
//! Neighbouring items copy what are neighbours in global memory, so that they share its lines. A panel has the order of global
//! memory, too, unless neighbouring items would then read words of one bank. If so, what they read at the same time are
//! neighbours in scratch, and rows of the panel are longer than what they hold: so neighbours also write to different banks.
//!
//! A kernel without reductions may copy what it loads in the same way. A transpose then reads and writes neighbours, and goes
//! across in scratch only. Rows of the panel are longer than what they hold, so neighbouring items read from different banks.

use super::access::value_strides;
use super::cover::Covered;
use super::gate::gate;
use super::ranges::{axis_of, is_items, kind_of, next_axis, ranges_of, replace_ranges, size_of};
use kiln_ir::arg::{Arg, RangeKind, Space};
use kiln_ir::rules::simplify;
use kiln_ir::uop::{Srcs, substitute};
use kiln_ir::{DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::smallvec;
use std::cmp::Reverse;

/// A value that items share.
pub(super) struct Shared {
    /// The number of its scratch memory.
    pub(super) id: u32,
    pub(super) value: UOp,
    /// The loops that it is filled inside of, without the items.
    pub(super) around: Vec<UOp>,
    /// What it holds, if it holds windows that overlap.
    pub(super) covered: Option<Covered>,
    /// In how many banks neighbouring words of scratch lie.
    pub(super) banks: usize,
}

/// The kernel with these values shared. Those that are filled inside of the same loops are filled between the same barriers.
pub(super) fn share(ast: &UOp, values: &[Shared]) -> UOp {
    let items: Vec<UOp> = ranges_of(ast).into_iter().filter(is_items).collect();
    let together = values.chunk_by(|a, b| a.around == b.around);
    together.fold(ast.clone(), |ast, values| between_barriers(&ast, values, &items))
}

fn between_barriers(ast: &UOp, values: &[Shared], items: &[UOp]) -> UOp {
    let around = &values[0].around;
    let is_again = |r: &UOp| kind_of(r) != RangeKind::Global;
    // nobody reads what the iteration before has filled
    let free = around.iter().any(is_again).then(|| barrier(around.iter().chain(items).cloned()));
    let start: Vec<UOp> = free.map_or(around.clone(), |free| vec![free]);
    let sources = values.iter().map(|shared| next_axis(shared.source()));
    let axis = sources.max().unwrap_or(0).max(next_axis(ast));
    let panels: Vec<Panel<'_>> = values.iter().map(|v| Panel::of(v, items)).collect();
    let fill = |(panel, axis): (&Panel<'_>, u32)| panel.fill(&start, items, axis);
    let filled = barrier(panels.iter().zip(axis..).map(fill));
    let reads = values.iter().zip(&panels).map(|(shared, panel)| {
        let read = UOp::load(&panel.memory.after([filled.clone()]), &panel.read(shared));
        (shared.value.clone(), read)
    });
    // at once: a copy may be the value itself
    substitute(std::slice::from_ref(ast), &reads.collect()).swap_remove(0)
}

/// All items have done these effects, or have come to these loops' next iteration, before any of them goes on.
pub(super) fn barrier(after: impl Iterator<Item = UOp>) -> UOp {
    UOp::new(Op::Barrier, DType::Void, 1, after.collect::<Srcs>(), Arg::None)
}

impl Shared {
    /// The value over the ranges of its panel.
    fn source(&self) -> &UOp {
        self.covered.as_ref().map_or(&self.value, |covered| &covered.source)
    }
}

/// A panel and how it is filled.
struct Panel<'a> {
    memory: UOp,
    source: &'a UOp,
    /// Its ranges, in the order of scratch, and the distance of neighbours along each.
    ranges: Vec<(UOp, usize)>,
    /// The same ranges in the order of global memory, longest strides first.
    order: Vec<UOp>,
}

impl Panel<'_> {
    fn of<'a>(shared: &'a Shared, items: &[UOp]) -> Panel<'a> {
        let source = shared.source();
        let inner = ranges_of(source).into_iter().filter(|r| !shared.around.contains(r));
        let order = order_in_memory(source, inner.collect());
        let mut inner = order.clone();
        if is_read_across(&order, items) {
            inner.sort_by_key(place_in_scratch);
        }
        let across = items.last().filter(|item| is_copied_across(&order, item));
        let (ranges, len) = match across {
            Some(item) => across_banks(&order, item, shared.banks),
            None => placed(&inner, &order, shared.banks),
        };
        let memory = UOp::local(Space::Scratch, shared.id, len, source.dtype(), 1);
        Panel { memory, source, ranges, order }
    }

    /// The position of an element, if ranges have these values.
    fn position(&self, value: impl Fn(&UOp) -> UOp) -> UOp {
        let terms = self.ranges.iter().map(|(range, stride)| value(range) * *stride as i64);
        terms.reduce(|a, b| a + b).unwrap_or_else(|| UOp::index(0))
    }

    /// The position that is read.
    fn read(&self, shared: &Shared) -> UOp {
        let windows: Vec<_> = shared.covered.iter().flat_map(|c| &c.windows).collect();
        self.position(|range| {
            let window = windows.iter().find(|window| window.range == *range);
            window.map_or(range.clone(), |window| window.place.clone())
        })
    }

    /// The items copy the panel, each the elements that are as many apart as there are items, in a loop of this number.
    fn fill(&self, start: &[UOp], items: &[UOp], axis: u32) -> UOp {
        let len: usize = self.order.iter().map(size_of).product();
        let count: usize = items.iter().map(size_of).product();
        let item = items.iter().fold(UOp::index(0), |at, r| at * size_of(r) as i64 + r);
        let steps = UOp::range(axis, RangeKind::Loop, len.div_ceil(count));
        let at = if len > count { &steps * count as i64 + item } else { item };
        let copy = self.copy(start, &at, !len.is_multiple_of(count));
        if len > count { copy.end([steps]) } else { copy }
    }

    /// Copies the element at this place in the order of global memory, if there is one.
    fn copy(&self, start: &[UOp], at: &UOp, may_be_past: bool) -> UOp {
        let places = self.places(at);
        let map: FxHashMap<UOp, (UOp, Srcs)> =
            places.iter().map(|(r, place)| (r.clone(), (place.clone(), smallvec![]))).collect();
        let (mut source, mut inside) = (self.source.clone(), None);
        if may_be_past {
            // what does not move along the outermost range has no place past the end of it
            let outermost = self.order.first().map(|r| (r, r.lt(r.src(0))));
            if let Some((range, valid)) = &outermost {
                source = gate(&source, range, valid, |_| true)[&source].clone();
            }
            let valid = outermost.map(|(_, valid)| replace_ranges(&valid, &map));
            inside = Some(valid.unwrap_or_else(|| at.lt(&UOp::index(1))));
        }
        let position = self.position(|range| places[range].clone());
        let target = self.memory.after(start.iter().cloned());
        UOp::store(&target, &position, &replace_ranges(&source, &map), inside.as_ref())
    }

    /// The ranges' values at place `at` in the order of global memory.
    fn places(&self, at: &UOp) -> FxHashMap<UOp, UOp> {
        let (mut places, mut below) = (FxHashMap::default(), 1);
        for (nth, range) in self.order.iter().enumerate().rev() {
            let size = size_of(range) as i64;
            let outer = at.floordiv(&UOp::index(below));
            let place = if nth == 0 { outer } else { outer.floormod(&UOp::index(size)) };
            places.insert(range.clone(), simplify(&place));
            below *= size;
        }
        places
    }
}

/// Where a range is in the order of scratch: loops of the reduction outermost, neighbouring items innermost.
fn place_in_scratch(range: &UOp) -> (usize, u32) {
    let depth = match kind_of(range) {
        RangeKind::Reduce | RangeKind::Unroll => 0,
        RangeKind::Upcast => 2,
        RangeKind::Local => 3,
        RangeKind::Vector | RangeKind::Matrix => 4,
        RangeKind::Loop | RangeKind::Thread | RangeKind::Global => 1,
    };
    (depth, axis_of(range))
}

fn is_of_reduction(range: &UOp) -> bool {
    place_in_scratch(range).0 == 0
}

/// The ranges in the order of the value's memory. Those that do not move it evenly are outermost.
fn order_in_memory(value: &UOp, mut ranges: Vec<UOp>) -> Vec<UOp> {
    let strides = value_strides(value);
    let stride = |r: &UOp| match strides.get(&axis_of(r)) {
        Some(Some(stride)) => stride.unsigned_abs(),
        _ => u64::MAX,
    };
    ranges.sort_by_key(|r| Reverse(stride(r)));
    ranges
}

/// Whether neighbouring items read elements that are far apart in memory, since neighbours there are terms of the reduction.
fn is_read_across(order: &[UOp], items: &[UOp]) -> bool {
    let neighbours = items.last().is_some_and(|item| order.contains(item));
    neighbours && order.last().is_some_and(is_of_reduction)
}

/// Whether neighbouring items read elements that are far apart in memory, since others read their neighbours there.
fn is_copied_across(order: &[UOp], item: &UOp) -> bool {
    order.contains(item) && order.last() != Some(item) && !order.iter().any(is_of_reduction)
}

/// The ranges as in global memory, but with neighbouring items in different banks. A full row of items is an odd number of
/// elements apart. If half as many are neighbours, each leaves a bank free for the items of the next row, and so on.
fn across_banks(order: &[UOp], item: &UOp, banks: usize) -> (Vec<(UOp, usize)>, usize) {
    let apart = 1usize << (banks / size_of(item)).max(1).ilog2();
    let (mut placed, mut len) = (Vec::new(), 1usize);
    for range in order.iter().rev() {
        if range == item {
            len = (len + apart).next_multiple_of(2 * apart) - apart;
        }
        placed.push((range.clone(), len));
        len *= size_of(range);
    }
    placed.reverse();
    (placed, len)
}

/// The distance of neighbours along each range, and the length of all.
fn placed(ranges: &[UOp], order: &[UOp], banks: usize) -> (Vec<(UOp, usize)>, usize) {
    let (mut placed, mut len) = (Vec::new(), 1);
    let turned = ranges.last() != order.last();
    for (nth, range) in ranges.iter().enumerate().rev() {
        let ends_row =
            is_of_reduction(range) && ranges.get(nth + 1).is_some_and(|r| !is_of_reduction(r));
        if turned && ends_row {
            len += spare(len, order, banks);
        }
        placed.push((range.clone(), len));
        len *= size_of(range);
    }
    placed.reverse();
    (placed, len)
}

/// By how much a row is longer than what it holds: neighbours that are copied along the reduction's loops are then in different
/// banks, and so are those that are copied beside them.
fn spare(row: usize, order: &[UOp], banks: usize) -> usize {
    let along = order.iter().rev().take_while(|r| is_of_reduction(r));
    let along: usize = along.map(size_of).product();
    let apart = (banks / along).max(1);
    (banks + apart % banks - row % banks) % banks
}
