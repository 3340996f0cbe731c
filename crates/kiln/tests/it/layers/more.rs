//! More of the layers that `values.rs` checks: activations, rearrangements, losses, and weights made of others.

use super::values::{Function, with_state};
use kiln::nn::{self, Bag, Layer, StateDict};
use kiln::{Reduce, Tensor};

/// A layer of one input.
pub(super) fn made(name: &str) -> Option<Box<dyn Layer>> {
    Some(match name {
        "gelu erf" => Box::new(nn::GELUErf),
        "relu6" => Box::new(nn::ReLU6),
        "log sigmoid" => Box::new(nn::LogSigmoid),
        "selu" => Box::new(nn::SELU),
        "mish" => Box::new(nn::Mish),
        "softsign" => Box::new(nn::Softsign),
        "tanhshrink" => Box::new(nn::Tanhshrink),
        "celu" => Box::new(nn::CELU(0.75)),
        "softshrink" => Box::new(nn::Softshrink(0.25)),
        "hardshrink" => Box::new(nn::Hardshrink(0.25)),
        "log softmax" => Box::new(nn::LogSoftmax(1)),
        "softmin" => Box::new(nn::Softmin(0)),
        "hardtanh" => Box::new(nn::Hardtanh(-0.5, 0.75)),
        "threshold" => Box::new(nn::Threshold(0.125, -2.0)),
        "glu" => Box::new(nn::GLU(1)),
        "pixel shuffle" => Box::new(nn::PixelShuffle(2)),
        "pixel unshuffle" => Box::new(nn::PixelUnshuffle(2)),
        "channel shuffle" => Box::new(nn::ChannelShuffle(3)),
        "unfold" => Box::new(nn::Unfold::new((2, 3)).padding(1).stride(2)),
        "fold" => Box::new(nn::Fold::new((4, 5), (2, 3)).padding(1).stride(2)),
        "unflatten" => Box::new(nn::Unflatten::new(1, [2, 3])),
        "softmax 2d" => Box::new(nn::Softmax2d),
        "local response norm" => Box::new(nn::LocalResponseNorm::new(3).with(0.25, 0.75, 1.5)),
        "reflection pad" => Box::new(nn::ReflectionPad2d::new([(0, 1), (1, 2)])),
        "replication pad" => Box::new(nn::ReplicationPad1d::new(2)),
        "circular pad" => Box::new(nn::CircularPad3d::new(1)),
        "zero pad" => Box::new(nn::ZeroPad2d::new([(0, 2), (-1, 1)])),
        "weight norm" => Box::new(nn::WeightNorm::new(nn::Conv1d::new(2, 3, 2))),
        "spectral norm" => Box::new(nn::SpectralNorm::new(nn::Linear::new(4, 3))),
        "spectral norm transposed" => {
            Box::new(nn::SpectralNorm::new(nn::ConvTranspose1d::new(2, 3, 2)))
        }
        "bag sum" => Box::new(nn::EmbeddingBag::new(7, 3).mode(Bag::Sum)),
        "bag mean" => Box::new(nn::EmbeddingBag::new(7, 3)),
        "bag max" => Box::new(nn::EmbeddingBag::new(7, 3).mode(Bag::Max)),
        _ => return None,
    })
}

/// Whether it has several inputs.
pub(super) fn takes_more(name: &str) -> bool {
    ["loss", "similarity", "distance", "bag from"].iter().any(|part| name.contains(part))
}

/// A function of several inputs, without tensors.
fn of(f: impl Fn(&[Tensor]) -> Tensor + 'static) -> (Vec<(String, Tensor)>, Function) {
    (Vec::new(), Box::new(move |x| vec![f(x)]))
}

/// A layer with the tensors of a case, and its values at the inputs.
pub(super) fn called(name: &str, state: &StateDict) -> (Vec<(String, Tensor)>, Function) {
    let bag = |mode| {
        let layer = nn::EmbeddingBag::new(7, 3).mode(mode);
        with_state(layer, state, |layer, x| vec![layer.forward_from(&x[0], &x[1])])
    };
    match name {
        "bag from sum" => bag(Bag::Sum),
        "bag from mean" => bag(Bag::Mean),
        "bag from max" => bag(Bag::Max),
        "cosine similarity" => of(|x| nn::CosineSimilarity(1).forward(&x[0], &x[1])),
        "pairwise distance" => of(|x| nn::PairwiseDistance(3.0).forward(&x[0], &x[1])),
        "cross entropy loss" => of(|x| {
            let loss = nn::CrossEntropyLoss::new().label_smoothing(0.125).reduce(Reduce::Sum);
            loss.forward(&x[0], &x[1])
        }),
        "nll loss" => of(|x| nn::NLLLoss::new().ignore_index(0).forward(&x[0], &x[1])),
        "mse loss" => of(|x| nn::MSELoss::new().forward(&x[0], &x[1])),
        "l1 loss" => of(|x| nn::L1Loss::new().reduce(Reduce::None).forward(&x[0], &x[1])),
        "huber loss" => of(|x| nn::HuberLoss::new(0.5).forward(&x[0], &x[1])),
        "smooth l1 loss" => of(|x| nn::SmoothL1Loss::new(0.5).forward(&x[0], &x[1])),
        "soft margin loss" => {
            of(|x| nn::SoftMarginLoss::new().reduce(Reduce::Sum).forward(&x[0], &x[1]))
        }
        "bce logits loss" => of(|x| nn::BCEWithLogitsLoss::new().forward(&x[0], &x[1])),
        "triplet loss" => {
            of(|x| nn::TripletMarginLoss::new(0.75, 2.0).forward(&x[0], &x[1], &x[2]))
        }
        other => panic!("{other} is not made here"),
    }
}

/// In training the directions come closer to those of the largest singular value, one step for each value.
#[test]
fn spectral_norm_finds_the_largest_singular_value() {
    kiln::manual_seed(3);
    let linear = nn::Linear::new(5, 4);
    let largest: f32 = linear.weight.svdvals().max(..).item().expect("computed");
    let layer = nn::SpectralNorm::new(linear.clone().without_bias());
    let x = Tensor::ones([1, 5]);
    for i in 0..100 {
        let step = || nn::train(|| layer.forward(&x)).realize().map(|_| ());
        let (result, counts) = kiln::measure(step);
        result.expect("computed");
        assert!(counts.kernels < 10, "step {i} goes back to the first one: {counts:?}");
    }
    let want = linear.without_bias().forward(&x).div(largest).to_vec::<f32>().expect("computed");
    let got = layer.forward(&x).to_vec::<f32>().expect("computed");
    assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-4), "{got:?} {want:?}");
}
