//! Random networks of convolutions: sums of several over different windows, with strides, scales, and what was there
//! before added. Against a plain computation; whole numbers that stay small make every order of a sum exact.

use super::whole;
use crate::fuzz::{Rng, seeds};
use kiln::{Device, Tensor};

/// An image as kiln has it, and as it is: `[batch, channels, side, side]`.
#[derive(Clone)]
struct Image {
    tensor: Tensor,
    values: Vec<f32>,
    shape: [usize; 3],
}

impl Image {
    fn new(rng: &mut Rng, shape: [usize; 3]) -> Image {
        let [batch, channels, side] = shape;
        let tensor = whole(rng, &[batch, channels, side, side], &Device::default_device());
        let values = tensor.to_vec().expect("is there");
        Image { tensor, values, shape }
    }

    /// Its convolution with random weights; windows are centred.
    fn convolved(&self, rng: &mut Rng, [outputs, window, stride]: [usize; 3]) -> Image {
        let [batch, channels, side] = self.shape;
        let weights = whole(rng, &[outputs, channels, window, window], &Device::default_device());
        let tensor = self.tensor.conv2d(&weights, None, 1, stride, 1, window / 2);
        let weights = weights.to_vec::<f32>().expect("is there");
        let small = side.div_ceil(stride);
        let mut values = vec![0.0; batch * outputs * small * small];
        for (i, out) in values.chunks_mut(small * small).enumerate() {
            let (image, o) = (i / outputs, i % outputs);
            for c in 0..channels {
                let plane = &self.values[(image * channels + c) * side * side..][..side * side];
                let kernel = &weights[(o * channels + c) * window * window..][..window * window];
                slide(out, plane, kernel, [side, window, stride]);
            }
        }
        Image { tensor, values, shape: [batch, outputs, small] }
    }

    fn plus(&self, other: &Image) -> Image {
        let values = self.values.iter().zip(&other.values).map(|(a, b)| a + b).collect();
        Image { tensor: &self.tensor + &other.tensor, values, shape: self.shape }
    }

    /// Each channel scaled and shifted, as norms do, and cut at small numbers.
    fn normed(&self, rng: &mut Rng) -> Image {
        let [_, channels, side] = self.shape;
        let [scale, shift] =
            [(); 2].map(|()| whole(rng, &[1, channels, 1, 1], &Device::default_device()));
        let low = if rng.one_in(2) { 0.0 } else { -3.0 };
        let tensor = (&self.tensor * &scale + &shift).maximum(low).minimum(3.0);
        let [scale, shift] = [scale, shift].map(|t| t.to_vec::<f32>().expect("is there"));
        let channel = |i: usize| i / (side * side) % channels;
        let at =
            |(i, x): (usize, &f32)| (x * scale[channel(i)] + shift[channel(i)]).clamp(low, 3.0);
        Image { tensor, values: self.values.iter().enumerate().map(at).collect(), ..*self }
    }
}

/// Adds what a window of one channel gives.
fn slide(out: &mut [f32], plane: &[f32], kernel: &[f32], [side, window, stride]: [usize; 3]) {
    let small = side.div_ceil(stride);
    let from = |at: usize, by: usize| (at * stride + by).checked_sub(window / 2);
    for (at, out) in out.iter_mut().enumerate() {
        for (by, weight) in kernel.iter().enumerate() {
            let row = from(at / small, by / window).filter(|&row| row < side);
            let column = from(at % small, by % window).filter(|&column| column < side);
            if let (Some(row), Some(column)) = (row, column) {
                *out += plane[row * side + column] * weight;
            }
        }
    }
}

/// Some convolutions of one image and perhaps itself, added up.
fn block(rng: &mut Rng, x: &Image, log: &mut String) -> Image {
    let outputs = if rng.one_in(3) { rng.pick(&[8, 40, 101]) } else { x.shape[1] };
    let stride = if rng.one_in(4) { 2 } else { 1 };
    let windows: Vec<usize> = (0..1 + rng.below(3)).map(|_| rng.pick(&[1, 1, 3, 3, 5])).collect();
    let through = windows.len() > 1 && rng.one_in(3);
    *log += &format!("{windows:?} to {outputs} channels, stride {stride}, twice {through}; ");
    let mut sums =
        windows.iter().map(|&w| x.convolved(rng, [outputs, w, stride])).collect::<Vec<_>>();
    if through {
        // one of them goes through another layer first
        let inner = sums.swap_remove(0).normed(rng);
        sums.push(inner.convolved(rng, [outputs, windows[0], 1]));
    }
    if stride == 1 && outputs == x.shape[1] && rng.one_in(2) {
        sums.push(x.clone());
        *log += "and itself; ";
    }
    if rng.one_in(3) {
        let other = rng.below(sums.len());
        sums[other] = sums[other].normed(rng);
    }
    let sum = sums.into_iter().reduce(|a, b| a.plus(&b)).expect("at least one");
    sum.normed(rng)
}

#[test]
fn random_networks_are_what_they_should_be() {
    for seed in seeds(6) {
        let rng = &mut Rng(seed);
        let (batch, channels) = (1 + rng.below(2), rng.pick(&[3, 16, 64, 101, 128, 160]));
        let side = rng.pick(&[4, 5, 7, 8]);
        let mut log = format!("seed {seed}: {batch} of {channels} channels of {side}; ");
        let mut images = vec![Image::new(rng, [batch, channels, side])];
        for _ in 0..1 + rng.below(3) {
            let latest = images.last().expect("at least one").clone();
            images.push(block(rng, &latest, &mut log));
        }
        // some that are on the way are wanted, too
        let last = images.len() - 1;
        let wanted: Vec<&Image> = images
            .iter()
            .enumerate()
            .filter(|(i, _)| *i == last || rng.one_in(2))
            .map(|(_, x)| x)
            .collect();
        kiln::realize(wanted.iter().map(|x| &x.tensor)).unwrap_or_else(|e| panic!("{log}: {e}"));
        for image in wanted {
            assert!(image.tensor.to_vec::<f32>().expect("is there") == image.values, "{log}");
        }
    }
}
