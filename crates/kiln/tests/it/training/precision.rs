//! Mixed precision: which dtypes come out of a scope, and what a scaler does.

use kiln::nn::{LayerNorm, Linear, Module};
use kiln::optim::{GradScaler, SGD, clip_grad_norm};
use kiln::{ClassLoss, ConvOptions, DType, Reduce, Tensor, autocast, autocast_dtype, jit};

const NARROW: [DType; 2] = [DType::F16, DType::BF16];

fn all(results: &[Tensor], dtype: DType) {
    for (i, t) in results.iter().enumerate() {
        assert_eq!(t.dtype(), dtype, "result {i}: {:?}", t.error());
    }
}

#[test]
fn products_are_narrow() {
    let (a, b) = (Tensor::rand([2, 2, 3]), Tensor::rand([3]));
    let (x, w) = (Tensor::rand([1, 2, 4, 4]), Tensor::rand([2, 2, 3, 3]));
    for dtype in NARROW {
        autocast(dtype, || {
            let layer = Linear::new(3, 4).forward(&a);
            let wide = a.matmul(&a.transpose(1, 2).cast(DType::F64));
            let products = [
                a.matmul(&b),
                a.scaled_dot_product_attention(&a, &a, None, true),
                a.dot(&b),
                layer,
                a.linear(&a.get(kiln::s![0]).t(), None),
                x.conv2d(&w, Some(&Tensor::ones([2])), 1, 1, 1, 1),
                x.conv_transpose2d(&w, None, &ConvOptions::new()),
                Tensor::einsum("bij,j->bi", [&a, &b]),
            ];
            all(&products, dtype);
            all(&[wide], DType::F64);
            all(&[autocast(DType::F32, || a.matmul(&b))], DType::F32);
            all(&[Tensor::eye(3).inv(), a.matmul_with(&b, DType::F32)], DType::F32);
            assert_eq!(Tensor::from([1, 2]).dot(&Tensor::from([3, 4])).dtype(), DType::I32);
        });
        assert_eq!(autocast_dtype(), None);
        all(&[a.matmul(&b)], DType::F32);
    }
}

#[test]
fn what_would_lose_is_not() {
    for dtype in NARROW {
        let x = Tensor::rand_with([2, 3], dtype);
        let results = || {
            let norm = LayerNorm::new(3).forward(&x);
            let labels = Tensor::from([0, 1]);
            let options = ClassLoss::default();
            vec![
                x.sum(1),
                x.prod(..),
                x.cumsum(0),
                x.softmax(1),
                x.log_softmax(1),
                x.logsumexp(1),
                x.exp(),
                x.log(),
                x.pow(2.0),
                x.rsqrt(),
                x.norm(2.0, ..),
                norm,
                x.cross_entropy(&labels),
                x.cross_entropy_with(&labels, options),
                x.mse_loss(&x, Reduce::Mean),
                x.binary_cross_entropy(&x, Reduce::Mean),
            ]
        };
        all(&autocast(dtype, results), DType::F32);
        // nothing overflows on the way either
        let large = Tensor::full_with([4], 60000.0, DType::F16);
        let sum = autocast(dtype, || large.sum(..)).item::<f32>().expect("f32");
        assert!(sum > 239_000.0, "{sum}");
        all(&[autocast(dtype, || x.relu()), x.sum(1), x.exp(), x.softmax(1)], dtype);
    }
}

#[test]
fn gradients_are_those_of_the_weights() {
    let x = Tensor::rand([8, 4]);
    let layer = Linear::new(4, 2);
    let grads = |dtype: DType| {
        layer.parameters().iter().for_each(Tensor::zero_grad);
        autocast(dtype, || layer.forward(&x).square().sum(..)).backward().expect("a loss");
        let grad = layer.weight.grad().expect("reached");
        assert_eq!(grad.dtype(), DType::F32);
        grad.to_vec::<f32>().expect("f32")
    };
    let full = grads(DType::F32);
    let largest = full.iter().fold(0.0f32, |m, g| m.max(g.abs()));
    // operands, results and gradients round once each: four roundings in a row, of sums of 8 terms
    for (dtype, rounding) in [(DType::F16, f32::exp2(-11.0)), (DType::BF16, f32::exp2(-8.0))] {
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 8.0 * 4.0 * rounding * largest;
        let narrow = grads(dtype);
        assert!(narrow.iter().zip(&full).all(near), "{narrow:?} {full:?}");
        assert_ne!(narrow, full);
    }
}

#[test]
fn another_dtype_is_an_error() {
    let a = Tensor::ones([2, 2]);
    let error = autocast(DType::I32, || a.matmul(&a)).to_vec::<f32>().expect_err("an integer");
    assert!(error.to_string().contains("F16, BF16 or F32"), "{error}");
    assert!(autocast(DType::F64, || a.conv2d(&a, None, 1, 1, 1, 0)).error().is_some());
}

fn product(x: &Tensor) -> Tensor {
    x.matmul(x)
}

#[test]
fn a_recording_is_of_one_precision() {
    let run = jit(product);
    let x = Tensor::ones([2, 2]);
    for dtype in [DType::F32, DType::F16, DType::F32, DType::F16] {
        let y = autocast(dtype, || run(&x));
        assert_eq!(y.dtype(), dtype);
    }
}

#[test]
fn gradients_are_seen_before_their_step() {
    let w = Tensor::from([3.0f32]).set_requires_grad(true);
    let (opt, scaler) = (SGD::new([&w], 1.0), GradScaler::new().init_scale(8.0));
    scaler.scale(&w.square().sum(..)).backward().expect("a loss");
    assert!(scaler.unscale(&opt).expect("finite"));
    assert!(scaler.unscale(&opt).expect_err("twice").to_string().contains("already"));
    clip_grad_norm([&w], 2.0).expect("one gradient");
    assert!(scaler.step(&opt).expect("a step"));
    let moved = w.item::<f32>().expect("f32");
    assert!((moved - 1.0).abs() < 1e-5, "{moved}");
    w.zero_grad();
    (&w * f32::NAN).sum(..).backward().expect("a loss");
    assert!(!scaler.unscale(&opt).expect("a gradient"));
    assert!(!scaler.step(&opt).expect("no step"));
    assert_eq!((w.item::<f32>().expect("f32"), scaler.get_scale()), (moved, 4.0));
}

#[test]
fn a_scaler_goes_on() {
    let w = Tensor::from([3.0f32]).set_requires_grad(true);
    let opt = SGD::new([&w], 1.0);
    let new = || GradScaler::new().init_scale(8.0).growth_interval(2);
    let step = |scaler: &GradScaler| {
        w.zero_grad();
        scaler.scale(&w.sum(..)).backward().expect("a loss");
        assert!(scaler.step(&opt).expect("a step"));
    };
    let (first, second) = (new(), new());
    step(&first);
    second.load_state_dict(&first.state_dict()).expect("fits");
    step(&second);
    assert_eq!(second.get_scale(), 16.0);
    let mut state = first.state_dict();
    state.insert("_growth_tracker".into(), Tensor::from(-1i64));
    assert!(second.load_state_dict(&state).is_err());
    state.remove("scale");
    assert!(second.load_state_dict(&state).is_err());
    assert_eq!(second.get_scale(), 16.0);
}
