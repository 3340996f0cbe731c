//! Optimizers: values against plain Rust, and what a step costs.

use kiln::nn::{self, Module};
use kiln::optim::{Adam, AdamW, SGD};
use kiln::{Counts, DType, Tensor, measure, s};

const START: [f64; 4] = [1.5, -2.0, 0.25, 3.0];

/// The slope of `sum(w^4 / 4 + w)`.
fn slope(w: f64) -> f64 {
    w * w * w + 1.0
}

fn loss(w: &Tensor) -> Tensor {
    (w.pow(4) * 0.25 + w).sum(..)
}

/// Ten steps in f32 stay at the values of ten steps in f64.
fn follows(step: impl Fn(&Tensor), mut reference: impl FnMut(usize, &mut f64)) {
    let w = Tensor::from(START).cast(DType::F32).copy().set_requires_grad(true);
    let mut expected = START;
    for _ in 0..10 {
        w.zero_grad();
        loss(&w).backward().unwrap();
        step(&w);
        expected.iter_mut().enumerate().for_each(|(i, e)| reference(i, e));
        let got = w.to_vec::<f32>().unwrap();
        for (g, e) in got.iter().zip(expected) {
            assert!((*g as f64 - e).abs() < 2e-5 * (1.0 + e.abs()), "{got:?} {expected:?}");
        }
    }
}

/// Runs the steps of one optimizer, made on first use.
fn steps<R>(make: impl Fn(&Tensor) -> R, step: impl Fn(&R)) -> impl Fn(&Tensor) {
    let opt = std::cell::OnceCell::new();
    move |w| step(opt.get_or_init(|| make(w)))
}

#[test]
fn adamw_follows_the_formula() {
    let (lr, b1, b2, eps, decay) = (0.1, 0.8, 0.95, 1e-6, 0.05);
    let mut state = [(0.0f64, 0.0f64, 0); 4];
    follows(
        steps(
            |w| AdamW::new([w], lr).betas((b1, b2)).eps(eps).weight_decay(decay),
            |o| o.step().unwrap(),
        ),
        |i, w| {
            let (m, v, t) = &mut state[i];
            let g = slope(*w);
            *t += 1;
            *w -= lr * decay * *w;
            *m = b1 * *m + (1.0 - b1) * g;
            *v = b2 * *v + (1.0 - b2) * g * g;
            let (mean, square) = (*m / (1.0 - b1.powi(*t)), *v / (1.0 - b2.powi(*t)));
            *w -= lr * mean / (square.sqrt() + eps);
        },
    );
}

#[test]
fn adam_decays_through_the_gradient() {
    let mut state = [(0.0f64, 0.0f64, 0); 4];
    follows(steps(|w| Adam::new([w], 0.1).weight_decay(0.5), |o| o.step().unwrap()), |i, w| {
        let (m, v, t) = &mut state[i];
        let g = slope(*w) + 0.5 * *w;
        *t += 1;
        *m = 0.9 * *m + 0.1 * g;
        *v = 0.999 * *v + 0.001 * g * g;
        let (mean, square) = (*m / (1.0 - 0.9f64.powi(*t)), *v / (1.0 - 0.999f64.powi(*t)));
        *w -= 0.1 * mean / (square.sqrt() + 1e-8);
    });
}

#[test]
fn sgd_follows_the_formula() {
    for nesterov in [false, true] {
        let mut velocity = [0.0f64; 4];
        follows(
            steps(
                |w| SGD::new([w], 0.02).momentum(0.7).nesterov(nesterov).weight_decay(0.1),
                |o| o.step().unwrap(),
            ),
            |i, w| {
                let g = slope(*w) + 0.1 * *w;
                velocity[i] = 0.7 * velocity[i] + g;
                *w -= 0.02 * if nesterov { g + 0.7 * velocity[i] } else { velocity[i] };
            },
        );
    }
    follows(steps(|w| SGD::new([w], 0.01), |o| o.step().unwrap()), |_, w| *w -= 0.01 * slope(*w));
}

#[test]
fn a_line_is_fitted() {
    let x = Tensor::linspace(-1.0, 1.0, 32).reshape([32, 1]);
    let y = &x * 3.0 - 0.5;
    let layer = nn::Linear::new(1, 1);
    let opt = SGD::new(layer.parameters(), 0.5);
    for _ in 0..60 {
        opt.zero_grad();
        (layer.forward(&x) - &y).square().mean(..).backward().unwrap();
        opt.step().unwrap();
    }
    assert!((layer.weight.item::<f32>().unwrap() - 3.0).abs() < 1e-3);
    assert!((layer.bias.unwrap().item::<f32>().unwrap() + 0.5).abs() < 1e-3);
}

#[test]
fn adamw_is_one_kernel_a_parameter() {
    let parameters: Vec<Tensor> =
        [[300usize, 7], [64, 64]].map(|s| Tensor::ones(s).set_requires_grad(true)).into();
    let opt = AdamW::new(&parameters, 1e-3);
    for step in 0..3 {
        opt.zero_grad();
        let loss = parameters.iter().map(|p| (p * 3.0).sum(..)).reduce(|a, b| a + b).unwrap();
        loss.item::<f32>().unwrap();
        loss.backward().unwrap();
        let ((), n) = measure(|| opt.step().unwrap());
        assert_eq!(n.kernels, 2, "step {step}");
    }
}

