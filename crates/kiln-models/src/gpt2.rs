//! GPT-2: a transformer that writes on (Radford et al., 2019), with the names of its published weights.

use crate::heads;
use kiln::nn::{Embedding, LayerNorm, Module};
use kiln::{Tensor, s};

/// A transformer decoder. Tokens are integers, `[batch, length]`.
///
/// ```
/// use kiln::Tensor;
/// use kiln_models::{Gpt2, Gpt2Config};
/// let config = Gpt2Config { vocabulary: 20, positions: 8, width: 8, layers: 1, heads: 2 };
/// assert_eq!(Gpt2::new(&config).forward(&Tensor::from([[3, 1, 4]])).shape(), [1, 3, 20]);
/// ```
#[derive(Module)]
pub struct Gpt2 {
    wte: Embedding,
    wpe: Embedding,
    h: Vec<Block>,
    ln_f: LayerNorm,
}

/// How large a [`Gpt2`] is.
///
/// ```
/// assert_eq!(kiln_models::Gpt2Config::small().layers, 12);
/// ```
#[derive(Clone, Debug)]
pub struct Gpt2Config {
    /// Tokens that there are.
    pub vocabulary: usize,
    /// The longest text, in tokens.
    pub positions: usize,
    /// Numbers for each token.
    pub width: usize,
    /// Blocks.
    pub layers: usize,
    /// Heads of attention, which divide the width.
    pub heads: usize,
}

impl Gpt2Config {
    /// The smallest of the published models, of 124 million weights.
    ///
    /// ```
    /// assert_eq!(kiln_models::Gpt2Config::small().width, 768);
    /// ```
    pub fn small() -> Gpt2Config {
        Gpt2Config { vocabulary: 50257, positions: 1024, width: 768, layers: 12, heads: 12 }
    }
}

#[derive(Module)]
struct Block {
    ln_1: LayerNorm,
    attn: Attention,
    ln_2: LayerNorm,
    mlp: Mlp,
}

#[derive(Module)]
struct Attention {
    c_attn: Projection,
    c_proj: Projection,
    heads: usize,
}

#[derive(Module)]
struct Mlp {
    c_fc: Projection,
    c_proj: Projection,
}

/// A linear layer whose weight is `[inputs, outputs]`.
#[derive(Module)]
struct Projection {
    weight: Tensor,
    bias: Tensor,
}

/// Keys and values of the tokens so far, so that each is computed once.
///
/// ```
/// use kiln::Tensor;
/// use kiln_models::{Gpt2, Gpt2Config};
/// let config = Gpt2Config { vocabulary: 20, positions: 8, width: 8, layers: 1, heads: 2 };
/// let model = Gpt2::new(&config);
/// let mut cache = model.cache(1);
/// model.next(&Tensor::from([[3, 1, 4]]), &mut cache);
/// assert_eq!(cache.len(), 3);
/// ```
pub struct Gpt2Cache {
    /// Of each layer, `[batch, heads, positions, width]`.
    layers: Vec<[Tensor; 2]>,
    len: usize,
}

impl Gpt2Cache {
    /// How many tokens it holds.
    ///
    /// ```
    /// use kiln_models::{Gpt2, Gpt2Config};
    /// let config = Gpt2Config { vocabulary: 9, positions: 8, width: 4, layers: 1, heads: 2 };
    /// assert_eq!(Gpt2::new(&config).cache(1).len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    ///
    /// ```
    /// use kiln_models::{Gpt2, Gpt2Config};
    /// let config = Gpt2Config { vocabulary: 9, positions: 8, width: 4, layers: 1, heads: 2 };
    /// assert!(Gpt2::new(&config).cache(1).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Projection {
    fn new(inputs: usize, outputs: usize) -> Projection {
        Projection {
            weight: (Tensor::randn([inputs, outputs]) * 0.02).set_requires_grad(true),
            bias: Tensor::zeros([outputs]).set_requires_grad(true),
        }
    }

    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.linear(&self.weight, Some(&self.bias))
    }
}

impl Attention {
    /// Queries, keys and values of each head.
    #[track_caller]
    fn projected(&self, x: &Tensor) -> [Tensor; 3] {
        let all = self.c_attn.forward(x);
        let width = self.c_proj.bias.numel();
        let part = |i: usize| all.get(s![.., .., i * width..(i + 1) * width]);
        [0, 1, 2].map(|i| heads::split(&part(i), self.heads))
    }

    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let [q, k, v] = self.projected(x);
        let seen = q.scaled_dot_product_attention(&k, &v, None, true);
        self.c_proj.forward(&heads::joined(&seen))
    }

    /// Of tokens after the first `start`, whose keys and values are in the cache.
    #[track_caller]
    fn next(&self, x: &Tensor, [keys, values]: &[Tensor; 2], start: usize) -> Tensor {
        let [q, k, v] = self.projected(x);
        let end = start + x.shape()[1];
        keys.set(s![.., .., start..end], k);
        values.set(s![.., .., start..end], v);
        let [k, v] = [keys, values].map(|cache| cache.get(s![.., .., ..end]));
        let mask = (end > start + 1).then(|| {
            let queries = Tensor::arange(start..end).unsqueeze(1);
            Tensor::arange(0..end).le(queries)
        });
        let seen = q.scaled_dot_product_attention(&k, &v, mask.as_ref(), false);
        self.c_proj.forward(&heads::joined(&seen))
    }
}

