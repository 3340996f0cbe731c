//! Part of pass `options`: starts a loop over a row at a cache line. All vectors of the row but the first and last are
//! then stored as whole lines.
//!
//! A reduction along the same row starts there too, so that values kept between the two have the same places.

use super::access::Kernel;
use super::ranges::{axis_of, kind_of, ranges_of, replace_ranges};
use kiln_ir::affine::strides;
use kiln_ir::arg::RangeKind;
use kiln_ir::rules::simplify;
use kiln_ir::scope::AxisSet;
use kiln_ir::uop::{Srcs, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// The rows that a kernel stores: where each begins.
pub(super) struct Rows {
    /// Of the argument that they are stored to.
    pub(super) argument: UOp,
    /// The axis of the loop along a row.
    pub(super) axis: u32,
    /// The index of a row's first element, over the loops around.
    start: UOp,
}

impl Rows {
    /// Those of the first store to an argument that moves in a row along its innermost loop.
    pub(super) fn of(ast: &UOp) -> Option<Rows> {
        let is_store = |n: &&UOp| n.op() == Op::Store && n.memory().op() == Op::Param;
        toposort(ast).iter().filter(is_store).find_map(|store| {
            let index = store.src(1);
            let range = ranges_of(index).pop()?;
            let in_a_row = strides(index).get(&axis_of(&range)) == Some(&Some(1));
            let first = FxHashMap::from_iter([(range.clone(), (UOp::index(0), Srcs::new()))]);
            let start = simplify(&replace_ranges(index, &first));
            let is_known = toposort(&start).iter().all(|n| n.op() != Op::Load);
            let loops = ranges_of(index).iter().all(|r| kind_of(r) == RangeKind::Loop);
            let (argument, axis) = (store.memory().clone(), axis_of(&range));
            (in_a_row && is_known && loops).then_some(Rows { argument, axis, start })
        })
    }

    /// Whether a loop, with all that varies over it, is inside of all loops over rows.
    pub(super) fn are_around(&self, kernel: &Kernel, axis: u32) -> bool {
        let over: Vec<u32> = ranges_of(&self.start).iter().map(axis_of).collect();
        let is_around = |scope: &AxisSet| over.iter().all(|&o| scope.contains(o));
        let mut inside = kernel.scopes.iter().filter(|s| s.contains(axis) && s.len() > 1);
        // what varies within a row only must not be computed again for each row
        over.iter().all(|o| *o < axis) && inside.clone().any(is_around) && inside.all(is_around)
    }

    /// Whether every row starts at a cache line of `elements`.
    pub(super) fn are_whole(&self, elements: usize) -> bool {
        self.past(elements, &FxHashMap::default()).is_const(0)
    }

    /// How many elements a row starts past a cache line of `elements`, over the new loops of `map`.
    pub(super) fn past(&self, elements: usize, map: &FxHashMap<UOp, (UOp, Srcs)>) -> UOp {
        simplify(&replace_ranges(&self.start, map).floormod(&UOp::index(elements as i64)))
    }
}
