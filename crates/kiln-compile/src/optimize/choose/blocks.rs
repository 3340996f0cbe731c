//! Part of pass `choose`: cache blocks around a tile, the loop that threads share, and the loops inside which operands
//! are staged.

use super::super::opt::Opt;
use super::operand::Operand;
use super::planner::{Planner, Tile};
use super::priced;
use super::tile::largest_divisor;
use kiln_ir::arg::RangeKind;

/// How the loops around a tile are split.
pub(super) struct Blocks {
    /// The loop that threads share, and what is left of it for each.
    thread: Option<(usize, usize)>,
    /// The loops beside the tile's two. One of them may be the threads' loop; then it means a thread's share of it.
    others: Vec<usize>,
    /// The innermost of these, and the size of its blocks, if a panel for a block holds less than its iterations' panels.
    overlapping: Option<(usize, usize)>,
    /// A loop of the reduction, and the size of its blocks.
    chunk: Option<(usize, usize)>,
    /// Whether those are around the other loops.
    chunk_around: bool,
    /// Tiles in a block along the rows, and blocks.
    rows: (usize, usize),
    /// The same along the lanes.
    columns: (usize, usize),
    /// Whether blocks of lanes are around the other loops.
    columns_around: bool,
    /// Whether blocks of rows are around all blocks of lanes.
    rows_around: bool,
}

/// The loops around the two innermost ones, outermost first.
pub(super) struct Around {
    axes: Vec<u32>,
    /// How many of them are around what is staged along the lanes.
    lanes: usize,
    /// How many are around a block of the reduction, and that.
    chunk: usize,
}

impl Around {
    /// The loops around what is staged for a whole block of the reduction.
    pub(super) fn of_chunk(&self) -> Around {
        Around { axes: self.axes[..self.chunk].to_vec(), lanes: self.chunk, chunk: self.chunk }
    }
}

