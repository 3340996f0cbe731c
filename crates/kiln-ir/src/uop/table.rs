//! One part of the table of living nodes: a hash table with open addressing, so that a lookup is one memory access.

use super::Node;
use std::sync::{Arc, Weak};

/// Nodes by content hash. `Weak`, so that the table keeps nothing alive.
#[derive(Default)]
pub(super) struct Table {
    /// None, or a power of two, of which at least a quarter are free. An entry is at the first free place from where
    /// its hash sends it. Several have the same hash where nodes collide, or one has died and not been removed yet.
    slots: Vec<Slot>,
    len: usize,
}

#[derive(Clone, Default)]
struct Slot {
    /// The halves of the hash: a u128 would be aligned to 16 bytes.
    hash: [u64; 2],
    node: Option<Weak<Node>>,
}

/// Where an entry would be.
pub(super) struct Place(usize);

/// A table with room for more nodes than this gives room back when it has less than one in so many.
const FEWEST: usize = 32;
const SPARSE: usize = 8;

impl Table {
    /// The living node of this hash that `is_it`, or the place for one. Other nodes of this hash are left to the caller,
    /// who may have to drop them.
    #[inline]
    pub(super) fn find(
        &mut self,
        hash: u128,
        is_it: impl Fn(&Node) -> bool,
        others: &mut Vec<Arc<Node>>,
    ) -> Result<Arc<Node>, Place> {
        if 4 * (self.len + 1) > 3 * self.slots.len() {
            self.resize((2 * self.slots.len()).max(FEWEST));
        }
        let hash = halves(hash);
        let has_it = |slot: &Slot| slot.hash == hash;
        let mut at = self.search(home(hash), has_it);
        while let Some(node) = &self.slots[at].node {
            match node.upgrade() {
                Some(node) if is_it(&node) => return Ok(node),
                other => others.extend(other),
            }
            at = self.search(at + 1, has_it);
        }
        Err(Place(at))
    }

    /// Makes `node` an entry at a place that `find` has given for its hash.
    pub(super) fn put(&mut self, place: Place, hash: u128, node: Weak<Node>) {
        self.slots[place.0] = Slot { hash: halves(hash), node: Some(node) };
        self.len += 1;
    }

    /// Removes the entry of a node.
    pub(super) fn remove(&mut self, hash: u128, node: &Node) {
        let hash = halves(hash);
        let is_it =
            |slot: &Slot| slot.node.as_ref().is_some_and(|n| std::ptr::eq(n.as_ptr(), node));
        self.clear(self.search(home(hash), is_it));
        self.len -= 1;
        // compiling leaves much room behind, and each look would meet a part of it that no cache holds
        let room = self.slots.len();
        if room > FEWEST && self.len < room / SPARSE {
            self.resize((2 * room / SPARSE).max(FEWEST));
        }
    }

    /// Looks at everything, if there are not more entries than `most`.
    pub(super) fn touched(&self, most: usize) -> u64 {
        let slots = if self.len <= most { &self.slots[..] } else { &[] };
        slots.iter().fold(0, |all, slot| all ^ slot.hash[0])
    }

    /// The first slot from `at` on that is free or the one.
    fn search(&self, at: usize, is_it: impl Fn(&Slot) -> bool) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = at & mask;
        while self.slots[at].node.is_some() && !is_it(&self.slots[at]) {
            at = (at + 1) & mask;
        }
        at
    }

    /// Frees a slot: those behind it that were not at home move up.
    fn clear(&mut self, mut free: usize) {
        let mask = self.slots.len() - 1;
        let mut at = free;
        loop {
            at = (at + 1) & mask;
            let slot = &self.slots[at];
            if slot.node.is_none() {
                break;
            }
            let way = at.wrapping_sub(home(slot.hash)) & mask;
            if way >= at.wrapping_sub(free) & mask {
                self.slots.swap(free, at);
                free = at;
            }
        }
        self.slots[free].node = None;
    }

    fn resize(&mut self, room: usize) {
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); room]);
        for slot in old.into_iter().filter(|slot| slot.node.is_some()) {
            let at = self.search(home(slot.hash), |_| false);
            self.slots[at] = slot;
        }
    }
}

fn halves(hash: u128) -> [u64; 2] {
    [hash as u64, (hash >> 64) as u64]
}

/// Content hashes are mixed well enough to place entries by; the lower half has chosen the part of the table.
fn home(hash: [u64; 2]) -> usize {
    hash[1] as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UOp;

    /// Also where many entries want the same places, and those are at the end, or two have the same hash.
    #[test]
    fn entries_are_found_until_they_are_removed() {
        let nodes: Vec<UOp> = (0..150).map(UOp::index).collect();
        let hash = |i: usize| (((i % 5 + FEWEST - 3) as u128) << 64) | (i as u128 / 10);
        let (mut table, mut living) = (Table::default(), Vec::new());
        let remove = |table: &mut Table, i: usize| table.remove(hash(i), &nodes[i].0);
        let find = |table: &mut Table, i: usize| {
            let is_it = |node: &Node| std::ptr::eq(node, &*nodes[i].0);
            table.find(hash(i), is_it, &mut Vec::new())
        };
        for (i, node) in nodes.iter().enumerate() {
            let place = find(&mut table, i).err().expect("not there");
            table.put(place, hash(i), Arc::downgrade(&node.0));
            living.push(i);
            if i % 3 == 2 {
                remove(&mut table, living.remove(i * 7 % living.len()));
            }
            for j in 0..=i {
                assert_eq!(find(&mut table, j).is_ok(), living.contains(&j), "{j} after {i}");
            }
        }
        while let Some(i) = living.pop() {
            remove(&mut table, i);
        }
        assert!(table.len == 0 && table.slots.len() == FEWEST, "{} slots", table.slots.len());
    }
}
