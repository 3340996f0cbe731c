//! Integration tests of kiln-compile, one binary.

mod lower;
mod schedule;