impl Planner<'_> {
    /// A loop of the reduction and the size of its blocks, if what a tile reads in the whole reduction does not fit the
    /// second cache, and the sums that are carried between blocks fit the last one. Only for a single reduction.
    pub(super) fn chunk(&self, tile: &Tile) -> Option<(usize, usize)> {
        if self.chooser.order.is_some() {
            return self.given_chunk();
        }
        if self.reductions.len() > 1 {
            return None;
        }
        if !self.is_alone(tile) {
            return self.chunk_around_others(tile);
        }
        let [_, second, last] = self.target.cache_bytes.map(|bytes| bytes as f64);
        let &i = self.reduces.first()?;
        let bytes = self.operands.iter().map(|o| o.bytes).fold(1.0, f64::max);
        let each = (tile.lanes * tile.across + tile.rows) as f64 * bytes;
        let outputs = self.size(tile.lane_loop) as f64 * self.size(tile.row_loop) as f64 * bytes;
        if each * self.depth() <= second / 2.0 || outputs > last / 2.0 {
            return None;
        }
        let most =
            second / self.costs().cache_share as f64 * self.size(i) as f64 / (each * self.depth());
        let by = largest_divisor(self.size(i), most as usize);
        (by >= self.costs().least_depth).then_some((i, by))
    }

    /// The same in the order of sums that was chosen before.
    pub(super) fn given_chunk(&self) -> Option<(usize, usize)> {
        let chunk = |&i: &usize| Some((i, self.chooser.given_block(i)?));
        self.reduces.iter().find_map(chunk)
    }

    /// Whether a tile's loops are all that there are over outputs.
    pub(super) fn is_alone(&self, tile: &Tile) -> bool {
        let tiled = |i: &usize| [tile.lane_loop, tile.row_loop].contains(i) || self.size(*i) == 1;
        let tiled = |i: &usize| tiled(i) || self.chooser.is_around(*i);
        self.outputs.iter().all(tiled)
    }

    /// The same if there are other loops over outputs. Blocks go around all of them if the outermost reads so much
    /// again in each iteration that it does not fit the second cache, while the data of one block and all carried sums
    /// do. The first loop of the reduction with such blocks is divided: of a convolution's gradient, the one over channels,
    /// which is inside of those over the window.
    fn chunk_around_others(&self, tile: &Tile) -> Option<(usize, usize)> {
        let room = self.target.cache_bytes[1] as f64 / 2.0;
        let bytes = self.operands.iter().map(|o| o.bytes).fold(1.0, f64::max);
        let outputs: f64 = self.outputs.iter().map(|&o| self.size(o) as f64).product();
        let is_other = |&&o: &&usize| {
            ![tile.lane_loop, tile.row_loop].contains(&o)
                && self.size(o) > 1
                && !self.chooser.is_around(o)
        };
        let &outermost = self.outputs.iter().find(is_other)?;
        let all: f64 = self.operands.iter().map(|o| self.span_without(o, outermost)).sum();
        if outputs * bytes / self.target.threads.max(1) as f64 > room || all <= room {
            return None;
        }
        // half of the cache: carried sums pass through it too, and pages do not share a cache evenly
        let first = *self.reduces.first()?;
        let fits = |&&i: &&usize| self.bytes_of_an_iteration(i) <= room / 2.0;
        let i = self.reduces.iter().find(fits).copied().unwrap_or(first);
        let most = (room / 2.0 / self.bytes_of_an_iteration(i)) as usize;
        let by = largest_divisor(self.size(i), most.max(1));
        (by as f64 * self.depth() / self.size(i) as f64 >= self.costs().least_depth as f64)
            .then_some((i, by))
    }

    /// What the operands read in one iteration of a loop.
    fn bytes_of_an_iteration(&self, i: usize) -> f64 {
        self.operands.iter().map(|o| self.span_without(o, i)).sum()
    }

    pub(super) fn blocks(
        &self,
        tile: &Tile,
        staged: &[bool],
        chunk: Option<(usize, usize)>,
    ) -> Blocks {
        let go_around = || self.rows_go_around(tile, staged) || self.rows_go_around_results(tile);
        if chunk.is_none() && go_around() {
            return self.blocks_in_rows(tile, staged);
        }
        let thread = self.thread_loop(tile, staged);
        let is_other = |&i: &usize| {
            ![tile.lane_loop, tile.row_loop].contains(&i) && !self.chooser.is_around(i)
        };
        let share =
            |i: usize| if thread == Some(i) { self.share(i) } else { self.chooser.left[i].0 };
        let others = self.outputs.iter().copied().filter(is_other).filter(|&i| share(i) > 1);
        let threads = self.target.threads.max(1);
        let [_, second, last] = self.target.cache_bytes.map(|bytes| bytes as f64);
        let trips = |i: usize| {
            let left = self.chooser.left[i].0;
            if thread == Some(i) { left.div_ceil(threads) } else { left }
        };
        let divided = |i: usize, bytes: f64, room: f64| {
            let all = if thread == Some(i) { trips(i) } else { self.chooser.most_left(i) };
            let in_cache = fit(trips(i), bytes, room);
            let in_scratch = fit(all, bytes * self.longest_block(chunk), self.scratch_room());
            let is_all = in_cache >= trips(i);
            let block = if is_all { in_scratch } else { in_cache.min(in_scratch) };
            (block, all.div_ceil(block))
        };
        let row_bytes = self.panel_bytes(staged, tile, true) * tile.rows as f64;
        let lane_bytes = self.panel_bytes(staged, tile, false);
        let lane_bytes = lane_bytes * (tile.across * tile.lanes) as f64;
        let others: Vec<usize> = others.collect();
        let columns_around = self.stays(tile, staged, &others);
        let overlapping =
            others.last().and_then(|&i| Some((i, self.overlapping(i, share(i), tile, staged)?)));
        let by_tile = self.is_copied_by_tile(tile, staged, row_bytes);
        // all rows if they fit the second cache beside a tile's lanes
        let fits = row_bytes * trips(tile.row_loop) as f64 + lane_bytes <= second;
        let rows_room = if by_tile || fits { f64::INFINITY } else { second / 2.0 };
        let rows = divided(tile.row_loop, row_bytes, rows_room);
        let room = if by_tile { lane_bytes } else { last / (2 * threads) as f64 };
        Blocks {
            thread: thread.map(|i| (i, if is_other(&i) { self.share(i) } else { 1 })),
            columns_around,
            others,
            overlapping,
            chunk,
            chunk_around: by_tile || !self.is_alone(tile),
            rows_around: by_tile && rows.1 > 1,
            rows,
            columns: divided(tile.lane_loop, lane_bytes, room),
        }
    }

    /// Lanes innermost, then the other loops, then rows, which are divided among threads.
    fn blocks_in_rows(&self, tile: &Tile, staged: &[bool]) -> Blocks {
        let lane_bytes = self.panel_bytes(staged, tile, false);
        let (columns, threads) = (self.chooser.left[tile.lane_loop].0, self.worthwhile_threads());
        let room = self.target.cache_bytes[2] as f64 / (2 * threads) as f64;
        let tile_lanes = (tile.across * tile.lanes) as f64;
        let by_panels = fit(columns, lane_bytes * tile_lanes, room);
        let around = self.rows_go_around_results(tile);
        let results = if around { self.bytes_of_results(tile) * tile_lanes } else { 0.0 };
        let block = by_panels.min(fit(columns, results, self.target.cache_bytes[1] as f64 / 2.0));
        let others = self.others(tile);
        Blocks {
            thread: (threads > 1).then(|| (tile.row_loop, self.share(tile.row_loop))),
            columns_around: self.stays(tile, staged, &others),
            others,
            overlapping: None,
            chunk: None,
            chunk_around: false,
            rows_around: false,
            rows: (1, 1),
            columns: (block, columns.div_ceil(block)),
        }
    }

    /// By how much the longest launch makes a block of the reduction longer than a usual one does.
    fn longest_block(&self, chunk: Option<(usize, usize)>) -> f64 {
        let is_free = |i: &&usize| chunk.is_none_or(|(chunked, _)| chunked != **i);
        let loops = self.reduces.iter().filter(is_free);
        loops.map(|&i| self.longest(i) as f64 / self.size(i) as f64).product()
    }

    /// How many bytes of scratch blocks of an operand may take: there are two operands.
    fn scratch_room(&self) -> f64 {
        (self.target.most_scratch() / 2) as f64
    }

    /// Whether the panels along the lanes are the same in all iterations of the other loops. Blocks of them inside
    /// those loops would be copied again in each iteration.
    fn stays(&self, tile: &Tile, staged: &[bool], others: &[usize]) -> bool {
        !self.staged_along_lanes(tile, staged).any(|o| self.is_moved(o, others))
    }

    fn staged_along_lanes<'b>(
        &'b self,
        tile: &Tile,
        staged: &'b [bool],
    ) -> impl Iterator<Item = &'b Operand> {
        let lane = self.axis(tile.lane_loop);
        let all = self.operands.iter().zip(staged);
        all.filter(move |(o, staged)| **staged && o.moves(lane)).map(|(o, _)| o)
    }

    /// Whether a panel along the lanes is filled for one tile right before it is read, and so read from a near cache. Meanwhile the
    /// next panel is fetched: see pass `prefetch`. All rows, of so many bytes each, pass every panel: they must fit the last cache.
    /// A core fetches lines that follow each other in time.
    fn is_copied_by_tile(&self, tile: &Tile, staged: &[bool], row_bytes: f64) -> bool {
        let rows = row_bytes * self.chooser.left[tile.row_loop].0 as f64;
        let passes = rows <= self.target.cache_bytes[2] as f64 / 2.0;
        passes && self.has_panels_of_its_own(tile, staged) && self.chooser.around.is_none()
    }

    /// Whether every iteration of the loops beside the tile's has other panels along the lanes, as in a batched product.
    fn has_panels_of_its_own(&self, tile: &Tile, staged: &[bool]) -> bool {
        let others = self.others(tile);
        let is_own = |o: &Operand| others.iter().all(|&i| o.moves(self.axis(i)));
        let are_own = self.staged_along_lanes(tile, staged).map(is_own).reduce(|a, b| a && b);
        self.is_alone(tile) || are_own == Some(true)
    }

    /// Iterations in each part of a loop that threads share. Parts are equal if twice as many parts as threads are enough for that.
    /// Else each thread gets one part, and the last one is shorter. More parts would fill the same panels more often.
    fn share(&self, i: usize) -> usize {
        let (left, threads) = (self.chooser.left[i].0, self.target.threads.max(1));
        let equal = (threads..=2 * threads).find(|&parts| left.is_multiple_of(parts));
        left.div_ceil(equal.unwrap_or(threads))
    }

    /// Bytes that are staged for each iteration of the tile's rows, of operands that stand still along the lanes; or the
    /// other way round.
    fn panel_bytes(&self, staged: &[bool], tile: &Tile, along_rows: bool) -> f64 {
        let (row, lane) = (self.axis(tile.row_loop), self.axis(tile.lane_loop));
        let (i, other) = if along_rows { (row, lane) } else { (lane, row) };
        let staged = self.operands.iter().zip(staged).filter(|(_, staged)| **staged);
        let along = staged.filter(|(o, _)| o.moves(i) && !o.moves(other));
        along.map(|(o, _)| o.bytes * self.block_depth * self.covered(o, tile)).sum()
    }

    /// From the innermost loop outward: rows and lanes of a block, blocks of rows, of the reduction, of lanes, the other
    /// loops, threads. Blocks of lanes and of the reduction go around the other loops if what is staged in them is then
    /// copied once, also around each thread's share of the loop that threads divide. If a panel along the lanes is for one tile,
    /// blocks of rows go around all such panels: else the rows would be copied again for each.
    pub(super) fn divide(&mut self, tile: &Tile, blocks: &Blocks) {
        self.chooser.block_of(tile.row_loop, blocks.rows.0);
        self.chooser.block_of(tile.lane_loop, blocks.columns.0);
        if let Some((i, by)) = blocks.overlapping {
            self.chooser.block_of(i, by);
        }
        if !blocks.rows_around {
            self.chooser.block(tile.row_loop, blocks.rows.1);
        }
        if !blocks.chunk_around {
            self.divide_reduction(blocks.chunk);
        }
        if !blocks.columns_around {
            self.chooser.block(tile.lane_loop, blocks.columns.1);
        }
        for &i in blocks.others.iter().rev() {
            let share = blocks.thread.filter(|(thread, _)| *thread == i).map(|(_, share)| share);
            let inside =
                blocks.overlapping.filter(|(other, _)| *other == i).map_or(1, |(_, by)| by);
            self.chooser.block(i, share.map_or(self.chooser.left[i].0, |share| share / inside));
        }
        if blocks.columns_around {
            self.chooser.block(tile.lane_loop, blocks.columns.1);
        }
        if blocks.rows_around {
            self.chooser.block(tile.row_loop, blocks.rows.1);
        }
        if blocks.chunk_around {
            self.divide_reduction(blocks.chunk);
        }
        if let Some((i, share)) = blocks.thread {
            if !blocks.others.contains(&i) {
                self.chooser.block(i, share);
            }
            self.chooser.apply(RangeKind::Thread, i, 1);
        }
    }

    fn divide_reduction(&mut self, chunk: Option<(usize, usize)>) {
        if let Some((i, by)) = chunk {
            self.chooser.options.push(Opt::Block { axis: self.axis(i), by });
            self.chooser.left[i].0 = by;
        }
    }

    /// The loops around the blocks.
    pub(super) fn around(&self, tile: &Tile, blocks: &Blocks) -> Around {
        let mut loops: Vec<usize> = Vec::new();
        if let Some((i, share)) = blocks.thread {
            loops.push(i);
            loops.extend((share > 1 && !blocks.others.contains(&i)).then_some(i));
        }
        let thread = blocks.thread.map(|(i, _)| i);
        let around = |&i: &usize| self.chooser.is_around(i) && thread != Some(i);
        loops.extend(self.outputs.iter().copied().filter(around));
        let chunk = blocks.chunk.map(|(i, _)| i);
        loops.extend(chunk.filter(|_| blocks.chunk_around));
        let in_chunk = loops.len();
        let rows = (blocks.rows.1 > 1).then_some(tile.row_loop);
        loops.extend(rows.filter(|_| blocks.rows_around));
        let columns = (blocks.columns.1 > 1).then_some(tile.lane_loop);
        loops.extend(columns.filter(|_| blocks.columns_around));
        loops.extend(&blocks.others);
        loops.extend(columns.filter(|_| !blocks.columns_around));
        loops.extend(chunk.filter(|_| !blocks.chunk_around));
        let lanes = loops.len();
        loops.extend(rows.filter(|_| !blocks.rows_around));
        let axes = loops.into_iter().map(|i| self.axis(i)).collect();
        Around { axes, lanes, chunk: in_chunk }
    }

    /// The loop that threads share: the outermost or one of the tile's. It is the one with the least cost, counted as
    /// the work of the last thread plus what every thread copies.
    fn thread_loop(&self, tile: &Tile, staged: &[bool]) -> Option<usize> {
        let threads = self.target.threads;
        if self.chooser.around.is_some() {
            return self.chooser.chosen_thread();
        }
        if threads < 2 || !self.chooser.worth_threads() {
            return None;
        }
        let left = |i: usize| self.chooser.left[i].0;
        let work = self.work(tile);
        let price = |i: usize| {
            let copies = self.operands.iter().zip(staged).filter(|(_, staged)| **staged);
            let copy = |o: &Operand| match o.moves(self.axis(i)) {
                true => self.copy(o, tile) / threads as f64,
                false => self.copy(o, tile),
            };
            let share = left(i).div_ceil(threads) as f64 / left(i) as f64;
            work * share + copies.map(|(o, _)| copy(o)).sum::<f64>()
        };
        let other = |i: &&usize| ![tile.lane_loop, tile.row_loop].contains(i) && left(**i) > 1;
        let first = self.outputs.iter().find(other).copied();
        let candidates = first.into_iter().chain([tile.row_loop, tile.lane_loop]);
        let fits: Vec<usize> = candidates.filter(|&i| left(i) >= threads).collect();
        let best = fits.iter().copied().min_by(|&a, &b| price(a).total_cmp(&price(b)))?;
        let option = |i: usize| Opt::Split { kind: RangeKind::Thread, axis: self.axis(i), by: 1 };
        priced::decided(
            || "loop that threads share".to_owned(),
            "cycles of the last thread",
            || {
                let all = fits.iter().map(|&i| (vec![option(i)], price(i))).collect();
                (all, fits.iter().position(|&i| i == best))
            },
        );
        Some(best)
    }

    /// Stages an operand inside the last loop that it moves along, and tells its price in its place and as a copy.
    pub(super) fn stage(
        &mut self,
        operand: usize,
        tile: &Tile,
        around: &Around,
        prices: Option<[f64; 2]>,
    ) {
        let facts = &self.operands[operand];
        let along_lanes = facts.moves(self.axis(tile.lane_loop));
        let axes = &around.axes[..if along_lanes { around.lanes } else { around.axes.len() }];
        let last = axes.iter().rposition(|&axis| facts.moves(axis)).map_or(0, |at| at + 1);
        let in_thread = self.chooser.has_threads() as usize;
        let lanes = if self.target.masks || !facts.gated { tile.lanes } else { 1 };
        let option = Opt::Stage { operand, depth: last.max(in_thread), lanes };
        if let Some([place, copied]) = prices {
            priced::decided(
                || format!("operand {operand}"),
                "cycles",
                || (vec![(Vec::new(), place), (vec![option], copied)], Some(1)),
            );
        }
        self.chooser.options.push(option);
    }
}

/// Blocks of about equal size of which each has at most `room` bytes, at `bytes` for each of `n`.
fn fit(n: usize, bytes: f64, room: f64) -> usize {
    let most = if bytes > 0.0 { ((room / bytes) as usize).clamp(1, n) } else { n };
    n.div_ceil(n.div_ceil(most))
}
