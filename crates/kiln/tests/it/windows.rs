//! Gradients of convolutions at strides and dilations, in what is usually around them: right, and without the products.
//! Places in windows.

use crate::fuzz::{Rng, seeds};
use kiln::{ConvOptions, Counts, DType, Device, PadMode, PoolOptions, Tensor, measure};

/// One convolution of 3 x 3, between others.
#[derive(Clone, Copy, Debug)]
struct Middle {
    stride: usize,
    dilation: usize,
    groups: usize,
    around: Around,
}

/// What stands before and behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Around {
    Nothing,
    NormBefore,
    NormAfter,
    Relu,
    Residual,
    Pool,
    All,
}

const AROUND: [Around; 7] = [
    Around::Nothing,
    Around::NormBefore,
    Around::NormAfter,
    Around::Relu,
    Around::Residual,
    Around::Pool,
    Around::All,
];

/// Batch, channels before and in between, channels behind, height, width.
type Sizes = [usize; 5];

impl Middle {
    fn all() -> impl Iterator<Item = Middle> {
        let strides = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)];
        strides.into_iter().flat_map(|(stride, dilation)| {
            AROUND.into_iter().flat_map(move |around| {
                [1, 4].map(|groups| Middle { stride, dilation, groups, around })
            })
        })
    }

    fn has(&self, around: Around) -> bool {
        self.around == around || self.around == Around::All
    }

    /// A loss whose gradient for the first convolution's weights goes through the second one.
    fn loss(&self, [x, w1, w2]: [&Tensor; 3], conv: Convolve) -> Tensor {
        let mut y = conv(x, w1, 1, 1, 1);
        if self.has(Around::NormBefore) {
            y = norm(&y);
        }
        if self.has(Around::Relu) {
            y = y.relu();
        }
        let mut z = conv(&y, w2, self.groups, self.stride, self.dilation);
        if self.has(Around::NormAfter) {
            z = norm(&z);
        }
        if self.has(Around::Pool) {
            z = z.avg_pool2d(2);
        }
        let loss = (&z * z.sin()).mean(..);
        if self.has(Around::Residual) { loss + (&y * y.cos()).mean(..) } else { loss }
    }
}

/// Of an image, by weights, in groups, at a stride and a dilation.
type Convolve = fn(&Tensor, &Tensor, usize, usize, usize) -> Tensor;

/// Padded so that windows with a stride of 1 are as many as elements.
fn conv(x: &Tensor, w: &Tensor, groups: usize, stride: usize, dilation: usize) -> Tensor {
    x.conv2d(w, None, groups, stride, dilation, dilation * (w.shape()[2] / 2))
}

/// The same, put together of products of matrices, one for each position in a window.
fn by_position(x: &Tensor, w: &Tensor, groups: usize, stride: usize, dilation: usize) -> Tensor {
    let (&[n, c, h, width], &[o, _, k, _]) = (x.shape(), w.shape()) else { panic!("four axes") };
    let pad = dilation * (k / 2);
    let padded = x.pad([(0, 0), (0, 0), (pad, pad), (pad, pad)]);
    let count = |n: usize| (n + 2 * pad - dilation * (k - 1) - 1) / stride + 1;
    let (rows, columns) = (count(h), count(width));
    let at = |first: usize, count: usize| {
        let stop = first + (count - 1) * stride + 1;
        kiln::Index::from(first..stop).step_by(stride)
    };
    let all = || kiln::Index::from(..);
    let product = |position: usize| {
        let (i, j) = (position / k, position % k);
        let seen = [all(), all(), at(i * dilation, rows), at(j * dilation, columns)];
        let seen = padded.get(kiln::Indices::new(seen.to_vec()));
        let seen = seen.reshape([n, groups, c / groups, rows * columns]);
        let weights = w.get(kiln::Indices::new(vec![
            all(),
            all(),
            kiln::Index::from(i),
            kiln::Index::from(j),
        ]));
        weights.reshape([1, groups, o / groups, c / groups]).matmul(&seen)
    };
    let sum = (1..k * k).fold(product(0), |sum, position| sum + product(position));
    sum.reshape([n, o, rows, columns])
}

fn norm(x: &Tensor) -> Tensor {
    let centered = x - x.mean_keepdim([0, 2, 3]);
    let variance = centered.square().mean_keepdim([0, 2, 3]);
    centered * (variance + 1e-5).rsqrt()
}

