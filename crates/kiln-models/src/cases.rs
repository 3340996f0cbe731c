//! All models with their inputs, outputs and losses: small ones for tests, real ones for benchmarks.

use crate::formula::{self, floats, integers};
use crate::{
    Bert, BertConfig, Denoiser, Gpt2, Gpt2Config, GraphNet, Llama, LlamaConfig, LstmModel, Mixture,
    MixtureConfig, MobileNet, ResNet, UNet, ViT, ViTConfig, Whisper, WhisperConfig,
};
use kiln::nn::Module;
use kiln::{DType, Error, Reduce, Tensor};
use std::rc::Rc;

/// How large a model is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// For tests.
    Small,
    /// As people run it.
    Real,
}

/// The names of all models.
pub const NAMES: [&str; 12] = [
    "resnet50",
    "mobilenet",
    "unet",
    "vit",
    "gpt2",
    "llama",
    "moe",
    "bert",
    "whisper",
    "lstm",
    "denoiser",
    "graph",
];

/// A model with weights from the [`formula`].
pub struct Case {
    module: Rc<dyn Module>,
    forward: Forward,
    inputs: Inputs,
    dtype: DType,
    /// Whether the output is logits, `[.., classes]`, or numbers to be near.
    has_classes: bool,
}

/// What a model makes of its inputs.
type Forward = Box<dyn Fn(&[Tensor]) -> Tensor>;

/// Makes inputs of so many samples.
type Inputs = Box<dyn Fn(usize) -> Vec<Tensor>>;

impl Case {
    /// The model of a name; none of another name.
    ///
    /// ```
    /// use kiln_models::cases::{Case, Size};
    /// let case = Case::of("lstm", Size::Small, kiln::DType::F32)?.expect("a name");
    /// let inputs = case.inputs(2);
    /// assert_eq!(case.output(&inputs).shape()[0], 2);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A dtype that is no float's; weights that do not fit into memory.
    pub fn of(name: &str, size: Size, dtype: DType) -> Result<Option<Case>, Error> {
        let is_small = size == Size::Small;
        Ok(Some(match name {
            "resnet50" => resnet(is_small, dtype)?,
            "mobilenet" => mobilenet(is_small, dtype)?,
            "unet" => unet(is_small, dtype)?,
            "vit" => vit(is_small, dtype)?,
            "gpt2" => gpt2(is_small, dtype)?,
            "llama" => llama(is_small, dtype)?,
            "moe" => moe(is_small, dtype)?,
            "bert" => bert(is_small, dtype)?,
            "whisper" => whisper(is_small, dtype)?,
            "lstm" => lstm(is_small, dtype)?,
            "denoiser" => denoiser(is_small, dtype)?,
            "graph" => graph(is_small, dtype)?,
            _ => return Ok(None),
        }))
    }

    fn new<M: Module + 'static>(
        mut model: M,
        dtype: DType,
        forward: fn(&M, &[Tensor]) -> Tensor,
        inputs: impl Fn(usize) -> Vec<Tensor> + 'static,
    ) -> Result<Case, Error> {
        model.to(dtype)?;
        formula::fill(&model)?;
        let model = Rc::new(model);
        let module = model.clone();
        let forward = Box::new(move |x: &[Tensor]| forward(&model, x));
        Ok(Case { module, forward, inputs: Box::new(inputs), dtype, has_classes: true })
    }

    fn without_classes(self) -> Case {
        Case { has_classes: false, ..self }
    }

    /// Its tensors.
    ///
    /// ```
    /// use kiln_models::cases::{Case, Size};
    /// let case = Case::of("lstm", Size::Small, kiln::DType::F32)?.expect("a name");
    /// assert!(case.module().parameters().len() > 3);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn module(&self) -> &dyn Module {
        &*self.module
    }

    /// Inputs of so many samples; floats have the model's dtype.
    ///
    /// ```
    /// use kiln_models::cases::{Case, Size};
    /// let case = Case::of("denoiser", Size::Small, kiln::DType::F32)?.expect("a name");
    /// assert_eq!(case.inputs(2).len(), 2);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn inputs(&self, batch: usize) -> Vec<Tensor> {
        let cast = |x: &Tensor| if x.dtype().is_float() { x.cast(self.dtype) } else { x.clone() };
        (self.inputs)(batch).iter().map(cast).collect()
    }

    /// What the model makes of its inputs.
    ///
    /// ```
    /// use kiln_models::cases::{Case, Size};
    /// let case = Case::of("unet", Size::Small, kiln::DType::F32)?.expect("a name");
    /// assert_eq!(case.output(&case.inputs(2)).shape()[0], 2);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn output(&self, inputs: &[Tensor]) -> Tensor {
        (self.forward)(inputs)
    }

    /// How far its output is from what the formula wants: a cross entropy, or a mean square.
    ///
    /// ```
    /// use kiln_models::cases::{Case, Size};
    /// let case = Case::of("lstm", Size::Small, kiln::DType::F32)?.expect("a name");
    /// assert!(case.loss(&case.inputs(2)).item::<f32>()? > 0.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn loss(&self, inputs: &[Tensor]) -> Tensor {
        let output = self.output(inputs);
        if !self.has_classes {
            let target = floats("target", output.shape(), 1.0).cast(output.dtype());
            return output.mse_loss(&target, Reduce::Mean);
        }
        let classes = output.shape().last().copied().unwrap_or(1);
        let rows = output.numel() / classes;
        output.reshape([rows, classes]).cross_entropy(&integers("labels", &[rows], classes))
    }
}

