//! MobileNetV2: depthwise convolutions between pointwise ones (Sandler et al., 2018, arXiv:1801.04381).

use kiln::Tensor;
use kiln::nn::{BatchNorm, Conv2d, Linear, Module};

/// A network of inverted residuals. Images are `[batch, 3, height, width]`.
///
/// ```
/// use kiln::Tensor;
/// let net = kiln_models::MobileNet::new(4, &[(1, 4, 1, 1), (6, 8, 2, 2)], 16, 10);
/// assert_eq!(net.forward(&Tensor::zeros([2, 3, 16, 16])).shape(), [2, 10]);
/// ```
#[derive(Module)]
pub struct MobileNet {
    first: Convolution,
    blocks: Vec<Inverted>,
    last: Convolution,
    fc: Linear,
}

/// A convolution and its norm.
#[derive(Module)]
struct Convolution {
    conv: Conv2d,
    norm: BatchNorm,
}

/// Widens, convolves each channel by itself, and narrows.
#[derive(Module)]
struct Inverted {
    widen: Option<Convolution>,
    depthwise: Convolution,
    narrow: Convolution,
    is_residual: bool,
}

/// Of a group of blocks: how much they widen, their output channels, how many there are, the stride of the first.
pub type Blocks = (usize, usize, usize, usize);

/// The groups of MobileNetV2.
const GROUPS: &[Blocks] = &[
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
];

impl Convolution {
    fn new(conv: Conv2d, channels: usize) -> Convolution {
        Convolution { conv: conv.without_bias(), norm: BatchNorm::new(channels) }
    }

    fn pointwise(inputs: usize, outputs: usize) -> Convolution {
        Convolution::new(Conv2d::new(inputs, outputs, 1), outputs)
    }

    fn depthwise(channels: usize, stride: usize) -> Convolution {
        let conv = Conv2d::new(channels, channels, 3).stride(stride).padding(1).groups(channels);
        Convolution::new(conv, channels)
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        self.norm.forward(&self.conv.forward(x))
    }
}

impl Inverted {
    fn new(inputs: usize, outputs: usize, widening: usize, stride: usize) -> Inverted {
        let inner = inputs * widening;
        Inverted {
            widen: (widening != 1).then(|| Convolution::pointwise(inputs, inner)),
            depthwise: Convolution::depthwise(inner, stride),
            narrow: Convolution::pointwise(inner, outputs),
            is_residual: stride == 1 && inputs == outputs,
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let wide = match &self.widen {
            Some(widen) => relu6(&widen.forward(x)),
            None => x.clone(),
        };
        let y = self.narrow.forward(&relu6(&self.depthwise.forward(&wide)));
        if self.is_residual { y + x } else { y }
    }
}

fn relu6(x: &Tensor) -> Tensor {
    x.clamp(0.0, 6.0)
}

impl MobileNet {
    /// With so many channels in the first layer, these groups of blocks, and so many channels in the last.
    ///
    /// ```
    /// let net = kiln_models::MobileNet::new(8, &[(1, 8, 1, 1), (6, 16, 2, 2)], 32, 10);
    /// ```
    pub fn new(first: usize, groups: &[Blocks], last: usize, classes: usize) -> MobileNet {
        let (mut inputs, mut blocks) = (first, Vec::new());
        for &(widening, outputs, count, stride) in groups {
            for block in 0..count {
                let stride = if block == 0 { stride } else { 1 };
                blocks.push(Inverted::new(inputs, outputs, widening, stride));
                inputs = outputs;
            }
        }
        MobileNet {
            first: Convolution::new(Conv2d::new(3, first, 3).stride(2).padding(1), first),
            blocks,
            last: Convolution::pointwise(inputs, last),
            fc: Linear::new(last, classes),
        }
    }

    /// MobileNetV2, of 3.5 million weights.
    ///
    /// ```
    /// use kiln::nn::Module;
    /// let net = kiln_models::MobileNet::v2(1000);
    /// let weights: usize = net.parameters().iter().map(|p| p.numel()).sum();
    /// assert_eq!(weights, 3_504_872);
    /// ```
    pub fn v2(classes: usize) -> MobileNet {
        MobileNet::new(32, GROUPS, 1280, classes)
    }

    /// Logits, `[batch, classes]`.
    ///
    /// ```
    /// let net = kiln_models::MobileNet::new(4, &[(1, 4, 1, 1)], 8, 10);
    /// let logits = net.forward(&kiln::Tensor::zeros([1, 3, 8, 8]));
    /// ```
    #[track_caller]
    pub fn forward(&self, images: &Tensor) -> Tensor {
        let mut x = relu6(&self.first.forward(images));
        for block in &self.blocks {
            x = block.forward(&x);
        }
        let x = relu6(&self.last.forward(&x));
        self.fc.forward(&x.mean([2, 3]))
    }
}
