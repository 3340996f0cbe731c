//! Layers: names, values, training.

use kiln::nn::{self, Module};
use kiln::optim::SGD;
use kiln::{DType, Tensor, measure};
use std::marker::PhantomData;

#[derive(Module)]
struct Block {
    conv: nn::Conv2d,
    norm: nn::BatchNorm2d,
}

#[derive(Module)]
struct Net<A> {
    conv1: nn::Conv2d,
    blocks: Vec<Block>,
    head: Option<nn::Linear>,
    pair: (nn::Linear, Tensor),
    two: [nn::LayerNorm; 2],
    r#type: Tensor,
    no_bias: nn::Linear,
    activation: A,
    width: usize,
    names: Vec<String>,
    tag: PhantomData<A>,
    #[module(skip)]
    hidden: Tensor,
}

#[derive(Module)]
struct Wrapper(nn::Linear, f32);

fn net() -> Net<fn(&Tensor) -> Tensor> {
    let block = || Block { conv: nn::Conv2d::new(2, 2, 1), norm: nn::BatchNorm::new(2) };
    Net {
        conv1: nn::Conv2d::new(1, 2, 3),
        blocks: vec![block(), block()],
        head: Some(nn::Linear::new(2, 1)),
        pair: (nn::Linear::new(1, 1), Tensor::ones([3])),
        two: [nn::LayerNorm::new([2]), nn::LayerNorm::new([3])],
        r#type: Tensor::zeros([1]),
        no_bias: nn::Linear::new(1, 1).without_bias(),
        activation: Tensor::relu,
        width: 3,
        names: vec!["a".into()],
        tag: PhantomData,
        hidden: Tensor::zeros([1]),
    }
}

#[test]
fn names_are_pytorchs() {
    let net = net();
    let names: Vec<String> = net.state_dict().into_keys().collect();
    let expected = "blocks.0.conv.bias blocks.0.conv.weight blocks.0.norm.bias \
        blocks.0.norm.num_batches_tracked blocks.0.norm.running_mean blocks.0.norm.running_var \
        blocks.0.norm.weight blocks.1.conv.bias blocks.1.conv.weight blocks.1.norm.bias \
        blocks.1.norm.num_batches_tracked blocks.1.norm.running_mean blocks.1.norm.running_var \
        blocks.1.norm.weight conv1.bias conv1.weight head.bias head.weight no_bias.weight \
        pair.0.bias pair.0.weight pair.1 two.0.bias two.0.weight two.1.bias two.1.weight type";
    assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
    let wrapped: Vec<String> =
        Wrapper(nn::Linear::new(1, 1), 0.5).state_dict().into_keys().collect();
    assert_eq!(wrapped, ["0.bias", "0.weight"]);
    // buffers and plain tensors are not trained; a tensor that is in twice is trained once
    assert_eq!(net.parameters().len(), 19);
    assert_eq!((&net.head, &net.head.clone()).parameters().len(), 2);
    let _ = (net.width, net.names, net.tag, net.hidden, net.activation);
}

#[test]
fn initial_values() {
    kiln::manual_seed(1);
    let layer = nn::Linear::new(400, 300);
    let weight = layer.weight.to_vec::<f32>().unwrap();
    assert!(weight.iter().all(|w| w.abs() <= 0.05));
    let var = weight.iter().map(|w| (w * w) as f64).sum::<f64>() / weight.len() as f64;
    assert!((var - 0.05f64.powi(2) / 3.0).abs() < 2e-5, "{var}");
    assert!(layer.weight.requires_grad() && layer.bias.unwrap().requires_grad());
    let conv = nn::Conv2d::new(4, 8, (5, 3)).groups(2);
    assert_eq!(conv.weight.shape(), [8, 2, 5, 3]);
    let bound = 1.0 / 30f32.sqrt();
    assert!(conv.weight.to_vec::<f32>().unwrap().iter().all(|w| w.abs() <= bound));
    assert!(
        nn::Conv2d::new(1, 1, 3).stride(0).forward(&Tensor::ones([1, 1, 4, 4])).error().is_some()
    );
}