/// Images of three channels.
fn images(side: usize) -> impl Fn(usize) -> Vec<Tensor> {
    move |batch| vec![floats("images", &[batch, 3, side, side], 1.75)]
}

/// Tokens of a vocabulary.
fn tokens(length: usize, vocabulary: usize) -> impl Fn(usize) -> Vec<Tensor> {
    move |batch| vec![integers("tokens", &[batch, length], vocabulary)]
}

fn resnet(is_small: bool, dtype: DType) -> Result<Case, Error> {
    let (model, side) = match is_small {
        true => (ResNet::new(4, [1, 2, 1, 1], 10), 64),
        false => (ResNet::fifty(1000), 224),
    };
    Case::new(model, dtype, |m, x| m.forward(&x[0]), images(side))
}

fn mobilenet(is_small: bool, dtype: DType) -> Result<Case, Error> {
    let groups = [(1, 8, 1, 1), (6, 12, 2, 2), (6, 16, 1, 1)];
    let (model, side) = match is_small {
        true => (MobileNet::new(8, &groups, 32, 10), 16),
        false => (MobileNet::v2(1000), 224),
    };
    Case::new(model, dtype, |m, x| m.forward(&x[0]), images(side))
}

fn unet(is_small: bool, dtype: DType) -> Result<Case, Error> {
    let (model, side) = match is_small {
        true => (UNet::new(3, 2, 4, 2), 16),
        false => (UNet::new(3, 2, 32, 4), 128),
    };
    Ok(Case::new(model, dtype, |m, x| m.forward(&x[0]), images(side))?.without_classes())
}

fn vit(is_small: bool, dtype: DType) -> Result<Case, Error> {
    let config = match is_small {
        true => ViTConfig { side: 16, patch: 4, width: 16, layers: 2, heads: 2, classes: 10 },
        false => ViTConfig::base(),
    };
    Case::new(ViT::new(&config), dtype, |m, x| m.forward(&x[0]), images(config.side))
}

fn gpt2(is_small: bool, dtype: DType) -> Result<Case, Error> {
    let small = Gpt2Config { vocabulary: 30, positions: 16, width: 16, layers: 2, heads: 2 };
    let (config, length) = if is_small { (small, 12) } else { (Gpt2Config::small(), 64) };
    let inputs = tokens(length, config.vocabulary);
    Case::new(Gpt2::new(&config), dtype, |m, x| m.forward(&x[0]), inputs)
}

fn llama(is_small: bool, dtype: DType) -> Result<Case, Error> {
    let (vocabulary, width, inner, layers, heads, groups, length) = match is_small {
        true => (30, 16, 24, 2, 4, 2, 12),
        false => (32000, 768, 2048, 12, 12, 4, 64),
    };
    let model = Llama::new(&LlamaConfig { vocabulary, width, inner, layers, heads, groups });
    Case::new(model, dtype, |m, x| m.forward(&x[0]), tokens(length, vocabulary))
}

