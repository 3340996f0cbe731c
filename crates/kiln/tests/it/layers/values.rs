//! Every layer in f64, its gradients too. `testdata/golden/layers.py` writes what is expected.

use super::more;
use kiln::nn::{self, Layer, Module, StateDict};
use kiln::{DType, PadMode, Tensor};
use serde_json::Value;

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().expect("numbers").iter().map(|x| x.as_f64().expect("a number")).collect()
}

fn shape(value: &Value) -> Vec<usize> {
    let length = |n: &Value| n.as_u64().expect("a length") as usize;
    value.as_array().expect("a shape").iter().map(length).collect()
}

/// `[shape, numbers]` as a tensor.
fn tensor(value: &Value) -> Tensor {
    Tensor::from_vec(floats(&value[1]), shape(&value[0]))
}

/// A layer of one input.
fn made(name: &str) -> Option<Box<dyn Layer>> {
    Some(match name {
        "linear" => Box::new(nn::Linear::new(3, 4)),
        "conv1d" => Box::new(nn::Conv1d::new(4, 6, 3).stride(2).padding(1).dilation(2).groups(2)),
        "conv2d" => Box::new(nn::Conv2d::new(2, 3, (3, 2)).stride((2, 1)).padding(1)),
        "conv transpose 1d" => {
            Box::new(nn::ConvTranspose1d::new(3, 2, 4).stride(3).padding(1).output_padding(2))
        }
        "conv transpose 2d" => {
            let layer = nn::ConvTranspose2d::new(4, 6, (3, 2)).stride((2, 3)).padding((1, 0));
            Box::new(layer.output_padding((1, 0)).dilation((1, 2)).groups(2))
        }
        "conv3d" => {
            let layer = nn::Conv3d::new(4, 2, (2, 3, 1)).stride((1, 2, 1)).groups(2);
            Box::new(layer.padding([(1, 1), (1, 1), (0, 0)]))
        }
        "conv2d circular" => {
            Box::new(nn::Conv2d::new(2, 3, 3).padding(1).padding_mode(PadMode::Circular))
        }
        "conv transpose 3d" => Box::new(nn::ConvTranspose3d::new(2, 3, 2).stride(2)),
        "max pool 3d" => Box::new(nn::MaxPool3d::new(2).stride(1).ceil_mode(true)),
        "avg pool 1d" => Box::new(nn::AvgPool1d::new(3).padding(1).count_include_pad(false)),
        "lp pool" => Box::new(nn::LPPool2d::new(2.0, 2)),
        "adaptive avg pool" => Box::new(nn::AdaptiveAvgPool2d::new((3, 2))),
        "adaptive max pool" => Box::new(nn::AdaptiveMaxPool1d::new(3)),
        "group norm" => Box::new(nn::GroupNorm::new(2, 6)),
        "group norm of rows" => Box::new(nn::GroupNorm::new(3, 6).without_affine()),
        "instance norm" => Box::new(nn::InstanceNorm::new(3)),
        "instance norm affine" => Box::new(nn::InstanceNorm::new(3).with_affine()),
        "layer norm" => Box::new(nn::LayerNorm::new([3, 4])),
        "layer norm plain" => Box::new(nn::LayerNorm::new([4]).without_affine()),
        "layer norm 2d" => Box::new(nn::LayerNorm2d::new(5)),
        "embedding" => Box::new(nn::Embedding::new(7, 3)),
        "prelu" => Box::new(nn::PReLU::new(3)),
        "upsample" => Box::new(nn::Upsample::new(3)),
        "max pool" => Box::new(nn::MaxPool2d::new(3).stride(2).padding(1)),
        "avg pool" => Box::new(nn::AvgPool2d::new(2).stride(1)),
        "flatten" => Box::new(nn::Flatten),
        "relu" => Box::new(nn::ReLU),
        "gelu" => Box::new(nn::GELU),
        "silu" => Box::new(nn::SiLU),
        "sigmoid" => Box::new(nn::Sigmoid),
        "tanh" => Box::new(nn::Tanh),
        "elu" => Box::new(nn::ELU(0.7)),
        "leaky relu" => Box::new(nn::LeakyReLU(0.2)),
        "softplus" => Box::new(nn::Softplus(2.0)),
        "softmax" => Box::new(nn::Softmax(1)),
        "sequential" => {
            let first = nn::Sequential::new().add(nn::Linear::new(3, 5)).add(Tensor::relu);
            Box::new(first.add(nn::Linear::new(5, 2)))
        }
        other => return more::made(other),
    })
}

fn encoder() -> nn::TransformerEncoderLayer {
    nn::TransformerEncoderLayer::new(8, 2, 12)
}

pub(super) type Function = Box<dyn Fn(&[Tensor]) -> Vec<Tensor>>;

/// A layer with the tensors of a case, and its values at the inputs.
pub(super) fn with_state<M: Module + 'static>(
    layer: M,
    state: &StateDict,
    call: fn(&M, &[Tensor]) -> Vec<Tensor>,
) -> (Vec<(String, Tensor)>, Function) {
    layer.load_state_dict(state, true).expect("the names of PyTorch");
    (layer.named_parameters(), Box::new(move |x| call(&layer, x)))
}