#[test]
fn state_is_checked_before_it_is_loaded() {
    let (a, b) = (nn::Linear::new(2, 3), nn::Linear::new(2, 3));
    let mut state = a.state_dict();
    state.insert("other".into(), Tensor::ones([1]));
    let error = b.load_state_dict(&state, true).unwrap_err().to_string();
    assert!(error.contains("unknown [\"other\"]") && error.contains("nn.rs"), "{error}");
    state.remove("bias");
    b.load_state_dict(&state, false).unwrap();
    assert_eq!(a.weight.to_vec::<f32>().unwrap(), b.weight.to_vec::<f32>().unwrap());
    state.insert("bias".into(), Tensor::ones([4]));
    state.insert("weight".into(), Tensor::ones([3, 2]));
    assert!(b.load_state_dict(&state, false).is_err());
    assert_eq!(a.weight.to_vec::<f32>().unwrap(), b.weight.to_vec::<f32>().unwrap());
    state.insert("bias".into(), Tensor::ones_with([3], DType::F64));
    b.load_state_dict(&state, false).unwrap();
    assert_eq!(b.bias.as_ref().unwrap().to_vec::<f32>().unwrap(), [1.0; 3]);
    // the module has its own values now, and still trains
    b.weight.assign(2.0);
    assert_eq!(state["weight"].to_vec::<f32>().unwrap(), [1.0; 6]);
    assert!(b.weight.requires_grad());
}

#[test]
fn batchnorm_follows_the_batches() {
    let norm = nn::BatchNorm::new(2);
    let x = Tensor::from([[[1.0f32, 3.0], [2.0, 2.0]], [[5.0, 7.0], [2.0, 6.0]]]);
    let y = nn::train(|| norm.forward(&x));
    let y: Vec<f32> = y.to_vec().unwrap();
    let expected =
        [-1.341_64, -0.447_21, -0.577_35, -0.577_35, 0.447_21, 1.341_64, -0.577_35, 1.732_05];
    assert!(y.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4), "{y:?}");
    // computing the output has computed the statistics
    let (stats, n) = measure(|| {
        (norm.running_mean.to_vec::<f32>().unwrap(), norm.running_var.to_vec::<f32>().unwrap())
    });
    assert_eq!(n.kernels, 0);
    let close = |a: &[f32], b: [f64; 2]| a.iter().zip(b).all(|(a, b)| (*a as f64 - b).abs() < 1e-6);
    assert!(close(&stats.0, [0.4, 0.3]), "{stats:?}");
    // unbiased variances 20/3 and 4
    assert!(close(&stats.1, [0.9 + 0.1 * 20.0 / 3.0, 0.9 + 0.4]), "{stats:?}");
    let state = norm.state_dict();
    assert_eq!(state["num_batches_tracked"].item::<i64>().unwrap(), 1);
    let y: Vec<f32> = norm.forward(&x).to_vec().unwrap();
    assert!((y[0] - 0.6 / (0.9f32 + 2.0 / 3.0 + 1e-5).sqrt()).abs() < 1e-6);
    assert_eq!(norm.state_dict()["num_batches_tracked"].item::<i64>().unwrap(), 1);
    assert!(nn::train(|| norm.forward(&Tensor::ones([1, 2]))).error().is_some());
}

#[test]
fn statistics_follow_part_of_the_output() {
    let norm = nn::BatchNorm::new(1).momentum(1.0);
    let y = nn::train(|| norm.forward(&Tensor::from([[1.0f32], [5.0]])));
    let loss = y.square().sum(..);
    loss.item::<f32>().unwrap();
    let (mean, n) = measure(|| norm.running_mean.item::<f32>().unwrap());
    assert_eq!((mean, n.kernels), (3.0, 0));
}

#[test]
fn batchnorm_passes_gradients() {
    let norm = nn::BatchNorm::new(1);
    let x = Tensor::from([[1.0f64], [2.0], [4.0]]).set_requires_grad(true);
    let weights = Tensor::from([[1.0f64], [-2.0], [0.5]]);
    let loss = |x: &Tensor| nn::train(|| (norm.forward(x) * &weights).sum(..));
    let grad = loss(&x).gradient([&x]).unwrap()[0].to_vec::<f64>().unwrap();
    for i in 0..3 {
        let at = |d: f64| {
            let mut v = [1.0, 2.0, 4.0];
            v[i] += d;
            loss(&Tensor::from(v).reshape([3, 1])).item::<f64>().unwrap()
        };
        let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!((grad[i] - slope).abs() < 1e-5, "{grad:?} {slope}");
    }
}

