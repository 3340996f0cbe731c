//! Kernel counts: what fuses, and into how many kernels.

use kiln::{Counts, Tensor, nn, realize, s};

/// Each graph is scheduled for itself: what other tests have run changes nothing.
fn measure<R>(f: impl FnOnce() -> R) -> (R, Counts) {
    kiln::with([("LENGTHS", 0)], || kiln::measure(f)).expect("a setting")
}

fn data(shape: &[usize]) -> Tensor {
    let t = Tensor::randn(shape);
    t.realize().expect("realizes");
    t
}

fn kernels(f: impl FnOnce() -> Tensor) -> u64 {
    let (out, n) = measure(|| f().realize().map(drop));
    out.expect("realizes");
    n.kernels
}

#[test]
fn linear_and_relu() {
    let (x, w, b) = (data(&[8, 16]), data(&[32, 16]), data(&[32]));
    assert_eq!(kernels(|| (x.matmul(&w.permute([1, 0])) + &b).relu()), 1);
}

#[test]
fn conv_and_relu() {
    let (x, w, b) = (data(&[2, 3, 8, 8]), data(&[4, 3, 3, 3]), data(&[4]));
    assert_eq!(kernels(|| x.conv2d(&w, Some(&b), 1, 1, 1, 1).relu()), 1);
}

/// Threads share the columns of a large product of one row only if no other sum is in its kernel.
#[test]
fn a_norm_before_a_product_of_one_row() {
    let linear = |inputs: usize, outputs: usize| {
        let (x, w) = (data(&[1, inputs]), data(&[inputs, outputs]));
        kernels(|| x.layernorm(1).matmul(&w))
    };
    assert_eq!([linear(16, 32), linear(768, 2304)], [1, 2]);
}

/// Channels become the last digits of rows and columns: no loop of one kernel for both would have whole vectors.
#[test]
fn convolution_and_pixel_shuffle() {
    let (x, w) = (data(&[2, 32, 20, 24]), data(&[12, 32, 3, 3]));
    assert_eq!(kernels(|| x.conv2d(&w, None, 1, 1, 1, 1).pixel_shuffle(2)), 2);
    // a few sums are not worth a second kernel
    let (x, w) = (data(&[1, 2, 4, 4]), data(&[4, 2, 3, 3]));
    assert_eq!(kernels(|| x.conv2d(&w, None, 1, 1, 1, 1).pixel_shuffle(2)), 1);
}

/// Channels are last in memory, since windows are read of what is normalized. Pixels beside the statistics of one channel would
/// be far apart.
#[test]
fn statistics_of_channels_that_are_last() {
    let (x, w) = (data(&[1, 24, 56, 56]), data(&[144, 24, 1, 1]));
    let windows = data(&[144, 1, 5, 5]);
    let scaled = || {
        let y = x.conv2d(&w, None, 1, 1, 1, 0);
        ((&y - y.mean_keepdim([0, 2, 3])) / y.var_keepdim_with([0, 2, 3], 0).sqrt()).silu()
    };
    assert_eq!(kernels(|| scaled().conv2d(&windows, None, 144, 2, 1, 2)), 3);
    // in rows they are one kernel with the product
    assert_eq!(kernels(scaled), 1);
}

#[test]
fn softmax_layernorm_and_loss() {
    let x = data(&[64, 128]);
    assert_eq!(kernels(|| x.softmax(-1)), 1);
    assert_eq!(kernels(|| x.log_softmax(-1)), 1);
    assert_eq!(kernels(|| x.layernorm(-1)), 1);
    assert_eq!(kernels(|| x.rmsnorm(-1)), 1);
    let classes = Tensor::randint(0, 128, [64]);
    realize([&classes]).expect("realizes");
    let picked = data(&[64, 128]);
    assert_eq!(kernels(|| (x.log_softmax(-1) * &picked).sum(-1)), 1);
    // threads share the rows, one adds up what they give
    assert_eq!(kernels(|| x.cross_entropy(&classes)), 2);
}

#[test]
fn convolution_forward_and_backward() {
    let (x, w) = (data(&[4, 3, 16, 16]), data(&[8, 3, 3, 3]));
    x.set_requires_grad(true);
    w.set_requires_grad(true);
    let ((), n) = measure(|| {
        let loss = x.conv2d(&w, None, 1, 1, 1, 0).relu().mean(..);
        loss.backward().expect("has gradients");
        let (gx, gw) = (x.grad().expect("reached"), w.grad().expect("reached"));
        realize([&loss, &gx, &gw]).expect("realizes");
    });
    assert!(n.kernels <= 4, "{} kernels", n.kernels);
}

#[test]
fn batch_norm_forward() {
    let (x, w, b) = (data(&[16, 8, 6, 6]), data(&[8]), data(&[8]));
    let count = kernels(|| {
        let mean = x.mean([0, 2, 3]);
        let centered = &x - mean.reshape([1, 8, 1, 1]);
        let invstd = (centered.square().mean([0, 2, 3]) + 1e-5).rsqrt();
        x.batchnorm(Some(&w), Some(&b), &mean, &invstd)
    });
    assert!(count <= 3, "{count} kernels");
}

