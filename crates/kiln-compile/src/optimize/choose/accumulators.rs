//! Part of pass `choose`: gives a reduction several accumulators if one addition would wait for the one before.

use super::super::access::operations;
use super::super::opt::Opt;
use super::super::ranges::{axis_of, kind_of};
use super::super::trim;
use super::chooser::Chooser;
use super::tile::largest_divisor;
use crate::target::Target;
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashSet;

impl Chooser {
    /// Splits each loop of a reduction into as many accumulators as keep the processor busy.
    pub(super) fn accumulators(&mut self, ast: &UOp, target: &Target) {
        if target.vector_registers < self.costs.registers_for_tiles {
            return;
        }
        for i in 0..self.left.len() {
            if kind_of(&self.left[i].1) == RangeKind::Reduce && !self.is_divided(i) {
                if self.order.is_some() {
                    self.apply(RangeKind::Upcast, i, self.given(RangeKind::Upcast, i).unwrap_or(1));
                    continue;
                }
                let wanted =
                    (self.costs.in_flight as f64 / self.step(ast, i).max(1.0)).ceil() as usize;
                let most = (self.left[i].0 / self.costs.fewest_steps).min(self.room).min(wanted);
                self.apply(RangeKind::Upcast, i, self.at_once(i, most));
            }
        }
    }

    /// How many iterations of a loop are unrolled: a number that divides it. If that is much less than `most` and the loop
    /// is long enough for a ragged end of its own, `most`.
    pub(super) fn at_once(&self, i: usize, most: usize) -> usize {
        let n = self.left[i].0;
        let divisor = largest_divisor(n, most);
        let ragged = self.masks && divisor <= most / 2 && n / most.max(1) >= trim::LONG;
        if ragged { most } else { divisor }
    }

    /// Whether the loop is unrolled in part, or blocked.
    fn is_divided(&self, i: usize) -> bool {
        let own = axis_of(&self.left[i].1);
        self.options.iter().any(|o| match *o {
            Opt::Split { kind, axis, .. } => axis == own && kind != RangeKind::Vector,
            Opt::Block { axis, .. } => axis == own,
            Opt::Mma { axes, .. } => axes.contains(&own),
            Opt::Dot { .. }
            | Opt::Align { .. }
            | Opt::Stage { .. }
            | Opt::Share { .. }
            | Opt::Keep { .. }
            | Opt::Subgroup { .. }
            | Opt::Combine { .. }
            | Opt::Rows { .. }
            | Opt::Nest { .. } => false,
        })
    }

    /// Operations and loads in a step of the loop, register tiles over outputs included.
    fn step(&self, ast: &UOp, i: usize) -> f64 {
        let range = &self.left[i].1;
        let mut varying = FxHashSet::default();
        let mut count = 0.0;
        for node in toposort(ast) {
            let closes =
                matches!(node.op(), Op::Reduce | Op::End) && node.srcs()[1..].contains(range);
            if node == *range || node.srcs().iter().any(|s| varying.contains(s)) {
                let accesses = matches!(node.op(), Op::Load | Op::Reduce);
                count += operations(&node) + f64::from(u8::from(accesses));
                if !closes {
                    varying.insert(node);
                }
            }
        }
        count * self.tiles_around(axis_of(range)) as f64
    }

    /// How many results of a reduction are computed side by side.
    fn tiles_around(&self, reduced: u32) -> usize {
        let tiles = self.options.iter().map(|o| match *o {
            Opt::Split { kind: RangeKind::Upcast, axis, by }
                if self.kernel.together(axis, reduced) =>
            {
                by
            }
            _ => 1,
        });
        tiles.product()
    }
}
