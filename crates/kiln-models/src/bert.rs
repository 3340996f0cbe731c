//! BERT: a transformer encoder of texts (Devlin et al., 2018, arXiv:1810.04805), with the names of its published weights.

use crate::heads;
use kiln::nn::{Embedding, LayerNorm, Linear, Module};
use kiln::{Tensor, s};

/// A transformer encoder. Tokens are integers, `[batch, length]`.
///
/// ```
/// use kiln::Tensor;
/// use kiln_models::{Bert, BertConfig};
/// let config = BertConfig { vocabulary: 20, positions: 8, width: 8, inner: 16, layers: 1, heads: 2 };
/// let states = Bert::new(&config).forward(&Tensor::from([[3, 1, 4]]), None);
/// assert_eq!(states.shape(), [1, 3, 8]);
/// ```
#[derive(Module)]
pub struct Bert {
    embeddings: Embeddings,
    encoder: Encoder,
}

/// How large a [`Bert`] is.
///
/// ```
/// assert_eq!(kiln_models::BertConfig::base().width, 768);
/// ```
#[derive(Clone, Debug)]
pub struct BertConfig {
    /// Tokens that there are.
    pub vocabulary: usize,
    /// The longest text, in tokens.
    pub positions: usize,
    /// Numbers for each token.
    pub width: usize,
    /// Numbers inside the network of each layer.
    pub inner: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of attention, which divide the width.
    pub heads: usize,
}

impl BertConfig {
    /// BERT-base, of texts whose case does not matter.
    ///
    /// ```
    /// assert_eq!(kiln_models::BertConfig::base().layers, 12);
    /// ```
    pub fn base() -> BertConfig {
        let (vocabulary, positions) = (30522, 512);
        BertConfig { vocabulary, positions, width: 768, inner: 3072, layers: 12, heads: 12 }
    }
}

#[derive(Module)]
struct Embeddings {
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    token_type_embeddings: Embedding,
    #[module(rename = "LayerNorm")]
    norm: LayerNorm,
}

#[derive(Module)]
struct Encoder {
    layer: Vec<Layer>,
}

#[derive(Module)]
struct Layer {
    attention: Attention,
    intermediate: Intermediate,
    output: Output,
    heads: usize,
}

#[derive(Module)]
struct Attention {
    #[module(rename = "self")]
    of: Projections,
    output: Output,
}

#[derive(Module)]
struct Projections {
    query: Linear,
    key: Linear,
    value: Linear,
}

#[derive(Module)]
struct Intermediate {
    dense: Linear,
}

/// A linear layer, what was there before added, and the norm of both.
#[derive(Module)]
struct Output {
    dense: Linear,
    #[module(rename = "LayerNorm")]
    norm: LayerNorm,
}

fn norm(width: usize) -> LayerNorm {
    LayerNorm::new([width]).eps(1e-12)
}

impl Embeddings {
    fn new(config: &BertConfig) -> Embeddings {
        Embeddings {
            word_embeddings: Embedding::new(config.vocabulary, config.width),
            position_embeddings: Embedding::new(config.positions, config.width),
            token_type_embeddings: Embedding::new(2, config.width),
            norm: norm(config.width),
        }
    }

    #[track_caller]
    fn forward(&self, tokens: &Tensor) -> Tensor {
        let length = tokens.shape().get(1).copied().unwrap_or(0);
        let positions = self.position_embeddings.weight.get(s![..length]);
        let kind = self.token_type_embeddings.weight.get(s![0]);
        self.norm.forward(&(self.word_embeddings.forward(tokens) + positions + kind))
    }
}

impl Output {
    fn new(inputs: usize, outputs: usize) -> Output {
        Output { dense: Linear::new(inputs, outputs), norm: norm(outputs) }
    }

    #[track_caller]
    fn forward(&self, y: &Tensor, x: &Tensor) -> Tensor {
        self.norm.forward(&(self.dense.forward(y) + x))
    }
}

impl Layer {
    fn new(config: &BertConfig) -> Layer {
        let (width, inner) = (config.width, config.inner);
        let linear = || Linear::new(width, width);
        let of = Projections { query: linear(), key: linear(), value: linear() };
        Layer {
            attention: Attention { of, output: Output::new(width, width) },
            intermediate: Intermediate { dense: Linear::new(width, inner) },
            output: Output::new(inner, width),
            heads: config.heads,
        }
    }

    #[track_caller]
    fn forward(&self, x: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let Projections { query, key, value } = &self.attention.of;
        let [q, k, v] = [query, key, value].map(|l| heads::split(&l.forward(x), self.heads));
        let seen = heads::joined(&q.scaled_dot_product_attention(&k, &v, mask, false));
        let x = self.attention.output.forward(&seen, x);
        let y = self.intermediate.dense.forward(&x).gelu_erf();
        self.output.forward(&y, &x)
    }
}

impl Bert {
    /// With random weights.
    ///
    /// ```
    /// use kiln_models::{Bert, BertConfig};
    /// let model = Bert::new(&BertConfig { layers: 1, ..BertConfig::base() });
    /// ```
    pub fn new(config: &BertConfig) -> Bert {
        let layer = (0..config.layers).map(|_| Layer::new(config)).collect();
        Bert { embeddings: Embeddings::new(config), encoder: Encoder { layer } }
    }

    /// A state for each token, `[batch, length, width]`. `mask`, `[batch, length]`, is true for tokens that are there, and
    /// false for what fills short texts up.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// use kiln_models::{Bert, BertConfig};
    /// let config = BertConfig { vocabulary: 9, positions: 8, width: 8, inner: 16, layers: 1, heads: 2 };
    /// let mask = Tensor::from([[1, 1, 0]]).cast(DType::Bool);
    /// let states = Bert::new(&config).forward(&Tensor::from([[3, 1, 0]]), Some(&mask));
    /// ```
    ///
    /// # Errors
    /// Tokens that are no integers, not of two axes, or more than there are positions; a mask of another shape.
    #[track_caller]
    pub fn forward(&self, tokens: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let mut x = self.embeddings.forward(tokens);
        let mask = mask.map(|mask| mask.unsqueeze(1).unsqueeze(1));
        for layer in &self.encoder.layer {
            x = layer.forward(&x, mask.as_ref());
        }
        x
    }

    /// One vector of length 1 for each text, `[batch, width]`: the mean of the states of its tokens, normalized.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// use kiln_models::{Bert, BertConfig};
    /// let config = BertConfig { vocabulary: 9, positions: 8, width: 8, inner: 16, layers: 1, heads: 2 };
    /// let mask = Tensor::from([[1, 1, 0]]).cast(DType::Bool);
    /// let vectors = Bert::new(&config).embed(&Tensor::from([[3, 1, 0]]), &mask);
    /// assert_eq!(vectors.shape(), [1, 8]);
    /// ```
    ///
    /// # Errors
    /// As [`forward`](Bert::forward).
    #[track_caller]
    pub fn embed(&self, tokens: &Tensor, mask: &Tensor) -> Tensor {
        let states = self.forward(tokens, Some(mask));
        let weights = mask.cast(states.dtype()).unsqueeze(2);
        let mean = (&states * &weights).sum(1) / weights.sum(1).clamp_min(1e-9);
        &mean / mean.square().sum_keepdim(1).sqrt().clamp_min(1e-12)
    }
}
