//! A map with bounded memory that keeps what is used: two generations. What is added or asked for is in the young one;
//! when that is full it becomes the old one, and what nobody asked for since it was young itself is forgotten.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::mem;

/// Entries of which the last `limit` that were used are certain to be there, and twice as many at most.
pub(super) struct Generations<K, V> {
    young: FxHashMap<K, V>,
    old: FxHashMap<K, V>,
    limit: usize,
}

impl<K: Hash + Eq, V> Generations<K, V> {
    pub(super) fn new(limit: usize) -> Generations<K, V> {
        Generations { young: FxHashMap::default(), old: FxHashMap::default(), limit }
    }

    /// What was added under the key, which counts as used.
    pub(super) fn get(&mut self, key: &K) -> Option<&mut V> {
        if !self.young.contains_key(key) {
            let (key, value) = self.old.remove_entry(key)?;
            self.insert(key, value);
        }
        self.young.get_mut(key)
    }

    /// Adds an entry, or replaces the one of this key.
    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.limit && !self.young.contains_key(&key) {
            self.old = mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    /// All values, in no order.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.young.values().chain(self.old.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_what_is_not_is_forgotten() {
        let mut map = Generations::new(4);
        map.insert(0, 0);
        for i in 1..1000 {
            map.insert(i, i);
            assert_eq!(map.get(&0), Some(&mut 0), "after {i}");
            assert!(map.values().count() <= 8, "after {i}");
        }
        let found: Vec<i32> = (1..1000).filter(|i| map.get(i).is_some()).collect();
        assert!(found.len() <= 8 && found.contains(&999) && found.contains(&997), "{found:?}");
    }

    #[test]
    fn a_key_has_one_value() {
        let mut map = Generations::new(2);
        (0..4).for_each(|i| map.insert(i, 0));
        map.insert(0, 1);
        assert_eq!(map.get(&0), Some(&mut 1));
        assert_eq!(map.values().filter(|v| **v == 1).count(), 1);
    }
}
