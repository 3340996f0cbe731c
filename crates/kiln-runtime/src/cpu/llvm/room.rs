//! Checks that there is memory for LLVM. LLVM cannot recover from an allocation that fails: the compilation is lost,
//! and often the process. So before each compilation this module checks that the memory for all running compilations is
//! there. Other programs may still take it in the meantime.

use crate::error::Result;
use crate::memory;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// The memory that LLVM takes for a small function, with everything that it allocates once.
const BASE: usize = 48 << 20;
/// The memory for each byte of text besides.
const OF_A_BYTE: usize = 256;

/// The memory reserved for all running compilations.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The memory reserved for one compilation, as long as this lives.
pub(super) struct Room(usize);

/// Reserves memory to compile a text of so many bytes.
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
