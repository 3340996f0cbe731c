//! Part of pass `render`: where a work-item is in the grid. All axes of groups are one axis of the launch, and so are all axes
//! of a group's items: a launch has three at most, a kernel may have more.

use kiln_ir::UOp;
use kiln_ir::arg::RangeKind;

/// A work-item's coordinate along a range of groups or items; the last range varies fastest.
pub(super) fn coordinate(range: &UOp, grid: &[UOp]) -> String {
    let kind = |r: &UOp| r.arg().range().expect("a range").1;
    let size = |r: &UOp| r.src(0).max();
    let mut same: Vec<&UOp> = grid.iter().filter(|r| kind(r) == kind(range)).collect();
    same.sort_by_key(|r| r.arg().range());
    let at = same.iter().position(|r| *r == range).expect("it is one of them");
    let inner: i64 = same[at + 1..].iter().map(|r| size(r)).product();
    let id = if kind(range) == RangeKind::Global { "get_group_id(0)" } else { "get_local_id(0)" };
    let id = if inner == 1 { id.to_string() } else { format!("{id} / {inner}") };
    if at == 0 { id } else { format!("{id} % {}", size(range)) }
}
