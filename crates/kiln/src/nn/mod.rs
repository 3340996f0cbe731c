//! Layers: structs of tensors with a `forward`, and what all of them can do because they name their tensors.

mod linear;
mod conv;
mod norm;
mod group_norm;
mod dropout;
mod activation;
mod pooling;
mod shaping;
mod embedding;
mod embedding_bag;
mod losses;
mod rearranging;
mod bordering;
mod reparametrized;
mod recurrent;
mod attention;
mod transformer;
mod forward;
mod sequential;
/// What new layers are made of.
mod build;
/// Modules elsewhere, or of another dtype.
mod moved;
/// Whether layers train.
mod mode;
/// Fields that hold no tensors.
mod plain;
/// What modules are apart from their tensors.
mod key;
/// Weights in files.
pub mod state;

pub use activation::{
    CELU, ELU, GELU, GELUErf, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU,
    LogSigmoid, LogSoftmax, Mish, QuickGELU, ReLU, ReLU6, SELU, SiLU, Sigmoid, Softmax, Softmin,
    Softplus, Softshrink, Softsign, Tanh, Tanhshrink, Threshold,
};
pub use attention::{MultiheadAttention, TransformerDecoderLayer, TransformerEncoderLayer};
pub use bordering::{
    CircularPad1d, CircularPad2d, CircularPad3d, ReflectionPad1d, ReflectionPad2d, ReflectionPad3d,
    ReplicationPad1d, ReplicationPad2d, ReplicationPad3d, ZeroPad1d, ZeroPad2d, ZeroPad3d,
};
pub use build::Build;
pub use conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use dropout::{AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, RReLU};
pub use embedding::{Bilinear, Embedding};
pub use embedding_bag::{Bag, EmbeddingBag};
pub use forward::{Forward, Layer};
pub use group_norm::{
    GroupNorm, InstanceNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LayerNorm2d,
};
pub use key::Key;
#[doc(hidden)]
pub use key::{Field, Hashed, Hidden, Shown};
pub use kiln_derive::Module;
pub use linear::Linear;
pub use losses::{
    BCELoss, BCEWithLogitsLoss, CTCLoss, CosineEmbeddingLoss, CrossEntropyLoss, GaussianNLLLoss,
    HingeEmbeddingLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, MarginRankingLoss, NLLLoss,
    PoissonNLLLoss, SmoothL1Loss, SoftMarginLoss, TripletMarginLoss,
};
pub use mode::{Mode, eval, is_training, mode, train};
pub use norm::{BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d, LayerNorm, RMSNorm};
pub use pooling::{
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d,
    AdaptiveMaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d, LPPool1d, LPPool2d, LPPool3d, MaxPool1d,
    MaxPool2d, MaxPool3d, MaxUnpool1d, MaxUnpool2d, MaxUnpool3d,
};
pub use rearranging::{
    ChannelShuffle, CosineSimilarity, Fold, LocalResponseNorm, PairwiseDistance, PixelShuffle,
    PixelUnshuffle, Softmax2d, Unflatten, Unfold,
};
pub use recurrent::{GRU, GRUCell, LSTM, LSTMCell, RNN, RNNCell};
pub use reparametrized::{SpectralNorm, WeightNorm, Weighted};
pub use sequential::{IntoLayer, Sequential};
pub use shaping::{Flatten, Identity, PReLU, Upsample};
pub use transformer::{TransformerDecoder, TransformerEncoder};

use crate::args::DeviceArg;
use crate::error::{Error, Fault, at_caller, refuse};
use crate::{DType, Options, Tensor};
use std::collections::{BTreeMap, HashSet};

/// Tensors by name.
pub type StateDict = BTreeMap<String, Tensor>;

