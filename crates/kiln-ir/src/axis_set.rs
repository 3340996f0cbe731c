//! Sets of loops.

use smallvec::SmallVec;
use std::fmt;

/// Bits of a word.
const WORD: u32 = u64::BITS;

/// A set of loops, by the number of their axis.
#[derive(Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AxisSet(
    /// A bit for each axis; the last word is not 0, so that equal sets are equal words.
    SmallVec<[u64; 2]>,
);

impl Clone for AxisSet {
    fn clone(&self) -> AxisSet {
        // words are copied; `SmallVec::clone` clones one by one
        AxisSet(SmallVec::from_slice(&self.0))
    }
}

impl AxisSet {
    /// Whether the axis is in the set.
    pub fn contains(&self, axis: u32) -> bool {
        self.0.get((axis / WORD) as usize).is_some_and(|word| word >> (axis % WORD) & 1 == 1)
    }

    /// Adds an axis.
    pub fn insert(&mut self, axis: u32) {
        let word = (axis / WORD) as usize;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (axis % WORD);
    }

    /// Adds all axes of another set.
    pub fn union_with(&mut self, other: &AxisSet) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(word, more)| *word |= more);
    }

    /// The axes of all these sets.
    pub fn union<'a>(sets: impl Iterator<Item = &'a AxisSet> + Clone) -> AxisSet {
        // most kernels have fewer loops than a word has bits
        let mut first = 0;
        for set in sets.clone() {
            match set.0[..] {
                [] => {}
                [word] => first |= word,
                _ => {
                    let mut all = AxisSet::default();
                    sets.for_each(|set| all.union_with(set));
                    return all;
                }
            }
        }
        AxisSet(if first == 0 {
            SmallVec::new()
        } else {
            SmallVec::from_buf_and_len([first, 0], 1)
        })
    }

    /// Takes an axis out, if it is in the set.
    pub fn remove(&mut self, axis: u32) {
        if let Some(word) = self.0.get_mut((axis / WORD) as usize) {
            *word &= !(1 << (axis % WORD));
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// Keeps the axes for which `keep` holds.
    pub fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        *self = self.iter().filter(|&axis| keep(axis)).collect();
    }

    /// The axes, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        let words = self.0.iter().enumerate();
        words.flat_map(|(at, &word)| Bits(word).map(move |bit| at as u32 * WORD + bit))
    }

    /// How many axes there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the sets have an axis in common.
    pub fn intersects(&self, other: &AxisSet) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Whether all axes are in the other set.
    pub fn is_subset(&self, other: &AxisSet) -> bool {
        self.0.len() <= other.0.len() && self.0.iter().zip(&other.0).all(|(a, b)| a & !b == 0)
    }
}

/// The bits of a word that are set, ascending.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let bit = (self.0 != 0).then(|| self.0.trailing_zeros())?;
        self.0 ^= 1 << bit;
        Some(bit)
    }
}

impl DoubleEndedIterator for Bits {
    fn next_back(&mut self) -> Option<u32> {
        let bit = self.0.checked_ilog2()?;
        self.0 ^= 1 << bit;
        Some(bit)
    }
}

impl FromIterator<u32> for AxisSet {
    fn from_iter<I: IntoIterator<Item = u32>>(axes: I) -> AxisSet {
        let mut set = AxisSet::default();
        axes.into_iter().for_each(|axis| set.insert(axis));
        set
    }
}

impl fmt::Debug for AxisSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn sets_of_axes_are_sets() {
        let mut dice = 7u64;
        let mut some = || -> BTreeSet<u32> {
            let mut axis = || {
                dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (dice >> 33) as u32 % [8, 70, 300][(dice >> 20) as usize % 3]
            };
            (0..axis() % 9).map(|_| axis()).collect()
        };
        for _ in 0..500 {
            let (a, b) = (some(), some());
            let [x, y] = [&a, &b].map(|s| s.iter().copied().collect::<AxisSet>());
            assert_eq!((x.len(), x.is_empty()), (a.len(), a.is_empty()));
            assert!(x.iter().eq(a.iter().copied()) && x.iter().rev().eq(a.iter().rev().copied()));
            assert!((0..320).all(|axis| x.contains(axis) == a.contains(&axis)));
            assert_eq!(x.intersects(&y), !a.is_disjoint(&b));
            assert_eq!(x.is_subset(&y), a.is_subset(&b));
            assert_eq!(x == y, a == b);
            let (mut union, mut kept) = (x.clone(), x.clone());
            union.union_with(&y);
            assert!(union.iter().eq(a.union(&b).copied()));
            assert_eq!(union, AxisSet::union([&x, &y].into_iter()));
            let mut fewer = x.clone();
            b.iter().for_each(|&axis| fewer.remove(axis));
            kept.retain(|axis| !b.contains(&axis));
            assert_eq!(fewer, kept);
            assert!(kept.iter().eq(a.difference(&b).copied()));
            assert_eq!(kept, a.difference(&b).copied().collect());
        }
    }
}
