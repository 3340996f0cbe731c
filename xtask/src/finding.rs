//! What checks find.

use std::fmt;

/// Something that is not as it should be.
pub(crate) struct Finding {
    /// Relative to the root of the workspace.
    pub(crate) path: String,
    /// From 1; 0 where the whole file is meant.
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}
