//! Checks that there is memory for LLVM. LLVM cannot recover from an allocation that fails: the compilation is lost,
//! and often the process. So before each compilation this module checks that the memory for all running compilations is
//! there. Other programs may still take it in the meantime.

use crate::error::Result;
use crate::memory;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// What LLVM takes for a small function: the first one, with what is made once for all.
const BASE: usize = 48 << 20;
/// And for each byte of a longer text.
const OF_A_BYTE: usize = 256;

/// What those who compile now take at most.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// A share of the memory, for as long as it lives.
pub(super) struct Room(usize);

/// Room to compile a text of so many bytes.
pub(super) fn of_compiling(text: usize) -> Result<Room> {
    let bytes = BASE.saturating_add(text.saturating_mul(OF_A_BYTE));
    let all = TAKEN.fetch_add(bytes, SeqCst).saturating_add(bytes);
    let room = Room(bytes);
    memory::check_room(all).map(|()| room)
}

impl Drop for Room {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, SeqCst);
    }
}
