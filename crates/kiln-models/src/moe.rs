//! A decoder whose networks are mixtures of experts: each token goes through the best few (Shazeer et al., 2017,
//! arXiv:1701.06538).

use crate::heads;
use kiln::nn::{Embedding, LayerNorm, Linear, Module};
use kiln::{Tensor, s};

/// A transformer decoder with experts. Tokens are integers, `[batch, length]`.
///
/// ```
/// use kiln::Tensor;
/// use kiln_models::{Mixture, MixtureConfig};
/// let config = MixtureConfig { vocabulary: 20, positions: 8, width: 8, layers: 1, heads: 2, experts: 4, chosen: 2 };
/// assert_eq!(Mixture::new(&config).forward(&Tensor::from([[3, 1, 4]])).shape(), [1, 3, 20]);
/// ```
#[derive(Module)]
pub struct Mixture {
    tokens: Embedding,
    positions: Embedding,
    layers: Vec<Layer>,
    norm: LayerNorm,
    head: Linear,
}

/// How large a [`Mixture`] is.
///
/// ```
/// use kiln_models::MixtureConfig;
/// let config = MixtureConfig { vocabulary: 9, positions: 8, width: 8, layers: 1, heads: 2, experts: 4, chosen: 1 };
/// ```
#[derive(Clone, Debug)]
pub struct MixtureConfig {
    /// Tokens that there are.
    pub vocabulary: usize,
    /// The longest text, in tokens.
    pub positions: usize,
    /// Numbers for each token.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of attention, which divide the width.
    pub heads: usize,
    /// Experts in each layer.
    pub experts: usize,
    /// How many of them a token goes through.
    pub chosen: usize,
}

#[derive(Module)]
struct Layer {
    norm1: LayerNorm,
    qkv: Linear,
    out: Linear,
    norm2: LayerNorm,
    experts: Experts,
    heads: usize,
}

/// Networks beside each other, and what chooses among them.
#[derive(Module)]
struct Experts {
    gate: Linear,
    /// `[experts, width, inner]`.
    w1: Tensor,
    /// `[experts, inner, width]`.
    w2: Tensor,
    chosen: usize,
}

impl Experts {
    fn new(config: &MixtureConfig) -> Experts {
        let (width, inner) = (config.width, 2 * config.width);
        let weight = |inputs: usize, outputs: usize| {
            let scale = 1.0 / (inputs as f64).sqrt();
            (Tensor::randn([config.experts, inputs, outputs]) * scale).set_requires_grad(true)
        };
        Experts {
            gate: Linear::new(width, config.experts).without_bias(),
            w1: weight(width, inner),
            w2: weight(inner, width),
            chosen: config.chosen,
        }
    }

    /// How much of each expert each of `[tokens, width]` gets: zero of all but the chosen.
    #[track_caller]
    fn shares(&self, x: &Tensor) -> Tensor {
        let scores = self.gate.forward(x);
        let (best, places) = scores.topk(self.chosen, 1, true);
        scores.zeros_like().scatter(1, &places, best.softmax(1))
    }

    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let shares = self.shares(x).t().unsqueeze(2);
        let inner = x.unsqueeze(0).matmul(&self.w1).gelu();
        (inner.matmul(&self.w2) * shares).sum(0)
    }
}

impl Layer {
    fn new(config: &MixtureConfig) -> Layer {
        let width = config.width;
        Layer {
            norm1: LayerNorm::new([width]),
            qkv: Linear::new(width, 3 * width),
            out: Linear::new(width, width),
            norm2: LayerNorm::new([width]),
            experts: Experts::new(config),
            heads: config.heads,
        }
    }

    fn width(&self) -> usize {
        self.out.weight.shape()[0]
    }

    #[track_caller]
    fn attention(&self, x: &Tensor) -> Tensor {
        let (all, width) = (self.qkv.forward(x), self.width());
        let part = |i: usize| all.get(s![.., .., i * width..(i + 1) * width]);
        let [q, k, v] = [0, 1, 2].map(|i| heads::split(&part(i), self.heads));
        self.out.forward(&heads::joined(&q.scaled_dot_product_attention(&k, &v, None, true)))
    }

    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = x + self.attention(&self.norm1.forward(x));
        let rows = self.norm2.forward(&x).reshape([-1, self.width() as isize]);
        let mixed = self.experts.forward(&rows);
        &x + mixed.reshape(x.shape())
    }
}

impl Mixture {
    /// With random weights.
    ///
    /// ```
    /// use kiln_models::{Mixture, MixtureConfig};
    /// let config = MixtureConfig { vocabulary: 9, positions: 8, width: 8, layers: 1, heads: 2, experts: 4, chosen: 1 };
    /// let model = Mixture::new(&config);
    /// ```
    pub fn new(config: &MixtureConfig) -> Mixture {
        Mixture {
            tokens: Embedding::new(config.vocabulary, config.width),
            positions: Embedding::new(config.positions, config.width),
            layers: (0..config.layers).map(|_| Layer::new(config)).collect(),
            norm: LayerNorm::new([config.width]),
            head: Linear::new(config.width, config.vocabulary),
        }
    }

    /// Logits of the token after each, `[batch, length, vocabulary]`.
    ///
    /// ```
    /// use kiln_models::{Mixture, MixtureConfig};
    /// let config = MixtureConfig { vocabulary: 9, positions: 8, width: 8, layers: 1, heads: 2, experts: 4, chosen: 2 };
    /// let logits = Mixture::new(&config).forward(&kiln::Tensor::from([[1, 2]]));
    /// ```
    ///
    /// # Errors
    /// Tokens that are no integers, not of two axes, or more than there are positions.
    #[track_caller]
    pub fn forward(&self, tokens: &Tensor) -> Tensor {
        let rows = self.tokens.forward(tokens);
        let length = tokens.shape().get(1).copied().unwrap_or(0);
        let mut x = rows + self.positions.weight.get(s![..length]);
        for layer in &self.layers {
            x = layer.forward(&x);
        }
        self.head.forward(&self.norm.forward(&x))
    }
}