fn called(name: &str, state: &StateDict) -> (Vec<(String, Tensor)>, Function) {
    match name {
        "bilinear" => with_state(nn::Bilinear::new(3, 4, 2), state, |layer, x| {
            vec![layer.forward(&x[0], &x[1])]
        }),
        "rnn cell" => {
            with_state(nn::RNNCell::new(3, 4), state, |layer, x| vec![layer.forward(&x[0], &x[1])])
        }
        "gru cell" => {
            with_state(nn::GRUCell::new(3, 4), state, |layer, x| vec![layer.forward(&x[0], &x[1])])
        }
        "lstm cell" => with_state(nn::LSTMCell::new(3, 4), state, |layer, x| {
            let (h, c) = layer.forward(&x[0], &x[1], &x[2]);
            vec![h, c]
        }),
        "rnn" => with_state(nn::RNN::deep(3, 4, 2), state, |layer, x| {
            let (y, h) = layer.forward(&x[0], Some(&x[1]));
            vec![y, h]
        }),
        "gru" => with_state(nn::GRU::deep(3, 4, 2), state, |layer, x| {
            let (y, h) = layer.forward(&x[0], Some(&x[1]));
            vec![y, h]
        }),
        "lstm" => with_state(nn::LSTM::deep(3, 4, 2), state, |layer, x| {
            let (y, (h, c)) = layer.forward(&x[0], Some((&x[1], &x[2])));
            vec![y, h, c]
        }),
        "rnn both ways" => with_state(nn::RNN::bidirectional(3, 4, 2), state, |layer, x| {
            let (y, h) = layer.forward(&x[0], Some(&x[1]));
            vec![y, h]
        }),
        "gru both ways" => with_state(nn::GRU::bidirectional(3, 4, 1), state, |layer, x| {
            let (y, h) = layer.forward(&x[0], Some(&x[1]));
            vec![y, h]
        }),
        "lstm both ways" => with_state(nn::LSTM::bidirectional(3, 4, 2), state, |layer, x| {
            let (y, (h, c)) = layer.forward(&x[0], Some((&x[1], &x[2])));
            vec![y, h, c]
        }),
        "embedding padding" => {
            with_state(nn::Embedding::new(7, 3).padding(1), state, |layer, x| {
                vec![layer.forward(&x[0])]
            })
        }
        "encoder stack" => {
            let layers = nn::TransformerEncoder::new([encoder(), encoder()]);
            with_state(layers.norm(nn::LayerNorm::new([8])), state, |layers, x| {
                vec![layers.forward(&x[0], None, false)]
            })
        }
        "decoder stack" => {
            let layer = || nn::TransformerDecoderLayer::new(8, 2, 12);
            let layers = nn::TransformerDecoder::new([layer(), layer()]);
            with_state(layers, state, |layers, x| vec![layers.forward(&x[0], &x[1], None, true)])
        }
        "attention" => with_state(nn::MultiheadAttention::new(8, 2), state, |layer, x| {
            vec![layer.forward(&x[0], &x[1], &x[2], None, false)]
        }),
        "causal attention" => with_state(nn::MultiheadAttention::new(8, 4), state, |layer, x| {
            vec![layer.forward(&x[0], &x[0], &x[0], None, true)]
        }),
        "encoder" => {
            with_state(encoder(), state, |layer, x| vec![layer.forward(&x[0], None, false)])
        }
        "encoder norm first" => with_state(encoder().norm_first(true), state, |layer, x| {
            vec![layer.forward(&x[0], None, false)]
        }),
        "decoder" => with_state(nn::TransformerDecoderLayer::new(8, 2, 12), state, |layer, x| {
            vec![layer.forward(&x[0], &x[1], None, true)]
        }),
        other if more::takes_more(other) => more::called(other, state),
        other => {
            let layer = made(other).unwrap_or_else(|| panic!("{other} is not made here"));
            with_state(layer, state, |layer, x| vec![layer.forward(&x[0])])
        }
    }
}

fn input(value: &Value) -> Tensor {
    let x = Tensor::from_vec(floats(&value[2]), shape(&value[1]));
    if value[0] == "int64" { x.cast(DType::I64) } else { x.set_requires_grad(true) }
}

/// Both sides are f64, and a few hundred operations long.
fn check(what: &str, got: &Tensor, want: &Value) {
    assert_eq!(got.shape(), shape(&want[0]), "{what}: {:?}", got.error());
    let (got, want) = (got.to_vec::<f64>().expect(what), floats(&want[1]));
    let near = |(g, w): (&f64, &f64)| (g - w).abs() <= 1e-11 * w.abs().max(1.0);
    assert!(got.iter().zip(&want).all(near), "{what}: {got:?} {want:?}");
}

fn run(case: &Value) {
    let name = case["name"].as_str().expect("a name");
    let own = case["state"].as_object().expect("by name");
    let state: StateDict = own.iter().map(|(name, value)| (name.clone(), tensor(value))).collect();
    let (parameters, call) = nn::Build::new(DType::F64).run(|| called(name, &state));
    let inputs: Vec<Tensor> =
        case["inputs"].as_array().expect("inputs").iter().map(input).collect();
    let outputs = call(&inputs);
    let wanted = case["outputs"].as_array().expect("outputs");
    assert_eq!(outputs.len(), wanted.len(), "{name}");
    outputs.iter().zip(wanted).for_each(|(got, want)| check(name, got, want));
    let loss = outputs.iter().map(|y| y.square().sum(..) * 0.5).reduce(|a, b| a + b);
    loss.expect("an output").backward().expect(name);
    for (parameter, tensor) in &parameters {
        let what = format!("{name}, gradient of {parameter}");
        check(&what, &tensor.grad().expect(&what), &case["grads"][parameter]);
    }
    let slopes = case["slopes"].as_array().expect("slopes");
    for (x, want) in inputs.iter().filter(|x| x.dtype() == DType::F64).zip(slopes) {
        check(&format!("{name}, gradient of an input"), &x.grad().expect(name), want);
    }
}

#[test]
fn layers_are_those_of_pytorch() {
    let text = include_str!("../../../../../testdata/golden/layers.json");
    let cases: Vec<Value> = serde_json::from_str(text).expect("JSON");
    assert_eq!(cases.len(), 101);
    cases.iter().for_each(run);
}
