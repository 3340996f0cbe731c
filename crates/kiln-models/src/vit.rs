//! A vision transformer: patches of an image as a sequence (Dosovitskiy et al., 2020, arXiv:2010.11929).

use kiln::nn::{Conv2d, LayerNorm, Linear, Module, MultiheadAttention};
use kiln::{Tensor, s};

/// A transformer over the patches of an image, `[batch, 3, side, side]`.
///
/// ```
/// use kiln::Tensor;
/// use kiln_models::{ViT, ViTConfig};
/// let net = ViT::new(&ViTConfig { side: 16, patch: 8, width: 8, layers: 1, heads: 2, classes: 10 });
/// assert_eq!(net.forward(&Tensor::zeros([2, 3, 16, 16])).shape(), [2, 10]);
/// ```
#[derive(Module)]
pub struct ViT {
    patches: Conv2d,
    class: Tensor,
    positions: Tensor,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

/// How large a [`ViT`] is.
///
/// ```
/// assert_eq!(kiln_models::ViTConfig::base().width, 768);
/// ```
#[derive(Clone, Debug)]
pub struct ViTConfig {
    /// Height and width of images, in pixels.
    pub side: usize,
    /// Height and width of a patch.
    pub patch: usize,
    /// Numbers for each patch.
    pub width: usize,
    /// Blocks.
    pub layers: usize,
    /// Heads of attention, which divide the width.
    pub heads: usize,
    /// Classes of images.
    pub classes: usize,
}

impl ViTConfig {
    /// ViT-B/16, for images of 224 x 224 and 1000 classes.
    ///
    /// ```
    /// assert_eq!(kiln_models::ViTConfig::base().layers, 12);
    /// ```
    pub fn base() -> ViTConfig {
        ViTConfig { side: 224, patch: 16, width: 768, layers: 12, heads: 12, classes: 1000 }
    }
}

/// Attention and a network for each position, each around a residual.
#[derive(Module)]
struct Block {
    norm1: LayerNorm,
    attention: MultiheadAttention,
    norm2: LayerNorm,
    fc1: Linear,
    fc2: Linear,
}

impl Block {
    fn new(config: &ViTConfig) -> Block {
        let width = config.width;
        Block {
            norm1: LayerNorm::new([width]).eps(1e-6),
            attention: MultiheadAttention::new(width, config.heads),
            norm2: LayerNorm::new([width]).eps(1e-6),
            fc1: Linear::new(width, 4 * width),
            fc2: Linear::new(4 * width, width),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.norm1.forward(x);
        let x = x + self.attention.forward(&y, &y, &y, None, false);
        let y = self.fc1.forward(&self.norm2.forward(&x)).gelu_erf();
        x + self.fc2.forward(&y)
    }
}

impl ViT {
    /// With random weights.
    ///
    /// ```
    /// use kiln_models::{ViT, ViTConfig};
    /// let net = ViT::new(&ViTConfig { layers: 1, width: 24, ..ViTConfig::base() });
    /// ```
    pub fn new(config: &ViTConfig) -> ViT {
        let (width, rows) = (config.width, config.side / config.patch);
        let small = |shape: [usize; 3]| (Tensor::randn(shape) * 0.02).set_requires_grad(true);
        ViT {
            patches: Conv2d::new(3, width, config.patch).stride(config.patch),
            class: small([1, 1, width]),
            positions: small([1, rows * rows + 1, width]),
            blocks: (0..config.layers).map(|_| Block::new(config)).collect(),
            norm: LayerNorm::new([width]).eps(1e-6),
            head: Linear::new(width, config.classes),
        }
    }

    /// Logits, `[batch, classes]`.
    ///
    /// ```
    /// use kiln_models::{ViT, ViTConfig};
    /// let config = ViTConfig { side: 8, patch: 4, width: 8, layers: 1, heads: 2, classes: 3 };
    /// let logits = ViT::new(&config).forward(&kiln::Tensor::zeros([1, 3, 8, 8]));
    /// ```
    ///
    /// # Errors
    /// Images of another size.
    #[track_caller]
    pub fn forward(&self, images: &Tensor) -> Tensor {
        let patches = self.patches.forward(images).flatten_from(2).transpose(1, 2);
        let Some(&batch) = images.shape().first() else { return patches };
        let class = self.class.expand([batch, 1, self.class.shape()[2]]);
        let mut x = Tensor::cat([&class, &patches], 1) + &self.positions;
        for block in &self.blocks {
            x = block.forward(&x);
        }
        self.head.forward(&self.norm.forward(&x.get(s![.., 0])))
    }
}
