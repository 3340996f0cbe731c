//! U-Net: down to small images and up again, with a way across at each size (Ronneberger et al., 2015, arXiv:1505.04597).

use kiln::Tensor;
use kiln::nn::{BatchNorm, Conv2d, ConvTranspose2d, MaxPool2d, Module};

/// A network from images to images, `[batch, channels, height, width]`. Height and width are halved `depth` times.
///
/// ```
/// use kiln::Tensor;
/// let net = kiln_models::UNet::new(3, 2, 4, 2);
/// assert_eq!(net.forward(&Tensor::zeros([1, 3, 16, 16])).shape(), [1, 2, 16, 16]);
/// ```
#[derive(Module)]
pub struct UNet {
    first: Double,
    down: Vec<Double>,
    up: Vec<Up>,
    last: Conv2d,
    pool: MaxPool2d,
}

/// Two convolutions with their norms.
#[derive(Module)]
struct Double {
    conv1: Conv2d,
    bn1: BatchNorm,
    conv2: Conv2d,
    bn2: BatchNorm,
}

/// Twice the size and half the channels, beside what comes across.
#[derive(Module)]
struct Up {
    up: ConvTranspose2d,
    convs: Double,
}

impl Double {
    fn new(inputs: usize, outputs: usize) -> Double {
        let conv = |inputs| Conv2d::new(inputs, outputs, 3).padding(1).without_bias();
        Double {
            conv1: conv(inputs),
            bn1: BatchNorm::new(outputs),
            conv2: conv(outputs),
            bn2: BatchNorm::new(outputs),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.bn1.forward(&self.conv1.forward(x)).relu();
        self.bn2.forward(&self.conv2.forward(&x)).relu()
    }
}

impl Up {
    fn new(channels: usize) -> Up {
        let half = channels / 2;
        Up {
            up: ConvTranspose2d::new(channels, half, 2).stride(2),
            convs: Double::new(channels, half),
        }
    }

    fn forward(&self, x: &Tensor, across: &Tensor) -> Tensor {
        self.convs.forward(&Tensor::cat([across, &self.up.forward(x)], 1))
    }
}

impl UNet {
    /// With `width` channels at the full size, and twice as many at each of the `depth` sizes below.
    ///
    /// ```
    /// let net = kiln_models::UNet::new(1, 2, 8, 3);
    /// ```
    pub fn new(inputs: usize, outputs: usize, width: usize, depth: usize) -> UNet {
        UNet {
            first: Double::new(inputs, width),
            down: (0..depth).map(|i| Double::new(width << i, width << (i + 1))).collect(),
            up: (0..depth).rev().map(|i| Up::new(width << (i + 1))).collect(),
            last: Conv2d::new(width, outputs, 1),
            pool: MaxPool2d::new(2),
        }
    }

    /// A number for each pixel and output channel.
    ///
    /// ```
    /// let net = kiln_models::UNet::new(1, 2, 4, 1);
    /// let y = net.forward(&kiln::Tensor::zeros([1, 1, 8, 8]));
    /// ```
    ///
    /// # Errors
    /// Heights or widths that cannot be halved so often.
    #[track_caller]
    pub fn forward(&self, images: &Tensor) -> Tensor {
        let mut levels = vec![self.first.forward(images)];
        for down in &self.down {
            let above = &levels[levels.len() - 1];
            levels.push(down.forward(&self.pool.forward(above)));
        }
        let mut x = levels.pop().expect("the first level");
        for (up, across) in self.up.iter().zip(levels.iter().rev()) {
            x = up.forward(&x, across);
        }
        self.last.forward(&x)
    }
}