/// To divide each address by two costs more than to write the rows once, if they are read many times.
#[test]
fn repeated_pixels_are_stored_for_many_reads_only() {
    let (x, w, each) = (data(&[1, 16, 24, 24]), data(&[16, 16, 3, 3]), data(&[16, 1, 3, 3]));
    let large = || x.repeat_interleave(2, 2).repeat_interleave(2, 3);
    assert_eq!(kernels(|| large().conv2d(&w, None, 1, 1, 1, 1)), 2);
    assert_eq!(kernels(|| large().conv2d(&each, None, 16, 1, 1, 1)), 1);
    assert_eq!(kernels(|| large().max_pool2d([3, 3])), 1);
    assert_eq!(kernels(|| large().exp()), 1);
    // so few that another launch costs more
    let large = || x.get(s![.., .., ..4, ..4]).repeat_interleave(2, 2);
    assert_eq!(kernels(|| large().conv2d(&w, None, 1, 1, 1, 1)), 1);
}

#[test]
fn large_softmax_is_one_kernel() {
    let x = data(&[1024, 4096]);
    assert_eq!(kernels(|| x.softmax(-1)), 1);
}

#[test]
fn batch_norm_in_training() {
    let norm = nn::BatchNorm::new(16);
    let x = data(&[32, 16, 20, 20]);
    let (out, n) = measure(|| {
        nn::train(|| {
            let y = norm.forward(&x).relu();
            realize([&y, &norm.running_mean, &norm.running_var])
        })
    });
    out.expect("realizes");
    assert!(n.kernels <= 3, "{} kernels", n.kernels);
}

/// The gradients of weight, bias, mean and variance are sums that need no other: one pass over the input and the output's
/// gradient has them all, and one the gradient of the input. A third pass would read the output's gradient once more.
#[test]
fn batch_norm_backward() {
    let norm = nn::BatchNorm::new(16);
    let shape = [32, 16, 20, 20];
    let (x, seed) = (data(&shape).set_requires_grad(true), data(&shape));
    let of = |weights: &Option<Tensor>| weights.clone().expect("affine");
    let wanted = [&x, &of(&norm.weight), &of(&norm.bias)];
    let (out, n) = measure(|| {
        let loss = nn::train(|| norm.forward(&x).mul(&seed).sum(..));
        realize(&loss.gradient(wanted)?)
    });
    out.expect("realizes");
    let passes = n.bytes as f64 / (4 * x.numel()) as f64;
    assert!(passes < 6.5, "{passes} times as many bytes as the input has");
}

/// Positions are bounds of loops: a mask of them is no value that is worth memory, whatever it is made of.
#[test]
fn attention_is_one_kernel() {
    let of = |[heads, rows, width]: [usize; 3], causal| {
        let shape = [1, heads, rows, width];
        let [q, k, v] = [(); 3].map(|()| Tensor::zeros(shape).to("NULL"));
        realize([&q, &k, &v]).expect("realizes");
        kernels(|| q.scaled_dot_product_attention(&k, &v, None, causal))
    };
    for shape in [[12, 512, 64], [3, 200, 32], [8, 1024, 64]] {
        assert_eq!([of(shape, false), of(shape, true)], [1, 1], "{shape:?}");
    }
}

/// A layer reads the weights of its inputs once, not at each step.
#[test]
fn recurrent_inputs_are_multiplied_at_once() {
    let (length, inputs, hidden) = (16, 1024, 4);
    let (layer, x) = (nn::LSTM::new(inputs, hidden), data(&[length, 1, inputs]));
    realize(nn::Module::parameters(&layer).iter()).expect("realizes");
    let (y, counts) = measure(|| layer.forward(&x, None).0.realize().map(drop));
    y.expect("realizes");
    let weights = (4 * 4 * hidden * inputs) as u64;
    assert!(counts.bytes <= 4 * weights, "{} of {weights} bytes", counts.bytes);
}

/// Where comparing each with each takes no longer than a few kernels, a sort is a count of what is before each element.
#[test]
fn a_sort_of_a_short_row_is_a_count() {
    let x = data(&[1000]);
    assert!(kernels(|| x.argsort(0, false)) <= 5);
    assert!(kernels(|| x.topk(10, 0, true).0) <= 6);
    assert!(kernels(|| Tensor::randperm(1000)) <= 6);
}

#[test]
fn gradients_of_products() {
    let x = data(&[64, 128]);
    let of =
        |f: fn(&Tensor) -> Tensor| kernels(|| f(&x).sum(..).gradient([&x]).expect("one").remove(0));
    assert_eq!([of(|x| x.prod(1)), of(|x| x.prod(0)), of(|x| x.prod(..))], [1, 2, 1]);
}
