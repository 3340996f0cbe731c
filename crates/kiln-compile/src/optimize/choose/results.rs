//! Part of pass `choose`: the loop order around a tile whose results lie in the cache lines of another loop's, as the
//! gradient of a convolution's weights: `[o, i, 3, 3]`, with tiles over `o` and `i`.
//!
//! With rows and lanes inside, all results of the two loops would pass before those beside the first ones are stored, and
//! each line would come from memory again for each of them.

use super::operand::Operand;
use super::planner::{Planner, Tile};
use crate::target::LINE;

impl Planner<'_> {
    /// Whether rows go around the other loops, so that results of one line follow each other. Only if what the other loops
    /// move is read in its place along the lanes: panels would be copied for each tile of rows.
    pub(super) fn rows_go_around_results(&self, tile: &Tile) -> bool {
        let all: f64 = self.outputs.iter().map(|&i| self.size(i) as f64).product();
        let (others, lane) = (self.others(tile), self.axis(tile.lane_loop));
        let in_place = |o: &Operand| o.moves(lane) && self.forced_copy(o, lane) == 0.0;
        let rows = self.chooser.left[tile.row_loop].0;
        self.chooser.around.is_none()
            && rows > 1
            && rows.is_multiple_of(self.worthwhile_threads())
            && others.iter().any(|&i| self.results_meet(i))
            && self.operands.iter().all(|o| !self.is_moved(o, &others) || in_place(o))
            && all * self.bytes_of_a_result() > self.target.cache_bytes[1] as f64 / 2.0
    }

    /// Whether some of these loops move the operand.
    pub(super) fn is_moved(&self, operand: &Operand, loops: &[usize]) -> bool {
        loops.iter().any(|&i| operand.moves(self.axis(i)))
    }

    /// The loops over outputs beside the tile's.
    pub(super) fn others(&self, tile: &Tile) -> Vec<usize> {
        self.beside([tile.row_loop, tile.lane_loop])
    }

    /// The loops over outputs beside two of them.
    pub(super) fn beside(&self, two: [usize; 2]) -> Vec<usize> {
        let is_other = |i: &usize| !two.contains(i) && self.chooser.left[*i].0 > 1;
        self.outputs.iter().copied().filter(is_other).collect()
    }

    /// Bytes of results along a row of a tile, with those of other loops that lie in the same lines.
    pub(super) fn bytes_of_results(&self, tile: &Tile) -> f64 {
        let others = self.others(tile).into_iter().filter(|&i| self.results_meet(i));
        let times: f64 = others.map(|i| self.size(i) as f64).product();
        times * tile.rows as f64 * self.bytes_of_a_result()
    }

    /// Whether results of neighbouring iterations of a loop lie in one cache line.
    fn results_meet(&self, i: usize) -> bool {
        let axis = self.axis(i);
        let in_a_line = |step: f64| step > 0.0 && step < LINE as f64;
        self.results().any(|a| a.step(axis).is_some_and(in_a_line))
    }

    /// Bytes that all loads and stores of one result take.
    fn bytes_of_a_result(&self) -> f64 {
        self.results().map(|a| a.bytes as f64).sum()
    }
}
