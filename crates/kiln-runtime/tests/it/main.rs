//! One test binary; a module per subject.

mod interp;
mod memory;