impl Mlp {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.c_proj.forward(&self.c_fc.forward(x).gelu())
    }
}

impl Block {
    fn new(config: &Gpt2Config) -> Block {
        let width = config.width;
        Block {
            ln_1: LayerNorm::new([width]),
            attn: Attention {
                c_attn: Projection::new(width, 3 * width),
                c_proj: Projection::new(width, width),
                heads: config.heads,
            },
            ln_2: LayerNorm::new([width]),
            mlp: Mlp {
                c_fc: Projection::new(width, 4 * width),
                c_proj: Projection::new(4 * width, width),
            },
        }
    }

    /// With what attention makes of the norm.
    #[track_caller]
    fn around(&self, x: &Tensor, attention: impl Fn(&Tensor) -> Tensor) -> Tensor {
        let x = x + attention(&self.ln_1.forward(x));
        &x + self.mlp.forward(&self.ln_2.forward(&x))
    }
}

impl Gpt2 {
    /// With random weights.
    ///
    /// ```
    /// use kiln_models::{Gpt2, Gpt2Config};
    /// let model = Gpt2::new(&Gpt2Config { layers: 1, ..Gpt2Config::small() });
    /// ```
    pub fn new(config: &Gpt2Config) -> Gpt2 {
        Gpt2 {
            wte: Embedding::new(config.vocabulary, config.width),
            wpe: Embedding::new(config.positions, config.width),
            h: (0..config.layers).map(|_| Block::new(config)).collect(),
            ln_f: LayerNorm::new([config.width]),
        }
    }

    /// Logits of the token after each, `[batch, length, vocabulary]`.
    ///
    /// ```
    /// use kiln_models::{Gpt2, Gpt2Config};
    /// let config = Gpt2Config { vocabulary: 20, positions: 8, width: 8, layers: 1, heads: 2 };
    /// let logits = Gpt2::new(&config).forward(&kiln::Tensor::from([[1, 2]]));
    /// ```
    ///
    /// # Errors
    /// Tokens that are no integers, not of two axes, or more than there are positions.
    #[track_caller]
    pub fn forward(&self, tokens: &Tensor) -> Tensor {
        let mut x = self.embedded(tokens, 0);
        for block in &self.h {
            x = block.around(&x, |y| block.attn.forward(y));
        }
        self.ln_f.forward(&x).matmul(&self.wte.weight.t())
    }

    /// An empty cache for so many texts.
    ///
    /// ```
    /// use kiln_models::{Gpt2, Gpt2Config};
    /// let config = Gpt2Config { vocabulary: 9, positions: 8, width: 4, layers: 1, heads: 2 };
    /// let cache = Gpt2::new(&config).cache(2);
    /// ```
    pub fn cache(&self, batch: usize) -> Gpt2Cache {
        let (positions, dtype) = (self.wpe.weight.shape()[0], self.wte.weight.dtype());
        let layer = |block: &Block| {
            let heads = block.attn.heads;
            let width = block.attn.c_proj.bias.numel() / heads;
            [(); 2].map(|()| Tensor::zeros_with([batch, heads, positions, width], dtype))
        };
        Gpt2Cache { layers: self.h.iter().map(layer).collect(), len: 0 }
    }

    /// Logits of the token after these, `[batch, vocabulary]`, which follow those in the cache and are put there.
    ///
    /// ```
    /// use kiln::Tensor;
    /// use kiln_models::{Gpt2, Gpt2Config};
    /// let config = Gpt2Config { vocabulary: 20, positions: 8, width: 8, layers: 1, heads: 2 };
    /// let model = Gpt2::new(&config);
    /// let mut cache = model.cache(1);
    /// model.next(&Tensor::from([[3, 1, 4]]), &mut cache);
    /// assert_eq!(model.next(&Tensor::from([[1]]), &mut cache).shape(), [1, 20]);
    /// ```
    ///
    /// # Errors
    /// As [`forward`](Gpt2::forward); more tokens in all than there are positions.
    #[track_caller]
    pub fn next(&self, tokens: &Tensor, cache: &mut Gpt2Cache) -> Tensor {
        let mut x = self.embedded(tokens, cache.len);
        if x.error().is_some() {
            return x;
        }
        for (block, layer) in self.h.iter().zip(&cache.layers) {
            x = block.around(&x, |y| block.attn.next(y, layer, cache.len));
        }
        cache.len += tokens.shape()[1];
        let last = x.get(s![.., -1]);
        self.ln_f.forward(&last).matmul(&self.wte.weight.t())
    }

    #[track_caller]
    fn embedded(&self, tokens: &Tensor, start: usize) -> Tensor {
        let rows = self.wte.forward(tokens);
        let Some(&length) = tokens.shape().get(1) else { return rows.unflatten(1, [1, 1]) };
        rows + self.wpe.weight.get(s![start..start + length])
    }
}
