//! Layers of random networks: what they are, and how one is drawn that fits.

use crate::fuzz::Rng;
use kiln::nn::{
    AvgPool2d, BatchNorm, Conv1d, Conv2d, ConvTranspose2d, GRU, GroupNorm, LSTM, LayerNorm, Linear,
    MaxPool2d, Module, MultiheadAttention, RMSNorm, Upsample,
};
use kiln::{Resize, Tensor};

/// A layer. Images are `[batch, channels, height, width]`, sequences `[batch, length, width]`, rows `[batch, width]`.
#[derive(Module)]
pub(super) enum Layer {
    Conv(Conv2d),
    Transposed(ConvTranspose2d),
    Batch(BatchNorm),
    Group(GroupNorm),
    Max(MaxPool2d),
    Average(AvgPool2d),
    Upsample(Upsample),
    Along(Conv1d),
    Linear(Linear),
    Norm(LayerNorm),
    Rms(RMSNorm),
    Attention(MultiheadAttention, bool),
    Lstm(LSTM),
    Gru(GRU),
    Act(usize),
    /// Pixels as a sequence.
    Pixels,
    /// The mean over pixels, or along a sequence.
    Mean,
    Softmax,
    /// What layers make of the input, and the input.
    Residual(Vec<Layer>),
    /// The outputs of two beside each other.
    Beside(Vec<Layer>),
}

const ACTIVATIONS: [fn(&Tensor) -> Tensor; 7] = [
    Tensor::relu,
    Tensor::silu,
    Tensor::gelu,
    Tensor::gelu_erf,
    Tensor::tanh,
    Tensor::sigmoid,
    Tensor::abs,
];

impl Layer {
    pub(super) fn forward(&self, x: &Tensor) -> Tensor {
        let along = |f: &dyn Fn(&Tensor) -> Tensor| f(&x.transpose(0, 1)).transpose(0, 1);
        match self {
            Layer::Conv(layer) => layer.forward(x),
            Layer::Transposed(layer) => layer.forward(x),
            Layer::Batch(layer) => layer.forward(x),
            Layer::Group(layer) => layer.forward(x),
            Layer::Max(layer) => layer.forward(x),
            Layer::Average(layer) => layer.forward(x),
            Layer::Upsample(layer) => layer.forward(x),
            Layer::Along(layer) => layer.forward(&x.transpose(1, 2)).transpose(1, 2),
            Layer::Linear(layer) => layer.forward(x),
            Layer::Norm(layer) => layer.forward(x),
            Layer::Rms(layer) => layer.forward(x),
            Layer::Attention(layer, is_causal) => layer.forward(x, x, x, None, *is_causal),
            Layer::Lstm(layer) => along(&|x| layer.forward(x, None).0),
            Layer::Gru(layer) => along(&|x| layer.forward(x, None).0),
            Layer::Act(which) => ACTIVATIONS[*which](x),
            Layer::Pixels => x.flatten_from(2).transpose(1, 2),
            Layer::Mean if x.ndim() == 4 => x.mean([2, 3]),
            Layer::Mean => x.mean(1),
            Layer::Softmax => x.softmax(-1),
            Layer::Residual(layers) => layers.iter().fold(x.clone(), |y, l| l.forward(&y)) + x,
            Layer::Beside(layers) => Tensor::cat(layers.iter().map(|l| l.forward(x)), 1),
        }
    }

    /// One that takes a shape, with what it says of itself.
    pub(super) fn draw(rng: &mut Rng, shape: &[usize], depth: usize) -> (Layer, String) {
        if depth > 0 && rng.one_in(5) {
            return Layer::residual(rng, shape, depth - 1);
        }
        let layer = match shape.len() {
            4 => of_image(rng, shape),
            3 => of_sequence(rng, shape),
            _ => of_rows(rng, shape),
        };
        let name = layer.name();
        (layer, name)
    }

    /// Around layers that keep the shape.
    fn residual(rng: &mut Rng, shape: &[usize], depth: usize) -> (Layer, String) {
        let (mut inner, mut names) = (Vec::new(), Vec::new());
        while inner.len() < 1 + rng.below(3) {
            let (layer, name) = Layer::draw(rng, shape, depth);
            let x = Tensor::zeros(shape);
            if layer.forward(&x).shape() == shape {
                inner.push(layer);
                names.push(name);
            }
        }
        (Layer::Residual(inner), format!("Residual[{}]", names.join(", ")))
    }

