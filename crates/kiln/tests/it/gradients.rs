//! Gradients against central differences and by hand.

use kiln::{Tensor, s};

type Function = fn(&Tensor) -> Tensor;

/// The gradient of `f` at `x` agrees with differences in f64.
fn check(name: &str, x: &[f64], f: impl Fn(&Tensor) -> Tensor) {
    let t = Tensor::from(x.to_vec()).set_requires_grad(true);
    let grad = f(&t).sum(..).gradient([&t]).expect(name)[0].to_vec::<f64>().expect(name);
    let at = |x: Vec<f64>| f(&Tensor::from(x)).sum(..).item::<f64>().expect(name);
    for i in 0..x.len() {
        let moved = |by: f64| {
            let mut x = x.to_vec();
            x[i] += by;
            x
        };
        let slope = (at(moved(1e-5)) - at(moved(-1e-5))) / 2e-5;
        assert!(
            (grad[i] - slope).abs() < 1e-6 * (1.0 + slope.abs()),
            "{name} {i}: {grad:?} {slope}"
        );
    }
}

#[test]
fn elementwise() {
    let x = [0.3, -0.7, 1.9, -2.4];
    let cases: [(&str, Function); 18] = [
        ("exp", |x| x.exp()),
        ("exp2", |x| x.exp2()),
        ("log", |x| (x.square() + 1).log()),
        ("sqrt", |x| (x.square() + 1).sqrt()),
        ("rsqrt", |x| (x.square() + 1).rsqrt()),
        ("sin", |x| x.sin()),
        ("tan", |x| x.tan()),
        ("tanh", |x| x.tanh()),
        ("sigmoid", |x| x.sigmoid()),
        ("silu", |x| x.silu()),
        ("gelu", |x| x.gelu()),
        ("elu", |x| x.elu(0.7)),
        ("leaky_relu", |x| x.leaky_relu(0.1)),
        ("softplus", |x| x.softplus()),
        ("abs", |x| x.abs()),
        ("pow", |x| x.pow(3) + x.abs().pow(1.7)),
        ("clamp", |x| x.clamp(-1, 1) * x),
        ("div", |x| 1.0 / (x + 5.0) / x),
    ];
    for (name, f) in cases {
        check(name, &x, f);
    }
}

#[test]
fn structured() {
    let x = [0.3, -0.7, 1.9, -2.4, 0.9, 1.1, -0.2, 0.6];
    let weights = |n: usize| (Tensor::arange(n).cast(kiln::DType::F64) * 1.7).sin();
    check("softmax", &x, |x| x.reshape([2, 4]).softmax(1) * weights(4));
    check("log_softmax", &x, |x| x.reshape([2, 4]).log_softmax(0) * weights(4));
    check("logsumexp", &x, |x| x.reshape([2, 4]).logsumexp(1));
    check("layernorm", &x, |x| x.reshape([2, 4]).layernorm(-1) * weights(4));
    check("var", &x, |x| x.std(0));
    check("max", &x, |x| x.reshape([2, 4]).max(1));
    check("cumsum", &x, |x| x.cumsum(0) * weights(8));
    check("matmul", &x, |x| x.reshape([2, 4]).matmul(&x.reshape([4, 2])));
    check("conv", &x, |x| {
        let image = x.reshape([1, 1, 2, 4]);
        image.conv2d(&weights(4).reshape([1, 1, 2, 2]), None, 1, [1, 2], 1, 1).square()
    });
    check("weight", &x, |x| {
        weights(16)
            .reshape([1, 1, 4, 4])
            .conv2d(&x.reshape([2, 1, 2, 2]), None, 1, 1, 2, 0)
            .square()
    });
    check("pool", &x, |x| {
        x.reshape([2, 4]).max_pool2d(2) + x.reshape([2, 4]).avg_pool2d(2).square()
    });
    check("cross_entropy", &x, |x| x.reshape([2, 4]).cross_entropy(&Tensor::from([3, 0])));
    check("cat", &x, |x| Tensor::cat([x, &x.square()], 0) * weights(16));
    check("write", &x, |x| {
        let t = x.copy();
        t.set(s![1..3], x.get(s![4..6]) * 2.0);
        t * weights(8)
    });
}

