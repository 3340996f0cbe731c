//! What a file holds.

use super::value::GgufValue;
use crate::nn::StateDict;
use std::collections::BTreeMap;

/// What a GGUF file holds.
#[derive(Clone, Debug, Default)]
pub struct Gguf {
    /// Facts about the model, such as `general.architecture` and `tokenizer.ggml.tokens`.
    pub metadata: BTreeMap<String, GgufValue>,
    /// The tensors, such as `blk.0.attn_q.weight`, with the outermost axis first, as everywhere in kiln.
    pub tensors: StateDict,
}
