//! The network: two convolutions, a maximum pool, one linear layer. And what one training step is.

use super::data::SIDE;
use crate::outcome::{Failure, Outcome};
use kiln::nn::{Conv2d, Linear, Module, state};
use kiln::optim::{AdamW, GradScaler};
use kiln::{DType, Tensor, autocast};
use std::path::Path;

/// Channels after each convolution.
const CHANNELS: [usize; 2] = [16, 32];
const CLASSES: usize = 10;

/// `[images, 1, 8, 8]` to `[images, 10]`.
#[derive(Module)]
pub(super) struct Net {
    conv1: Conv2d,
    conv2: Conv2d,
    linear: Linear,
}

impl Net {
    /// With random weights.
    pub(super) fn new() -> Net {
        let [first, second] = CHANNELS;
        let pooled = SIDE / 2;
        Net {
            conv1: Conv2d::new(1, first, 3).padding(1),
            conv2: Conv2d::new(first, second, 3).padding(1),
            linear: Linear::new(second * pooled * pooled, CLASSES),
        }
    }

    /// How much each image looks like each digit.
    pub(super) fn logits(&self, pixels: &Tensor) -> Tensor {
        let x = self.conv1.forward(pixels).relu();
        let x = self.conv2.forward(&x).relu().max_pool2d(2);
        self.linear.forward(&x.flatten_from(1))
    }

    /// Trains with products in `precision`.
    pub(super) fn trainer(&self, precision: DType) -> Trainer<'_> {
        let optimizer = AdamW::new(self.parameters(), 0.0);
        Trainer { net: self, optimizer, scaler: GradScaler::new(), precision }
    }

    pub(super) fn save(&self, path: &Path) -> Outcome {
        state::save(path, &self.state_dict()).map_err(|e| about(path, "save to", &e))
    }

    pub(super) fn load(&self, path: &Path) -> Outcome {
        let weights = state::load(path).map_err(|e| about(path, "load", &e))?;
        self.load_state_dict(&weights, true).map_err(|e| about(path, "load", &e))
    }
}

fn about(path: &Path, what: &str, why: &kiln::Error) -> Failure {
    Failure::new(format!("cannot {what} {}: {}", path.display(), why.why()))
}

/// A network that is being trained.
pub(super) struct Trainer<'a> {
    net: &'a Net,
    optimizer: AdamW,
    scaler: GradScaler,
    precision: DType,
}

impl Trainer<'_> {
    /// One step at a learning rate; returns the mean loss of the batch before it.
    pub(super) fn step(&self, (pixels, labels): (Tensor, Tensor), rate: f64) -> Outcome<f32> {
        self.optimizer.set_lr(rate);
        self.optimizer.zero_grad();
        let loss = autocast(self.precision, || self.net.logits(&pixels).cross_entropy(&labels));
        if self.precision == DType::F16 {
            // f16 ends at 2^-24, where many gradients are
            self.scaler.scale(&loss).backward()?;
            self.scaler.step(&self.optimizer)?;
        } else {
            loss.backward()?;
            self.optimizer.step()?;
        }
        Ok(loss.item()?)
    }
}
