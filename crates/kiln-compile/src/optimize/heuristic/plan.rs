//! Reductions whose operands are used again and again: register tiles, blocks for the caches, staged operands, threads.
//!
//! Two loops over outputs are tiled, `lanes` (whose neighbours become vectors) and `rows`: an operand that stands still
//! along one of them is loaded once for all of the tile. The cheapest tile is found by trying all that fit the
//! registers. Then each operand is staged if what it saves in cache misses is more than the copy, and blocks keep what
//! is staged in the caches.

use super::super::options::{Opt, axis_of, kind_of, size_of};
use super::super::stage::{operands, value_strides};
use super::{Chooser, vectors};
use crate::target::Target;
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// Vectors of a tile along its lanes, at most.
const MOST_ACROSS: usize = 8;
/// Steps that a multiply-add takes until its result can be used.
const LATENCY: f64 = 4.0;
/// What a load adds to the operations that wait for it.
const LOAD: f64 = 0.25;
/// Copying an element in vectors, and one by one across its memory.
const COPY: f64 = 0.4;
const TRANSPOSE: f64 = 1.6;
/// Combining the lanes of a vector.
const HORIZONTAL: f64 = 20.0;
/// Cache lines: their bytes, and what one costs that is in the second cache, further out, or read in a row.
const LINE: f64 = 64.0;
const SECOND: f64 = 2.0;
const FURTHER: f64 = 8.0;
const IN_A_ROW: f64 = 0.7;

/// A value inside the reduction that may be staged.
struct Operand {
    strides: FxHashMap<u32, Option<i64>>,
    axes: FxHashSet<u32>,
    bytes: f64,
    /// Some of its loads are gated already.
    gated: bool,
}

impl Operand {
    fn of(value: &UOp) -> Operand {
        let nodes = toposort(value);
        Operand {
            strides: value_strides(value),
            axes: nodes.iter().filter(|n| n.op() == Op::Range).map(axis_of).collect(),
            bytes: value.dtype().size() as f64,
            gated: nodes.iter().any(|n| n.op() == Op::Load && n.srcs().len() > 2),
        }
    }

    fn moves(&self, axis: u32) -> bool {
        self.axes.contains(&axis)
    }

    fn stride(&self, axis: u32) -> Option<i64> {
        self.strides.get(&axis).copied().unwrap_or(Some(0))
    }

    /// Bytes between neighbours along an axis; far apart if that is not known.
    fn step(&self, axis: u32) -> f64 {
        self.stride(axis).map_or(f64::MAX, |s| s.unsigned_abs() as f64 * self.bytes)
    }
}

/// A register tile: `across` vectors of `lanes` along loop `lane_loop`, `rows` iterations of loop `row_loop`.
#[derive(Clone, Copy)]
struct Tile {
    lane_loop: usize,
    lanes: usize,
    across: usize,
    row_loop: usize,
    rows: usize,
}

/// What the plan is made for.
struct Planner<'a> {
    chooser: &'a mut Chooser,
    target: &'a Target,
    operands: Vec<Operand>,
    /// Positions of the loops over outputs and of those of the reduction.
    outputs: Vec<usize>,
    reduces: Vec<usize>,
}

impl Chooser {
    /// Tiles, blocks, staging and threads, if the kernel is a reduction that gains by them. False if it is not.
    pub(super) fn plan(&mut self, ast: &UOp, target: &Target) -> bool {
        let lanes = vectors::lanes(ast, target);
        let Some(mut planner) = Planner::of(self, ast, target) else { return false };
        let Some((cost, tile)) = planner.best_tile(lanes) else { return false };
        if planner.reduced_in_vectors(lanes) <= cost {
            return false;
        }
        planner.carry_out(tile);
        true
    }
}

