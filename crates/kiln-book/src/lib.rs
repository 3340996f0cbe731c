//! The book's programs and what it shows of them: docs/book/src.
//!
//! A ```` ```rust ```` block is a program: the body of a function that may fail. A ```` ```text PART .. ```` block shows a part
//! of the compilation of the program above it; see [`show`] for the parts. The tests run each
//! program, and compare each block; `UPDATE_EXPECT=1 cargo test -p kiln-book` writes the blocks anew.

/// Chapters as blocks.
pub mod chapter;
/// What a block can show of a program.
pub mod show;