#[test]
fn dropout_keeps_the_mean() {
    kiln::manual_seed(3);
    let x = Tensor::ones([10_000]);
    let drop = nn::Dropout::new(0.25);
    let y: Vec<f32> = nn::train(|| drop.forward(&x)).to_vec().unwrap();
    let dropped = y.iter().filter(|&&y| y == 0.0).count();
    assert!((2300..2700).contains(&dropped), "{dropped}");
    assert!(y.iter().all(|&y| y == 0.0 || (y - 4.0 / 3.0).abs() < 1e-6));
    assert_eq!(drop.forward(&x).to_vec::<f32>().unwrap(), [1.0; 10_000]);
    assert!(nn::train(|| nn::Dropout::new(1.5).forward(&x)).error().is_some());
}

#[derive(Module)]
struct Mlp {
    layers: Vec<nn::Linear>,
}

impl Mlp {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.layers[1].forward(&self.layers[0].forward(x).tanh())
    }
}

#[test]
fn an_mlp_learns_xor() {
    kiln::manual_seed(5);
    let net = Mlp { layers: vec![nn::Linear::new(2, 16), nn::Linear::new(16, 2)] };
    let x = Tensor::from([[0.0f32, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]);
    let labels = Tensor::from([0, 1, 1, 0]);
    let opt = SGD::new(net.parameters(), 0.5).momentum(0.9);
    let mut last = f32::INFINITY;
    for _ in 0..100 {
        opt.zero_grad();
        let loss = net.forward(&x).cross_entropy(&labels);
        loss.backward().unwrap();
        opt.step().unwrap();
        last = loss.item().unwrap();
    }
    assert!(last < 0.02, "{last}");
    assert_eq!(net.forward(&x).argmax(1).cast(DType::I32).to_vec::<i32>().unwrap(), [0, 1, 1, 0]);
}

/// As a GAN's discriminator while its generator learns.
#[test]
fn a_frozen_part_is_thawed_by_its_parameters() {
    let mut net = Mlp { layers: vec![nn::Linear::new(2, 3), nn::Linear::new(3, 1)] };
    let opt = SGD::new(net.parameters(), 0.5);
    let x = Tensor::ones([1, 2]);
    let moves = |net: &Mlp| {
        let before = net.layers[1].weight.to_vec::<f32>().unwrap();
        opt.zero_grad();
        net.forward(&x).sum(..).backward().unwrap();
        opt.step().unwrap();
        before != net.layers[1].weight.to_vec::<f32>().unwrap()
    };
    let mark = |net: &Mlp, on| {
        net.layers[1].parameters().iter().for_each(|p| drop(p.set_requires_grad(on)));
    };
    assert!(moves(&net));
    mark(&net, false);
    assert!(!moves(&net));
    mark(&net, true);
    assert!(moves(&net));
    // elsewhere it is frozen still
    mark(&net, false);
    net.to(DType::F64).unwrap();
    assert!(!net.layers[1].weight.requires_grad());
    assert_eq!(net.parameters().len(), 4);
}

/// The standard error of the mean of 40 000 numbers of variance 1 is 0.005, that of their variance 0.007.
#[test]
fn recurrent_layers_drop_what_goes_between_them() {
    let x = Tensor::randn([4, 2, 3]);
    let deep = kiln::nn::GRU::deep(3, 5, 2).dropout(1.0);
    let (all, _) = deep.forward(&x, None);
    // in training the second layer sees zeros alone, and its own outputs stay
    let second = kiln::nn::GRU::new(5, 5);
    let weights = deep.state_dict().into_iter();
    let own =
        weights.filter_map(|(name, t)| Some((format!("{}_l0", name.strip_suffix("_l1")?), t)));
    second.load_state_dict(&own.collect(), true).expect("its weights");
    let (zeros, _) = second.forward(&Tensor::zeros([4, 2, 5]), None);
    let (dropped, _) = kiln::nn::train(|| deep.forward(&x, None));
    assert!(dropped.allclose(&zeros, 1e-6, 1e-6).expect("shapes agree"));
    assert!(!all.allclose(&zeros, 1e-2, 1e-2).expect("shapes agree"));
}

#[test]
fn labels_that_do_not_fit_are_told_where_classes_are() {
    let logits = Tensor::zeros([4, 7, 11]);
    let error = logits.cross_entropy(&Tensor::from([[0; 7]; 4])).error().expect("shapes differ");
    let text = error.to_string();
    assert!(text.contains("axis 1") && text.contains("[4, 11], not [4, 7]"), "{text}");
    let none = Tensor::zeros([4, 0]).cross_entropy(&Tensor::from([0; 4])).error();
    assert!(none.expect("no classes").to_string().contains("no classes"));
}

#[test]
fn alpha_dropout_keeps_mean_and_variance() {
    let x = kiln::Rng::new(4).randn([40_000]);
    let y = nn::train(|| nn::AlphaDropout::new(0.3).forward(&x));
    let [mean, var] = [y.mean(..), y.var(..)].map(|t| t.item::<f32>().expect("f32"));
    assert!(mean.abs() < 0.025 && (var - 1.0).abs() < 0.05, "{mean} {var}");
    // dropped elements are all equal, and no others are
    let dropped = 1.0 - y.flatten().unique().numel() as f32 / 40_000.0;
    assert!((dropped - 0.3).abs() < 0.015, "{dropped}");
    assert_eq!(nn::train(|| x.alpha_dropout(1.0)).abs().max(..).item::<f32>().expect("f32"), 0.0);
    assert!(x.alpha_dropout(1.5).error().is_some());
}

#[test]
fn random_slopes_are_between_their_bounds() {
    let x = Tensor::from(vec![-2.0f32; 4000]).set_requires_grad(true);
    let y = nn::train(|| nn::RReLU::new(0.25, 0.75).forward(&x));
    y.sum(..).backward().expect("a loss");
    let slopes = x.grad().expect("reached");
    assert_eq!(slopes.mul(-2.0).to_vec::<f32>().expect("f32"), y.to_vec::<f32>().expect("f32"));
    let [least, most, mean] = [slopes.min(..), slopes.max(..), slopes.mean(..)];
    let [least, most, mean] = [least, most, mean].map(|t| t.item::<f32>().expect("f32"));
    // uniform over 0.5: the standard error of the mean is 0.0023
    assert!(least >= 0.25 && most <= 0.75 && (mean - 0.5).abs() < 0.012, "{least} {most} {mean}");
    assert_eq!(x.rrelu(0.25, 0.75).get(kiln::s![0]).item::<f32>().expect("f32"), -1.0);
    assert!(x.rrelu(1.0, 0.5).error().is_some());
    let narrow = nn::train(|| x.cast(DType::F16).rrelu(0.25, 0.75));
    assert_eq!(narrow.dtype(), DType::F16);
}

/// `q` has orthogonal columns, `q r` is the matrix, and `r` has nothing below its diagonal; each within a few roundings
/// of sums of 7 terms.
#[test]
fn a_complete_basis_starts_with_the_reduced_one() {
    for shape in [[2usize, 7, 3], [1, 3, 3], [2, 3, 5], [1, 1, 1]] {
        let a = kiln::Rng::new(9).randn_with(shape, DType::F64);
        let (m, n) = (shape[1], shape[2]);
        let ((q, r), (less, _)) = (a.qr_complete(), a.qr());
        assert_eq!((q.shape(), r.shape()), (&[shape[0], m, m][..], &[shape[0], m, n][..]));
        let far = |t: Tensor| t.abs().max(..).item::<f64>().expect("f64");
        assert!(far(q.matmul(&r) - &a) < 1e-14 && far(r.tril(-1)) == 0.0);
        let identity = Tensor::eye_with(m, DType::F64);
        assert!(far(q.transpose(1, 2).matmul(&q) - identity) < 1e-14);
        assert!(far(q.narrow(2, 0, m.min(n)) - less) < 1e-14);
    }
    assert!(Tensor::ones([3]).qr_complete().0.error().is_some());
}
