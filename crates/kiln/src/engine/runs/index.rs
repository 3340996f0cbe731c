//! The last write to each position, as an index of intervals.

use std::collections::BTreeMap;

/// Intervals that do not overlap, each with the write that it is left of.
#[derive(Default)]
pub(super) struct Index(BTreeMap<i64, (i64, usize)>);

/// The write that filled an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Nobody,
    /// This write, all of it.
    One(usize),
    Several,
}

impl Index {
    /// From now on `write` was the last at `start..end`.
    pub(super) fn write(&mut self, start: i64, end: i64, write: usize) {
        self.cut(start);
        self.cut(end);
        let covered: Vec<i64> = self.0.range(start..end).map(|(&s, _)| s).collect();
        covered.iter().for_each(|s| _ = self.0.remove(s));
        self.0.insert(start, (end, write));
    }

    /// Makes `at` a boundary.
    fn cut(&mut self, at: i64) {
        let Some((_, entry)) = self.0.range_mut(..at).next_back() else { return };
        let (end, write) = *entry;
        if end > at {
            entry.0 = at;
            self.0.insert(at, (end, write));
        }
    }

    pub(super) fn find(&self, start: i64, end: i64) -> Found {
        let before = self.0.range(..=start).next_back().filter(|(_, (e, _))| *e > start);
        let mut overlapping = before.into_iter().chain(self.0.range(start + 1..end));
        let Some((&first, &(until, write))) = overlapping.next() else { return Found::Nobody };
        let mut reached = if first <= start { until } else { return Found::Several };
        for (&from, &(until, other)) in overlapping {
            if other != write || from != reached {
                return Found::Several;
            }
            reached = until;
        }
        if reached >= end { Found::One(write) } else { Found::Several }
    }

    /// Start, end and writer of every interval, in order.
    pub(super) fn intervals(&self) -> impl Iterator<Item = (i64, i64, usize)> + '_ {
        self.0.iter().map(|(&start, &(end, write))| (start, end, write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_a_row_of_elements_that_remember_their_writer() {
        let mut state = 7u64;
        let mut random = |n: i64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as i64 % n
        };
        for _ in 0..200 {
            let (mut index, mut row) = (Index::default(), [None; 12]);
            for write in 0..10 {
                let start = random(12);
                let end = start + 1 + random(12 - start);
                index.write(start, end, write);
                row[start as usize..end as usize].fill(Some(write));
                let from = random(12);
                let to = from + 1 + random(12 - from);
                let part = &row[from as usize..to as usize];
                let expected = match part[0] {
                    Some(w) if part.iter().all(|p| *p == Some(w)) => Found::One(w),
                    None if part.iter().all(Option::is_none) => Found::Nobody,
                    _ => Found::Several,
                };
                assert_eq!(index.find(from, to), expected, "{row:?} {from}..{to}");
            }
        }
    }
}
