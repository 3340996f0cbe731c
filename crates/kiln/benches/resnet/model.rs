//! ResNet-18, as a user would write it, and numbers for it that testdata/golden/resnet.py makes too.

use kiln::nn::{BatchNorm, Conv2d, Linear, Module, StateDict};
use kiln::{DType, Tensor};

#[derive(Module)]
pub(crate) struct ResNet {
    conv1: Conv2d,
    bn1: BatchNorm,
    layer1: Vec<Block>,
    layer2: Vec<Block>,
    layer3: Vec<Block>,
    layer4: Vec<Block>,
    fc: Linear,
}

/// Two convolutions, and the way around them.
#[derive(Module)]
struct Block {
    conv1: Conv2d,
    bn1: BatchNorm,
    conv2: Conv2d,
    bn2: BatchNorm,
    downsample: Option<Downsample>,
}

/// The way around, where a block changes the shape.
#[derive(Module)]
struct Downsample {
    conv: Conv2d,
    bn: BatchNorm,
}

fn conv3(inputs: usize, outputs: usize, stride: usize) -> Conv2d {
    Conv2d::new(inputs, outputs, 3).stride(stride).padding(1).without_bias()
}

impl Block {
    fn new(inputs: usize, outputs: usize, stride: usize) -> Block {
        let downsample = (stride > 1 || inputs != outputs).then(|| Downsample {
            conv: Conv2d::new(inputs, outputs, 1).stride(stride).without_bias(),
            bn: BatchNorm::new(outputs),
        });
        Block {
            conv1: conv3(inputs, outputs, stride),
            bn1: BatchNorm::new(outputs),
            conv2: conv3(outputs, outputs, 1),
            bn2: BatchNorm::new(outputs),
            downsample,
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.bn1.forward(&self.conv1.forward(x)).relu();
        let y = self.bn2.forward(&self.conv2.forward(&y));
        let around = match &self.downsample {
            Some(d) => d.bn.forward(&d.conv.forward(x)),
            None => x.clone(),
        };
        (y + around).relu()
    }
}

impl ResNet {
    /// With so many channels in the first layer; ResNet-18 has 64.
    pub(crate) fn new(width: usize, classes: usize) -> ResNet {
        let layer = |inputs: usize, outputs: usize, stride: usize| {
            vec![Block::new(inputs, outputs, stride), Block::new(outputs, outputs, 1)]
        };
        ResNet {
            conv1: Conv2d::new(3, width, 7).stride(2).padding(3).without_bias(),
            bn1: BatchNorm::new(width),
            layer1: layer(width, width, 1),
            layer2: layer(width, 2 * width, 2),
            layer3: layer(2 * width, 4 * width, 2),
            layer4: layer(4 * width, 8 * width, 2),
            fc: Linear::new(8 * width, classes),
        }
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = self.bn1.forward(&self.conv1.forward(x)).relu().max_pool2d_with(3, 2, 1, 1);
        for block in [&self.layer1, &self.layer2, &self.layer3, &self.layer4].into_iter().flatten()
        {
            x = block.forward(&x);
        }
        self.fc.forward(&x.mean([2, 3]))
    }

    /// With all numbers from the formula.
    pub(crate) fn filled(self) -> ResNet {
        let floats = |(_, t): &(String, Tensor)| t.dtype().is_float();
        let state: Vec<(String, Tensor)> = self.state_dict().into_iter().filter(floats).collect();
        let new: StateDict =
            state.iter().map(|(name, t)| (name.clone(), filled(name, t))).collect();
        self.load_state_dict(&new, false).expect("its own names and shapes");
        self
    }
}

/// What a tensor of the model is filled with: weights by how many products they are part of, statistics near 0 and 1.
fn filled(name: &str, tensor: &Tensor) -> Tensor {
    let shape = tensor.shape();
    let products: usize = shape[1..].iter().product();
    let (center, scale) = match name {
        _ if shape.len() > 1 => (0.0, (6.0 / products as f64).sqrt()),
        _ if name.ends_with("weight") || name.ends_with("var") => (1.0, 0.25),
        _ => (0.0, 0.1),
    };
    let values: Vec<f32> =
        formula(name, tensor.numel()).map(|u| (center + scale * u) as f32).collect();
    Tensor::from_vec(values, shape)
}

/// Numbers between -1 and 1 that look random and follow from a name.
pub(crate) fn formula(name: &str, n: usize) -> impl Iterator<Item = f64> {
    let seed =
        name.bytes().fold(0x811C_9DC5u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    (0..n as u32).map(move |i| {
        let mut x = i.wrapping_mul(0x9E37_79B9).wrapping_add(seed);
        x = (x ^ (x >> 16)).wrapping_mul(0x7FEB_352D);
        x = (x ^ (x >> 15)).wrapping_mul(0x846C_A68B);
        f64::from((x ^ (x >> 16)) >> 8) / f64::from(1 << 23) - 1.0
    })
}

/// Images of `size` x `size`.
pub(crate) fn images(batch: usize, size: usize) -> Tensor {
    let values: Vec<f32> =
        formula("images", batch * 3 * size * size).map(|u| (u * 1.75) as f32).collect();
    Tensor::from_vec(values, [batch, 3, size, size])
}

/// What they show.
pub(crate) fn labels(batch: usize, classes: usize) -> Tensor {
    let label = |i: usize| ((i * 37 + 11) % classes) as i64;
    Tensor::from_vec((0..batch).map(label).collect(), [batch]).cast(DType::I64)
}