/// Data and weights of a chain.
fn leaves(m: &Middle, [n, c, o, h, w]: Sizes, dtype: DType, device: &Device) -> [Tensor; 3] {
    let data = |seed: f64, shape: [usize; 4], scale: f64| {
        let value = |i: usize| ((i as f64 + seed) * 12.9898).sin() * scale;
        let values: Vec<f64> = (0..shape.iter().product()).map(value).collect();
        let leaf = Tensor::from_vec_on(values, shape, device).cast(dtype);
        leaf.realize().expect("realizes");
        leaf
    };
    let scale = |products: usize| (products as f64).powf(-0.5);
    let x = data(0.3, [n, c, h, w], 1.0);
    let first = data(0.7, [c, c, 3, 3], scale(c * 9));
    let second = data(0.1, [o, c / m.groups, 3, 3], scale(c * 9 / m.groups));
    [x, first, second]
}

/// The gradients for both convolutions' weights, and what they took.
fn gradients(m: &Middle, [x, w1, w2]: [&Tensor; 3], conv: Convolve) -> (Vec<Tensor>, Counts) {
    let [w1, w2] = [w1, w2].map(|w| w.copy().set_requires_grad(true));
    kiln::realize([&w1, &w2]).expect("realizes");
    let (grads, counts) = measure(|| {
        let grads = m.loss([x, &w1, &w2], conv).gradient([&w1, &w2]).expect("has gradients");
        kiln::realize(&grads).expect("realizes");
        grads
    });
    (grads, counts)
}

/// A device that computes nothing counts all the same. One product of the second gradient is up to 192 times as large as all
/// images, and without residues there would be up to 9 times as many operations.
#[test]
fn no_product_of_a_gradient_is_written_whatever_is_around() {
    let null = Device::parse("NULL").expect("a device");
    let [n, c, o, h, w]: Sizes = [4, 32, 64, 29, 28];
    let mut failures = Vec::new();
    for m in Middle::all() {
        let [x, w1, w2] = leaves(&m, [n, c, o, h, w], DType::F32, &null);
        let (_, counts) = gradients(&m, [&x, &w1, &w2], conv);
        let windows = h.div_ceil(m.stride) * w.div_ceil(m.stride);
        let first = n * c * h * w * c * 9;
        let second = n * o * windows * (c / m.groups) * 9;
        // forward and for the weights; forward, for the weights and for the input
        let flops = 2 * (2 * first + 3 * second);
        let images = 4 * n * (c * h * w + o * windows);
        // what is done to each element of an image, and how often each image is read and written
        let beside = 100 * (images / 4) as u64;
        let norms = [Around::NormBefore, Around::NormAfter].iter().filter(|&&a| m.has(a)).count();
        let times = 11 + 8 * norms as u64;
        // a loop that is divided where windows leave the image is counted as long as it may be in each part; without
        // residues it would be twice this at a stride of 2, and five times at 3
        let at_borders = 3 * second as u64;
        if counts.flops > flops as u64 + at_borders + beside || counts.bytes > times * images as u64
        {
            let product = 4 * second;
            failures.push(format!("{m:?}: {flops} {images} {product} {counts:?}"));
        }
    }
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

/// Sums of up to 400 numbers, one after the other in four layers, are off by some ten units of 2^-24.
#[test]
fn gradients_are_those_of_products_of_matrices() {
    let sizes: Sizes = [2, 16, 32, 15, 13];
    let device = Device::parse("CPU").expect("a device");
    for (i, (stride, dilation)) in
        [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)].into_iter().enumerate()
    {
        let m = Middle { stride, dilation, groups: [1, 4][i % 2], around: Around::All };
        let narrow = leaves(&m, sizes, DType::F32, &device);
        let wide = leaves(&m, sizes, DType::F64, &device);
        let (ours, counts) = gradients(&m, [&narrow[0], &narrow[1], &narrow[2]], conv);
        let [n, c, o, h, w] = sizes;
        let windows = h.div_ceil(stride) * w.div_ceil(stride);
        let images = 4 * n * (c * h * w + o * windows);
        // what is between the two gradients and their leaves; the products would be 7 times as large as images at least
        assert!(counts.peak_memory <= 6 * images as u64, "{m:?}: {counts:?}");
        let (reference, _) = gradients(&m, [&wide[0], &wide[1], &wide[2]], by_position);
        for (ours, reference) in ours.iter().zip(&reference) {
            let values = reference.to_vec::<f64>().expect("realized");
            let largest = values.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
            let off = (ours.cast(DType::F64) - reference).abs().max(..).item::<f64>();
            let off = off.expect("a number");
            assert!(off <= 4e-6 * largest, "{m:?}: {off} of {largest}");
        }
    }
}

