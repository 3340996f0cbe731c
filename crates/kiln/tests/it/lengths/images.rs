//! Random convolutions over images whose sizes change.

use super::{floats, with_lengths};
use crate::fuzz::{Rng, seeds};
use kiln::{Tensor, measure};

/// What is computed from a convolution's result.
#[derive(Clone, Copy, Debug)]
enum Then {
    Nothing,
    Relu,
    /// Sums over the pixels of each image, or of all.
    Planes,
    Channels,
    /// Pixels first, as attention over an image reads them.
    Tokens,
    Gradients,
}

#[derive(Clone, Copy, Debug)]
struct Convolution {
    batch: usize,
    inputs: usize,
    outputs: usize,
    groups: usize,
    window: [usize; 2],
    stride: usize,
    dilation: usize,
    padding: usize,
    /// How often each pixel is repeated along both axes before.
    repeats: usize,
    then: Then,
    /// Which of height, width and batch vary.
    varying: [bool; 3],
}

impl Convolution {
    fn of(rng: &mut Rng) -> Convolution {
        use Then::{Channels, Gradients, Nothing, Planes, Relu, Tokens};
        let groups = rng.pick(&[1, 1, 1, 2, 5]);
        let inputs = groups * rng.pick(&[1, 3, 7, 11, 16]);
        let is_depthwise = rng.one_in(6);
        let outputs = groups * rng.pick(&[1, 2, 5, 13, 16]);
        let k = rng.pick(&[1, 1, 2, 3, 3, 5]);
        let dilation = rng.pick(&[1, 1, 2]);
        Convolution {
            batch: rng.pick(&[1, 1, 2, 3]),
            inputs,
            outputs: if is_depthwise { inputs } else { outputs },
            groups: if is_depthwise { inputs } else { groups },
            window: [k, if rng.one_in(3) { 1 } else { k }],
            stride: rng.pick(&[1, 1, 1, 2, 3]),
            dilation,
            padding: rng.below(k / 2 * dilation + 1),
            then: rng.pick(&[Nothing, Relu, Planes, Channels, Tokens, Gradients]),
            varying: [true, rng.one_in(2), rng.one_in(4)],
            repeats: rng.pick(&[1, 1, 1, 2, 3]),
        }
    }

    /// A height, a width and a number of images.
    fn sizes(&self, rng: &mut Rng) -> [usize; 3] {
        let least = self.dilation * (self.window[0] - 1) + 2;
        let usual = [least + 9, least + 12, self.batch];
        let others = [least + rng.below(40), least + rng.below(25), 1 + rng.below(4)];
        [0, 1, 2].map(|i| if self.varying[i] { others[i] } else { usual[i] })
    }

    fn run(&self, [height, width, batch]: [usize; 3]) -> Vec<f32> {
        let x = signs(&[batch, self.inputs, height, width]);
        let w = signs(&[self.outputs, self.inputs / self.groups, self.window[0], self.window[1]]);
        let padding = (self.padding, 0);
        let large = match self.repeats {
            1 => x.clone(),
            n => x.repeat_interleave(n, 2).repeat_interleave(n, 3),
        };
        let y = large.conv2d(&w, None, self.groups, self.stride, self.dilation, padding);
        let pixels = y.shape()[2] * y.shape()[3];
        match self.then {
            Then::Nothing => floats(&y),
            Then::Relu => floats(&(y.relu() + 1.0)),
            Then::Planes => floats(&y.sum([2, 3])),
            Then::Channels => floats(&y.sum([0, 2, 3])),
            Then::Tokens => floats(&y.reshape([batch, self.outputs, pixels]).transpose(1, 2)),
            Then::Gradients => {
                let gradients = (&y * &y).sum(..).gradient([&x, &w]).expect("a gradient");
                gradients.iter().flat_map(floats).collect()
            }
        }
    }
}

/// -1, 0 and 1, in memory: sums of their products are exact in any order.
fn signs(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let values = (0..n).map(|i| ((i * 7 + i / 5) % 3) as f32 - 1.0).collect::<Vec<_>>();
    Tensor::from_vec(values, shape)
}

#[test]
fn random_convolutions_mean_the_same_at_every_size() {
    let (mut found, mut runs) = (0, 0);
    for seed in seeds(30) {
        let mut rng = Rng(seed);
        let convolution = Convolution::of(&mut rng);
        let sizes: Vec<[usize; 3]> = (0..5).map(|_| convolution.sizes(&mut rng)).collect();
        for size in &sizes {
            let wanted = with_lengths(0, || convolution.run(*size));
            let (given, counts) = measure(|| with_lengths(1, || convolution.run(*size)));
            assert_eq!(given, wanted, "seed {seed} at {size:?}: {convolution:?} over {sizes:?}");
            found += u64::from(counts.compiled + counts.loaded == 0);
            runs += 1;
        }
    }
    // the test is of nothing if each size has kernels of its own
    assert!(found * 5 > runs, "{found} of {runs} sizes compiled nothing");
}