/// Kernels of each AdamW step after the second, and what all of them compiled.
fn adamw_kernels(shapes: &[&[usize]]) -> (u64, u64) {
    let parameters: Vec<Tensor> =
        shapes.iter().map(|&s| Tensor::ones(s).set_requires_grad(true)).collect();
    let opt = AdamW::new(&parameters, 1e-3);
    let (mut kernels, mut compiled) = (0, 0);
    for _ in 0..3 {
        opt.zero_grad();
        parameters.iter().for_each(|p| (p * 3.0).sum(..).backward().unwrap());
        let ((), n) = measure(|| opt.step().unwrap());
        (kernels, compiled) = (n.kernels, compiled + n.compiled + n.loaded);
    }
    assert!(parameters.iter().all(|p| p.max(..).item::<f32>().unwrap() < 0.998));
    (kernels, compiled)
}

#[test]
fn steps_of_small_parameters_are_few_kernels() {
    let (kernels, compiled) = adamw_kernels(&[&[96][..]; 100]);
    assert!(kernels <= 20 && compiled <= 10, "{kernels} kernels, {compiled} compiled");
    // of a transformer: six norms and biases of one size in each layer, two other biases, four weights
    let layer: [&[usize]; 12] = [
        &[64],
        &[64],
        &[192, 64],
        &[192],
        &[64, 64],
        &[64],
        &[64],
        &[64],
        &[256, 64],
        &[256],
        &[64, 256],
        &[64],
    ];
    let (kernels, _) = adamw_kernels(&layer.repeat(4));
    assert!((16..=24).contains(&kernels), "{kernels} kernels");
}

/// A step of a small network; counts those of the step and of reading the loss.
fn train_step(net: &[nn::Linear; 2], opt: &AdamW, x: &Tensor, labels: &Tensor) -> (Counts, Counts) {
    let ((loss, read), whole) = measure(|| {
        opt.zero_grad();
        let loss = net[1].forward(&net[0].forward(x).relu()).cross_entropy(labels);
        loss.backward().unwrap();
        opt.step().unwrap();
        let (value, read) = measure(|| loss.item::<f32>().unwrap());
        (value, read)
    });
    assert!(loss.is_finite());
    (whole, read)
}

#[test]
fn training_compiles_once_and_keeps_its_memory() {
    kiln::manual_seed(2);
    // learning rates and betas at which bias corrections meet other constants of the step
    let net = [nn::Linear::new(20, 33), nn::Linear::new(33, 10)];
    let opt = AdamW::new(net.parameters(), 1e-3).betas((0.5, 0.999));
    let labels = Tensor::from((0..16).map(|i| i % 10).collect::<Vec<i32>>());
    let mut peaks = Vec::new();
    for step in 0..40 {
        opt.set_lr(1e-3 / (1.0 + f64::from(step % 7)));
        let x = Tensor::from_vec((0..320).map(|i| ((i * step) % 17) as f32).collect(), [16, 20]);
        let (whole, read) = train_step(&net, &opt, &x, &labels);
        assert_eq!(read.kernels, 0, "step {step}");
        if step >= 1 {
            assert_eq!((whole.scheduled, whole.compiled, whole.loaded), (0, 0, 0), "step {step}");
            peaks.push(whole.peak_memory);
        }
    }
    assert!(peaks.iter().all(|p| *p <= peaks[0]), "{peaks:?}");
}

#[test]
fn what_a_model_gives_is_freed_without_a_gradient_taken() {
    let net = nn::Linear::new(64, 128);
    let steps = |n: usize| {
        let step = |i: usize| {
            let x = Tensor::full([256, 64], i as f64).contiguous();
            x.realize().unwrap();
            net.forward(&x).realize().unwrap();
        };
        measure(|| (0..n).for_each(step)).1.peak_memory
    };
    let (few, many) = (steps(2), steps(20));
    assert!(many <= few, "{few} {many}");
}

#[test]
fn what_shares_the_memory_of_a_parameter_is_freed() {
    let steps = |n: usize, f: fn(&Tensor) -> Tensor| {
        let step = |i: usize| {
            let w = Tensor::full([1 << 16], i as f64).contiguous().set_requires_grad(true);
            w.realize().unwrap();
            let same = f(&w);
            same.realize().unwrap();
            (&same * 3.0).sum(..).backward().unwrap();
            assert_eq!(w.grad().unwrap().get(s![5]).item::<f32>().unwrap(), 3.0);
        };
        measure(|| (0..n).for_each(step)).1.peak_memory
    };
    for f in [|w: &Tensor| w.copy(), |w: &Tensor| w * 1.0, |w: &Tensor| w.cast(DType::F32)] {
        let (few, many) = (steps(2, f), steps(20, f));
        assert!(many <= few, "{few} {many}");
    }
}

