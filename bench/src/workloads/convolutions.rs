//! Every convolution of ResNet-18 and ResNet-50 (He and others, 2015, table 1) on images of 224 x 224, at batches of 1
//! and 8: forward, and the gradients for its weights and for its image.
//!
//! Names say the shapes: `cnn-weights-8x64x56-to-128-3/2` is the gradient for the weights of a convolution 3 x 3 with
//! stride 2, of 8 images of 64 channels and 56 x 56 pixels, to 128 channels.

use super::case::{Build, Case, Run, Tolerance, Unit, Work, run};
use crate::data::floats;
use kiln::{Error, Tensor};
use std::sync::LazyLock;

/// Channels of the image, its height and width, channels of the result, height and width of the window, stride.
const LAYERS: [[usize; 5]; 29] = [
    [3, 224, 64, 7, 2],
    // ResNet-18; 3 x 3 with stride 1 is in both
    [64, 56, 64, 3, 1],
    [64, 56, 128, 3, 2],
    [64, 56, 128, 1, 2],
    [128, 28, 128, 3, 1],
    [128, 28, 256, 3, 2],
    [128, 28, 256, 1, 2],
    [256, 14, 256, 3, 1],
    [256, 14, 512, 3, 2],
    [256, 14, 512, 1, 2],
    [512, 7, 512, 3, 1],
    // ResNet-50
    [64, 56, 64, 1, 1],
    [64, 56, 256, 1, 1],
    [256, 56, 64, 1, 1],
    [256, 56, 128, 1, 1],
    [128, 56, 128, 3, 2],
    [128, 28, 512, 1, 1],
    [256, 56, 512, 1, 2],
    [512, 28, 128, 1, 1],
    [512, 28, 256, 1, 1],
    [256, 28, 256, 3, 2],
    [256, 14, 1024, 1, 1],
    [512, 28, 1024, 1, 2],
    [1024, 14, 256, 1, 1],
    [1024, 14, 512, 1, 1],
    [512, 14, 512, 3, 2],
    [512, 7, 2048, 1, 1],
    [1024, 14, 2048, 1, 2],
    [2048, 7, 512, 1, 1],
];

/// What is computed of a convolution.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Weights,
    Image,
}

/// A convolution whose padding keeps the size, but for the stride.
#[derive(Clone, Copy)]
struct Convolution {
    way: Way,
    batch: usize,
    channels: usize,
    size: usize,
    outputs: usize,
    window: usize,
    stride: usize,
}

pub(super) fn cases() -> &'static [Case] {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| all().map(Convolution::case).collect());
    &CASES
}

/// Forward before gradients, so that a beginning of a name is a part of the table.
fn all() -> impl Iterator<Item = Convolution> {
    let ways = [Way::Forward, Way::Weights, Way::Image].into_iter();
    let batches = ways.flat_map(|way| [1, 8].map(|batch| (way, batch)));
    batches.flat_map(|(way, batch)| LAYERS.map(|layer| Convolution::new(way, batch, layer)))
}

impl Convolution {
    fn new(way: Way, batch: usize, layer: [usize; 5]) -> Convolution {
        let [channels, size, outputs, window, stride] = layer;
        Convolution { way, batch, channels, size, outputs, window, stride }
    }

    fn image(self) -> [usize; 4] {
        [self.batch, self.channels, self.size, self.size]
    }

    fn weights(self) -> [usize; 4] {
        [self.outputs, self.channels, self.window, self.window]
    }

    fn result(self) -> [usize; 4] {
        let size = self.size.div_ceil(self.stride);
        [self.batch, self.outputs, size, size]
    }

    fn case(self) -> Case {
        Case {
            name: self.name().leak(),
            what: self.what().leak(),
            work: self.work(),
            tolerance: Tolerance::f32(self.terms()),
            goal: 0.9,
            pieces: 1,
            build: Build::With(Box::leak(Box::new(move || self.build()))),
        }
    }

    fn name(self) -> String {
        let Convolution { batch, channels, size, outputs, window, stride, .. } = self;
        let way = match self.way {
            Way::Forward => "forward",
            Way::Weights => "weights",
            Way::Image => "image",
        };
        format!("cnn-{way}-{batch}x{channels}x{size}-to-{outputs}-{window}/{stride}")
    }

    fn what(self) -> String {
        let Convolution { batch, channels, size, outputs, window, stride, .. } = self;
        let of = match self.way {
            Way::Forward => "",
            Way::Weights => "gradient for the weights of a ",
            Way::Image => "gradient for the image of a ",
        };
        format!(
            "{of}convolution {window} x {window} / {stride}, {batch} x {channels} x {size} x {size} to {outputs} channels"
        )
    }

    /// All three do as many multiplications, and leave out one of the three tensors.
    fn work(self) -> Work {
        let [image, weights, result] =
            [self.image(), self.weights(), self.result()].map(|s| s.iter().product::<usize>());
        let written = match self.way {
            Way::Forward => result,
            Way::Weights => weights,
            Way::Image => image,
        };
        let products = result * self.channels * self.window * self.window;
        let read = image + weights + result - written;
        Work::new(2.0 * products as f64, Unit::F32, 4.0 * read as f64, 4.0 * written as f64)
    }

    /// Products that are added for one element.
    fn terms(self) -> usize {
        let window = self.window * self.window;
        let [batch, outputs, height, width] = self.result();
        match self.way {
            Way::Forward => self.channels * window,
            Way::Weights => batch * height * width,
            Way::Image => outputs * window,
        }
    }

    /// The inputs, and what to do with them.
    fn build(self) -> Result<Run, Error> {
        let x = floats(1, &self.image())?;
        let w = floats(2, &self.weights())?;
        if self.way == Way::Forward {
            return run(move || self.of(&x, &w));
        }
        let slope = floats(3, &self.result())?;
        let (x, w) = (x.set_requires_grad(true), w.set_requires_grad(true));
        let target = if self.way == Way::Weights { w.clone() } else { x.clone() };
        Ok(Box::new(move || {
            let gradient = (self.of(&x, &w) * &slope).sum(..).gradient([&target])?.remove(0);
            gradient.realize()?;
            Ok(Some(gradient))
        }))
    }

    fn of(self, x: &Tensor, w: &Tensor) -> Tensor {
        x.conv2d(w, None, 1, self.stride, 1, self.window / 2)
    }
}
