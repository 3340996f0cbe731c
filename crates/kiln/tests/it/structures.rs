//! Kernels with several reductions: beside each other, over different windows, and one after the other through the steps
//! of a loop. Small whole numbers make every order of a sum exact.

mod joins;
mod networks;
mod paths;
mod updates;

use crate::fuzz::Rng;
use kiln::{Device, Tensor, s};

/// Whole numbers from -2 to 2.
fn whole(rng: &mut Rng, shape: &[usize], device: &Device) -> Tensor {
    let data = (0..shape.iter().product()).map(|_| rng.below(5) as f32 - 2.0).collect();
    Tensor::from_vec_on(data, shape, device)
}

/// What a program gives on the default device and on INTERP.
fn both(program: impl Fn(&Device) -> Vec<Tensor>) -> [Vec<Vec<f32>>; 2] {
    let interp = Device::parse("INTERP").expect("a device");
    [Device::default_device(), interp].map(|device| {
        let outputs = program(&device);
        kiln::realize(&outputs).expect("computes");
        outputs.iter().map(|t| t.to_vec().expect("is there")).collect()
    })
}

/// The convolution of one image, whose sides are of `size`, by its definition; windows are centred.
fn convolved(x: &[f32], w: &[f32], [channels, size, window]: [usize; 3]) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    let inside = |at: usize, by: usize| (at + by).checked_sub(window / 2).filter(|&i| i < size);
    for (o, out) in out.chunks_mut(size * size).enumerate() {
        for (at, out) in out.iter_mut().enumerate() {
            for by in 0..window * window {
                let row = inside(at / size, by / window);
                let Some((row, column)) = row.zip(inside(at % size, by % window)) else { continue };
                let terms = (0..channels).map(|c| {
                    x[(c * size + row) * size + column]
                        * w[(o * channels + c) * window * window + by]
                });
                *out += terms.sum::<f32>();
            }
        }
    }
    out
}

#[test]
fn convolutions_over_different_windows_are_added() {
    for [channels, size] in [[128, 8], [128, 5], [128, 14], [256, 4], [101, 8], [64, 8]] {
        let (rng, here) = (&mut Rng(7), Device::default_device());
        let x = whole(rng, &[1, channels, size, size], &here);
        let wide = whole(rng, &[channels, channels, 3, 3], &here);
        let narrow = whole(rng, &[channels, channels, 1, 1], &here);
        let y = x.conv2d(&wide, None, 1, 1, 1, 1) + x.conv2d(&narrow, None, 1, 1, 1, 0);
        let [x, wide, narrow] = [x, wide, narrow].map(|t| t.to_vec::<f32>().expect("is there"));
        let wide = convolved(&x, &wide, [channels, size, 3]);
        let narrow = convolved(&x, &narrow, [channels, size, 1]);
        let right: Vec<f32> = wide.iter().zip(&narrow).map(|(a, b)| a + b).collect();
        assert!(y.to_vec::<f32>().expect("computes") == right, "{channels} of {size} x {size}");
    }
}

/// The last block of ResNet-18 that makes images smaller, or the same with each convolution computed by itself.
fn last_block(batch: usize, by_parts: bool) -> Vec<f32> {
    let (rng, here) = (&mut Rng(11), Device::default_device());
    let x = whole(rng, &[batch, 256, 14, 14], &here);
    let mut layer = |x: &Tensor, window: usize, stride: usize| {
        let weights = whole(rng, &[512, x.shape()[1], window, window], &here);
        let y = x.conv2d(&weights, None, 1, stride, 1, window / 2);
        if by_parts {
            y.realize().expect("computes");
        }
        let [scale, shift] = [0, 1].map(|_| whole(rng, &[1, 512, 1, 1], &here));
        y * scale + shift
    };
    let inner = layer(&x, 3, 2).relu();
    let sum = layer(&inner, 3, 1) + layer(&x, 1, 2);
    sum.relu().to_vec().expect("computes")
}

#[test]
fn the_last_block_of_a_residual_network() {
    for batch in [1, 8] {
        assert!(last_block(batch, false) == last_block(batch, true), "{batch} images");
    }
}

/// The steps of a decomposition by reflections, without their divisions: products of exact numbers grow, and stay exact.
#[test]
fn what_a_loop_of_matrix_updates_leaves_is_realized_together() {
    let [here, interp] = both(|device| {
        let start = Tensor::from_vec_on(vec![1.0f32, 2.0, 3.0, 4.0], [2, 2], device);
        let (mut r, mut q) = (start, Tensor::eye_with(2, device.clone()));
        for i in 0..2 {
            let x = r.get(s![.., i]);
            let v = (&x * (x.sum_keepdim(0) + x.square().sum_keepdim(0))).unsqueeze(1);
            r = &r - v.matmul(&v.transpose(0, 1).matmul(&r));
            q = &q - q.matmul(&v).matmul(&v.transpose(0, 1));
        }
        vec![q, r]
    });
    assert_eq!(here, interp);
}
