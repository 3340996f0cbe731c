//! The command, run as users run it.

mod run;
mod digits;
mod explains;
mod ladder;
mod listings;
mod browser;
mod compare;
mod programs;
mod viz;
#[allow(clippy::print_stderr, reason = "says what it skips")]
mod language;
