//! What readers and writers of files have in common, and formats that are not of one kind of tensors.

/// Numbers in a file.
mod cursor;
/// llama.cpp's files.
pub(crate) mod gguf;
/// NumPy's files.
pub mod numpy;
/// Bytes of a file, or of what was packed in one.
pub(crate) mod part;
/// Files for reading.
pub(crate) mod source;
/// PyTorch's files.
pub(crate) mod torch;
/// JSON objects whose names are all different.
pub(crate) mod unique;
/// Files that appear whole or not at all.
pub(crate) mod whole;
/// Archives of files.
pub(crate) mod zip;
