//! Tests of kiln-ir through its public face.

mod check;
mod reference;
mod rewrite;
mod spec;
mod rules;
mod rules_fuzz;
mod text;
