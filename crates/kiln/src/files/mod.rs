//! What readers and writers of files have in common.

/// Files for reading.
pub(crate) mod source;
/// JSON objects whose names are all different.
pub(crate) mod unique;
/// Files that appear whole or not at all.
pub(crate) mod whole;
