//! Language models from files as they are published: `kiln gpt2` and `kiln embed`.

/// The files of a model: settings, weights, tokenizer.
mod folder;
/// Choosing the next token.
mod sampling;
/// `kiln gpt2`.
pub(crate) mod gpt2;
/// `kiln embed`.
pub(crate) mod embed;
