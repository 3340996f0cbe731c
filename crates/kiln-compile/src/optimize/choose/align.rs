//! Part of pass `choose`: loops over rows of large results that do not start at cache lines. A line that is written in
//! part must be read first.

use super::super::align::Rows;
use super::super::opt::Opt;
use super::super::ranges::{axis_of, kind_of, size_of};
use super::super::trim;
use super::chooser::Chooser;
use crate::target::{LINE, Target};
use kiln_ir::UOp;
use kiln_ir::arg::RangeKind;

impl Chooser {
    /// Runs after `vectors`: aligns the loop along such rows, and the reductions along them.
    pub(super) fn align(&mut self, ast: &UOp, target: &Target) {
        if self.around.is_some() || !self.masks {
            return;
        }
        let (Some(rows), Some((i, lanes))) = (Rows::of(ast), self.lanes_of_outputs()) else {
            return;
        };
        let bytes = rows.argument.dtype().size();
        let (axis, n) = (axis_of(&self.left[i].1), size_of(&self.left[i].1));
        let suits = rows.argument.known_len().is_some_and(|n| target.goes_past_caches(n * bytes))
            && (axis, lanes * bytes) == (rows.axis, LINE)
            && self.left[i].0 > trim::LONG
            && !rows.are_whole(lanes);
        if !suits || !self.all_in_rows(n, lanes) {
            return;
        }
        for j in (0..self.left.len()).rev() {
            let axis = axis_of(&self.left[j].1);
            if !self.is_vector(j, lanes) || !rows.are_around(&self.kernel, axis) {
                continue;
            }
            self.options.insert(0, Opt::Align { axis, by: lanes });
            self.left[j].0 = (n + lanes - 1).div_ceil(lanes);
        }
    }

    /// Whether vectors are along rows of `n` elements, all sums too, and nothing is read across them.
    fn all_in_rows(&self, n: usize, lanes: usize) -> bool {
        let in_a_row = |r: &UOp| {
            let mut accesses = self.kernel.accesses.iter();
            accesses.all(|a| matches!(a.stride(axis_of(r)), Some(0 | 1)))
        };
        (0..self.left.len()).all(|j| {
            let range = &self.left[j].1;
            match self.is_vector(j, lanes) {
                true => size_of(range) == n && in_a_row(range),
                false => kind_of(range) == RangeKind::Loop && !self.reuses(axis_of(range)),
            }
        })
    }

    fn is_vector(&self, j: usize, lanes: usize) -> bool {
        let axis = axis_of(&self.left[j].1);
        self.options.contains(&Opt::Split { kind: RangeKind::Vector, axis, by: lanes })
    }
}
