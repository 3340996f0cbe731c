//! Integration tests of kiln-compile, one binary.

mod lower;
mod lower_kinds;
mod schedule;