    fn name(&self) -> String {
        let of = |layer: &dyn Module| {
            let shapes = layer.state_dict().into_iter();
            shapes.map(|(name, t)| format!("{name} {:?}", t.shape())).collect::<Vec<_>>().join(" ")
        };
        match self {
            Layer::Conv(conv) => format!("Conv {}", of(conv)),
            Layer::Transposed(conv) => format!("Transposed {}", of(conv)),
            Layer::Batch(_) => "Batch".into(),
            Layer::Group(_) => "Group".into(),
            Layer::Max(pool) => format!("{pool:?}"),
            Layer::Average(pool) => format!("{pool:?}"),
            Layer::Upsample(_) => "Upsample".into(),
            Layer::Along(conv) => format!("Along {}", of(conv)),
            Layer::Linear(layer) => format!("Linear {}", of(layer)),
            Layer::Norm(_) => "Norm".into(),
            Layer::Rms(_) => "Rms".into(),
            Layer::Attention(layer, causal) => format!("Attention causal {causal} {}", of(layer)),
            Layer::Lstm(layer) => format!("Lstm {}", of(layer)),
            Layer::Gru(layer) => format!("Gru {}", of(layer)),
            Layer::Act(which) => format!("Act {which}"),
            Layer::Pixels => "Pixels".into(),
            Layer::Mean => "Mean".into(),
            Layer::Softmax => "Softmax".into(),
            Layer::Residual(_) => "Residual".into(),
            Layer::Beside(layers) => {
                let names: Vec<String> = layers.iter().map(Layer::name).collect();
                format!("Beside[{}]", names.join(", "))
            }
        }
    }
}

/// A convolution, perhaps of each channel by itself or of groups.
fn convolution(rng: &mut Rng, channels: usize, side: usize) -> Conv2d {
    let kernel = if side > 2 { rng.pick(&[1, 3, 3, 5]) } else { 1 };
    let groups = if rng.one_in(3) { channels } else { 1 };
    let outputs = if groups > 1 { channels * (1 + rng.below(2)) } else { rng.pick(&[2, 4, 5, 8]) };
    let stride = 1 + usize::from(side > 4 && rng.one_in(3));
    let padding = if rng.one_in(4) && side > kernel { 0 } else { kernel / 2 };
    let conv = Conv2d::new(channels, outputs, kernel).stride(stride).padding(padding);
    let conv = conv.groups(groups);
    if rng.one_in(2) { conv.without_bias() } else { conv }
}

fn of_image(rng: &mut Rng, shape: &[usize]) -> Layer {
    let (channels, side) = (shape[1], shape[2].min(shape[3]));
    match rng.below(12) {
        0..=2 => Layer::Conv(convolution(rng, channels, side)),
        3 if shape[2] <= 5 => Layer::Transposed(
            ConvTranspose2d::new(channels, rng.pick(&[2, 3]), 2 + rng.below(2)).stride(2),
        ),
        4 | 5 if shape[0] * side > 2 => Layer::Batch(BatchNorm::new(channels)),
        6 if channels * side > 4 => {
            Layer::Group(GroupNorm::new(if channels % 2 == 0 { 2 } else { 1 }, channels))
        }
        7 if side > 3 => Layer::Max(MaxPool2d::new(2 + rng.below(2)).stride(1 + rng.below(2))),
        8 if side > 3 => Layer::Average(AvgPool2d::new(2 + rng.below(2)).stride(2)),
        9 if shape[2] <= 4 => Layer::Upsample(Upsample::new(Resize::by(2.0))),
        10 if rng.one_in(2) => Layer::Pixels,
        10 => Layer::Mean,
        11 => {
            let one = |rng: &mut Rng| {
                let half = rng.below(2);
                let conv = Conv2d::new(channels, 1 + rng.below(4), 1 + 2 * half);
                Layer::Conv(conv.padding(half))
            };
            Layer::Beside(vec![one(rng), one(rng)])
        }
        _ => Layer::Act(rng.below(ACTIVATIONS.len())),
    }
}

fn of_sequence(rng: &mut Rng, shape: &[usize]) -> Layer {
    let (length, width) = (shape[1], shape[2]);
    match rng.below(10) {
        0 | 1 if length <= 40 => {
            let heads = if width % 2 == 0 { 2 } else { 1 };
            Layer::Attention(MultiheadAttention::new(width, heads), rng.one_in(2))
        }
        2 if width > 2 => Layer::Norm(LayerNorm::new([width])),
        3 => Layer::Rms(RMSNorm::new(width)),
        4 if length <= 6 => Layer::Lstm(LSTM::deep(width, rng.pick(&[3, 4]), 1 + rng.below(2))),
        5 if length <= 6 => Layer::Gru(GRU::new(width, rng.pick(&[3, 4]))),
        6 => Layer::Along(Conv1d::new(width, rng.pick(&[3, 4]), 3).padding(1)),
        7 => Layer::Linear(Linear::new(width, rng.pick(&[3, 4, 8]))),
        8 => Layer::Mean,
        _ => Layer::Act(rng.below(ACTIVATIONS.len())),
    }
}

fn of_rows(rng: &mut Rng, shape: &[usize]) -> Layer {
    let width = shape[1];
    match rng.below(6) {
        0 | 1 => Layer::Linear(Linear::new(width, rng.pick(&[3, 4, 8, 17]))),
        2 if width > 2 => Layer::Norm(LayerNorm::new([width])),
        3 if shape[0] > 2 => Layer::Batch(BatchNorm::new(width)),
        4 => Layer::Softmax,
        _ => Layer::Act(rng.below(ACTIVATIONS.len())),
    }
}