fn moe(is_small: bool, dtype: DType) -> Result<Case, Error> {
    let (vocabulary, positions, width, layers, heads, experts, length) = match is_small {
        true => (30, 16, 16, 2, 2, 4, 12),
        false => (8000, 256, 512, 6, 8, 8, 64),
    };
    let config = MixtureConfig { vocabulary, positions, width, layers, heads, experts, chosen: 2 };
    let inputs = tokens(length, vocabulary);
    Case::new(Mixture::new(&config), dtype, |m, x| m.forward(&x[0]), inputs)
}

fn bert(is_small: bool, dtype: DType) -> Result<Case, Error> {
    let (vocabulary, width) = (30, 16);
    let small = BertConfig { vocabulary, positions: 16, width, inner: 32, layers: 2, heads: 2 };
    let (config, length) = if is_small { (small, 12) } else { (BertConfig::base(), 128) };
    let model = Bert::new(&config);
    let inputs = move |batch| {
        let tokens = integers("tokens", &[batch, length], config.vocabulary);
        // texts of half the length and more
        let lengths = integers("lengths", &[batch, 1], length / 2) + (length / 2) as i64;
        vec![tokens, Tensor::arange(0..length).cast(DType::I64).lt(lengths)]
    };
    Ok(Case::new(model, dtype, |m, x| m.forward(&x[0], Some(&x[1])), inputs)?.without_classes())
}

fn whisper(is_small: bool, dtype: DType) -> Result<Case, Error> {
    let small =
        WhisperConfig { bands: 4, vocabulary: 30, positions: 16, width: 16, layers: 1, heads: 2 };
    let (config, frames, length) = match is_small {
        true => (small, 20, 12),
        false => (WhisperConfig::tiny(), 3000, 32),
    };
    let (bands, vocabulary) = (config.bands, config.vocabulary);
    let inputs = move |batch| {
        let sound = floats("sound", &[batch, bands, frames], 1.0);
        vec![sound, integers("tokens", &[batch, length], vocabulary)]
    };
    Case::new(Whisper::new(&config), dtype, |m, x| m.forward(&x[0], &x[1]), inputs)
}

fn lstm(is_small: bool, dtype: DType) -> Result<Case, Error> {
    let (vocabulary, width, layers, length) =
        if is_small { (30, 16, 2, 6) } else { (10000, 650, 2, 35) };
    let model = LstmModel::new(vocabulary, width, layers);
    Case::new(model, dtype, |m, x| m.forward(&x[0]), tokens(length, vocabulary))
}

fn denoiser(is_small: bool, dtype: DType) -> Result<Case, Error> {
    let (width, groups, side) = if is_small { (8, 4, 8) } else { (64, 8, 32) };
    let inputs = move |batch| {
        let times = integers("times", &[batch], 1000).cast(DType::F32);
        vec![floats("images", &[batch, 3, side, side], 1.75), times]
    };
    let model = Denoiser::new(3, width, groups);
    Ok(Case::new(model, dtype, |m, x| m.forward(&x[0], &x[1]), inputs)?.without_classes())
}

fn graph(is_small: bool, dtype: DType) -> Result<Case, Error> {
    let (inputs, width, nodes, edges) =
        if is_small { (4, 8, 10, 24) } else { (32, 128, 1000, 8000) };
    let given = move |batch: usize| {
        // graphs are one after the other, and edges stay inside of one
        let first = (Tensor::arange(0..batch).cast(DType::I64) * nodes as i64).unsqueeze(1);
        let ends = |name| (integers(name, &[batch, edges], nodes) + &first).flatten();
        let graphs = Tensor::arange(0..batch).cast(DType::I64).repeat_interleave(nodes, 0);
        let values = floats("nodes", &[batch * nodes, inputs], 1.0);
        vec![values, ends("from"), ends("to"), graphs, Tensor::zeros([batch])]
    };
    let forward =
        |m: &GraphNet, x: &[Tensor]| m.forward(&x[0], [&x[1], &x[2]], &x[3], x[4].numel());
    Case::new(GraphNet::new(inputs, width, 3, 10), dtype, forward, given)
}
