//! LLaMA: a decoder with rotary positions, heads that share keys, and gated networks (Touvron et al., 2023,
//! arXiv:2302.13971), with the names of its published weights.

use crate::heads;
use kiln::nn::{Embedding, Linear, Module, RMSNorm};
use kiln::{AttentionOptions, DType, Tensor, s};

/// A transformer decoder. Tokens are integers, `[batch, length]`.
///
/// ```
/// use kiln::Tensor;
/// use kiln_models::{Llama, LlamaConfig};
/// let config = LlamaConfig { vocabulary: 20, width: 8, inner: 16, layers: 1, heads: 4, groups: 2 };
/// assert_eq!(Llama::new(&config).forward(&Tensor::from([[3, 1, 4]])).shape(), [1, 3, 20]);
/// ```
#[derive(Module)]
pub struct Llama {
    embed_tokens: Embedding,
    layers: Vec<Layer>,
    norm: RMSNorm,
    lm_head: Linear,
}

/// How large a [`Llama`] is.
///
/// ```
/// use kiln_models::LlamaConfig;
/// let config = LlamaConfig { vocabulary: 32000, width: 768, inner: 2048, layers: 12, heads: 12, groups: 4 };
/// ```
#[derive(Clone, Debug)]
pub struct LlamaConfig {
    /// Tokens that there are.
    pub vocabulary: usize,
    /// Numbers for each token.
    pub width: usize,
    /// Numbers inside each gated network.
    pub inner: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of queries, which divide the width.
    pub heads: usize,
    /// Heads of keys and values, which divide the heads of queries.
    pub groups: usize,
}

#[derive(Module)]
struct Layer {
    input_layernorm: RMSNorm,
    self_attn: Attention,
    post_attention_layernorm: RMSNorm,
    mlp: Gated,
}

#[derive(Module)]
struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    heads: usize,
    groups: usize,
}

/// A network with a gate: SwiGLU.
#[derive(Module)]
struct Gated {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

/// Where angles of the slowest pair begin.
const BASE: f64 = 10000.0;

/// Cosines and sines of the angles at each position, `[length, width]`: one for each pair, twice.
struct Angles {
    cos: Tensor,
    sin: Tensor,
}

impl Angles {
    fn new(length: usize, width: usize, dtype: DType) -> Angles {
        let wide = dtype.accumulator();
        let exponents = Tensor::arange(0..width / 2).cast(wide) * (-2.0 / width as f64);
        let speeds = (exponents * BASE.ln()).exp();
        let positions = Tensor::arange(0..length).cast(wide).unsqueeze(1);
        let angles = positions * speeds;
        let both = Tensor::cat([&angles, &angles], 1);
        Angles { cos: both.cos().cast(dtype), sin: both.sin().cast(dtype) }
    }

    /// Each pair of `[.., length, width]`, `i` and `i + width / 2`, turned by its angle.
    #[track_caller]
    fn turned(&self, x: &Tensor) -> Tensor {
        let half = self.cos.shape()[1] / 2;
        let (left, right) = (x.get(s![.., .., .., ..half]), x.get(s![.., .., .., half..]));
        let quarter = Tensor::cat([-right, left], 3);
        x * &self.cos + quarter * &self.sin
    }
}

impl Attention {
    fn new(config: &LlamaConfig) -> Attention {
        let (width, narrow) = (config.width, config.width / config.heads * config.groups);
        let linear = |inputs, outputs| Linear::new(inputs, outputs).without_bias();
        Attention {
            q_proj: linear(width, width),
            k_proj: linear(width, narrow),
            v_proj: linear(width, narrow),
            o_proj: linear(width, width),
            heads: config.heads,
            groups: config.groups,
        }
    }

    #[track_caller]
    fn forward(&self, x: &Tensor, angles: &Angles) -> Tensor {
        let q = angles.turned(&heads::split(&self.q_proj.forward(x), self.heads));
        let k = angles.turned(&heads::split(&self.k_proj.forward(x), self.groups));
        let v = heads::split(&self.v_proj.forward(x), self.groups);
        let options = AttentionOptions::new().causal(true).grouped(true);
        let seen = q.scaled_dot_product_attention_with(&k, &v, &options);
        self.o_proj.forward(&heads::joined(&seen))
    }
}

impl Gated {
    fn new(width: usize, inner: usize) -> Gated {
        let linear = |inputs, outputs| Linear::new(inputs, outputs).without_bias();
        Gated {
            gate_proj: linear(width, inner),
            up_proj: linear(width, inner),
            down_proj: linear(inner, width),
        }
    }

    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.down_proj.forward(&(self.gate_proj.forward(x).silu() * self.up_proj.forward(x)))
    }
}

impl Layer {
    fn new(config: &LlamaConfig) -> Layer {
        Layer {
            input_layernorm: RMSNorm::new(config.width),
            self_attn: Attention::new(config),
            post_attention_layernorm: RMSNorm::new(config.width),
            mlp: Gated::new(config.width, config.inner),
        }
    }

    #[track_caller]
    fn forward(&self, x: &Tensor, angles: &Angles) -> Tensor {
        let x = x + self.self_attn.forward(&self.input_layernorm.forward(x), angles);
        &x + self.mlp.forward(&self.post_attention_layernorm.forward(&x))
    }
}

impl Llama {
    /// With random weights.
    ///
    /// ```
    /// use kiln_models::{Llama, LlamaConfig};
    /// let config = LlamaConfig { vocabulary: 20, width: 8, inner: 16, layers: 1, heads: 4, groups: 1 };
    /// let model = Llama::new(&config);
    /// ```
    pub fn new(config: &LlamaConfig) -> Llama {
        Llama {
            embed_tokens: Embedding::new(config.vocabulary, config.width),
            layers: (0..config.layers).map(|_| Layer::new(config)).collect(),
            norm: RMSNorm::new(config.width),
            lm_head: Linear::new(config.width, config.vocabulary).without_bias(),
        }
    }

    /// Logits of the token after each, `[batch, length, vocabulary]`.
    ///
    /// ```
    /// use kiln_models::{Llama, LlamaConfig};
    /// let config = LlamaConfig { vocabulary: 20, width: 8, inner: 16, layers: 1, heads: 2, groups: 1 };
    /// let logits = Llama::new(&config).forward(&kiln::Tensor::from([[1, 2]]));
    /// ```
    ///
    /// # Errors
    /// Tokens that are no integers, or not of two axes.
    #[track_caller]
    pub fn forward(&self, tokens: &Tensor) -> Tensor {
        let mut x = self.embed_tokens.forward(tokens);
        let (Some(&length), Some(layer)) = (tokens.shape().get(1), self.layers.first()) else {
            return self.lm_head.forward(&x);
        };
        let width = self.norm.weight.numel() / layer.self_attn.heads;
        let angles = Angles::new(length, width, x.dtype());
        for layer in &self.layers {
            x = layer.forward(&x, &angles);
        }
        self.lm_head.forward(&self.norm.forward(&x))
    }
}
