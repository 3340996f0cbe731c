//! A random network: its input, its layers, its loss.

use super::layer::Layer;
use crate::fuzz::Rng;
use kiln::nn::{Embedding, Module};
use kiln::{ClassLoss, DType, Device, Error, Reduce, Tensor};

/// Layers of a network, at most.
pub(super) const DEPTH: usize = 8;

/// A network and what it is given.
pub(super) struct Network {
    pub(super) input: Tensor,
    pub(super) layers: Layers,
    target: Tensor,
    loss: usize,
}

/// What has parameters.
#[derive(Module)]
pub(super) struct Layers {
    embedding: Option<Embedding>,
    all: Vec<Layer>,
}

const LOSSES: usize = 5;

/// Numbers from -1 to 1 that f32 holds.
fn floats(rng: &mut Rng, shape: &[usize], device: &Device, dtype: DType) -> Tensor {
    let one = |_| (rng.next() >> 40) as f32 / (1 << 23) as f32 - 1.0;
    let data = (0..shape.iter().product()).map(one).collect();
    Tensor::from_vec_on(data, shape, device).cast(dtype)
}

fn integers(rng: &mut Rng, shape: &[usize], below: usize, device: &Device) -> Tensor {
    let data = (0..shape.iter().product()).map(|_| rng.below(below) as i64).collect();
    Tensor::from_vec_on(data, shape, device)
}

/// What a seed draws before there are numbers: the input's shape, and layers.
struct Drawn {
    shape: Vec<usize>,
    layers: Layers,
    output: Vec<usize>,
    loss: usize,
    text: String,
}

const VOCABULARY: usize = 11;

/// Layers, until there are enough. Shapes are those of nothing that is computed.
fn drawn(seed: u64, depth: usize) -> Drawn {
    let rng = &mut Rng(seed);
    let batch = 1 + rng.below(4);
    let shape = match rng.below(4) {
        0 => vec![batch, 2 + rng.below(5)],
        1 => vec![batch, 2 + rng.below(5), rng.pick(&[3, 4, 6])],
        _ => vec![batch, 1 + rng.below(4), rng.pick(&[4, 6, 7, 8]), rng.pick(&[4, 6, 8])],
    };
    let embedding = (shape.len() == 2).then(|| Embedding::new(VOCABULARY, rng.pick(&[4, 6])));
    let mut text = format!("input {shape:?}");
    let mut x = Tensor::zeros(&shape);
    if let Some(embedding) = &embedding {
        x = embedding.forward(&x.cast(DType::I64));
        text += &format!(" embedded {:?}", x.shape());
    }
    let (mut all, total) = (Vec::new(), 2 + rng.below(DEPTH - 1));
    for _ in 0..total.min(depth) {
        let (layer, name) = Layer::draw(rng, x.shape(), 2);
        x = layer.forward(&x);
        text += &format!("\n{name} -> {:?}", x.shape());
        all.push(layer);
    }
    let loss = Rng(!seed).below(LOSSES);
    let output = x.shape().to_vec();
    text += &format!("\nloss {loss}");
    Drawn { shape, layers: Layers { embedding, all }, output, loss, text }
}

/// The network of a seed, for people.
pub(super) fn text(seed: u64, depth: usize) -> String {
    drawn(seed, depth).text
}

impl Network {
    /// Of a seed, with at most so many layers.
    pub(super) fn new(
        seed: u64,
        depth: usize,
        device: &Device,
        dtype: DType,
    ) -> Result<Network, Error> {
        let Drawn { shape, mut layers, output, loss, .. } = drawn(seed, depth);
        layers.to((dtype, device.clone()))?;
        let rng = &mut Rng(seed ^ 0x5555);
        let input = match shape.len() {
            2 => integers(rng, &shape, VOCABULARY, device),
            _ => floats(rng, &shape, device, dtype).set_requires_grad(true),
        };
        for (name, tensor) in layers.state_dict().iter().filter(|(_, t)| t.dtype().is_float()) {
            let center = if name.ends_with("var") || tensor.ndim() == 1 && name.ends_with("weight")
            {
                1.0
            } else {
                0.0
            };
            let values = floats(rng, tensor.shape(), device, dtype) * 0.5 + center;
            tensor.detach().try_assign(values)?;
        }
        let target = match loss {
            0 | 1 => {
                let mut labels = output.clone();
                labels.remove(1);
                integers(rng, &labels, output[1], device)
            }
            _ => floats(rng, &output, device, dtype),
        };
        Ok(Network { input, layers, target, loss })
    }

    /// The output and the loss; with each layer's output computed by itself, or lazily.
    pub(super) fn run(&self, by_layers: bool) -> Result<(Tensor, Tensor), Error> {
        let mut x = match &self.layers.embedding {
            Some(embedding) => embedding.forward(&self.input),
            None => self.input.clone(),
        };
        for layer in &self.layers.all {
            x = layer.forward(&x);
            if by_layers {
                x.realize()?;
            }
        }
        let loss = self.loss(&x);
        Ok((x, loss))
    }

    fn loss(&self, x: &Tensor) -> Tensor {
        let target = &self.target;
        match self.loss {
            0 => x.cross_entropy(target),
            1 => x.cross_entropy_with(
                target,
                ClassLoss { label_smoothing: 0.1, ..ClassLoss::default() },
            ),
            2 => x.mse_loss(target, Reduce::Mean),
            3 => {
                let target = (target + 1.0) * 0.5;
                x.binary_cross_entropy_with_logits(&target, None, Reduce::Mean)
            }
            _ => x.huber_loss(target, 0.5, Reduce::Sum),
        }
    }
}
