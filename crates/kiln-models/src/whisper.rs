//! An encoder of sound and a decoder of text, shaped as Whisper (Radford et al., 2022, arXiv:2212.04356).

use crate::heads;
use kiln::nn::{Conv1d, Embedding, LayerNorm, Linear, Module};
use kiln::{DType, Tensor, s};

/// An encoder and a decoder. Sound is `[batch, bands, frames]`, text integers, `[batch, length]`.
///
/// ```
/// use kiln::Tensor;
/// use kiln_models::{Whisper, WhisperConfig};
/// let config = WhisperConfig { bands: 4, vocabulary: 20, positions: 8, width: 8, layers: 1, heads: 2 };
/// let (sound, text) = (Tensor::zeros([1, 4, 10]), Tensor::from([[3, 1, 4]]));
/// assert_eq!(Whisper::new(&config).forward(&sound, &text).shape(), [1, 3, 20]);
/// ```
#[derive(Module)]
pub struct Whisper {
    encoder: Encoder,
    decoder: Decoder,
}

/// How large a [`Whisper`] is.
///
/// ```
/// assert_eq!(kiln_models::WhisperConfig::tiny().width, 384);
/// ```
#[derive(Clone, Debug)]
pub struct WhisperConfig {
    /// Bands of the spectrum.
    pub bands: usize,
    /// Tokens that there are.
    pub vocabulary: usize,
    /// The longest text, in tokens.
    pub positions: usize,
    /// Numbers for each frame and token.
    pub width: usize,
    /// Blocks of the encoder, and of the decoder.
    pub layers: usize,
    /// Heads of attention, which divide the width.
    pub heads: usize,
}

impl WhisperConfig {
    /// The smallest of the published models.
    ///
    /// ```
    /// assert_eq!(kiln_models::WhisperConfig::tiny().layers, 4);
    /// ```
    pub fn tiny() -> WhisperConfig {
        let (bands, vocabulary, positions) = (80, 51865, 448);
        WhisperConfig { bands, vocabulary, positions, width: 384, layers: 4, heads: 6 }
    }
}

#[derive(Module)]
struct Encoder {
    conv1: Conv1d,
    conv2: Conv1d,
    blocks: Vec<Block>,
    norm: LayerNorm,
}

#[derive(Module)]
struct Decoder {
    tokens: Embedding,
    positions: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
}

/// Attention to itself, perhaps to something else, and a network, each around a residual.
#[derive(Module)]
struct Block {
    norm1: LayerNorm,
    own: Attention,
    cross: Option<(LayerNorm, Attention)>,
    norm2: LayerNorm,
    fc1: Linear,
    fc2: Linear,
}

#[derive(Module)]
struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    heads: usize,
}

impl Attention {
    fn new(width: usize, heads: usize) -> Attention {
        let linear = || Linear::new(width, width);
        let key = linear().without_bias();
        Attention { query: linear(), key, value: linear(), out: linear(), heads }
    }

    /// What `x` sees of `memory`.
    #[track_caller]
    fn forward(&self, x: &Tensor, memory: &Tensor, is_causal: bool) -> Tensor {
        let q = heads::split(&self.query.forward(x), self.heads);
        let k = heads::split(&self.key.forward(memory), self.heads);
        let v = heads::split(&self.value.forward(memory), self.heads);
        let seen = q.scaled_dot_product_attention(&k, &v, None, is_causal);
        self.out.forward(&heads::joined(&seen))
    }
}

impl Block {
    fn new(config: &WhisperConfig, crosses: bool) -> Block {
        let (width, heads) = (config.width, config.heads);
        let cross = || (LayerNorm::new([width]), Attention::new(width, heads));
        Block {
            norm1: LayerNorm::new([width]),
            own: Attention::new(width, heads),
            cross: crosses.then(cross),
            norm2: LayerNorm::new([width]),
            fc1: Linear::new(width, 4 * width),
            fc2: Linear::new(4 * width, width),
        }
    }

    #[track_caller]
    fn forward(&self, x: &Tensor, memory: &Tensor, is_causal: bool) -> Tensor {
        let y = self.norm1.forward(x);
        let mut x = x + self.own.forward(&y, &y, is_causal);
        if let Some((norm, cross)) = &self.cross {
            x = &x + cross.forward(&norm.forward(&x), memory, false);
        }
        let y = self.fc1.forward(&self.norm2.forward(&x)).gelu_erf();
        x + self.fc2.forward(&y)
    }
}

/// Sines and cosines of each position, `[length, width]`.
fn waves(length: usize, width: usize, dtype: DType) -> Tensor {
    let wide = dtype.accumulator();
    let half = width / 2;
    let step = 10000f64.ln() / (half.max(2) - 1) as f64;
    let speeds = (Tensor::arange(0..half).cast(wide) * -step).exp();
    let angles = Tensor::arange(0..length).cast(wide).unsqueeze(1) * speeds;
    Tensor::cat([angles.sin(), angles.cos()], 1).cast(dtype)
}

impl Encoder {
    #[track_caller]
    fn forward(&self, sound: &Tensor) -> Tensor {
        let x = self.conv1.forward(sound).gelu_erf();
        let x = self.conv2.forward(&x).gelu_erf().transpose(1, 2);
        let (length, width) = (x.shape()[1], x.shape()[2]);
        let mut x = &x + waves(length, width, x.dtype());
        for block in &self.blocks {
            x = block.forward(&x, &x, false);
        }
        self.norm.forward(&x)
    }
}

impl Decoder {
    #[track_caller]
    fn forward(&self, text: &Tensor, memory: &Tensor) -> Tensor {
        let length = text.shape().get(1).copied().unwrap_or(0);
        let mut x = self.tokens.forward(text) + self.positions.weight.get(s![..length]);
        for block in &self.blocks {
            x = block.forward(&x, memory, true);
        }
        self.norm.forward(&x).matmul(&self.tokens.weight.t())
    }
}

impl Whisper {
    /// With random weights.
    ///
    /// ```
    /// use kiln_models::{Whisper, WhisperConfig};
    /// let model = Whisper::new(&WhisperConfig { layers: 1, ..WhisperConfig::tiny() });
    /// ```
    pub fn new(config: &WhisperConfig) -> Whisper {
        let width = config.width;
        let blocks = |crosses| (0..config.layers).map(|_| Block::new(config, crosses)).collect();
        Whisper {
            encoder: Encoder {
                conv1: Conv1d::new(config.bands, width, 3).padding(1),
                conv2: Conv1d::new(width, width, 3).stride(2).padding(1),
                blocks: blocks(false),
                norm: LayerNorm::new([width]),
            },
            decoder: Decoder {
                tokens: Embedding::new(config.vocabulary, width),
                positions: Embedding::new(config.positions, width),
                blocks: blocks(true),
                norm: LayerNorm::new([width]),
            },
        }
    }

    /// Logits of the token after each, `[batch, length, vocabulary]`.
    ///
    /// ```
    /// use kiln::Tensor;
    /// use kiln_models::{Whisper, WhisperConfig};
    /// let config = WhisperConfig { bands: 4, vocabulary: 9, positions: 8, width: 8, layers: 1, heads: 2 };
    /// let logits = Whisper::new(&config).forward(&Tensor::zeros([1, 4, 10]), &Tensor::from([[3, 1]]));
    /// ```
    ///
    /// # Errors
    /// Sound of other bands or axes; tokens that are no integers, not of two axes, or more than there are positions.
    #[track_caller]
    pub fn forward(&self, sound: &Tensor, text: &Tensor) -> Tensor {
        let memory = self.encoder.forward(sound);
        self.decoder.forward(text, &memory)
    }
}
