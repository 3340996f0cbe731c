//! NumPy's files: one array (`.npy`), or a zip archive of several (`.npz`).
//! (<https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>)

/// What stands before the elements.
mod header;
/// Arrays out of files.
mod read;
/// Files of arrays.
mod write;

pub use read::{load, load_npz, load_npz_on, load_on};
pub use write::{save, save_npz};
