//! The set of nodes that a walk has visited, with a number for each. A thread reuses it for its next walk, without
//! emptying it.

use std::cell::Cell;
use std::mem;

/// Addresses of nodes, by open addressing. An entry counts if it was made in this walk.
pub(crate) struct Seen {
    table: Table,
    len: usize,
}

/// An address, the walk that met it, and what that walk noted of it.
#[derive(Clone, Copy, Default)]
struct Slot {
    id: usize,
    walk: u32,
    note: u32,
}

#[derive(Default)]
struct Table {
    /// None, or a power of two.
    slots: Vec<Slot>,
    walk: u32,
    /// How many the last walk met.
    last: usize,
}

/// What a small kernel needs.
const FEWEST_EXPECTED: usize = 64;

/// Room that a thread keeps between walks.
const MOST_KEPT: usize = 1 << 14;

/// Tables that a thread keeps: walks rarely run inside of more walks than this.
const TABLES_KEPT: usize = 4;

thread_local! {
    /// What is left of earlier walks.
    static KEPT: Cell<Vec<Table>> = const { Cell::new(Vec::new()) };
}

impl Seen {
    /// An empty set. Walks inside of walks have sets of their own.
    pub(crate) fn new() -> Seen {
        let kept = with_kept(Vec::pop).flatten();
        let mut table = kept.filter(|table| table.walk < u32::MAX).unwrap_or_default();
        table.walk += 1;
        if table.slots.is_empty() {
            table.grow();
        }
        Seen { table, len: 0 }
    }

    /// About how many nodes this walk will meet, if it is like the last one.
    pub(super) fn expected(&self) -> usize {
        self.table.last.clamp(FEWEST_EXPECTED, MOST_KEPT)
    }

    /// Adds an address; whether it is new.
    #[inline]
    pub(crate) fn insert(&mut self, id: usize) -> bool {
        self.insert_with(id, 0)
    }

    /// Adds an address with a note, if it is new; whether it is.
    #[inline]
    pub(super) fn insert_with(&mut self, id: usize, note: u32) -> bool {
        let at = self.table.place(id);
        let walk = self.table.walk;
        let slot = &mut self.table.slots[at];
        if slot.walk == walk {
            return false;
        }
        *slot = Slot { id, walk, note };
        self.len += 1;
        if 2 * self.len > self.table.slots.len() {
            self.table.grow();
        }
        true
    }

    /// The note on an address that the walk has met.
    #[inline]
    pub(super) fn note(&self, id: usize) -> Option<u32> {
        let slot = &self.table.slots[self.table.place(id)];
        (slot.walk == self.table.walk).then_some(slot.note)
    }
}

impl Table {
    /// Where an address is, or would be: half of the slots are free.
    #[inline]
    fn place(&self, id: usize) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = home(id) & mask;
        while self.slots[at].walk == self.walk && self.slots[at].id != id {
            at = (at + 1) & mask;
        }
        at
    }

    #[cold]
    fn grow(&mut self) {
        let room = (2 * self.slots.len()).max(2 * FEWEST_EXPECTED);
        let old = mem::replace(&mut self.slots, vec![Slot::default(); room]);
        for slot in old.into_iter().filter(|slot| slot.walk == self.walk) {
            let at = self.place(slot.id);
            self.slots[at] = slot;
        }
    }
}

/// Where the search for an address starts: the middle of the product depends on all of the address.
fn home(id: usize) -> usize {
    ((id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// Changes the tables that the thread keeps. A thread that is ending keeps none.
fn with_kept<R>(change: impl FnOnce(&mut Vec<Table>) -> R) -> Option<R> {
    let change = |kept: &Cell<Vec<Table>>| {
        let mut tables = kept.take();
        let result = change(&mut tables);
        kept.set(tables);
        result
    };
    KEPT.try_with(change).ok()
}

impl Drop for Seen {
    fn drop(&mut self) {
        let mut table = mem::take(&mut self.table);
        table.last = self.len;
        with_kept(|kept| {
            if table.slots.len() <= MOST_KEPT && kept.len() < TABLES_KEPT {
                kept.push(table);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_knows_what_it_met_and_nothing_else() {
        let ids = |n: usize| (1..n).map(|i| i * 272);
        for n in [10, 5000, 300, 40_000, 20] {
            let mut seen = Seen::new();
            assert!(ids(n).all(|id| seen.insert(id)), "{n}");
            let mut inner = Seen::new();
            assert!(ids(n).all(|id| inner.insert_with(id, id as u32)), "{n}");
            assert!(ids(n).all(|id| inner.note(id) == Some(id as u32)), "{n}");
            assert_eq!(inner.note(7), None);
            drop(inner);
            assert!(!ids(n).any(|id| seen.insert(id)), "{n}");
        }
    }
}
