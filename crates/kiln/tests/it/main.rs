//! The public interface, against values worked out by hand and by NumPy.

mod basics;
mod ops;
mod engine;
mod gradients;
