//! Part of pass `render`: where a work-item is in the grid. All axes of groups are one axis of the launch, and so are all axes
//! of a group's items: a launch has three at most, a kernel may have more.

use kiln_ir::arg::RangeKind;
use kiln_ir::uop::kind_of;
use kiln_ir::{Op, UOp};

/// The ranges of groups and their items.
#[derive(Default)]
pub(super) struct Grid {
    ranges: Vec<UOp>,
    /// Whether items exchange values.
    exchanges: bool,
}

impl Grid {
    pub(super) fn of(ops: &[UOp]) -> Grid {
        Grid {
            ranges: ops.iter().filter(|op| is_launched(op)).cloned().collect(),
            exchanges: ops.iter().any(|op| op.op() == Op::Shuffle),
        }
    }

    /// A work-item's coordinate along a range of groups or items; the last range varies fastest.
    pub(super) fn coordinate(&self, range: &UOp) -> String {
        let (kind, size) = (kind_of(range), |r: &UOp| r.src(0).max());
        let mut same: Vec<&UOp> = self.ranges.iter().filter(|r| kind_of(r) == kind).collect();
        same.sort_by_key(|r| r.arg().range());
        let at = same.iter().position(|r| *r == range).expect("it is one of them");
        let inner: i64 = same[at + 1..].iter().map(|r| size(r)).product();
        let is_group = kind == RangeKind::Global;
        let id = if is_group { "get_group_id(0)" } else { "get_local_id(0)" };
        let id = if inner == 1 { id.to_string() } else { format!("{id} / {inner}") };
        // where `get_local_id` alone has a bound, Intel's compiler runs no other items, though these would exchange values
        let is_bare = at == 0 && (is_group || !self.exchanges);
        if is_bare { id } else { format!("{id} % {}", size(range)) }
    }
}

/// Whether a range is of groups or of the items of a group, which are no loops.
pub(super) fn is_launched(op: &UOp) -> bool {
    matches!(op.arg().range(), Some((_, RangeKind::Global | RangeKind::Local)))
}
