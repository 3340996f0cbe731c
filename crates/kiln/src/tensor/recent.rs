//! The losses that backward started from on this thread: an optimizer's step computes them with its own work.

use super::Tensor;
use super::storage::Storage;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// Losses of a program that never steps are forgotten past this.
const MAX_LOSSES: usize = 64;

thread_local! {
    static LOSSES: RefCell<Vec<Weak<Storage>>> = const { RefCell::new(Vec::new()) };
}

/// Remembers a loss, without keeping it alive.
pub(crate) fn remember_loss(loss: &Tensor) {
    LOSSES.with_borrow_mut(|losses| {
        losses.retain(|l| l.strong_count() > 0);
        if losses.len() == MAX_LOSSES {
            losses.remove(0);
        }
        losses.push(Arc::downgrade(loss.storage()));
    });
}

/// The living losses since the last call.
pub(crate) fn take_losses() -> Vec<Arc<Storage>> {
    LOSSES.take().iter().filter_map(Weak::upgrade).collect()
}
