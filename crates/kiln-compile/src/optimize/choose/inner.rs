//! Part of pass `choose`: tiles of inner products. Lanes run along the reduction, where all operands are contiguous,
//! and are added up at its end.
//!
//! They pay where few rows meet a large matrix that is read once, as in a linear layer over a small batch: the few rows
//! stay in a cache while the matrix passes.

use super::super::access::Access;
use super::super::opt::Opt;
use super::super::trim;
use super::memory_price::LINE;
use super::operand::Operand;
use super::planner::Planner;
use super::priced::{self, Priced};
use kiln_ir::arg::RangeKind;

/// A tile of inner products: `few` rows of an operand that stays in the caches, and `many` of one that passes. Of each,
/// the position of its loop and how many of its iterations are in the tile.
#[derive(Clone, Copy)]
pub(super) struct Inner {
    lane_loop: usize,
    few: (usize, usize),
    many: (usize, usize),
}

impl Planner<'_> {
    /// The cheapest tile of inner products, and its price a point.
    pub(super) fn best_inner(&self, lanes: usize) -> Option<(f64, Inner)> {
        let tiles = self.inner_tiles(lanes);
        let priced = tiles.into_iter().map(|tile| (self.inner_cost(&tile, lanes), tile));
        priced.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    fn inner_tiles(&self, lanes: usize) -> Vec<Inner> {
        let mut tiles = Vec::new();
        let Some(lane_loop) = self.loop_in_a_row(lanes) else { return tiles };
        for (few, many) in self.meeting_loops() {
            for a in 1..=self.size(few).min(self.target.vector_registers) {
                for b in 1..=self.size(many).min(self.target.vector_registers) {
                    let tile = Inner { lane_loop, few: (few, a), many: (many, b) };
                    let loads = |o: &Operand| self.inner_loads(o, &tile);
                    let held = self.operands.iter().map(loads).min().unwrap_or(0);
                    let fits = a * b * self.sums + held < self.target.vector_registers;
                    if fits && a * b <= self.chooser.room {
                        tiles.push(tile);
                    }
                }
            }
        }
        tiles
    }

    /// The loop of the reduction along which all operands are contiguous. If vectors do not divide it, its end is a step of
    /// its own, behind the loop.
    fn loop_in_a_row(&self, lanes: usize) -> Option<usize> {
        let in_a_row = |o: &Operand, axis| o.parts == 1 && o.stride(axis) == Some(1);
        let fits = |&i: &usize| {
            let is_whole = self.size(i).is_multiple_of(lanes);
            (is_whole || self.size(i) >= trim::DIVIDED as usize * lanes)
                && self.operands.iter().all(|o| in_a_row(o, self.axis(i)))
        };
        self.reduces.iter().copied().find(fits)
    }

    /// Pairs of loops over outputs, each of which moves an operand that the other does not. The operand of the first is
    /// smaller and fits the second cache.
    fn meeting_loops(&self) -> Vec<(usize, usize)> {
        let free = || self.outputs.iter().copied().filter(|&i| !self.chooser.is_around(i));
        let pairs = free().flat_map(|few| free().map(move |many| (few, many)));
        let meet = |&(few, many): &(usize, usize)| {
            let (a, b) = (self.axis(few), self.axis(many));
            let only = |a, b| move |o: &&Operand| o.moves(a) && !o.moves(b);
            let kept: f64 = self.operands.iter().filter(only(a, b)).map(|o| self.span(o)).sum();
            self.size(few) <= self.size(many)
                && self.operands.iter().any(|o| only(b, a)(&o))
                && kept > 0.0
                && kept <= self.target.cache_bytes[1] as f64 / 2.0
        };
        pairs.filter(meet).collect()
    }

    fn inner_loads(&self, operand: &Operand, tile: &Inner) -> usize {
        let along = |(i, n): (usize, usize)| if operand.moves(self.axis(i)) { n } else { 1 };
        along(tile.few) * along(tile.many)
    }

    fn inner_cost(&self, tile: &Inner, lanes: usize) -> f64 {
        self.mean(|planner| planner.inner_cost_here(tile, lanes))
    }

    fn inner_cost_here(&self, tile: &Inner, lanes: usize) -> f64 {
        let costs = self.costs();
        let width = costs.width(lanes);
        let points = (tile.few.1 * tile.many.1) as f64;
        let sums = points * self.sums as f64;
        let many = self.axis(tile.many.0);
        let load = |o: &Operand| {
            let second = if o.moves(many) { 0.0 } else { costs.second_line_in_a_row };
            costs.load * self.lines_of_a_vector(o, tile.lane_loop, lanes) + second
        };
        let loads = self.operands.iter().map(|o| self.inner_loads(o, tile) as f64 * load(o));
        let lines = self.inner_lines(tile, lanes) * costs.panel_line_time;
        let step = (sums * width + loads.sum::<f64>()).max(costs.latency * width).max(lines);
        let point = self.with_end(tile.lane_loop, lanes) * step / (points * lanes as f64)
            + self.results_price(tile, lanes);
        point * self.inner_rounding(tile.few) * self.inner_rounding(tile.many)
    }

    /// How many lines a vector of an operand is in. If its rows do not start at whole vectors, every element but one may be
    /// the first of a line.
    fn lines_of_a_vector(&self, operand: &Operand, lane_loop: usize, lanes: usize) -> f64 {
        let bytes = lanes as f64 * operand.bytes;
        let is_whole = |&i: &usize| operand.step(self.axis(i)) % bytes == 0.0;
        let others = self.outputs.iter().chain(&self.reduces).filter(|&&i| i != lane_loop);
        if others.copied().all(|i| is_whole(&i)) {
            1.0
        } else {
            1.0 + (bytes - operand.bytes) / LINE
        }
    }

    /// By how much the end of the reduction multiplies the work, if vectors do not divide it: a step under a mask, or element
    /// by element.
    fn with_end(&self, i: usize, lanes: usize) -> f64 {
        let (n, left) = (self.size(i), self.size(i) % lanes);
        let end = if self.target.masks { left.min(1) } else { left };
        (n / lanes + end) as f64 / (n as f64 / lanes as f64)
    }

    /// The price of a tile's results, for each point: the lanes of sums are added up, and operations follow. Results that
    /// are neighbours in memory share vectors.
    fn results_price(&self, tile: &Inner, lanes: usize) -> f64 {
        let costs = self.costs();
        let along = |t| if self.is_stored_along(t) { t } else { (t.0, 1) };
        let (many, few) = (along(tile.many).1, along(tile.few).1);
        let results = tile.many.1 * tile.few.1;
        let vectors = vectors_of(many.max(few), lanes);
        let rows = (results / many.max(few)) as f64;
        let sum = |n: usize| {
            let alone = (lanes / n).ilog2() as f64 * costs.half_added;
            alone + (n - 1) as f64 * costs.halves_added
        };
        let sums = rows * self.sums as f64 * vectors.iter().map(|&n| sum(n)).sum::<f64>();
        // operations on one vector wait for each other
        let at_once = (rows * vectors.len() as f64).max(costs.in_flight as f64);
        // a shuffle and an addition for each half, and nothing else to do in the meantime
        let wait = f64::from(lanes.ilog2()) * 2.0 * costs.latency;
        (sums + wait + at_once * self.operations_outside) / (results as f64 * self.depth())
    }

    /// Whether results along a loop of the tile become vectors: all are neighbours, under one predicate.
    fn is_stored_along(&self, (i, by): (usize, usize)) -> bool {
        let axis = self.axis(i);
        let fits = |a: &Access| match a.stride(axis) {
            Some(1) => true,
            Some(0) => !a.is_store,
            _ => false,
        };
        let is_plain = |a: &Access| !a.gate.contains(axis) && fits(a);
        self.longest(i).is_multiple_of(by) && self.results().all(is_plain)
    }

    /// How many cache lines each step reads again from the second cache: of the few rows, if not all of them fit the first
    /// cache, and of the many, if those of a tile do not fit it beside the few.
    fn inner_lines(&self, tile: &Inner, lanes: usize) -> f64 {
        let bytes = self.operands.iter().map(|o| o.bytes).fold(1.0, f64::max);
        // half of the cache: other data passes through it too
        let room = self.target.cache_bytes[0] as f64 / 2.0;
        let is_far = |rows: usize| rows as f64 * self.depth() * bytes > room;
        let (few, many) = (tile.few, tile.many);
        let more: usize = self.more_few(tile).iter().map(|&i| self.size(i)).product();
        let all_few = self.size(few.0) * more;
        let of_few = self.size(many.0) > many.1 && is_far(all_few);
        let of_many = all_few > few.1 && is_far(few.1 + many.1);
        let rows = of_few as usize * few.1 + of_many as usize * many.1;
        rows as f64 * lanes as f64 * bytes / LINE
    }

    /// Loops over more of the few rows, as over the second axis of an image. They go inside the loop over the many, as the first
    /// does: around it, each of their iterations would read all of the many rows again.
    fn more_few(&self, tile: &Inner) -> Vec<usize> {
        let many = self.axis(tile.many.0);
        let moves_many =
            |i: usize| self.operands.iter().any(|o| o.moves(many) && o.moves(self.axis(i)));
        let mut more = self.beside([tile.few.0, tile.many.0]);
        more.retain(|&i| !self.chooser.is_around(i) && !moves_many(i));
        more
    }

    /// By how much rounding up to whole tiles multiplies the work.
    fn inner_rounding(&self, (i, by): (usize, usize)) -> f64 {
        let rounded = self.rounded(i, by);
        if rounded > 1.0 { self.costs().ragged_rows * rounded } else { 1.0 }
    }

    /// The choice of a tile of inner products, with the cheapest others.
    fn tell_inner(&self, taken: &Inner, lanes: usize) {
        let split = |kind, i, by| Opt::Split { kind, axis: self.axis(i), by };
        let options = |t: &Inner| {
            let [many, few] = [t.many, t.few].map(|(i, by)| split(RangeKind::Upcast, i, by));
            vec![split(RangeKind::Vector, t.lane_loop, lanes), many, few]
        };
        priced::decided(
            || "tile of inner products".to_owned(),
            "cycles a point",
            || {
                let tiles = self.inner_tiles(lanes);
                let price = |t: &Inner| (options(t), self.inner_cost(t, lanes));
                let all: Vec<Priced> = tiles.iter().map(price).collect();
                let own = options(taken);
                let at = all.iter().position(|(options, _)| *options == own);
                (all, at)
            },
        );
    }

    /// All of the few rows are read again for each tile of the many.
    pub(super) fn carry_out_inner(&mut self, tile: Inner, lanes: usize) {
        self.tell_inner(&tile, lanes);
        self.chooser.apply(RangeKind::Vector, tile.lane_loop, lanes);
        let (few, many) = (tile.few, tile.many);
        self.chooser.apply(RangeKind::Upcast, many.0, many.1);
        self.chooser.apply(RangeKind::Upcast, few.0, few.1);
        self.chooser.block(few.0, self.chooser.left[few.0].0);
        for i in self.more_few(&tile).into_iter().rev() {
            self.chooser.block(i, self.chooser.left[i].0);
        }
        self.chooser.threads(self.target);
    }
}

/// The vectors of at most `most` lanes, each a power of two, that so many neighbours become.
fn vectors_of(neighbours: usize, most: usize) -> Vec<usize> {
    let whole = std::iter::repeat_n(most, neighbours / most);
    let rest = (0..most.ilog2()).rev().map(|i| 1 << i).filter(|n| (neighbours % most) & n > 0);
    whole.chain(rest).collect()
}
