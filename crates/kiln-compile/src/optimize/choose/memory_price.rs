//! Part of pass `choose`: the price of reading an operand, as it lies (cache lines) or staged (a copy).

use super::super::access::Access;
use super::super::cover::{Group, cover};
use super::super::stage::lanes_of_copy;
use super::operand::{Extent, Operand};
use super::planner::{Planner, Tile};
use super::priced;
use crate::target;
use kiln_ir::affine::gcd;

/// Bytes of a cache line.
pub(super) const LINE: f64 = target::LINE as f64;

impl Planner<'_> {
    /// Whether the operand is staged: its lanes are not neighbours, or misses cost more than the copy.
    pub(super) fn is_staged(&self, operand: usize, tile: &Tile) -> bool {
        if self.forced_copy(&self.operands[operand], self.axis(tile.lane_loop)) > 0.0 {
            return true;
        }
        self.stage_prices(operand, tile).is_some_and(|[place, copied]| place > copied)
    }

    /// What an operand costs in its place and as a copy; none if there is no choice. For launches of many lengths, the means of
    /// these costs and those of the tile itself.
    pub(super) fn stage_prices(&self, operand: usize, tile: &Tile) -> Option<[f64; 2]> {
        let here = self.stage_prices_here(operand, tile)?;
        if self.unusual.is_empty() {
            return Some(here);
        }
        let mean_of = |way: usize| {
            self.mean(|planner| {
                let prices = planner.stage_prices_here(operand, tile).unwrap_or(here);
                planner.work(tile) + prices[way]
            })
        };
        Some([0, 1].map(mean_of))
    }

    /// What the multiplications of all tiles cost.
    pub(super) fn work(&self, tile: &Tile) -> f64 {
        self.steps() * (tile.across * tile.rows) as f64
    }

    fn stage_prices_here(&self, operand: usize, tile: &Tile) -> Option<[f64; 2]> {
        let operand = &self.operands[operand];
        if self.forced_copy(operand, self.axis(tile.lane_loop)) > 0.0 {
            return None;
        }
        let slides = self.slides(operand);
        if slides && !self.has_panel_of_windows(operand) {
            return None;
        }
        if self.is_in_a_row(operand, tile) {
            return None;
        }
        let loaded = self.loads(operand, tile) as f64 * operand.bytes;
        let packed = loaded / LINE * self.lanes_of(operand, tile) * self.costs().line_in_a_row;
        let gates = if slides { self.gates(operand, tile) } else { 0.0 };
        // a panel that holds windows one by one repeats elements: then only their predicates are worth a copy
        let repeats = slides && self.covered(operand, tile) >= 1.0;
        let misses = if repeats { 0.0 } else { self.misses(operand, tile) };
        let steps = self.steps();
        Some([(misses + gates) * steps, packed * steps + self.copy(operand, tile)])
    }

    /// Tells of operands that stay where they are, although they could be staged.
    pub(super) fn tell_in_place(&self, tile: &Tile, staged: &[bool]) {
        for i in (0..self.operands.len()).filter(|&i| !staged[i]) {
            if let Some([place, copied]) = self.stage_prices(i, tile) {
                let about = format!("operand {i}");
                priced::between(&about, "cycles", [("as it is", place), ("staged", copied)], 0);
            }
        }
    }

    /// Whether steps of the innermost loop read most of the memory between them: then the processor prefetches, which
    /// is as good as a copy.
    pub(super) fn is_in_a_row(&self, operand: &Operand, tile: &Tile) -> bool {
        let step = self.step(operand);
        let run = (tile.lanes * tile.across) as f64 * operand.bytes;
        operand.moves(self.axis(tile.lane_loop))
            && !operand.predicated
            && step > 0.0
            && step <= 2.0 * run
    }

    /// How often the body of the tile runs.
    pub(super) fn steps(&self) -> f64 {
        let trips = |&i: &usize| self.chooser.left[i].0 as f64;
        self.outputs.iter().map(trips).product::<f64>() * self.depth()
    }

    /// How many values an operand takes in all of its loops.
    pub(super) fn elements(&self, operand: &Operand) -> f64 {
        operand.extent.elements
    }

    /// The price of copying all of an operand.
    pub(super) fn copy(&self, operand: &Operand, tile: &Tile) -> f64 {
        self.elements(operand) * self.covered(operand, tile) * self.copy_of_one(operand, tile)
    }

    /// The price of copying an element: in vectors along the lanes, or along as many rows of a tile as make one.
    fn copy_of_one(&self, operand: &Operand, tile: &Tile) -> f64 {
        let in_a_row = |i: usize| operand.stride(self.axis(i)) == Some(1);
        if self.has_rows_of_windows(operand, tile) {
            return match (operand.gated, self.target.masks) {
                (false, _) => self.costs().copy(true),
                (true, true) => self.costs().gated_copy,
                (true, false) => self.costs().copy(false),
            };
        }
        let rows = lanes_of_copy(tile.rows, tile.lanes) > 1
            && self.size(tile.row_loop).is_multiple_of(tile.rows);
        self.costs().copy(in_a_row(tile.lane_loop) || in_a_row(tile.row_loop) && rows)
    }

    /// The price per point of copying the rows of a tile, where they will be staged: if they are neighbours in memory and each step
    /// reads other lines, or in a block of the reduction around other loops.
    pub(super) fn copy_of_rows(&self, operand: &Operand, tile: &Tile) -> f64 {
        let in_a_row = operand.stride(self.axis(tile.row_loop)) == Some(1);
        let apart = || in_a_row && self.step(operand) > LINE && self.misses(operand, tile) > 0.0;
        let in_block = || !self.is_alone(tile) && self.chunk(tile).is_some();
        let still = !operand.moves(self.axis(tile.lane_loop));
        match still && !self.slides(operand) && (apart() || in_block()) {
            true => self.copy_of_one(operand, tile) / self.uses(operand),
            false => 0.0,
        }
    }

    fn lanes_of(&self, operand: &Operand, tile: &Tile) -> f64 {
        if operand.moves(self.axis(tile.lane_loop)) { tile.lanes as f64 } else { 1.0 }
    }

    /// The price per step of the cache lines of an operand that is not staged: lines that it reads again in each round
    /// of the other loop, and lines that it reads for the first time. Nothing if it reads each value once: a copy would read
    /// the same lines. Example: five rows times a matrix.
    fn misses(&self, operand: &Operand, tile: &Tile) -> f64 {
        if self.is_read_once(operand, tile) {
            return 0.0;
        }
        let step = self.step(operand);
        let columns = tile.lanes * tile.across;
        let span = self.span(operand);
        let of_tile = |i| i == tile.row_loop || self.reduces.contains(&i);
        let (rounds, again) = match operand.moves(self.axis(tile.lane_loop)) {
            true => {
                let (run, strip) =
                    (columns as f64 * operand.bytes, self.block_depth * operand.bytes);
                (tile.row_loop, self.line_price(strip * columns as f64, run, step))
            }
            false => {
                let read_again = self.span_over(operand, of_tile);
                (tile.lane_loop, self.line_price(read_again, step, step))
            }
        };
        let again =
            if self.streams(operand) { again.min(self.costs().line_in_a_row) } else { again };
        let first = self.line_price(span, 1.0, 1.0).max(self.costs().second_line);
        let rounds = self.chooser.left[rounds].0 as f64;
        self.lines(operand, tile) * (again + first / rounds) + self.pages(operand, tile)
    }

    /// Whether each vector of the operand is for one step only: the tile has all rows, and no windows share a value.
    fn is_read_once(&self, operand: &Operand, tile: &Tile) -> bool {
        // from the first value to the last, and the last
        let values = self.span(operand) / operand.bytes + 1.0;
        operand.moves(self.axis(tile.lane_loop))
            && self.uses(operand) <= tile.rows as f64
            && self.elements(operand) <= values
    }

    /// The price per step of pages that an operand's lanes are in, if each round of the loop over rows reads too many to find them at once.
    /// Channels of an image of 47 x 47 are two pages apart, so 128 channels take twice as many pages as a core knows.
    fn pages(&self, operand: &Operand, tile: &Tile) -> f64 {
        let costs = self.costs();
        let each = (self.step(operand) / costs.page_bytes).min(1.0);
        let is_far = self.block_depth * each > costs.near_pages;
        let is_read_again = self.chooser.left[tile.row_loop].0 > 1;
        match operand.moves(self.axis(tile.lane_loop)) && is_read_again && is_far {
            true => each * costs.far_page,
            false => 0.0,
        }
    }

    /// Whether the innermost loop reads overlapping windows over several cache lines, one after the other, which the
    /// processor prefetches.
    fn streams(&self, operand: &Operand) -> bool {
        let trips = self.reduces.last().map_or(0, |&inner| self.size(inner)) as f64;
        let step = self.step(operand);
        self.slides(operand) && step <= LINE && step * trips > 2.0 * LINE
    }

    /// Bytes between what two steps of the innermost loop read.
    pub(super) fn step(&self, operand: &Operand) -> f64 {
        self.reduces.last().map_or(0.0, |&inner| operand.step(self.axis(inner)))
    }

    /// How many lines of an operand that is not staged a step of the tile meets for the first time.
    pub(super) fn lines(&self, operand: &Operand, tile: &Tile) -> f64 {
        let along = |i: usize, n: usize| match operand.moves(self.axis(i)) {
            true => (n as f64 * operand.step(self.axis(i)) / LINE).clamp(1.0, n as f64),
            false => 1.0,
        };
        let lines =
            along(tile.lane_loop, tile.lanes * tile.across) * along(tile.row_loop, tile.rows);
        lines * (self.step(operand) / LINE).min(1.0)
    }

    /// Loads and stores of results.
    pub(super) fn results(&self) -> impl Iterator<Item = &Access> {
        self.results.iter().map(|&i| &self.chooser.kernel.accesses[i])
    }

    /// The price, for each result, of the cache lines of an access whose lanes are no neighbours. Lanes of lines of their
    /// own leave the rest of these lines to a later iteration of another loop, after those of all lanes.
    pub(super) fn lines_apart(&self, access: &Access, tile: &Tile) -> f64 {
        let along = |i: usize, n: usize| match access.step(self.axis(i)) {
            Some(step) => (n as f64 * step / LINE).clamp(1.0, n as f64),
            None => n as f64,
        };
        let columns = tile.lanes * tile.across;
        let rows = along(tile.row_loop, tile.rows);
        let lines = along(tile.lane_loop, columns) * rows;
        let each = match access.step(self.axis(tile.lane_loop)) {
            Some(step) if step < LINE => self.costs().line_in_a_row,
            step => {
                let met = self.size(tile.lane_loop) as f64 * rows * self.results().count() as f64;
                let costs = self.costs();
                let prices = [costs.second_result, costs.far_result];
                self.price_by_cache(prices, met * LINE, LINE, step.unwrap_or(LINE))
            }
        };
        lines * each / (columns * tile.rows) as f64
    }

    /// The price of a cache line that is read again and again: `bytes` in runs of `run` bytes, `step` apart. If `step`
    /// is a multiple of a large part of a way, only a part of the cache can be used.
    pub(super) fn line_price(&self, bytes: f64, run: f64, step: f64) -> f64 {
        self.price_by_cache([self.costs().second_line, self.costs().far_line], bytes, run, step)
    }

    /// The same at these prices of a line from the second cache, and from further off.
    fn price_by_cache(&self, [second, far]: [f64; 2], bytes: f64, run: f64, step: f64) -> f64 {
        let holds = |cache: usize| {
            let way = (cache / self.costs().ways) as u64;
            let apart = gcd(step as u64, way).max(1);
            bytes <= cache as f64 / 2.0 * (run / apart as f64).min(1.0)
        };
        match self.target.cache_bytes {
            [first, ..] if holds(first) => 0.0,
            [_, cache, _] if holds(cache) => second,
            _ => far,
        }
    }

    /// Bytes of memory that the operand covers.
    pub(super) fn span(&self, operand: &Operand) -> f64 {
        operand.extent.span
    }

    /// The same in one iteration of a loop.
    pub(super) fn span_without(&self, operand: &Operand, other: usize) -> f64 {
        operand.extent.without[other]
    }

    /// What does not depend on the tile.
    pub(super) fn extent(&self, operand: &Operand) -> Extent {
        let product = |loops: &mut dyn Iterator<Item = &usize>| -> f64 {
            loops.map(|&i| self.size(i) as f64).product()
        };
        let moves = |i: &&usize| operand.moves(self.axis(**i));
        let loops = || self.outputs.iter().chain(&self.reduces);
        let without = |other: usize| self.span_over(operand, |i| i != other);
        Extent {
            elements: product(&mut loops().filter(moves)),
            uses: product(&mut self.outputs.iter().filter(|i| !moves(i))),
            span: self.span_over(operand, |_| true),
            without: (0..self.chooser.left.len()).map(without).collect(),
        }
    }

    /// Bytes of memory that the operand covers in those loops that count.
    pub(super) fn span_over(&self, operand: &Operand, counts: impl Fn(usize) -> bool) -> f64 {
        let all = || self.outputs.iter().chain(&self.reduces).filter(|&&i| counts(i));
        let loops = || all().filter(|&&i| operand.moves(self.axis(i)));
        let reach: f64 =
            loops().map(|&i| (self.size(i) - 1) as f64 * operand.step(self.axis(i))).sum();
        reach.min(self.values_over(operand, counts) * operand.bytes)
    }

    /// How many values the operand has in those loops that count. Overlapping windows have each once.
    fn values_over(&self, operand: &Operand, counts: impl Fn(usize) -> bool) -> f64 {
        let size = |i: usize| if counts(i) { self.size(i) } else { 1 };
        self.values(operand, size, |terms| {
            cover(terms.iter().copied()).min(terms.iter().map(|(n, _)| n).product())
        })
    }

    /// How many values the operand has in so many iterations of each loop. `of_group` counts those of a group of windows, of
    /// which it gets the iterations and factors.
    pub(super) fn values(
        &self,
        operand: &Operand,
        size: impl Fn(usize) -> usize,
        of_group: impl Fn(&[(usize, i64)]) -> usize,
    ) -> f64 {
        let all = || self.outputs.iter().chain(&self.reduces).copied();
        let range = |i: usize| &self.chooser.left[i].1;
        let in_window = |i: usize| operand.windows.iter().any(|group| group.has(range(i)));
        let others = all().filter(|&i| operand.moves(self.axis(i)) && !in_window(i));
        let others: f64 = others.map(|i| size(i) as f64).product();
        let terms = |group: &Group| -> Vec<(usize, i64)> {
            all().filter_map(|i| Some((size(i), group.factor(range(i))?))).collect()
        };
        others * operand.windows.iter().map(|g| of_group(&terms(g)) as f64).product::<f64>()
    }
}
