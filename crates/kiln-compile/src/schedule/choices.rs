//! What stage `schedule` decides by price. A graph that differs from another one in lengths alone can be scheduled with the
//! other one's choices, and then has the same kernels.

use std::cell::{Cell, RefCell};

/// Choices in the order in which they are made. None of them changes what a program means.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    made: RefCell<Vec<usize>>,
    /// If they were made before: how many have been taken over.
    taken: Option<Cell<usize>>,
}

impl Choices {
    /// The same choices again, for another graph.
    pub fn again(&self) -> Choices {
        Choices { made: self.made.clone(), taken: Some(Cell::new(0)) }
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
