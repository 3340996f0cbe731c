//! A range of iterations that threads share by work stealing: each takes from the front of its own part, then from the
//! back of the others'.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A range is cut into at most this many pieces, so that two numbers of pieces fit a word.
const PIECES: usize = 1 << 16;

/// The rest of a range.
pub(super) struct Blocks {
    len: usize,
    /// The range is cut into pieces of this length; the last one may be shorter.
    piece: usize,
    /// By thread, its remaining pieces: the first in the upper half of the word, the end in the lower.
    left: Vec<AtomicU64>,
}

impl Blocks {
    /// The whole range in parts as equal as can be.
    pub(super) fn new(len: usize, threads: usize) -> Blocks {
        let piece = len.div_ceil(PIECES).max(1);
        let pieces = len.div_ceil(piece);
        let bound = |thread: usize| (thread * pieces / threads) as u64;
        let part = |thread| AtomicU64::new(bound(thread) << 32 | bound(thread + 1));
        Blocks { len, piece, left: (0..threads).map(part).collect() }
    }

    pub(super) fn threads(&self) -> usize {
        self.left.len()
    }

    /// The next iterations for a thread; none if nothing is left anywhere.
    pub(super) fn of(&self, thread: usize) -> impl Iterator<Item = Range<usize>> {
        let others = (thread + 1..self.threads()).chain(0..thread);
        let own = std::iter::from_fn(move || self.take(thread, front));
        let stolen =
            others.flat_map(move |other| std::iter::from_fn(move || self.take(other, back)));
        own.chain(stolen)
    }

    /// Half of a thread's rest, rounded up: few calls, and something to steal until the end.
    fn take(&self, thread: usize, side: fn(Range<u64>) -> [Range<u64>; 2]) -> Option<Range<usize>> {
        let left = &self.left[thread];
        let taken = left.fetch_update(Relaxed, Relaxed, |word| {
            let [_, kept] = side(range(word));
            (!range(word).is_empty()).then_some(kept.start << 32 | kept.end)
        });
        let [taken, _] = side(range(taken.ok()?));
        let at = |piece: u64| self.len.min(piece as usize * self.piece);
        Some(at(taken.start)..at(taken.end))
    }
}

fn range(word: u64) -> Range<u64> {
    word >> 32..word & u64::from(u32::MAX)
}

/// The first half, and the rest.
fn front(range: Range<u64>) -> [Range<u64>; 2] {
    let middle = range.start + (range.end - range.start).div_ceil(2);
    [range.start..middle, middle..range.end]
}

/// The last half, and the rest.
fn back(range: Range<u64>) -> [Range<u64>; 2] {
    let middle = range.start + (range.end - range.start) / 2;
    [middle..range.end, range.start..middle]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_given_out_once() {
        for (len, threads) in [(0, 2), (1, 3), (5, 2), (64, 7), (65_537, 3), (1_000_003, 2)] {
            let blocks = Blocks::new(len, threads);
            let blocks = &blocks;
            let mut taken: Vec<_> = std::thread::scope(|scope| {
                let take = |thread| scope.spawn(move || blocks.of(thread).collect::<Vec<_>>());
                let running: Vec<_> = (0..threads).map(take).collect();
                running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            taken.sort_by_key(|range| range.start);
            let ends = taken.iter().fold(0, |end, range| {
                assert_eq!(range.start, end, "{taken:?}");
                range.end
            });
            assert_eq!(ends, len);
        }
    }

    #[test]
    fn who_comes_first_does_the_work_of_who_is_late() {
        let blocks = Blocks::new(64, 2);
        let parts: Vec<_> = blocks.of(1).map(|range| (range.start, range.end)).collect();
        assert_eq!(parts[..3], [(32, 48), (48, 56), (56, 60)]);
        assert!(parts.contains(&(16, 32)) && parts.contains(&(0, 1)));
        assert!(blocks.of(0).next().is_none());
    }
}
