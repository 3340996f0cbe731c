//! One part of the table of living nodes: a hash table with open addressing. A look for a node that is not there takes one
//! memory access.

use super::Node;
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};

/// Nodes by content hash. `Weak`, so that the table keeps nothing alive.
#[derive(Default)]
pub(super) struct Table {
    /// None, or a power of two, of which at least a quarter are free. An entry is at the first free place from where
    /// its tag sends it. Several have the same tag where nodes collide, or one has died and not been removed yet.
    /// A slot is small, for a computation pushes the slots out of the processor's caches and they must come back.
    slots: Vec<Slot>,
    /// What the slots number, from 1 on.
    entries: Vec<Weak<Node>>,
    /// The numbers that no slot has. The last one freed is the first one taken, so that few lines of memory are in use.
    free: Vec<NonZeroU32>,
    /// The most entries at once, and how many were removed, since room was last looked at.
    most: usize,
    removed: usize,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    tag: u32,
    entry: Option<NonZeroU32>,
}

/// Where an entry would be.
pub(super) struct Place(usize);

/// A table with room for more nodes than this gives room back where it has had less than one in so many.
const FEWEST: usize = 32;
const SPARSE: usize = 4;

impl Table {
    /// The living node of this hash that `is_it`, or the place for one. Other nodes of this tag are left to the caller,
    /// who may have to drop them.
    #[inline]
    pub(super) fn find(
        &mut self,
        hash: u128,
        is_it: impl Fn(&Node) -> bool,
        others: &mut Vec<Arc<Node>>,
    ) -> Result<Arc<Node>, Place> {
        if 4 * (self.len() + 1) > 3 * self.slots.len() {
            self.resize((2 * self.slots.len()).max(FEWEST));
        }
        let tag = tag(hash);
        let mut at = self.search(tag as usize, |slot| slot.tag == tag);
        while let Some(entry) = self.slots[at].entry {
            match self.entries[index(entry)].upgrade() {
                Some(node) if is_it(&node) => return Ok(node),
                other => others.extend(other),
            }
            at = self.search(at + 1, |slot| slot.tag == tag);
        }
        Err(Place(at))
    }

    /// Makes `node` an entry at a place that `find` has given for its hash.
    pub(super) fn put(&mut self, place: Place, hash: u128, node: Weak<Node>) {
        let entry = match self.free.pop() {
            Some(entry) => entry,
            None => self.extend(),
        };
        self.entries[index(entry)] = node;
        self.slots[place.0] = Slot { tag: tag(hash), entry: Some(entry) };
        self.most = self.most.max(self.len());
    }

    /// A new number.
    fn extend(&mut self) -> NonZeroU32 {
        self.entries.push(Weak::new());
        let number = u32::try_from(self.entries.len()).ok().and_then(NonZeroU32::new);
        number.expect("fewer than 2^32 nodes in a part of the table")
    }

    /// Removes the entry of a node.
    pub(super) fn remove(&mut self, hash: u128, node: &Node) {
        let tag = tag(hash);
        let is_it = |entry| std::ptr::eq(self.entries[index(entry)].as_ptr(), node);
        let at = self.search(tag as usize, |s| s.tag == tag && s.entry.is_some_and(is_it));
        let entry = self.slots[at].entry.expect("a living node has an entry");
        self.entries[index(entry)] = Weak::new();
        self.free.push(entry);
        self.clear(at);
        self.removed += 1;
        if self.removed > self.slots.len() {
            self.give_back();
        }
    }

    /// Compiling leaves much room behind, and each look would meet a part of it that no cache holds. A program that makes
    /// the same graph again and again has had its most entries by now, and needs their room again.
    fn give_back(&mut self) {
        let (room, most) = (self.slots.len(), self.most);
        (self.most, self.removed) = (self.len(), 0);
        if room > FEWEST && most < room / SPARSE {
            self.resize((2 * room / SPARSE).max(FEWEST));
        }
    }

    /// How many entries.
    fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Looks at everything, if it takes not more than so many bytes.
    pub(super) fn touched(&self, most: usize) -> usize {
        if size_of_val(&self.slots[..]) > most {
            return 0;
        }
        let slots = self.slots.iter().fold(0, |all, slot| all ^ slot.tag as usize);
        self.entries.iter().fold(slots, |all, entry| all ^ entry.as_ptr().addr())
    }

    /// The first slot from `at` on that is free or the one.
    fn search(&self, at: usize, is_it: impl Fn(&Slot) -> bool) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = at & mask;
        while self.slots[at].entry.is_some() && !is_it(&self.slots[at]) {
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
            if slot.entry.is_none() {
                break;
            }
            let way = at.wrapping_sub(slot.tag as usize) & mask;
            if way >= at.wrapping_sub(free) & mask {
                self.slots.swap(free, at);
                free = at;
            }
        }
        self.slots[free].entry = None;
    }

    /// Gives the entries new numbers too, without gaps.
    fn resize(&mut self, room: usize) {
        let slots = std::mem::replace(&mut self.slots, vec![Slot::default(); room]);
        let mut entries = std::mem::take(&mut self.entries);
        self.free = Vec::new();
        for Slot { tag, entry } in slots {
            let Some(old) = entry else { continue };
            let (place, entry) = (self.search(tag as usize, |_| false), self.extend());
            self.entries[index(entry)] = std::mem::take(&mut entries[index(old)]);
            self.slots[place] = Slot { tag, entry: Some(entry) };
        }
    }
}

fn index(entry: NonZeroU32) -> usize {
    entry.get() as usize - 1
}

/// The part of a content hash that tells most entries apart, and says where an entry is at home. Content hashes are mixed
/// well enough for that; their lowest bits have chosen the part of the table.
fn tag(hash: u128) -> u32 {
    (hash >> 64) as u32
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
        assert!(table.len() == 0 && table.slots.len() > FEWEST, "{} slots", table.slots.len());
        for i in (0..2000).map(|i| i % nodes.len()) {
            let place = find(&mut table, i).err().expect("not there");
            table.put(place, hash(i), Arc::downgrade(&nodes[i].0));
            remove(&mut table, i);
        }
        assert!(table.len() == 0 && table.slots.len() == FEWEST, "{} slots", table.slots.len());
    }
}
