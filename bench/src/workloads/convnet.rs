//! A training step of an MNIST-sized convnet, as in `cargo bench -p kiln --bench convnet`, with weights that every
//! process makes alike.

#[path = "../../../crates/kiln/benches/convnet/model.rs"]
mod model;

use super::case::{self, Run};
use crate::data::{floats, labels, scaled};
use kiln::Error;
use kiln::nn::Module;
use kiln::optim::Adam;
use model::Convnet;

const BATCH: usize = 128;

/// Multiplications and additions of the four convolutions and the linear layer: forward, for the weights, and, but for
/// the first layer, for the inputs.
pub(super) const FLOPS: f64 = {
    let first = 24 * 24 * 32 * 25;
    let others = 20 * 20 * 32 * 32 * 25 + 8 * 8 * 64 * 32 * 9 + 6 * 6 * 64 * 64 * 9 + 576 * 10;
    (2 * BATCH * (2 * first + 3 * others)) as f64
};

/// Weights as wide as their inputs are many; what has one axis keeps 0 or 1, but biases, which are drawn.
fn model() -> Result<Convnet, Error> {
    let model = Convnet::new();
    for (i, p) in model.parameters().iter().enumerate() {
        let inputs: usize = p.shape()[1..].iter().product();
        let is_norm = matches!(i, 4 | 5 | 10 | 11);
        if !is_norm {
            let scale = if p.ndim() == 1 { 0.01 } else { 1.0 / (inputs as f32).sqrt() };
            p.detach().try_assign(scaled(100 + i as u32, p.shape(), scale)?)?;
        }
    }
    kiln::realize(&model.parameters())?;
    Ok(model)
}

/// Forward, backward, and new weights; the result is the loss.
pub(super) fn training() -> Result<Run, Error> {
    let (x, y) = (floats(1, &[BATCH, 1, 28, 28])?, labels(2, BATCH, 10)?);
    let model = model()?;
    let optimizer = Adam::new(model.parameters(), 1e-3);
    case::training(move || model.forward(&x).cross_entropy(&y), optimizer)
}