#[test]
fn a_step_overwrites_in_place() {
    let bytes = (1 << 18) * 4;
    let w = Tensor::ones([1usize << 18]).set_requires_grad(true);
    let opt = SGD::new([&w], 0.1);
    for step in 0..4 {
        opt.zero_grad();
        (&w * 2.0).sum(..).backward().unwrap();
        let ((), n) = measure(|| opt.step().unwrap());
        // the gradient is new memory, the weight is not
        assert!(step == 0 || n.peak_memory < 3 * bytes / 2, "{}", n.peak_memory);
    }
}

/// The gradient of weights `[o, i, 3, 3]` is stored before AdamW's step, whose operations on single elements would leave no
/// room for a tile. That of a matrix is not: the step is in its kernel.
#[test]
fn the_gradient_of_a_convolution_is_a_kernel_before_the_step() {
    let kernels = |weight: &[usize], x: &[usize], f: fn(&Tensor, &Tensor) -> Tensor| {
        let w = Tensor::randn(weight).set_requires_grad(true);
        let x = Tensor::randn(x).realize().unwrap().clone();
        let opt = AdamW::new([&w], 0.1);
        let mut count = 0;
        for _ in 0..3 {
            opt.zero_grad();
            f(&x, &w).sum(..).backward().unwrap();
            count = measure(|| opt.step().unwrap()).1.kernels;
        }
        count
    };
    let convolution =
        kernels(&[32, 32, 3, 3], &[2, 32, 10, 10], |x, w| x.conv2d(w, None, 1, 1, 1, 1).square());
    let product = kernels(&[64, 64], &[64, 64], |x, w| x.matmul(w).square());
    assert_eq!((convolution, product), (3, 2));
}

#[test]
fn equal_parameters_stay_apart() {
    let a = Tensor::zeros([3]).set_requires_grad(true);
    let b = Tensor::zeros([3]).set_requires_grad(true);
    let opt = SGD::new([&a, &b], 1.0);
    for _ in 0..2 {
        opt.zero_grad();
        (&a + &b * 2.0).sum(..).backward().unwrap();
        opt.step().unwrap();
    }
    assert_eq!(a.to_vec::<f32>().unwrap(), [-2.0; 3]);
    assert_eq!(b.to_vec::<f32>().unwrap(), [-4.0; 3]);
}

#[test]
fn a_step_without_backward_is_an_error() {
    let w = Tensor::ones([1]).set_requires_grad(true);
    let opt = AdamW::new([&w], 0.1);
    let error = opt.step().unwrap_err().to_string();
    assert!(error.contains("backward comes first") && error.contains("optim.rs"), "{error}");
    assert_eq!(w.item::<f32>().unwrap(), 1.0);
}

#[test]
fn half_parameters_are_updated_in_f32() {
    let w = Tensor::full_with([1], 1.0, DType::BF16).set_requires_grad(true);
    let opt = SGD::new([&w], 0.25).momentum(0.5);
    for _ in 0..2 {
        opt.zero_grad();
        w.cast(DType::F32).sum(..).backward().unwrap();
        opt.step().unwrap();
    }
    assert_eq!((w.dtype(), w.cast(DType::F32).item::<f32>().unwrap()), (DType::BF16, 0.375));
}

/// Numbers that are no rule are refused by the step, which changes nothing.
#[test]
fn numbers_that_are_no_rule_are_refused() {
    use kiln::optim::{Adam, AdamW};
    let w = Tensor::from([3.0f32]).set_requires_grad(true);
    w.square().sum(..).backward().expect("has a gradient");
    for wrong in [-0.1, f64::NAN, f64::INFINITY] {
        let late = SGD::new([&w], 0.1);
        late.set_lr(wrong);
        let (first, second) = ((wrong, 0.9), (0.9, wrong));
        let refused = [
            (SGD::new([&w], wrong).step(), "learning rate"),
            (late.step(), "learning rate"),
            (SGD::new([&w], 0.1).momentum(wrong).step(), "momentum"),
            (SGD::new([&w], 0.1).weight_decay(wrong).step(), "weight decay"),
            (Adam::new([&w], wrong).step(), "learning rate"),
            (Adam::new([&w], 0.1).betas(first).step(), "first beta"),
            (AdamW::new([&w], 0.1).betas(second).step(), "second beta"),
            (Adam::new([&w], 0.1).eps(wrong).step(), "eps"),
            (AdamW::new([&w], 0.1).weight_decay(wrong).step(), "weight decay"),
        ];
        for (result, named) in refused {
            let error = result.expect_err(named).to_string();
            assert!(error.contains(named) && error.contains("optim.rs"), "{error}");
        }
    }
    assert!(Adam::new([&w], 0.1).betas((0.9, 1.0)).step().is_err());
    assert!(SGD::new([&w], 0.1).nesterov(true).step().is_err());
    assert_eq!(w.to_vec::<f32>().expect("is there"), [3.0]);
    SGD::new([&w], 0.0).step().expect("a rate of 0 changes nothing");
    assert_eq!(w.to_vec::<f32>().expect("is there"), [3.0]);
}
