//! ResNet-18 on images of 224 x 224, as in `cargo bench -p kiln --bench resnet`: inference, and training steps with SGD.

#[path = "../../../crates/kiln/benches/resnet/model.rs"]
mod model;

use super::case::{self, Build, Case, Run, Tolerance, Unit, Work, run};
use kiln::Error;
use kiln::nn::Module;
use kiln::optim::SGD;
use model::{ResNet, images, labels};

const CLASSES: usize = 1000;
const SIZE: usize = 224;
const BATCH: usize = 8;

/// Products of a forward pass over one image, of all convolutions and the linear layer: the first layer, then four of two
/// blocks. A layer but the first halves the sides and doubles the channels.
const PRODUCTS: usize = {
    let first = 112 * 112 * 64 * 3 * 49;
    // all 3x3 convolutions of a layer but its first have the same number of products, in each layer
    let same = 56 * 56 * 64 * 64 * 9;
    let halving = 3 * (same / 2 + 56 * 56 * 64 * 64 / 2);
    first + (4 + 3 * 3) * same + halving + 512 * CLASSES
};

/// Of the first layer, whose images need no gradient.
const FIRST: usize = 112 * 112 * 64 * 3 * 49;

/// Weights, as f32.
const PARAMETERS: usize = 11_689_512;

pub(super) const CASES: &[Case] = &[
    inference("resnet18-1", "ResNet-18, an image of 224 x 224", 1, || forward(1)),
    inference("resnet18-8", "ResNet-18, 8 images of 224 x 224", BATCH, || forward(BATCH)),
    Case {
        name: "resnet18-train",
        what: "ResNet-18, a training step with SGD on 8 images of 224 x 224",
        work: Work::new(
            (2 * BATCH * (3 * PRODUCTS - FIRST)) as f64,
            Unit::F32,
            4.0 * (2 * PARAMETERS) as f64,
            4.0 * (2 * PARAMETERS) as f64,
        ),
        // what differs in the last bit grows from step to step
        tolerance: Tolerance { epsilon: 1e-3, terms: 1 },
        goal: 1.0,
        pieces: 1,
        build: Build::By(training),
    },
];

const fn inference(
    name: &'static str,
    what: &'static str,
    batch: usize,
    build: fn() -> Result<Run, Error>,
) -> Case {
    let work = Work::new(
        (2 * batch * PRODUCTS) as f64,
        Unit::F32,
        4.0 * (PARAMETERS + batch * 3 * SIZE * SIZE) as f64,
        4.0 * (batch * CLASSES) as f64,
    );
    // 20 layers, each of sums of up to 4608 products
    let tolerance = Tolerance::f32(20 * 4608);
    Case { name, what, work, tolerance, goal: 0.9, pieces: 1, build: Build::By(build) }
}

fn forward(batch: usize) -> Result<Run, Error> {
    let (model, x) = (ResNet::new(64, CLASSES).filled(), images(batch, SIZE));
    run(move || model.forward(&x))
}

/// Forward, backward, and new weights; the result is the loss.
fn training() -> Result<Run, Error> {
    let model = ResNet::new(64, CLASSES).filled();
    let (x, y) = (images(BATCH, SIZE), labels(BATCH, CLASSES));
    let optimizer = SGD::new(model.parameters(), 0.01).momentum(0.9).weight_decay(5e-4);
    case::training(move || model.forward(&x).cross_entropy(&y), optimizer)
}
