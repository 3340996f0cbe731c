//! What runs programs: memory, compilers, loaders, launches. The only crate with `unsafe`. Modules in reading order:

/// Executes programs in plain Rust: the oracle.
pub mod interp;
