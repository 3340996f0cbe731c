//! Part of pass `choose`: the price of a register tile, in cycles of an arithmetic unit for each point of the iteration
//! space.

use super::super::access::Access;
use super::super::trim::LONG;
use super::memory_price::LINE;
use super::operand::Operand;
use super::planner::{Planner, Tile};
use kiln_ir::scope::AxisSet;

impl Planner<'_> {
    /// How many loads of an operand a step of the tile takes.
    pub(super) fn loads(&self, operand: &Operand, tile: &Tile) -> usize {
        let along = |i, n| if operand.moves(self.axis(i)) { n } else { 1 };
        along(tile.lane_loop, tile.across) * along(tile.row_loop, tile.rows)
    }

    /// Registers of a tile: accumulators of all sums, the operand that is held while the other passes, and one of the other. While
    /// one of the reductions goes on, its predicated loads are all done before its first product, since their predicates are
    /// computed together. A copy of overlapping windows is read without predicates.
    pub(super) fn registers(&self, tile: &Tile) -> usize {
        let loads = |operand: &Operand| self.loads(operand, tile);
        let held = self.operands.iter().map(loads).min().unwrap_or(0);
        let is_early = |o: &&Operand| o.gated && self.cheap_copy_of_windows(o, tile).is_none();
        let early: usize = self.operands.iter().filter(is_early).map(loads).sum();
        let plain = self.operands.iter().filter(|o| !is_early(o)).map(loads).min().unwrap_or(0);
        let at_once = self.sums.div_ceil(self.reductions.len().max(1));
        let accumulators = tile.across * tile.rows;
        (accumulators * self.sums + held + 1).max(accumulators * at_once + early + plain)
    }

    /// The price of a point of the iteration space.
    pub(super) fn tile_cost(&self, tile: &Tile) -> f64 {
        self.mean(|planner| planner.tile_cost_here(tile))
    }

    fn tile_cost_here(&self, tile: &Tile) -> f64 {
        let (lane, vectors) = (self.axis(tile.lane_loop), (tile.across * tile.rows) as f64);
        let costs = self.costs();
        let width = costs.width(tile.lanes);
        let loads: usize = self.operands.iter().map(|o| self.loads(o, tile)).sum();
        let points = self.points(tile);
        let (mut in_place, mut copies, mut lines) = (0.0, 0.0, 0.0);
        for operand in &self.operands {
            match self.cheap_copy_of_windows(operand, tile) {
                Some(price) => copies += price,
                None => in_place += self.reads_in_place(operand, tile),
            }
            copies += self.forced_copy(operand, lane) + self.copy_of_rows(operand, tile);
            lines += self.lines_of_panel(operand, tile);
        }
        let products = self.sums as f64 * vectors * (width + self.gate_of_product(tile));
        let step = products + loads as f64 * costs.load + in_place + lines * costs.panel_line;
        let least = costs.latency.max(lines * costs.panel_line_time) * width;
        step.max(least) / points + copies + self.outside(tile)
    }

    /// Points of the iteration space that a step of the tile computes, without what rounding and waiting threads waste.
    fn points(&self, tile: &Tile) -> f64 {
        let all = (tile.across * tile.rows * tile.lanes) as f64;
        all / (self.rounding(tile) * self.balance(tile))
    }

    /// The price per point of copying what overlapping windows read, if that is cheaper than to read it in its place.
    fn cheap_copy_of_windows(&self, operand: &Operand, tile: &Tile) -> Option<f64> {
        let price = self.copy_of_windows(operand, tile);
        let in_place = || self.reads_in_place(operand, tile) / self.points(tile);
        (price.is_finite() && price < in_place()).then_some(price)
    }

    /// The vectors of an operand in each step, as cache lines that come from the second cache, where those from further away count
    /// as more. None if the first cache keeps what the next tile reads again: of other rows, or in an iteration of another loop that
    /// the operand does not vary over.
    fn lines_of_panel(&self, operand: &Operand, tile: &Tile) -> f64 {
        let run = (tile.lanes * tile.across) as f64 * operand.bytes;
        let panel = self.depth_of_block(tile) * run;
        let [first, second, _] = self.target.cache_bytes.map(|bytes| bytes as f64);
        let is_read_again = self.uses(operand) > tile.rows as f64;
        match operand.moves(self.axis(tile.lane_loop)) && is_read_again && panel > first {
            true if panel > second => run / LINE * self.costs().far_panel_line,
            true => run / LINE,
            false => 0.0,
        }
    }

    /// Iterations of the reduction in a block of it.
    fn depth_of_block(&self, tile: &Tile) -> f64 {
        let share = |(i, by)| by as f64 / self.size(i) as f64;
        self.depth() * self.chunk(tile).map_or(1.0, share)
    }

    /// The price, in each step, of the lines, addresses and predicates of an operand. One that is staged in any case is read
    /// contiguously.
    fn reads_in_place(&self, operand: &Operand, tile: &Tile) -> f64 {
        let costs = self.costs();
        let is_copied = self.forced_copy(operand, self.axis(tile.lane_loop)) > 0.0;
        let lines = if is_copied { 0.0 } else { self.lines(operand, tile) };
        // as many addresses as there are registers for are computed once
        let has_addresses = !is_copied && self.has_addresses(operand, tile.row_loop);
        let rows = if has_addresses { tile.rows as f64 } else { 0.0 };
        let addresses = (rows - costs.addresses).max(0.0) * costs.address;
        lines * costs.new_line + addresses + self.gates(operand, tile)
    }

    /// Whether each iteration of a loop reads an operand at an address of its own: a launch decides the stride, or the length. Past the
    /// end, the first one is read (pass `trim`).
    fn has_addresses(&self, operand: &Operand, i: usize) -> bool {
        let axis = self.axis(i);
        operand.is_decided(axis) || operand.moves(axis) && self.longest(i) != self.size(i)
    }

    /// By how much rounding up to whole tiles multiplies the work.
    pub(super) fn rounding(&self, tile: &Tile) -> f64 {
        let columns = self.rounded(tile.lane_loop, tile.lanes * tile.across);
        columns * self.rounded(tile.row_loop, tile.rows)
    }

    /// How many times more work the last thread has than if all had the same.
    pub(super) fn balance(&self, tile: &Tile) -> f64 {
        let threads = self.target.threads.max(1);
        let trips = |&i: &usize| match i {
            _ if i == tile.lane_loop => self.size(i).div_ceil(tile.lanes * tile.across),
            _ if i == tile.row_loop => self.size(i).div_ceil(tile.rows),
            _ => self.size(i),
        };
        let share = |n: usize| (n.div_ceil(threads) * threads) as f64 / n as f64;
        self.outputs.iter().map(trips).map(share).fold(threads as f64, f64::min)
    }

    /// Whether an operand must be staged: its lanes are no neighbours in memory, or it is packed.
    pub(super) fn forced_copy(&self, operand: &Operand, lane: u32) -> f64 {
        let in_a_row = operand.stride(lane) == Some(1);
        if operand.parts == 1 && (!operand.moves(lane) || in_a_row) {
            return 0.0;
        }
        self.costs().copy(in_a_row) / self.uses(operand)
    }

    /// How often each element is used.
    pub(super) fn uses(&self, operand: &Operand) -> f64 {
        operand.extent.uses
    }

    /// The price, in each step, of the predicates of an operand.
    pub(super) fn gates(&self, operand: &Operand, tile: &Tile) -> f64 {
        let each = self.gate(operand, tile);
        if operand.gated { each * self.loads(operand, tile) as f64 } else { 0.0 }
    }

    /// The price of a predicated load. Wide vectors leave time for the operations on the predicate.
    fn gate(&self, operand: &Operand, tile: &Tile) -> f64 {
        let costs = self.costs();
        let depends = |i: usize| operand.gate.contains(self.axis(i));
        let is_divided = |&i: &usize| depends(i) && self.size(i) >= LONG;
        let is_narrow = tile.lanes < costs.wide_lanes;
        match depends(tile.lane_loop) {
            true => costs.gate_of_lanes,
            false if is_narrow && !self.reduces.last().is_some_and(is_divided) => {
                costs.gate_in_short_loop
            }
            false if depends(tile.row_loop) => 2.0 * costs.gate,
            false => costs.gate,
        }
    }

    /// The price of the predicate on a product that is not the same for the whole tile. Any other is looked at outside of
    /// the loops that it does not depend on. Processors with wide vectors choose between two sums as part of the product.
    fn gate_of_product(&self, tile: &Tile) -> f64 {
        let depends = |i: usize| self.gate.contains(self.axis(i));
        let is_narrow = tile.lanes < self.costs().wide_lanes;
        match (depends(tile.lane_loop), depends(tile.row_loop)) {
            (true, _) => self.costs().gate_of_lanes,
            (false, true) if is_narrow => self.costs().gate_of_lanes,
            (false, true) => self.costs().gate,
            (false, false) => 0.0,
        }
    }

    /// Loads and stores outside the reduction: vectors, or elements, with the lines that they are in.
    pub(super) fn outside(&self, tile: &Tile) -> f64 {
        let lane = self.axis(tile.lane_loop);
        let price = |a: &Access| match a.stride(lane) {
            Some(1) => 1.0 / tile.lanes as f64,
            _ => self.costs().element + self.lines_apart(a, tile),
        };
        let accesses: f64 = self.results().map(price).sum();
        (accesses + self.operations_outside(tile, lane)) / self.depth()
    }

    /// Operations on a result: in vectors, or, where blocks of the reduction leave it to plain loops, one by one.
    fn operations_outside(&self, tile: &Tile, lane: u32) -> f64 {
        let apart = |a: &Access| !matches!(a.stride(lane), Some(0 | 1));
        let one_by_one = self.results().any(apart) && self.chunk(tile).is_some();
        let lanes = if one_by_one { 1.0 } else { tile.lanes as f64 };
        self.operations_outside / lanes
    }

    /// Operations on a result that comes out of the sum of a vector's lanes: each takes one element.
    pub(super) fn operations_one_by_one(&self) -> f64 {
        self.operations_outside / self.depth()
    }

    /// Whether what varies over these axes is inside the reduction.
    pub(super) fn is_inside(&self, scope: &AxisSet) -> bool {
        self.reduces.iter().any(|&i| scope.contains(self.axis(i)))
    }

    /// The price of a point if the reduction's own loop became vectors.
    pub(super) fn reduced_in_vectors(&self, lanes: usize) -> f64 {
        let in_a_row = |&&i: &&usize| {
            let axis = self.axis(i);
            self.size(i) >= lanes
                && self.operands.iter().all(|o| matches!(o.stride(axis), Some(0 | 1)))
        };
        let (costs, lanes) = (self.costs(), lanes.max(1));
        let width = costs.width(lanes);
        let sums = self.sums as f64;
        let point =
            (sums * width + costs.load_in_a_row * self.operands.len() as f64) / lanes as f64;
        let price = |&i: &usize| point + sums * costs.horizontal / self.size(i) as f64;
        let least = self.reduces.iter().filter(in_a_row).map(price).fold(f64::INFINITY, f64::min);
        least + self.operations_one_by_one()
    }
}
