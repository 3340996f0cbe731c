//! Observers that write files.

use kiln_ir::observe::Observer;
use std::io;

/// An observer with a file, which is complete once it has ended.
pub(crate) trait Ending: Observer {
    /// Writes what is known at the end, and gives the first failure.
    fn end(&self) -> io::Result<()>;
}