#[test]
fn gradients_of_the_edges_of_an_image_are_sums() {
    let x = Tensor::ones([2, 1, 1, 2]).set_requires_grad(true);
    let w = Tensor::from_vec(vec![0.0f32, 1.0], [2, 1, 1, 1]);
    let options = ConvOptions::new().stride(2).dilation(2).padding([1, 2]);
    let y = x.conv2d_with(&w, None, &options.padding_mode(PadMode::Replicate));
    let grad = y.sum(..).gradient([&x]).expect("a gradient").remove(0);
    assert_eq!(grad.to_vec::<f32>().expect("a gradient"), [4.0, 2.0, 4.0, 2.0]);
}

/// Whole numbers, so that every order of a sum gives the same; enough of them that residues are apart.
#[test]
fn random_gradients_are_exact() {
    let failures: Vec<String> = seeds(12).into_iter().filter_map(mismatch).collect();
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

/// A random convolution of an image.
#[derive(Debug)]
struct Random {
    image: [usize; 4],
    outputs: usize,
    kernel: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    padding: [usize; 2],
    /// Zeros without one.
    mode: Option<PadMode>,
}

const MODES: [Option<PadMode>; 4] =
    [None, Some(PadMode::Reflect), Some(PadMode::Replicate), Some(PadMode::Circular)];

impl Random {
    fn new(rng: &mut Rng) -> Random {
        let mut pair = |least: usize, n: usize| [0; 2].map(|_| least + rng.below(n));
        let (kernel, stride, dilation) = (pair(1, 5), pair(1, 4), pair(1, 3));
        let padding = pair(0, 3);
        let reach = [0, 1].map(|i| dilation[i] * (kernel[i] - 1) + 1);
        let [h, w] = [0, 1].map(|i| reach[i] + rng.below(12));
        let image = [1 + rng.below(3), 1 + rng.below(20), h, w];
        let outputs = 1 + rng.below(200);
        // an image too small to be reflected
        let mode = match rng.pick(&MODES) {
            Some(_) if h.min(w) <= 2 => Some(PadMode::Replicate),
            mode => mode,
        };
        Random { image, outputs, kernel, stride, dilation, padding, mode }
    }

    /// Which element of an axis of length `n` is at this place, counted from the axis's first; none in zeros.
    fn element(&self, at: isize, n: usize) -> Option<usize> {
        let last = n as isize - 1;
        let at = match self.mode {
            None => at,
            Some(PadMode::Reflect) if at < 0 => -at,
            Some(PadMode::Reflect) if at > last => 2 * last - at,
            Some(PadMode::Circular) => at.rem_euclid(n as isize),
            Some(_) => at.clamp(0, last),
        };
        usize::try_from(at).ok().filter(|at| *at < n)
    }

    fn windows(&self) -> [usize; 2] {
        [0, 1].map(|i| {
            let reach = self.dilation[i] * (self.kernel[i] - 1) + 1;
            (self.image[2 + i] + 2 * self.padding[i] - reach) / self.stride[i] + 1
        })
    }

    /// The gradient for the image of a sum of the results times `by`, term by term.
    fn gradient(&self, weights: &[f32], by: &[f32]) -> Vec<f32> {
        let ([n, c, h, w], [kh, kw], [rows, columns]) = (self.image, self.kernel, self.windows());
        let mut sum = vec![0.0; n * c * h * w];
        let place = |axis: usize, window: usize, position: usize| {
            let at = window * self.stride[axis] + position * self.dilation[axis];
            self.element(at as isize - self.padding[axis] as isize, self.image[2 + axis])
        };
        for (i, by) in by.iter().enumerate() {
            let (column, row) = (i % columns, i / columns % rows);
            let (output, image) =
                (i / columns / rows % self.outputs, i / columns / rows / self.outputs);
            for position in 0..c * kh * kw {
                let (channel, p, q) = (position / kw / kh, position / kw % kh, position % kw);
                if let (Some(y), Some(x)) = (place(0, row, p), place(1, column, q)) {
                    let weight = weights[output * c * kh * kw + position];
                    sum[((image * c + channel) * h + y) * w + x] += weight * by;
                }
            }
        }
        sum
    }
}

fn mismatch(seed: u64) -> Option<String> {
    let mut rng = Rng(seed);
    let r = Random::new(&mut rng);
    let ([n, c, _, _], [kh, kw], [rows, columns]) = (r.image, r.kernel, r.windows());
    let mut whole = |n: usize| (0..n).map(|_| rng.below(7) as f32 - 3.0).collect::<Vec<_>>();
    let weights = whole(r.outputs * c * kh * kw);
    let by = whole(n * r.outputs * rows * columns);
    let x = Tensor::zeros(r.image).set_requires_grad(true);
    let w = Tensor::from_vec(weights.clone(), [r.outputs, c, kh, kw]);
    let g = Tensor::from_vec(by.clone(), [n, r.outputs, rows, columns]);
    let options = ConvOptions::new().stride(r.stride).dilation(r.dilation).padding(r.padding);
    let options = r.mode.iter().fold(options, |options, mode| options.padding_mode(*mode));
    let y = x.conv2d_with(&w, None, &options);
    let grad = (y * g).sum(..).gradient([&x]).expect("a gradient").remove(0);
    // alone, and asked for in two places
    let (alone, doubled) = (grad.copy(), grad.square() + grad.sum_keepdim([2]));
    kiln::realize([&alone, &doubled]).expect("realizes");
    let expected = r.gradient(&weights, &by);
    if alone.to_vec::<f32>().expect("realized") != expected {
        return Some(format!("seed {seed} {r:?}"));
    }
    let expected = Tensor::from_vec(expected, r.image);
    let expected = expected.square() + expected.sum_keepdim([2]);
    let same = doubled.to_vec::<f32>().expect("realized") == expected.to_vec::<f32>().expect("is");
    (!same).then(|| format!("seed {seed}, in two places, {r:?}"))
}

/// PyTorch's answer: the first element that the window has outside of the padding.
#[test]
fn windows_of_nothing_but_the_least_number_point_to_their_first_element() {
    let all = |least: Tensor| least.expand([1, 3, 4]).contiguous();
    for x in [all(Tensor::from([f32::NEG_INFINITY])), all(Tensor::from([i32::MIN]))] {
        let places =
            |pool| -> Vec<i32> { x.max_pool2d_with_indices(pool).1.to_vec().expect("places") };
        let pool = PoolOptions::new(2).padding(1);
        assert_eq!(
            places(pool.clone().stride(1).dilation(2)),
            [5, 4, 5, 6, 1, 0, 1, 2, 5, 4, 5, 6]
        );
        assert_eq!(places(pool), [0, 1, 3, 4, 5, 7]);
        let wide = PoolOptions::new(3).padding(1).stride(1);
        assert_eq!(places(wide), [0, 0, 1, 2, 0, 0, 1, 2, 4, 4, 5, 6]);
    }
}

/// Each channel by its own filter, between convolutions of 1 x 1: pixels are then stored channels last. Sums of whole
/// numbers are exact.
#[test]
fn filters_of_each_channel_are_those_of_their_elements() {
    let cases = [
        [1, 32, 12, 3, 1],
        [2, 48, 14, 3, 2],
        [1, 64, 9, 5, 1],
        [1, 64, 15, 7, 1],
        [1, 100, 10, 3, 1],
        [3, 32, 21, 5, 2],
        [1, 160, 7, 3, 1],
    ];
    for [batch, channels, n, side, stride] in cases {
        let whole = |shape: &[usize], by: i64| {
            let n = shape.iter().product::<usize>() as i64;
            let numbers: Vec<f32> = (0..n).map(|i| (i * by % 7 - 3) as f32).collect();
            Tensor::from_vec(numbers, shape)
        };
        let same = |to: usize| Tensor::eye(to).reshape([to, to, 1, 1]) * 2.0;
        let (x, w) = (whole(&[batch, channels, n, n], 5), whole(&[channels, 1, side, side], 3));
        let (before, after) = (same(channels), same(channels));
        kiln::realize([&x, &w, &before, &after]).expect("realizes");
        let options = ConvOptions::default().stride(stride).padding(side / 2).groups(channels);
        let pointwise = ConvOptions::default();
        let y = x.conv2d_with(&before, None, &pointwise).conv2d_with(&w, None, &options);
        let y = y.conv2d_with(&after, None, &pointwise);
        let (x, w) = (x.to_vec::<f32>().expect("f32"), w.to_vec::<f32>().expect("f32"));
        let out = y.shape()[2];
        let expected = |at: usize| {
            let (plane, row, column) = (at / (out * out), at / out % out, at % out);
            let term = |k: usize| {
                let [i, j] = [(row, k / side), (column, k % side)]
                    .map(|(at, k)| (at * stride + k).wrapping_sub(side / 2));
                let weight = w[plane % channels * side * side + k];
                if i < n && j < n { 4.0 * weight * x[plane * n * n + i * n + j] } else { 0.0 }
            };
            (0..side * side).map(term).sum::<f32>()
        };
        let y = y.to_vec::<f32>().expect("f32");
        let expected: Vec<f32> = (0..y.len()).map(expected).collect();
        assert_eq!(y, expected, "{batch} x {channels} x {n} x {n}, {side} x {side} / {stride}");
    }
}