/// Something that holds tensors under names: parameters and buffers. `#[derive(Module)]` names them after the fields,
/// as PyTorch does: `conv1.weight`, `layers.0.bias`. Fields marked `#[module(skip)]` are left out; numbers, strings and
/// functions hold no tensors. `#[module(rename = "name")]` names a field otherwise, and `#[module(flatten)]` leaves a
/// field's name out. Of an enum, the fields of the variant that it is are named, without the variant's name.
///
/// ```
/// use kiln::{Tensor, nn, nn::Module};
/// #[derive(Module)]
/// struct Net {
///     layers: Vec<nn::Linear>,
///     scale: Tensor,
///     slope: f64,
/// }
/// let net = Net { layers: vec![nn::Linear::new(2, 3)], scale: Tensor::ones([1]), slope: 0.1 };
/// let names: Vec<String> = net.state_dict().into_keys().collect();
/// assert_eq!(names, ["layers.0.bias", "layers.0.weight", "scale"]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which tensors it holds",
    note = "derive it with `#[derive(kiln::nn::Module)]`, or mark the field `#[module(skip)]`"
)]
pub trait Module {
    /// Calls `f` with the name and the tensor of each parameter and buffer, in order of declaration. Names start with
    /// `prefix`.
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor));

    /// Calls `f` with the name and the place of each, so that another tensor can be put there. A module that is written by
    /// hand needs it for [`to`](Module::to) only.
    ///
    /// # Errors
    /// Tensors that cannot be changed: they are shared, or the module does not say how.
    fn visit_mut(
        &mut self,
        prefix: &str,
        _f: &mut dyn FnMut(&str, &mut Tensor),
    ) -> Result<(), Error> {
        unchangeable(self, prefix)
    }

    /// Adds what the module is apart from its tensors: modules with equal keys compute the same of equal tensors. A module
    /// that is written by hand and says nothing here is never [replayed](crate::jit).
    ///
    /// ```
    /// use kiln::nn::{Key, Module, Dropout};
    /// let mut key = Key::default();
    /// Dropout::new(0.5).key(&mut key);
    /// ```
    fn key(&self, key: &mut Key) {
        key.unknown(std::any::type_name::<Self>());
    }

    /// Puts the tensors on another device, makes the floats another dtype, or both. Tensors that are there twice are
    /// still one. An optimizer is made afterwards: it updates the tensors that it was given.
    ///
    /// ```
    /// use kiln::{DType, nn::{Linear, Module}};
    /// let mut layer = Linear::new(2, 3);
    /// layer.to(DType::F64)?;
    /// assert_eq!(layer.weight.dtype(), DType::F64);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`visit_mut`](Module::visit_mut); a device that does not exist or has no room.
    #[track_caller]
    fn to(&mut self, options: impl Into<Options>) -> Result<(), Error>
    where
        Self: Sized,
    {
        at_caller("to", moved::to(self, &options.into()))
    }

    /// Puts the tensors on several devices, as [`Tensor::shard`] does: split along `axis`, or whole on each if that is
    /// `None`. A tensor without that axis is whole on each. An optimizer is made afterwards; its state lies as the
    /// parameters do.
    ///
    /// ```
    /// use kiln::{Tensor, nn::{Linear, Module}};
    /// let devices = ["CPU", "CPU:1"];
    /// let mut layer = Linear::new(2, 3);
    /// layer.shard(&devices, None)?;
    /// let y = layer.forward(&Tensor::ones([4, 2]).shard(&devices, 0));
    /// assert_eq!(y.device().name(), "CPU+CPU:1");
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`to`](Module::to); no device, or one twice.
    #[track_caller]
    fn shard<D: DeviceArg>(
        &mut self,
        devices: impl IntoIterator<Item = D>,
        axis: impl Into<Option<isize>>,
    ) -> Result<(), Error>
    where
        Self: Sized,
    {
        let devices: Vec<D> = devices.into_iter().collect();
        at_caller("shard", moved::shard(self, &devices, axis.into()))
    }

    /// The parameters and buffers by name. They are the module's own: a write to one is seen by the module.
    fn state_dict(&self) -> StateDict {
        let mut state = StateDict::new();
        self.visit("", &mut |name, tensor| {
            state.insert(name.to_owned(), tensor.clone());
        });
        state
    }

    /// Gives every parameter and buffer the value of its name in `state`. `strict` refuses names that only one side
    /// has. On an error nothing has changed.
    ///
    /// ```
    /// use kiln::nn::{Linear, Module};
    /// let (a, b) = (Linear::new(2, 1), Linear::new(2, 1));
    /// b.load_state_dict(&a.state_dict(), true)?;
    /// assert_eq!(a.weight.to_vec::<f32>()?, b.weight.to_vec::<f32>()?);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A value of another shape or kind of dtype; with `strict`, a name that only one side has.
    #[track_caller]
    fn load_state_dict(&self, state: &StateDict, strict: bool) -> Result<(), Error> {
        let own = self.state_dict();
        let pairs = at_caller("load_state_dict", matched(&own, state, strict))?;
        pairs
            .into_iter()
            .try_for_each(|(to, from)| to.try_assign(from.detach().cast(to.dtype())).map(drop))
    }

    /// The tensors for training: those that want gradients, each once, in order of declaration. A parameter stays one of
    /// them when `set_requires_grad(false)` freezes it, so it can be thawed. Optimizers pass over tensors without a gradient.
    ///
    /// ```
    /// use kiln::nn::{Linear, Module};
    /// let layer = Linear::new(2, 3);
    /// layer.parameters().iter().for_each(|p| drop(p.set_requires_grad(false)));
    /// assert_eq!(layer.parameters().len(), 2);
    /// ```
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, tensor)| tensor).collect()
    }

    /// The parameters with their names, each once, in order of declaration.
    ///
    /// ```
    /// use kiln::nn::{Linear, Module};
    /// let names: Vec<String> = Linear::new(1, 1).named_parameters().into_iter().map(|p| p.0).collect();
    /// assert_eq!(names, ["weight", "bias"]);
    /// ```
    fn named_parameters(&self) -> Vec<(String, Tensor)> {
        let (mut seen, mut parameters) = (HashSet::new(), Vec::new());
        self.visit("", &mut |name, tensor| {
            if tensor.storage().is_parameter() && seen.insert(tensor.storage().id) {
                parameters.push((name.to_owned(), tensor.clone()));
            }
        });
        parameters
    }

    /// Forgets the gradients of all parameters.
    fn zero_grad(&self) {
        self.visit("", &mut |_, tensor| tensor.zero_grad());
    }
}

