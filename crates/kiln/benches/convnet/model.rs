//! The bench model: four convolutions, two batch norms and a linear layer, for images of 28 x 28.

use kiln::Tensor;
use kiln::nn::{BatchNorm, Conv2d, Linear, Module};

#[derive(Module)]
pub(super) struct Convnet {
    conv1: Conv2d,
    conv2: Conv2d,
    bn1: BatchNorm,
    conv3: Conv2d,
    conv4: Conv2d,
    bn2: BatchNorm,
    fc: Linear,
}

impl Convnet {
    pub(super) fn new() -> Convnet {
        Convnet {
            conv1: Conv2d::new(1, 32, 5),
            conv2: Conv2d::new(32, 32, 5),
            bn1: BatchNorm::new(32),
            conv3: Conv2d::new(32, 64, 3),
            conv4: Conv2d::new(64, 64, 3),
            bn2: BatchNorm::new(64),
            fc: Linear::new(576, 10),
        }
    }

    pub(super) fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.conv2.forward(&self.conv1.forward(x).relu()).relu();
        let x = self.bn1.forward(&x).max_pool2d(2);
        let x = self.conv4.forward(&self.conv3.forward(&x).relu()).relu();
        let x = self.bn2.forward(&x).max_pool2d(2);
        self.fc.forward(&x.reshape([-1, 576]))
    }
}
