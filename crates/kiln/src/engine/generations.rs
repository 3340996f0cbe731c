//! A bounded map that keeps used entries, in two generations (a segmented LRU cache). An entry that is added or found
//! goes to the young one. When that is full, it becomes the old one. Unused entries of the former old one are dropped.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A map that certainly holds the entries that were used last, up to `limit` bytes. It holds at most twice as many
/// bytes, plus one larger entry.
pub(super) struct Generations<K, V> {
    young: FxHashMap<K, Entry<V>>,
    old: FxHashMap<K, Entry<V>>,
    /// Of the young ones.
    bytes: usize,
    limit: usize,
}

struct Entry<V> {
    value: V,
    bytes: usize,
}

impl<K: Hash + Eq, V> Generations<K, V> {
    pub(super) fn new(limit: usize) -> Generations<K, V> {
        Generations { young: FxHashMap::default(), old: FxHashMap::default(), bytes: 0, limit }
    }

    /// What was added under the key, which counts as used.
    pub(super) fn get(&mut self, key: &K) -> Option<&V> {
        if !self.young.contains_key(key) {
            let (key, Entry { value, bytes }) = self.old.remove_entry(key)?;
            self.insert(key, value, bytes);
        }
        self.young.get(key).map(|entry| &entry.value)
    }

    /// Adds an entry that takes so many bytes, or replaces the one of this key.
    pub(super) fn insert(&mut self, key: K, value: V, bytes: usize) {
        self.old.remove(&key);
        if let Some(replaced) = self.young.remove(&key) {
            self.bytes -= replaced.bytes;
        }
        if self.bytes + bytes > self.limit {
            (self.old, self.bytes) = (mem::take(&mut self.young), 0);
        }
        self.bytes += bytes;
        self.young.insert(key, Entry { value, bytes });
    }

    /// All values, in no order.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.young.values().chain(self.old.values()).map(|entry| &entry.value)
    }
}

/// A panic leaves what is behind the lock as it was, or with one entry more.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_what_is_not_is_forgotten() {
        let mut map = Generations::new(40);
        map.insert(0, 0, 10);
        for i in 1..1000 {
            map.insert(i, i, 10);
            assert_eq!(map.get(&0), Some(&0), "after {i}");
            assert!(map.values().count() <= 8, "after {i}");
        }
        let found: Vec<i32> = (1..1000).filter(|i| map.get(i).is_some()).collect();
        assert!(found.len() <= 8 && found.contains(&999) && found.contains(&997), "{found:?}");
    }

    #[test]
    fn a_key_has_one_value() {
        let mut map = Generations::new(2);
        (0..4).for_each(|i| map.insert(i, 0, 1));
        map.insert(0, 1, 1);
        assert_eq!(map.get(&0), Some(&1));
        assert_eq!(map.values().filter(|v| **v == 1).count(), 1);
        (0..100).for_each(|_| map.insert(7, 2, 2));
        assert!(map.bytes <= 2, "{} bytes", map.bytes);
    }

    #[test]
    fn bytes_are_the_bound_and_one_large_entry_is_kept() {
        let mut map = Generations::new(100);
        for i in 0..1000usize {
            map.insert(i, i % 30, i % 30);
            assert!(map.values().sum::<usize>() <= 200, "after {i}");
        }
        map.insert(1000, 0, 1 << 40);
        assert!(map.get(&1000).is_some());
        map.insert(1001, 0, 1);
        assert!(map.get(&1001).is_some() && map.values().count() == 2);
    }
}
