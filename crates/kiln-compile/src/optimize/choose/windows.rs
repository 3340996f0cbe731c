//! Part of pass `choose`: the loop order around a tile whose operands are overlapping windows, as in a convolution.

use super::super::cover::{Group, cover};
use super::super::ranges::size_of;
use super::memory_price::LINE;
use super::operand::Operand;
use super::planner::{Planner, Tile};
use kiln_ir::UOp;

impl Planner<'_> {
    /// Whether the loop over rows goes around all other loops. What overlapping windows read again is then still in the
    /// second cache; with rows inside, all rows would have passed in between. There is no need for it where all rows fit
    /// as well: the columns of an image, inside of its rows.
    pub(super) fn rows_go_around(&self, tile: &Tile, staged: &[bool]) -> bool {
        if self.is_alone(tile) || self.chooser.around.is_some() {
            return false;
        }
        let (row, rows) = (self.axis(tile.row_loop), self.chooser.left[tile.row_loop].0);
        let room = self.target.cache_bytes[1] as f64 / 2.0;
        let slides = |(o, staged): (&Operand, &bool)| {
            !staged && o.moves(row) && self.slides(o) && self.bytes_between(o, tile) > room
        };
        let bytes = |part: f64| -> f64 {
            let of = |o: &Operand| self.span(o) * if o.moves(row) { part } else { 1.0 };
            self.operands.iter().map(of).sum()
        };
        self.operands.iter().zip(staged).any(slides)
            && rows.is_multiple_of(self.worthwhile_threads())
            && bytes(1.0 / rows as f64) <= room
            && room < bytes(1.0)
    }

    /// Bytes that pass, with rows inside, before overlapping windows read the same again: all that one iteration of the
    /// outermost loop reads along which the windows overlap.
    fn bytes_between(&self, operand: &Operand, tile: &Tile) -> f64 {
        let others = self.others(tile);
        let overlaps = |i: &usize| operand.windows.iter().any(|g| g.has(&self.chooser.left[*i].1));
        let around = &others[..others.iter().position(overlaps).map_or(others.len(), |at| at + 1)];
        self.operands.iter().map(|o| self.span_over(o, |i| !around.contains(&i))).sum()
    }

    /// Whether windows that overlap read the operand.
    pub(super) fn slides(&self, operand: &Operand) -> bool {
        self.elements(operand) * operand.bytes > 2.0 * self.span(operand)
    }

    /// Whether a panel of the operand holds what windows read again only once.
    pub(super) fn has_panel_of_windows(&self, operand: &Operand) -> bool {
        operand.parts == 1 && !operand.windows.is_empty()
    }

    /// What part of an operand's values a panel inside the loops around a tile holds: windows that overlap hold some values
    /// again and again.
    pub(super) fn covered(&self, operand: &Operand, tile: &Tile) -> f64 {
        if operand.parts > 1 {
            return 1.0;
        }
        operand.windows.iter().map(|group| self.covered_of(group, tile)).product()
    }

    /// The same for one group of windows.
    fn covered_of(&self, group: &Group, tile: &Tile) -> f64 {
        let of_tile = |i: &usize| [tile.row_loop, tile.lane_loop].contains(i);
        let loops = self.outputs.iter().filter(|i| of_tile(i)).chain(&self.reduces);
        let loops: Vec<&UOp> = loops.map(|&i| &self.chooser.left[i].1).collect();
        let inside = || group.members.iter().filter(|(range, _)| loops.contains(&range));
        let each: usize = inside().map(|(range, _)| size_of(range)).product();
        let len = cover(inside().map(|(range, factor)| (size_of(range), *factor)));
        (len as f64 / each as f64).min(1.0)
    }

    /// The size of blocks of a loop of so many iterations beside a tile, if windows overlap along it. Example: 3 x 3 windows.
    /// A panel for one row of the results holds three rows of an image, one for four rows holds six. So half as much is copied.
    pub(super) fn overlapping(
        &self,
        i: usize,
        len: usize,
        tile: &Tile,
        staged: &[bool],
    ) -> Option<usize> {
        let range = &self.chooser.left[i].1;
        let overlaps = |o: &Operand| {
            self.has_panel_of_windows(o) && o.windows.iter().any(|group| group.has(range))
        };
        let mut all =
            self.operands.iter().zip(staged).filter(|(o, staged)| **staged && overlaps(o));
        let (operand, _) = all.next()?;
        if operand.moves(self.axis(tile.lane_loop)) {
            return None;
        }
        let room = self.target.cache_bytes[1] as f64 / self.costs().cache_share as f64;
        let inside = |by: usize| {
            move |j: usize| match j {
                _ if j == i => by,
                _ if j == tile.row_loop || self.reduces.contains(&j) => self.size(j),
                _ => 1,
            }
        };
        let bytes = |by: usize| self.values_of_panel(operand, inside(by)) * operand.bytes;
        (2..=self.costs().overlapping_rows)
            .rev()
            .find(|by| len.is_multiple_of(*by) && bytes(*by) <= room)
    }

    /// How many values a panel holds for so many iterations of each loop. An element of several windows counts once; elements
    /// between those of a window count, too.
    fn values_of_panel(&self, operand: &Operand, size: impl Fn(usize) -> usize) -> f64 {
        self.values(operand, size, |terms| cover(terms.iter().copied()))
    }

    /// The prices of an operand with overlapping windows, in its place and as a panel, if the panel is cheaper. It holds everything
    /// of one block of the reduction, each value once and side by side; it is for blocks around the other loops. In their place
    /// the values may be far apart, and share few sets of a cache: pixels of 512 channels are 2 KiB apart.
    pub(super) fn worthwhile_in_chunk(
        &self,
        operand: &Operand,
        tile: &Tile,
        chunk: Option<(usize, usize)>,
    ) -> Option<[f64; 2]> {
        let (chunk, by) = chunk.filter(|_| !self.is_alone(tile))?;
        let suits = self.slides(operand) && self.has_panel_of_windows(operand);
        if !suits || operand.moves(self.axis(tile.lane_loop)) {
            return None;
        }
        let in_block = |i: usize| if i == chunk { by } else { self.size(i) };
        let values = self.values_of_panel(operand, in_block);
        let again = self.line_price(values * operand.bytes, LINE, self.step(operand));
        let place = (self.lines(operand, tile) * again + self.gates(operand, tile)) * self.steps();
        let chunks = self.size(chunk).div_ceil(by) as f64;
        let copied = values * chunks * self.costs().copy(false);
        (place > copied).then_some([place, copied])
    }

    /// Whether a panel holds overlapping windows whose elements are neighbours in memory.
    pub(super) fn has_rows_of_windows(&self, operand: &Operand, tile: &Tile) -> bool {
        let in_a_row = |group: &&Group| operand.stride(group.axis()) == Some(1);
        let mut rows = operand.windows.iter().filter(in_a_row);
        operand.parts == 1 && rows.any(|group| self.covered_of(group, tile) < 1.0)
    }

    /// The price per point of copying an operand whose windows overlap.
    pub(super) fn copy_of_windows(&self, operand: &Operand, tile: &Tile) -> f64 {
        match self.slides(operand) && self.has_panel_of_windows(operand) {
            true => self.copy(operand, tile) / (self.elements(operand) * self.uses(operand)),
            false => f64::INFINITY,
        }
    }

    /// For how many threads there is enough work.
    pub(super) fn worthwhile_threads(&self) -> usize {
        if self.chooser.worth_threads() { self.target.threads.max(1) } else { 1 }
    }
}
