//! Part of pass `choose`: reductions across rows, such as the sum of each column. Lanes are outputs, and rows are read
//! contiguously.
//!
//! Each step of such a reduction is one row further in memory. With one vector of columns at a time each step would
//! touch a new cache line, and often a new page, for one vector. So several vectors go side by side. If rows are longer
//! than that, a few rows at a time are read from end to end, and the sums of all columns are carried in scratch.

use super::super::access::Access;
use super::super::opt::Opt;
use super::super::ranges::{axis_of, kind_of};
use super::chooser::Chooser;
use super::tile::largest_divisor;
use crate::target::Target;
use kiln_ir::DType;
use kiln_ir::arg::RangeKind;

impl Chooser {
    /// Plans a reduction across rows whose outputs are vectors. False if there is none, or if another loop uses its
    /// operands again, so that a tile is better.
    pub(super) fn across(&mut self, target: &Target) -> bool {
        let Some((i, lanes)) = self.lanes_of_outputs() else { return false };
        let tiled = |(j, (n, r)): (usize, &(usize, _))| {
            j != i && *n > 1 && kind_of(r) == RangeKind::Loop && self.reuses(axis_of(r))
        };
        if self.left.iter().enumerate().any(tiled) {
            return false;
        }
        let loads = self.loads_across(axis_of(&self.left[i].1));
        let vector = lanes * DType::F32.size();
        if loads > 0 && !self.carry_rows(i, vector, target) {
            self.side_by_side(i, vector, loads, target);
        }
        loads > 0
    }

    /// The loop over outputs that became vectors, and of how many lanes.
    pub(super) fn lanes_of_outputs(&self) -> Option<(usize, usize)> {
        self.options.iter().find_map(|o| match *o {
            Opt::Split { kind: RangeKind::Vector, axis, by } => {
                let is_it =
                    |(_, r): &(usize, _)| axis_of(r) == axis && kind_of(r) == RangeKind::Loop;
                Some((self.left.iter().position(is_it)?, by))
            }
            _ => None,
        })
    }

    /// How many loads are contiguous along the axis and step over memory along a reduction. 0 if any load is neither
    /// that nor constant along the axis.
    fn loads_across(&self, axis: u32) -> usize {
        let reduces = self.axes_of(RangeKind::Reduce);
        let inner = |a: &&Access| !a.is_store && a.scope.intersects(&reduces);
        let loads: Vec<&Access> = self.kernel.accesses.iter().filter(inner).collect();
        let across = |a: &&&Access| {
            a.stride(axis) == Some(1) && reduces.iter().any(|r| a.stride(r) != Some(0))
        };
        let still = loads.iter().filter(|a| a.stride(axis) == Some(0)).count();
        let across = loads.iter().filter(across).count();
        if across + still == loads.len() { across } else { 0 }
    }

    /// Reads a few rows at a time, in vectors of `vector` bytes. Only for a single reduction: each reduction carries
    /// its own sums, and would read everything once more.
    fn carry_rows(&mut self, i: usize, vector: usize, target: &Target) -> bool {
        let mut reduces = self.loops_of(RangeKind::Reduce);
        let (Some(rows), None) = (reduces.next(), reduces.next()) else { return false };
        drop(reduces);
        // blocks are loops around everything
        if !self
            .kernel
            .is_one_nest(&self.axes_of(RangeKind::Loop), &self.axes_of(RangeKind::Reduce))
        {
            return false;
        }
        let (size, n) = (self.left[i].0, self.left[rows].0);
        let at_a_time = self.costs.rows_at_a_time;
        let by = self.even_blocks(size, self.costs.side_by_side, 1);
        let fit = target.cache_bytes[0] / 2 / (by * vector);
        let columns = self.blocks_for_threads(i, (size.div_ceil(by), by * vector), fit, target);
        let row = columns * by * vector;
        let pays = row >= self.long_row(n * row, target)
            && n >= self.costs.many_rows
            && by * at_a_time <= self.room;
        let pays = match self.order {
            Some(_) => self.given_block(rows).is_some(),
            None => pays && self.kernel.nests.len() == 2,
        };
        if !pays {
            return false;
        }
        self.apply(RangeKind::Upcast, i, by);
        self.block(i, columns);
        self.options.push(Opt::Block { axis: axis_of(&self.left[rows].1), by: at_a_time });
        self.left[rows].0 = at_a_time;
        self.apply(RangeKind::Unroll, rows, at_a_time);
        true
    }

    /// Sums of several vectors in registers.
    fn side_by_side(&mut self, i: usize, vector: usize, loads: usize, target: &Target) {
        let size = self.left[i].0;
        let most = (self.costs.run_bytes / vector).min(target.vector_registers / (2 * loads));
        let by = self.blocks_for_threads(i, (size, vector), most.min(self.room), target);
        self.apply(RangeKind::Upcast, i, by.max(1));
    }

    /// How many iterations of a loop of `left`, of `bytes` each, make a block: up to `most`. Every thread gets equally many
    /// blocks, if that can be: of 48 vectors, two threads take two blocks of 12 each, and not three of 16 together.
    fn blocks_for_threads(
        &self,
        i: usize,
        (left, bytes): (usize, usize),
        most: usize,
        target: &Target,
    ) -> usize {
        let share = self.share(i, left, bytes, target);
        let threads = if share < left { target.threads } else { 1 };
        self.even_blocks(left, most.min(left.div_ceil(threads)), threads)
    }

    /// How many of `n` iterations make a block, up to `most`, if `threads` get the same number of blocks: a divisor. If all
    /// divisors are small, and the target has masked vectors, blocks are as equal as can be, and the last one is not full:
    /// 113 vectors are 15 blocks of 8.
    fn even_blocks(&self, n: usize, most: usize, threads: usize) -> usize {
        let each = if n.is_multiple_of(threads) { n / threads } else { n };
        let divisor = largest_divisor(each, most);
        if !self.masks || 2 * divisor > most {
            return divisor;
        }
        n.div_ceil(n.div_ceil(most).next_multiple_of(threads))
    }

    /// Bytes of a row from which on it is read from end to end, by a thread that reads so many bytes.
    fn long_row(&self, bytes: usize, target: &Target) -> usize {
        let is_cached = bytes <= target.cache_bytes[1];
        if is_cached { self.costs.cached_row_bytes } else { self.costs.long_row_bytes }
    }

    /// How many iterations of a loop, of `bytes` each, to take so that every thread still gets a share worth having.
    fn share(&self, i: usize, left: usize, bytes: usize, target: &Target) -> usize {
        let is_other = |j: usize| j != i && kind_of(&self.left[j].1) == RangeKind::Loop;
        let others = (0..self.left.len()).any(|j| is_other(j) && self.left[j].0 > 1);
        let each = left / target.threads.max(1);
        if others || each * bytes < self.costs.thread_run_bytes { left } else { each }
    }
}
