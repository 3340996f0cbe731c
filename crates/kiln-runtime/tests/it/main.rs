//! One test binary; a module per subject.

mod cache;
mod cpu;
mod interp;
mod ladder;
mod memory;
