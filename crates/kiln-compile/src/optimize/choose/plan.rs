//! Part of pass `choose`: reductions whose operands are used again, such as matrix products: register tiles, cache
//! blocks, staged operands, threads.
//!
//! Two loops over outputs are tiled: `lanes`, whose neighbours become vectors, and `rows`. An operand that does not
//! move along one of them is loaded once for the whole tile. All tiles that fit the registers are priced, and the
//! cheapest is taken. Then each operand is staged if that saves more cache misses than the copy costs, and blocks keep
//! the staged panels in the caches.

use super::super::opt::Opt;
use super::chooser::Chooser;
use super::code_size::CodeSize;
use super::inner::Inner;
use super::operand::Operand;
use super::order::Form;
use super::planner::{Planner, Tile};
use super::priced::{self, Priced};
use super::vectors;
use crate::target::Target;
use kiln_ir::UOp;
use kiln_ir::arg::RangeKind;
use kiln_ir::observe::{self, Decision};

impl Chooser {
    /// Applies tile, blocks, staging and threads, if the kernel is a reduction that gains by them; else None.
    pub(super) fn plan(&mut self, ast: &UOp, target: &Target) -> Option<Form> {
        let lanes = vectors::lanes(&self.kernel, target);
        let mut others = self.for_unusual_lengths();
        let mut planner = Planner::of(self, ast, target)?;
        planner.unusual = others.iter_mut().filter_map(|c| Planner::of(c, ast, target)).collect();
        let plan = planner.cheapest(lanes)?;
        let form = plan.form();
        let has_room = planner.has_room_for_terms();
        match plan {
            Plan::Inner(inner) => planner.carry_out_inner(inner, lanes),
            Plan::Tile(tile) => {
                let accumulators = planner.carry_out(tile, lanes);
                let few = accumulators < self.costs.in_flight;
                if few && has_room || self.order.is_some() {
                    self.unroll(1);
                }
            }
        }
        Some(form)
    }

    fn for_unusual_lengths(&self) -> Vec<Chooser> {
        let all = [self.costs.short_launch, self.costs.long_launch].map(|part| self.at(part));
        all.into_iter().filter(|_| self.kernel.has_lengths()).collect()
    }

    /// The least price of a point, by such a plan or with the reduction's own loop as vectors.
    pub(super) fn least_price(&mut self, ast: &UOp, target: &Target) -> f64 {
        let lanes = vectors::lanes(&self.kernel, target);
        let Some(planner) = Planner::of(self, ast, target) else { return f64::INFINITY };
        let tile = planner.best_tile(lanes).map_or(f64::INFINITY, |(price, _)| price);
        let inner = planner.best_inner(lanes).map_or(f64::INFINITY, |(price, _)| price);
        tile.min(inner).min(planner.reduced_in_vectors(lanes))
    }

    /// The price of a point of the iteration space by that plan.
    pub(super) fn plan_price(&mut self, ast: &UOp, target: &Target) -> Option<f64> {
        let lanes = vectors::lanes(&self.kernel, target);
        Planner::of(self, ast, target)?.worthwhile_tile(lanes).map(|(price, _)| price)
    }
}

/// The forms that a reduction can take.
enum Plan {
    Tile(Tile),
    Inner(Inner),
}

impl Plan {
    fn form(&self) -> Form {
        match self {
            Plan::Tile(_) => Form::Tile,
            Plan::Inner(_) => Form::Inner,
        }
    }
}

