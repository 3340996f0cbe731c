//! What stage `schedule` decides by price. A graph that differs from another one in lengths alone can be scheduled with the
//! other one's choices, and then has the same kernels.
//!
//! Some facts have several possible reasons. Example: a region is outside of a padding's source because it is before it, or
//! because it is behind it. If a short length has one reason and a long length the other, a length in between may have
//! none. So the reasons are listed beside the choices.

use std::cell::{Cell, RefCell};

/// Choices in the order in which they are made. None of them changes what a program means.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    made: RefCell<Vec<usize>>,
    /// If they were made before: how many have been taken over.
    taken: Option<Cell<usize>>,
    /// Reasons in the order in which they were found.
    reasons: RefCell<Vec<Reason>>,
}

/// One of several possible reasons for a fact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// All of the one is before all of the other.
    Before,
    /// All of the one is behind all of the other.
    Behind,
    /// Two conditions exclude each other, known by the hash of both: at another length they may not.
    Excluded(u128),
}

impl Choices {
    /// The same choices again, for another graph.
    pub fn again(&self) -> Choices {
        Choices { made: self.made.clone(), taken: Some(Cell::new(0)), reasons: RefCell::default() }
    }

    /// Something holds for this reason.
    pub(super) fn because(&self, reason: Reason) {
        self.reasons.borrow_mut().push(reason);
    }

    /// All reasons so far.
    pub(super) fn reasons(&self) -> Vec<Reason> {
        self.reasons.borrow().clone()
    }

    /// Yes or no: what the price says, unless it was chosen before.
    pub(super) fn choose(&self, by_price: bool) -> bool {
        self.pick(usize::from(by_price)) != 0
    }

    /// One of many: what the price says, unless it was chosen before.
    pub(super) fn pick(&self, by_price: usize) -> usize {
        let Some(taken) = &self.taken else {
            self.made.borrow_mut().push(by_price);
            return by_price;
        };
        let next = taken.replace(taken.get() + 1);
        self.made.borrow().get(next).copied().unwrap_or(by_price)
    }
}