impl<'a> Planner<'a> {
    fn of(chooser: &'a mut Chooser, ast: &UOp, target: &'a Target) -> Option<Planner<'a>> {
        let of_kind = |kind| {
            let ranges = chooser.left.iter().enumerate();
            ranges.filter(|(_, (_, r))| kind_of(r) == kind).map(|(i, _)| i).collect::<Vec<_>>()
        };
        let (outputs, reduces) = (of_kind(RangeKind::Loop), of_kind(RangeKind::Reduce));
        let axis = |&i: &usize| axis_of(&chooser.left[i].1);
        let inside =
            |nest: &FxHashSet<u32>, loops: &[usize]| loops.iter().all(|i| nest.contains(&axis(i)));
        let one_nest = chooser.kernel.nests.iter().all(|nest| {
            inside(nest, &outputs)
                && (inside(nest, &reduces) || !reduces.iter().any(|i| nest.contains(&axis(i))))
        });
        let operands: Vec<Operand> = operands(ast).iter().map(Operand::of).collect();
        let enough = !reduces.is_empty() && operands.len() > 1 && target.vector_registers >= 16;
        (one_nest && enough).then_some(Planner { chooser, target, operands, outputs, reduces })
    }

    fn axis(&self, i: usize) -> u32 {
        axis_of(&self.chooser.left[i].1)
    }

    fn size(&self, i: usize) -> usize {
        size_of(&self.chooser.left[i].1)
    }

    /// Iterations of the reduction.
    fn depth(&self) -> f64 {
        self.reduces.iter().map(|&i| self.size(i) as f64).product()
    }

    /// The cheapest tile over two loops of which each leaves some operand where it is, and its cost a point.
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
        for &lane_loop in &self.outputs {
            for &row_loop in self.outputs.iter().filter(|&&r| r != lane_loop) {
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
        let (n, room) = (self.size(lane_loop), self.chooser.room);
        for lanes in vectors::widths(n, widest, self.target.masks) {
            for across in 1..=MOST_ACROSS.min(n.div_ceil(lanes)) {
                for rows in 1..=self.size(row_loop).min(self.target.vector_registers) {
                    let tile = Tile { lane_loop, lanes, across, row_loop, rows };
                    let fits = self.registers(&tile) <= self.target.vector_registers;
                    if fits && across * rows <= room {
                        tiles.push(tile);
                    }
                }
            }
        }
    }

    /// How many loads of an operand a step of the tile takes.
    fn loads(&self, operand: &Operand, tile: &Tile) -> usize {
        let along = |i, n| if operand.moves(self.axis(i)) { n } else { 1 };
        along(tile.lane_loop, tile.across) * along(tile.row_loop, tile.rows)
    }

    /// Accumulators, the operand that is held while the others pass, and one of those.
    fn registers(&self, tile: &Tile) -> usize {
        let held = self.operands.iter().map(|o| self.loads(o, tile)).min().unwrap_or(0);
        tile.across * tile.rows + held + 1
    }

    /// The price of a point of the iteration space.
    fn tile_cost(&self, tile: &Tile) -> f64 {
        let (lane, vectors) = (self.axis(tile.lane_loop), (tile.across * tile.rows) as f64);
        let width = vectors::WIDTH[tile.lanes.trailing_zeros() as usize];
        let loads: usize = self.operands.iter().map(|o| self.loads(o, tile)).sum();
        let step = (vectors * width + loads as f64 * LOAD).max(LATENCY * width);
        let copies: f64 = self.operands.iter().map(|o| self.forced_copy(o, lane)).sum();
        step * self.rounding(tile) / (vectors * tile.lanes as f64)
            + copies
            + self.outside(lane, tile.lanes)
    }

    /// By how much rounding up to whole tiles multiplies the work.
    fn rounding(&self, tile: &Tile) -> f64 {
        let of = |i: usize, by: usize| {
            let n = self.size(i);
            n.next_multiple_of(by) as f64 / n as f64
        };
        of(tile.lane_loop, tile.lanes * tile.across) * of(tile.row_loop, tile.rows)
    }

    /// An operand whose neighbours along the lanes are not neighbours in memory must be staged.
    fn forced_copy(&self, operand: &Operand, lane: u32) -> f64 {
        if !operand.moves(lane) || operand.stride(lane) == Some(1) {
            return 0.0;
        }
        TRANSPOSE / self.uses(operand)
    }

    /// How often each element is used.
    fn uses(&self, operand: &Operand) -> f64 {
        let still = self.outputs.iter().filter(|&&i| !operand.moves(self.axis(i)));
        still.map(|&i| self.size(i) as f64).product()
    }

    /// Loads and stores outside the reduction.
    fn outside(&self, lane: u32, lanes: usize) -> f64 {
        let reduces =
            |scope: &FxHashSet<u32>| self.reduces.iter().any(|&i| scope.contains(&self.axis(i)));
        let outside = self.chooser.kernel.accesses.iter().filter(|a| !reduces(&a.scope));
        let price = |stride| if stride == Some(1) { 1.0 / lanes as f64 } else { 1.2 };
        outside.map(|a| price(a.stride(lane))).sum::<f64>() / self.depth()
    }

    /// The price of a point if the reduction's own loop became vectors.
    fn reduced_in_vectors(&self, lanes: usize) -> f64 {
        let in_a_row = |&&i: &&usize| {
            let axis = self.axis(i);
            self.size(i) >= lanes
                && self.operands.iter().all(|o| matches!(o.stride(axis), Some(0 | 1)))
        };
        let width = vectors::WIDTH[lanes.max(1).trailing_zeros() as usize];
        let point = (width + 0.5 * self.operands.len() as f64) / lanes as f64;
        let price = |&i: &usize| point + HORIZONTAL / self.size(i) as f64;
        self.reduces.iter().filter(in_a_row).map(price).fold(f64::INFINITY, f64::min)
    }

    fn carry_out(&mut self, tile: Tile) {
        let Tile { lane_loop, lanes, across, row_loop, rows } = tile;
        self.chooser.apply(RangeKind::Vector, lane_loop, lanes);
        self.chooser.apply(RangeKind::Upcast, lane_loop, across);
        self.chooser.apply(RangeKind::Upcast, row_loop, rows);
        let staged: Vec<bool> = self.operands.iter().map(|o| self.is_staged(o, &tile)).collect();
        let outer = self.block(&tile, &staged);
        for operand in (0..staged.len()).filter(|&i| staged[i]) {
            self.stage(operand, &tile, &outer);
        }
    }

    /// Whether the operand is staged: its lanes are not neighbours, or misses cost more than the copy.
    fn is_staged(&self, operand: &Operand, tile: &Tile) -> bool {
        if self.forced_copy(operand, self.axis(tile.lane_loop)) > 0.0 {
            return true;
        }
        let moving = |i: &&usize| operand.moves(self.axis(**i));
        let loops = self.outputs.iter().chain(&self.reduces);
        let elements: f64 = loops.filter(moving).map(|&i| self.size(i) as f64).product();
        let trips = |i: &usize| self.chooser.left[*i].0 as f64;
        let steps = self.outputs.iter().map(trips).product::<f64>() * self.depth();
        let loaded = self.loads(operand, tile) as f64 * operand.bytes;
        let packed = steps * loaded / LINE * self.lanes_of(operand, tile) * IN_A_ROW;
        let copy = if self.is_transposed(operand, tile) { TRANSPOSE } else { COPY };
        self.misses(operand, tile) * steps > packed + elements * copy
    }

    fn lanes_of(&self, operand: &Operand, tile: &Tile) -> f64 {
        if operand.moves(self.axis(tile.lane_loop)) { tile.lanes as f64 } else { 1.0 }
    }

    /// Whether the order in which the operand is read is not that of its memory.
    fn is_transposed(&self, operand: &Operand, tile: &Tile) -> bool {
        let inner =
            if operand.moves(self.axis(tile.lane_loop)) { tile.lane_loop } else { tile.row_loop };
        operand.stride(self.axis(inner)) != Some(1)
    }

    /// What a step of the tile pays for the lines of an operand that is not staged.
    fn misses(&self, operand: &Operand, tile: &Tile) -> f64 {
        let Some(&inner) = self.reduces.last() else { return 0.0 };
        let step = operand.step(self.axis(inner));
        let along = |i: usize, n: usize| match operand.moves(self.axis(i)) {
            true => (n as f64 * operand.step(self.axis(i)) / LINE).clamp(1.0, n as f64),
            false => 1.0,
        };
        let lines =
            along(tile.lane_loop, tile.lanes * tile.across) * along(tile.row_loop, tile.rows);
        let of_line = (step / LINE).min(1.0);
        let bytes = self.span(operand);
        let price = match bytes {
            _ if bytes <= self.target.cache_bytes[0] as f64 / 2.0 => 0.0,
            _ if bytes <= self.target.cache_bytes[1] as f64 / 2.0 => SECOND,
            _ => FURTHER,
        };
        lines * of_line * price
    }

    /// Bytes of memory that the operand covers.
    fn span(&self, operand: &Operand) -> f64 {
        let loops =
            || self.outputs.iter().chain(&self.reduces).filter(|&&i| operand.moves(self.axis(i)));
        let reach: f64 =
            loops().map(|&i| (self.size(i) - 1) as f64 * operand.step(self.axis(i))).sum();
        let all: f64 = loops().map(|&i| self.size(i) as f64).product::<f64>() * operand.bytes;
        reach.min(all)
    }

    /// Blocks for the caches and threads; the loops around the two innermost ones, outermost first: their axes, and how
    /// many of them are around what is staged along the lanes.
    fn block(&mut self, tile: &Tile, staged: &[bool]) -> (Vec<u32>, usize) {
        let (lane_loop, row_loop) = (tile.lane_loop, tile.row_loop);
        let thread = self.thread_loop(tile);
        let depth = self.depth();
        let bytes = |this: &Self, i: usize, other: usize, n: usize| -> f64 {
            let along = this
                .operands
                .iter()
                .zip(staged)
                .filter(|(o, s)| **s && o.moves(this.axis(i)) && !o.moves(this.axis(other)));
            along.map(|(o, _)| o.bytes * n as f64 * depth).sum()
        };
        let row_bytes = bytes(self, row_loop, lane_loop, tile.rows);
        let lane_bytes = bytes(self, lane_loop, row_loop, tile.across * tile.lanes);
        let threads = self.target.threads.max(1);
        let share = |i: usize, this: &Self| {
            let left = this.chooser.left[i].0;
            if thread == Some(i) { left.div_ceil(threads) } else { left }
        };
        let (rows, columns) = (share(row_loop, self), share(lane_loop, self));
        let row_block = fit(rows, row_bytes, self.target.cache_bytes[1] as f64 / 2.0);
        let last = self.target.cache_bytes[2] as f64 / (2 * threads) as f64;
        let column_block = fit(columns, lane_bytes, last);
        self.chooser.block(row_loop, row_block);
        self.chooser.block(lane_loop, column_block);
        let row_blocks = rows.div_ceil(row_block);
        self.chooser.block(row_loop, row_blocks);
        let column_blocks = columns.div_ceil(column_block);
        if thread == Some(lane_loop) {
            self.chooser.block(lane_loop, column_blocks);
        }
        if let Some(i) = thread {
            self.chooser.apply(RangeKind::Thread, i, 1);
        }
        let mut outer: Vec<u32> = thread.iter().map(|&i| self.axis(i)).collect();
        let others =
            self.outputs.iter().filter(|&&i| thread != Some(i) && self.chooser.left[i].0 > 1);
        outer.extend(others.map(|&i| self.axis(i)));
        if thread == Some(lane_loop) && column_blocks > 1 {
            outer.push(self.axis(lane_loop));
        }
        let around_lanes = outer.len();
        if row_blocks > 1 {
            outer.push(self.axis(row_loop));
        }
        (outer, around_lanes)
    }

    /// The loop that threads share: the outermost, or that of the tile that they can share most evenly.
    fn thread_loop(&self, tile: &Tile) -> Option<usize> {
        let threads = self.target.threads;
        if threads < 2 || !self.chooser.worth_threads() {
            return None;
        }
        let uneven = |i: usize| {
            let left = self.chooser.left[i].0;
            left.next_multiple_of(threads) as f64 / left as f64
        };
        let others =
            self.outputs.iter().copied().filter(|&i| i != tile.lane_loop && i != tile.row_loop);
        let first = others.into_iter().find(|&i| self.chooser.left[i].0 > 1);
        let candidates = first.into_iter().chain([tile.row_loop, tile.lane_loop]);
        let fits = candidates.filter(|&i| self.chooser.left[i].0 >= threads);
        fits.min_by(|&a, &b| uneven(a).total_cmp(&uneven(b)))
    }

    /// Inside the last loop that the operand moves along.
    fn stage(&mut self, operand: usize, tile: &Tile, (outer, around_lanes): &(Vec<u32>, usize)) {
        let facts = &self.operands[operand];
        let along_lanes = facts.moves(self.axis(tile.lane_loop));
        let around = &outer[..if along_lanes { *around_lanes } else { outer.len() }];
        let last = around.iter().rposition(|&axis| facts.moves(axis)).map_or(0, |at| at + 1);
        let in_thread = self.chooser.has_threads() as usize;
        let lanes = if self.target.masks || !facts.gated { tile.lanes } else { 1 };
        let depth = last.max(in_thread);
        self.chooser.options.push(Opt::Stage { operand, depth, lanes });
    }
}

/// Blocks of about equal size of which each has at most `room` bytes, at `bytes` for each of `n`.
fn fit(n: usize, bytes: f64, room: f64) -> usize {
    let most = if bytes > 0.0 { ((room / bytes) as usize).clamp(1, n) } else { n };
    n.div_ceil(n.div_ceil(most))
}
