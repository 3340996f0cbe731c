//! Finds races between work-items: two items access an element, one of them writes, and no barrier is between.

use rustc_hash::FxHashMap;

/// Which item accesses something, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Visitor {
    /// The number of its group.
    pub group: usize,
    /// Its number in the group.
    pub item: usize,
    /// How many barriers the group has passed.
    pub phase: usize,
}

/// The last accesses to an element.
#[derive(Clone, Copy, Default)]
struct Element {
    write: Option<Visitor>,
    read: Option<Visitor>,
    /// Whether items before the last reader have read it, too, in its phase.
    others: bool,
}

/// What items have accessed so far.
#[derive(Default)]
pub(super) struct Races {
    elements: FxHashMap<usize, Element>,
}

impl Visitor {
    /// Whether nothing orders the two. Groups are never ordered; what a group has of its own no other has.
    fn races(self, other: Visitor, shared: bool) -> bool {
        match self.group == other.group {
            true => self.item != other.item && self.phase == other.phase,
            false => shared,
        }
    }
}

impl Races {
    /// Notes an access to the element at `address`, of memory that groups share or not; whether it races.
    pub(super) fn access(
        &mut self,
        address: usize,
        by: Visitor,
        writes: bool,
        shared: bool,
    ) -> bool {
        let element = self.elements.entry(address).or_default();
        let races = |other: Option<Visitor>| other.is_some_and(|other| by.races(other, shared));
        let mut found = races(element.write);
        if writes {
            let same_phase = |r: Visitor| r.group == by.group && r.phase == by.phase;
            found |= races(element.read) || element.others && element.read.is_some_and(same_phase);
            element.write = Some(by);
        } else {
            let before = element.read.filter(|r| r.group == by.group && r.phase == by.phase);
            let another = before.is_some_and(|r| r.item != by.item);
            element.others = another || before.is_some() && element.others;
            element.read = Some(by);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(group: usize, item: usize, phase: usize) -> Visitor {
        Visitor { group, item, phase }
    }

    /// Whether the last of some accesses to one element races; `true` writes.
    fn last(accesses: &[(Visitor, bool)], shared: bool) -> bool {
        let mut races = Races::default();
        accesses.iter().fold(false, |_, &(by, writes)| races.access(8, by, writes, shared))
    }

    #[test]
    fn items_race_unless_a_barrier_is_between() {
        assert!(last(&[(by(0, 0, 0), true), (by(0, 1, 0), false)], false));
        assert!(last(&[(by(0, 0, 0), false), (by(0, 1, 0), true)], false));
        assert!(last(&[(by(0, 0, 0), true), (by(0, 1, 0), true)], false));
        assert!(!last(&[(by(0, 0, 0), true), (by(0, 1, 1), false)], false));
        assert!(!last(&[(by(0, 0, 0), true), (by(0, 0, 0), false)], false));
        assert!(!last(&[(by(0, 0, 0), false), (by(0, 1, 0), false)], false));
        // of two readers one writes
        assert!(last(&[(by(0, 0, 0), false), (by(0, 1, 0), false), (by(0, 1, 0), true)], false));
    }

    #[test]
    fn groups_race_in_memory_that_they_share() {
        assert!(last(&[(by(0, 0, 0), true), (by(1, 0, 5), false)], true));
        assert!(!last(&[(by(0, 0, 0), true), (by(1, 0, 0), true)], false));
    }
}