#[test]
fn gradients_belong_to_storages() {
    let w = Tensor::from([1.0f32, -2.0, 0.0]).set_requires_grad(true);
    let twin = Tensor::from([1.0f32, -2.0, 0.0]).set_requires_grad(true);
    let loss = (w.relu() + &twin * 2.0).sum(..);
    loss.backward().unwrap();
    let grad = |t: &Tensor| t.grad().unwrap().to_vec::<f32>().unwrap();
    assert_eq!((grad(&w), grad(&twin)), (vec![1.0, 0.0, 0.0], vec![2.0; 3]));
    loss.backward().unwrap();
    assert_eq!(grad(&w.flip(0)), [0.0, 0.0, 2.0]);
    w.zero_grad();
    assert!(w.grad().is_none());
}

#[test]
fn training_stops_at_the_last_step() {
    let w = Tensor::from([1.0f32]).set_requires_grad(true);
    for step in 0..3 {
        w.zero_grad();
        w.square().sum(..).backward().unwrap();
        let grad = w.grad().unwrap();
        assert_eq!(grad.to_vec::<f32>().unwrap(), [2.0 * 0.5f32.powi(step)]);
        w.assign(&w.detach() - grad * 0.25);
    }
    assert_eq!(w.to_vec::<f32>().unwrap(), [0.125]);
}

#[test]
fn unreachable_targets_are_errors() {
    let w = Tensor::from([1.0f32]).set_requires_grad(true);
    let other = Tensor::from([1.0f32]);
    assert!(other.sum(..).backward().is_err());
    assert!(w.expand([3]).backward().is_err());
    assert!(w.sum(..).gradient([&other]).is_err());
    assert!((other.sum(..) + w.detach().sum(..)).gradient([&w]).is_err());
    assert!(Tensor::from([1]).set_requires_grad(true).error().is_some());
    let text = w.eq(1).sum(..).backward().unwrap_err().to_string();
    assert!(
        text.starts_with("backward: wants one float") && text.contains("gradients.rs:"),
        "{text}"
    );
}

#[test]
fn reading_before_backward() {
    let w = Tensor::from([3.0f32]).set_requires_grad(true);
    let hidden = w.square();
    hidden.realize().unwrap();
    let loss = (&hidden * 2.0).sum(..);
    assert_eq!(loss.item::<f32>().unwrap(), 18.0);
    loss.backward().unwrap();
    assert_eq!(w.grad().unwrap().to_vec::<f32>().unwrap(), [12.0]);
}

/// What was read is differentiated too: what it was computed from must still be there, wherever else its memory is wanted.
#[test]
fn reading_spends_nothing_that_a_gradient_needs() {
    let w = Tensor::from([1f32, 2.0, 3.0]).set_requires_grad(true);
    let y = (&w * Tensor::from([0.5f32, 0.25, 2.0])).exp();
    let expected: Vec<f32> = y.to_vec().unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), expected);
    let loss = y.log().sum(..);
    for _ in 0..3 {
        let grad = loss.gradient([&w]).unwrap().remove(0);
        assert_eq!(grad.to_vec::<f32>().unwrap(), [0.5, 0.25, 2.0]);
    }
    let v = Tensor::ones([3]).set_requires_grad(true);
    let t = w.square();
    t.set(s![Tensor::from([2, 0, 1])], &v);
    let y = &t * &t;
    assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 1.0, 1.0]);
    let loss = y.sum(..);
    assert_eq!(loss.gradient([&v]).unwrap()[0].to_vec::<f32>().unwrap(), [2.0, 2.0, 2.0]);
    assert_eq!(loss.gradient([&w]).unwrap()[0].to_vec::<f32>().unwrap(), [0.0, 0.0, 0.0]);
}
