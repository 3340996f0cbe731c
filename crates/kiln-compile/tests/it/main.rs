//! Integration tests of kiln-compile, one binary.

mod prefetch;
mod amx;
mod bugs;
mod by_hand;
mod choices;
mod counts;
mod decompose;
mod dots;
mod flat;
mod general;
mod grad;
mod lower;
mod ulp;
mod lower_kinds;
mod mma;
mod nests;
mod option_kinds;
mod powers;
mod options;
mod random_reductions;
mod render;
mod schedule;
mod share;
mod stages;
mod stream;
mod trim;
