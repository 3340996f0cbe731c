//! Part of pass `choose`: the loop order around a tile whose operands are overlapping windows, as in a convolution.

use super::operand::Operand;
use super::plan::{Planner, Tile};

impl Planner<'_> {
    /// Whether the loop over rows goes around all other loops. What overlapping windows read again is then still in the
    /// second cache; with rows inside, all rows would have passed in between.
    pub(super) fn rows_go_around(&self, tile: &Tile, staged: &[bool]) -> bool {
        if self.is_alone(tile) || self.chooser.around.is_some() {
            return false;
        }
        let (row, rows) = (self.axis(tile.row_loop), self.chooser.left[tile.row_loop].0);
        let slides = |(o, staged): (&Operand, &bool)| !staged && o.moves(row) && self.slides(o);
        let bytes = |part: f64| -> f64 {
            let of = |o: &Operand| self.span(o) * if o.moves(row) { part } else { 1.0 };
            self.operands.iter().map(of).sum()
        };
        let room = self.target.cache_bytes[1] as f64 / 2.0;
        self.operands.iter().zip(staged).any(slides)
            && rows.is_multiple_of(self.worthwhile_threads())
            && bytes(1.0 / rows as f64) <= room
            && room < bytes(1.0)
    }

    /// Whether windows that overlap read the operand.
    pub(super) fn slides(&self, operand: &Operand) -> bool {
        self.elements(operand) * operand.bytes > 2.0 * self.span(operand)
    }

    /// For how many threads there is enough work.
    pub(super) fn worthwhile_threads(&self) -> usize {
        if self.chooser.worth_threads() { self.target.threads.max(1) } else { 1 }
    }
}
