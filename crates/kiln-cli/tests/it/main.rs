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