/// Pairs of own tensors and their new values, all fit to be written.
fn matched<'a>(
    own: &'a StateDict,
    state: &'a StateDict,
    strict: bool,
) -> Result<Vec<(&'a Tensor, &'a Tensor)>, Fault> {
    if strict {
        let missing: Vec<_> = own.keys().filter(|k| !state.contains_key(*k)).collect();
        let unknown: Vec<_> = state.keys().filter(|k| !own.contains_key(*k)).collect();
        if !missing.is_empty() || !unknown.is_empty() {
            return refuse!(
                "the names of the tensors differ: missing {missing:?}, unknown {unknown:?}"
            );
        }
    }
    let mut pairs = Vec::new();
    for (name, to) in own {
        let Some(from) = state.get(name) else { continue };
        if let Some(error) = from.error() {
            return Err(error.into());
        }
        if to.shape() != from.shape() || to.device() != from.device() {
            return refuse!(
                "{name} is {:?} on {}, its new value {:?} on {}",
                to.shape(),
                to.device(),
                from.shape(),
                from.device()
            );
        }
        if kind(to.dtype()) != kind(from.dtype()) {
            return refuse!("{name} is {}, its new value {}", to.dtype(), from.dtype());
        }
        pairs.push((to, from));
    }
    Ok(pairs)
}

/// Values of one kind are converted, others are refused.
fn kind(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 0,
        _ if dtype.is_float() => 2,
        _ => 1,
    }
}

/// `prefix.name`, or `name` where there is no prefix.
#[doc(hidden)]
pub fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() {
        return name.to_owned();
    }
    // each call of a function of `jit` makes the names of all parameters: `format!` takes five times as long
    let mut joined = String::with_capacity(prefix.len() + 1 + name.len());
    joined.push_str(prefix);
    joined.push('.');
    joined.push_str(name);
    joined
}

/// Why the tensors of a module cannot be changed, if there are any.
fn unchangeable<M: Module + ?Sized>(module: &M, prefix: &str) -> Result<(), Error> {
    let mut first = None;
    module.visit(prefix, &mut |name, _| first = first.take().or_else(|| Some(name.to_owned())));
    at_caller(
        "visit_mut",
        match first {
            None => Ok(()),
            Some(name) => refuse!(
                "{name} cannot be changed: it is shared, or its module does not implement `visit_mut`"
            ),
        },
    )
}
