//! The network of `kiln digits`, for images of 8 x 8.

use kiln::Tensor;
use kiln::nn::{Conv2d, Linear, Module};

#[derive(Module)]
pub(crate) struct Digits {
    conv1: Conv2d,
    conv2: Conv2d,
    linear: Linear,
}

impl Digits {
    pub(crate) fn new() -> Digits {
        Digits {
            conv1: Conv2d::new(1, 16, 3).padding(1),
            conv2: Conv2d::new(16, 32, 3).padding(1),
            linear: Linear::new(32 * 4 * 4, 10),
        }
    }

    pub(crate) fn forward(&self, pixels: &Tensor) -> Tensor {
        let x = self.conv1.forward(pixels).relu();
        let x = self.conv2.forward(&x).relu().max_pool2d(2);
        self.linear.forward(&x.flatten_from(1))
    }
}
