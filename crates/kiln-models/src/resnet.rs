//! ResNet-50: residual blocks with bottlenecks (He et al., 2015, arXiv:1512.03385).

use kiln::Tensor;
use kiln::nn::{BatchNorm, Conv2d, Linear, MaxPool2d, Module};

/// A residual network of bottlenecks. Images are `[batch, 3, height, width]`.
///
/// ```
/// use kiln::Tensor;
/// let net = kiln_models::ResNet::new(4, [1, 1, 1, 1], 10);
/// assert_eq!(net.forward(&Tensor::zeros([2, 3, 32, 32])).shape(), [2, 10]);
/// ```
#[derive(Module)]
pub struct ResNet {
    conv1: Conv2d,
    bn1: BatchNorm,
    pool: MaxPool2d,
    layers: Vec<Vec<Bottleneck>>,
    fc: Linear,
}

/// A narrow 3 x 3 convolution between two of 1 x 1, and the way around all three.
#[derive(Module)]
struct Bottleneck {
    conv1: Conv2d,
    bn1: BatchNorm,
    conv2: Conv2d,
    bn2: BatchNorm,
    conv3: Conv2d,
    bn3: BatchNorm,
    around: Option<(Conv2d, BatchNorm)>,
}

/// A bottleneck's output has so many times the channels of its middle.
const EXPANSION: usize = 4;

fn pointwise(inputs: usize, outputs: usize, stride: usize) -> Conv2d {
    Conv2d::new(inputs, outputs, 1).stride(stride).without_bias()
}

impl Bottleneck {
    fn new(inputs: usize, width: usize, stride: usize) -> Bottleneck {
        let outputs = EXPANSION * width;
        let around = || (pointwise(inputs, outputs, stride), BatchNorm::new(outputs));
        Bottleneck {
            conv1: pointwise(inputs, width, 1),
            bn1: BatchNorm::new(width),
            conv2: Conv2d::new(width, width, 3).stride(stride).padding(1).without_bias(),
            bn2: BatchNorm::new(width),
            conv3: pointwise(width, outputs, 1),
            bn3: BatchNorm::new(outputs),
            around: (stride != 1 || inputs != outputs).then(around),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.bn1.forward(&self.conv1.forward(x)).relu();
        let y = self.bn2.forward(&self.conv2.forward(&y)).relu();
        let y = self.bn3.forward(&self.conv3.forward(&y));
        let around = match &self.around {
            Some((conv, norm)) => norm.forward(&conv.forward(x)),
            None => x.clone(),
        };
        (y + around).relu()
    }
}

impl ResNet {
    /// With so many channels in the first layer, and so many blocks in each of the four groups.
    ///
    /// ```
    /// let small = kiln_models::ResNet::new(8, [1, 2, 2, 1], 10);
    /// ```
    pub fn new(width: usize, blocks: [usize; 4], classes: usize) -> ResNet {
        let mut inputs = width;
        let mut layers = Vec::new();
        for (i, blocks) in blocks.into_iter().enumerate() {
            let inner = width << i;
            let mut layer = Vec::new();
            for block in 0..blocks {
                let stride = if i > 0 && block == 0 { 2 } else { 1 };
                layer.push(Bottleneck::new(inputs, inner, stride));
                inputs = EXPANSION * inner;
            }
            layers.push(layer);
        }
        ResNet {
            conv1: Conv2d::new(3, width, 7).stride(2).padding(3).without_bias(),
            bn1: BatchNorm::new(width),
            pool: MaxPool2d::new(3).stride(2).padding(1),
            layers,
            fc: Linear::new(inputs, classes),
        }
    }

    /// ResNet-50, of 25.6 million weights.
    ///
    /// ```
    /// use kiln::nn::Module;
    /// let net = kiln_models::ResNet::fifty(1000);
    /// let weights: usize = net.parameters().iter().map(|p| p.numel()).sum();
    /// assert_eq!(weights, 25_557_032);
    /// ```
    pub fn fifty(classes: usize) -> ResNet {
        ResNet::new(64, [3, 4, 6, 3], classes)
    }

    /// Logits, `[batch, classes]`.
    ///
    /// ```
    /// let net = kiln_models::ResNet::new(4, [1, 1, 1, 1], 10);
    /// let logits = net.forward(&kiln::Tensor::zeros([1, 3, 32, 32]));
    /// ```
    #[track_caller]
    pub fn forward(&self, images: &Tensor) -> Tensor {
        let x = self.bn1.forward(&self.conv1.forward(images)).relu();
        let mut x = self.pool.forward(&x);
        for block in self.layers.iter().flatten() {
            x = block.forward(&x);
        }
        self.fc.forward(&x.mean([2, 3]))
    }
}