impl Planner<'_> {
    /// Whether registers hold values of several terms of the sum beside a tile, or the sum ends with a few terms.
    fn has_room_for_terms(&self) -> bool {
        let costs = self.costs();
        let has_registers = self.target.vector_registers > costs.registers_for_tiles;
        has_registers || self.depth() <= costs.unroll_whole as f64
    }

    /// The cheapest plan; of the form that was chosen before, if it was.
    fn cheapest(&self, lanes: usize) -> Option<Plan> {
        let tile = || self.best_tile(lanes).map(|(_, tile)| Plan::Tile(tile));
        let inner = || self.best_inner(lanes).map(|(_, inner)| Plan::Inner(inner));
        match self.chooser.order.as_ref().map(|order| order.form) {
            Some(Form::Inner) => return inner(),
            Some(Form::Tile | Form::Dots) => return tile(),
            Some(Form::Matrices | Form::Loops) => return None,
            None => {}
        }
        observe::decision(|| self.decision(lanes));
        let tile = self.worthwhile_tile(lanes);
        let others = tile.map_or_else(|| self.reduced_in_vectors(lanes), |(price, _)| price);
        let inner = self.best_inner(lanes).filter(|(price, _)| *price < others);
        let inner = inner.map(|(_, inner)| Plan::Inner(inner));
        inner.or(tile.map(|(_, tile)| Plan::Tile(tile)))
    }

    /// The choice between the forms of a reduction, as a value.
    fn decision(&self, lanes: usize) -> Decision {
        let tile = self.best_tile(lanes).map(|(price, _)| price);
        let inner = self.best_inner(lanes).map(|(price, _)| price);
        let vectors = Some(self.reduced_in_vectors(lanes));
        let alternatives = vec![
            ("vectors".into(), vectors),
            ("tile".into(), tile),
            ("inner products".into(), inner),
        ];
        let priced =
            alternatives.iter().enumerate().filter_map(|(i, (_, price))| Some((i, (*price)?)));
        let chosen = priced.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(i, _)| i);
        let about = format!("reduction over {} loops", self.reduces.len());
        let node = None; // the kernel that is compiled
        Decision { about, node, alternatives, unit: "cycles a point", chosen, note: String::new() }
    }

    /// The cheapest tile and its price, unless the reduction's own loop is better made vectors.
    fn worthwhile_tile(&self, lanes: usize) -> Option<(f64, Tile)> {
        self.best_tile(lanes).filter(|(cost, _)| *cost < self.reduced_in_vectors(lanes))
    }

    /// The cheapest tile over two loops, along each of which some operand does not move, and its price per point.
    fn best_tile(&self, widest: usize) -> Option<(f64, Tile)> {
        let mut best: Option<(f64, Tile)> = None;
        for tile in self.tiles(widest) {
            let cost = self.tile_cost(&tile);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, tile));
            }
        }
        best
    }

    fn tiles(&self, widest: usize) -> Vec<Tile> {
        let mut tiles = Vec::new();
        let free = || self.outputs.iter().copied().filter(|&i| !self.chooser.is_around(i));
        for lane_loop in free() {
            for row_loop in free().filter(|&r| r != lane_loop) {
                let (a, b) = (self.axis(lane_loop), self.axis(row_loop));
                let only = |a, b| self.operands.iter().any(|o| o.moves(a) && !o.moves(b));
                if only(a, b) && only(b, a) {
                    self.tiles_over(lane_loop, row_loop, widest, &mut tiles);
                }
            }
        }
        tiles
    }

    fn tiles_over(&self, lane_loop: usize, row_loop: usize, widest: usize, tiles: &mut Vec<Tile>) {
        let (n, text) = (self.size(lane_loop), CodeSize::of(self, lane_loop, row_loop));
        for lanes in self.costs().widths(self.longest(lane_loop), widest, self.target.masks) {
            for across in 1..=self.costs().most_across.min(n.div_ceil(lanes)) {
                for rows in 1..=self.size(row_loop).min(self.target.vector_registers) {
                    let tile = Tile { lane_loop, lanes, across, row_loop, rows };
                    let fits = self.registers(&tile) <= self.target.vector_registers
                        && self.fills_rows(&tile);
                    if fits && text.of_tile(self, &tile) <= self.chooser.nodes {
                        tiles.push(tile);
                    }
                }
            }
        }
    }

    /// Whether tiles fill the rows of scratch that nests share, if a launch decides how long these are. A last tile that is too long
    /// would reach into the next row. Then `trim::demand` could not end the row early.
    fn fills_rows(&self, tile: &Tile) -> bool {
        let longest = self.longest(tile.lane_loop);
        let is_decided = longest != self.size(tile.lane_loop);
        let is_shared = self.chooser.around.is_some();
        !(is_decided && is_shared) || longest.is_multiple_of(tile.lanes * tile.across)
    }

    /// Applies the options; the number of accumulators.
    fn carry_out(&mut self, tile: Tile, widest: usize) -> usize {
        let Tile { lane_loop, lanes, across, row_loop, rows } = tile;
        self.tell_tile(&tile, widest);
        let text = CodeSize::of(self, lane_loop, row_loop).of_tile(self, &tile);
        self.apply(RangeKind::Vector, lane_loop, lanes);
        self.apply(RangeKind::Upcast, lane_loop, across);
        self.apply(RangeKind::Upcast, row_loop, rows);
        let more = self.more_rows(&tile, text);
        if let Some(i) = more {
            self.apply(RangeKind::Upcast, i, self.size(i));
        }
        let times = more.map_or(1, |i| self.size(i));
        let chunk = self.chunk(&tile);
        if let Some((i, by)) = chunk {
            self.divide_depth(i, by);
        }
        let around = chunk.is_none() && self.rows_go_around_results(&tile);
        let stays = |o: &Operand| around && self.is_moved(o, &self.others(&tile));
        let is_staged = |(i, o): (usize, &Operand)| {
            self.worthwhile_in_chunk(o, &tile, chunk).is_some()
                || self.is_staged(i, &tile) && !stays(o)
        };
        let staged: Vec<bool> = self.operands.iter().enumerate().map(is_staged).collect();
        self.divide_and_stage(&tile, &staged, chunk);
        self.chooser.room = self.chooser.nodes / (text * times).max(1);
        across * rows * times * self.sums
    }

    fn apply(&mut self, kind: RangeKind, i: usize, by: usize) {
        self.chooser.apply(kind, i, by);
        self.unusual.iter_mut().for_each(|planner| planner.chooser.apply(kind, i, by));
    }

    /// A reduction's loop is done in blocks of `by` iterations.
    fn divide_depth(&mut self, i: usize, by: usize) {
        self.block_depth *= by as f64 / self.size(i) as f64;
        self.unusual.iter_mut().for_each(|planner| planner.divide_depth(i, by));
    }

    /// The choice of a tile, with the cheapest others.
    fn tell_tile(&self, taken: &Tile, widest: usize) {
        let split = |kind, i, by| Opt::Split { kind, axis: self.axis(i), by };
        let options = |t: &Tile| {
            let rows = split(RangeKind::Upcast, t.row_loop, t.rows);
            let across = split(RangeKind::Upcast, t.lane_loop, t.across);
            vec![split(RangeKind::Vector, t.lane_loop, t.lanes), across, rows]
        };
        priced::decided(
            || "tile of registers".to_owned(),
            "cycles a point",
            || {
                let tiles = self.tiles(widest);
                let all: Vec<Priced> =
                    tiles.iter().map(|t| (options(t), self.tile_cost(t))).collect();
                let own = options(taken);
                let at = all.iter().position(|(options, _)| *options == own);
                (all, at)
            },
        );
    }

    /// A third loop that goes into the tile as a whole, if the tile has all rows and the units would still wait for
    /// additions. What is read along the lanes is then loaded once for all its iterations.
    fn more_rows(&self, tile: &Tile, text: usize) -> Option<usize> {
        let lane = self.axis(tile.lane_loop);
        let reused =
            |i: usize| self.operands.iter().any(|o| o.moves(lane) && !o.moves(self.axis(i)));
        let fits = |i: usize| {
            let rows = tile.rows * self.size(i);
            text * self.size(i) <= self.chooser.nodes
                && self.registers(&Tile { rows, ..*tile }) <= self.target.vector_registers
        };
        let is_short = tile.rows == self.size(tile.row_loop)
            && tile.across * tile.rows < self.costs().in_flight;
        let free = self.outputs.iter().copied().filter(|&i| {
            ![tile.lane_loop, tile.row_loop].contains(&i) && !self.chooser.is_around(i)
        });
        free.filter(|&i| is_short && self.size(i) > 1 && reused(i) && fits(i))
            .max_by_key(|&i| self.size(i))
    }

    /// The loops around a tile, and operands staged inside of them.
    pub(super) fn divide_and_stage(
        &mut self,
        tile: &Tile,
        staged: &[bool],
        chunk: Option<(usize, usize)>,
    ) {
        self.tell_in_place(tile, staged);
        // before the loops are divided, as when it was decided
        let in_chunk = |o: &Operand| self.worthwhile_in_chunk(o, tile, chunk);
        let in_chunk: Vec<_> = self.operands.iter().map(in_chunk).collect();
        let operands = 0..self.operands.len();
        let prices: Vec<_> = operands.map(|i| self.stage_prices(i, tile)).collect();
        let blocks = self.blocks(tile, staged, chunk);
        self.divide(tile, &blocks);
        let around = self.around(tile, &blocks);
        for operand in (0..staged.len()).filter(|&i| staged[i]) {
            match in_chunk[operand] {
                Some(_) => self.stage(operand, tile, &around.of_chunk(), in_chunk[operand]),
                None => self.stage(operand, tile, &around, prices[operand]),
            }
        }
    }
}
