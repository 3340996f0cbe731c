//! The set of nodes that a walk has visited. A thread reuses it for its next walk, without emptying it.

use std::cell::Cell;
use std::mem;

/// Addresses of nodes, by open addressing. An entry counts if it was made in this walk.
pub(super) struct Seen {
    table: Table,
    len: usize,
}

/// Entries are an address and the number of the walk that met it.
#[derive(Default)]
struct Table {
    slots: Vec<(usize, u32)>,
    walk: u32,
    /// How many the last walk met.
    last: usize,
}

/// What a small kernel needs.
const FEWEST_EXPECTED: usize = 64;

/// Room that a thread keeps between walks.
const MOST_KEPT: usize = 1 << 14;

thread_local! {
    /// What is left of the last walk.
    static KEPT: Cell<Option<Table>> = const { Cell::new(None) };
}

impl Seen {
    /// An empty set. Walks inside of walks have sets of their own.
    pub(super) fn new() -> Seen {
        let kept = KEPT.try_with(Cell::take).ok().flatten();
        let mut table = kept.filter(|table| table.walk < u32::MAX).unwrap_or_default();
        table.walk += 1;
        Seen { table, len: 0 }
    }

    /// About how many nodes this walk will meet, if it is like the last one.
    pub(super) fn expected(&self) -> usize {
        self.table.last.clamp(FEWEST_EXPECTED, MOST_KEPT)
    }

    /// Adds an address; whether it is new.
    pub(super) fn insert(&mut self, id: usize) -> bool {
        if 2 * self.len >= self.table.slots.len() {
            self.table.grow();
        }
        let is_new = self.table.insert(id);
        self.len += is_new as usize;
        is_new
    }
}

impl Table {
    /// There must be a free slot.
    fn insert(&mut self, id: usize) -> bool {
        let mask = self.slots.len() - 1;
        let mut at = place(id) & mask;
        loop {
            match &mut self.slots[at] {
                (known, walk) if *walk == self.walk => {
                    if *known == id {
                        return false;
                    }
                }
                free => {
                    *free = (id, self.walk);
                    return true;
                }
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let room = (2 * self.slots.len()).max(64);
        let old = mem::replace(&mut self.slots, vec![(0, 0); room]);
        for (id, walk) in old {
            if walk == self.walk {
                self.insert(id);
            }
        }
    }
}

/// Where the search for an address starts: the middle of the product depends on all of the address.
fn place(id: usize) -> usize {
    ((id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

impl Drop for Seen {
    fn drop(&mut self) {
        let mut table = mem::take(&mut self.table);
        table.last = self.len;
        if table.slots.len() <= MOST_KEPT {
            // nothing is kept on a thread that is ending
            let _ = KEPT.try_with(|kept| kept.set(Some(table)));
        }
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
            assert!(ids(n).all(|id| inner.insert(id)), "{n}");
            drop(inner);
            assert!(!ids(n).any(|id| seen.insert(id)), "{n}");
        }
    }
}
