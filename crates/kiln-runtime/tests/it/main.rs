//! One test binary; a module per subject.

mod agree;
mod cache;
mod cpu;
mod devices;
mod hanging;
mod interp;
#[allow(clippy::print_stdout, reason = "a child process tells its parent")]
mod ladder;
mod lines;
mod memory;
