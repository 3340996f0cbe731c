//! `Tensor`: a storage and a view of it. Methods check shapes and dtypes and build graphs; none computes, except those
//! that return data.

/// Losses that a step will compute.
pub(crate) mod recent;
/// The shared cell.
pub(crate) mod storage;
/// Index maps.
pub(crate) mod view;
/// What may stand for shapes and axes.
pub(crate) mod shape_args;
mod length;
mod variable;
/// Operands brought to one dtype and shape.
mod broadcast;
mod source;
mod convert;
mod dtypes;
/// What tests compare tensors with.
pub(crate) mod close;
#[cfg(feature = "ndarray")]
mod ndarray;
mod create;
mod ranges;
mod patterns;
mod diagonal;
/// Tensors that are files.
mod file;
/// What is asked of the engine.
pub(crate) mod compute;
mod elementwise;
mod operators;
mod movement;
mod reorder;
mod ranks;
mod rearrange;
mod pieces;
mod border;
mod blocks;
mod combine;
mod reduce;
mod lengths;
mod order;
mod scan;
mod sort;
mod doubling;
mod statistics;
mod graph;
mod frequencies;
mod search;
mod select;
mod softmax;
/// Mixed precision.
mod autocast;
mod matmul;
mod products;
mod einsum;
mod linalg;
/// A number for each axis that windows slide along.
pub(crate) mod sizes;
mod window;
mod pool_options;
mod pool;
mod pool_indices;
mod adaptive;
/// How the windows of a convolution lie.
pub(crate) mod conv_options;
mod winograd;
mod conv;
mod conv_transpose;
mod interpolate;
mod fold;
mod grid;
mod norm;
mod attention;
mod loss;
/// Draws.
pub(crate) mod random;
mod index;
mod list;
mod literal;
/// What is known of integers before anything runs.
pub(crate) mod known;
mod points;
mod advanced;
mod mask;
mod gather;
mod scatter;
mod placed;
mod sets;
mod shard;
mod rounded;
mod write;
mod inplace;
mod read;
mod display;
mod gradient;

pub use attention::AttentionOptions;
pub use autocast::{autocast, autocast_dtype};
pub use border::{PadMode, PadsArg};
pub use conv_options::{ConvOptions, Padding};
pub use convert::FromNested;
pub use file::sync;
pub use gradient::{checkpoint, enable_grad, gradcheck, gradgradcheck, is_grad_enabled, no_grad};
pub use graph::Graph;
pub use index::{Index, Indices};
pub use interpolate::{Resize, Sampling};
pub use length::Length;
pub use linalg::MatrixNorm;
pub use list::{List, ListItem};
pub use loss::{ClassLoss, CtcLoss, Reduce};
pub use pieces::SplitArg;
pub use pool_options::PoolOptions;
pub use random::{Rng, manual_seed, rng_state, set_rng_state};
pub use ranges::RangeArg;
pub use read::realize;
pub use scatter::{Reduction, ReductionArg};
pub use shape_args::{AxesArg, Int, LengthArg, PairArg, ShapeArg};
pub use shard::DeviceArg;
pub use sizes::SizesArg;
pub use source::{Nested, Options};
pub use variable::Variable;

use crate::Device;
use crate::error::{Error, Fault};
use crate::origin;
use kiln_ir::{DType, UOp};
use std::sync::Arc;
use storage::Storage;
use view::View;

/// A lazy n-dimensional array: a view of a storage.
///
/// `clone()` is another handle to the same storage and sees later writes; [`copy`](Tensor::copy) is new storage with
/// the same value. An operation that makes no sense gives a tensor that carries the error, which reading returns.
///
/// ```
/// use kiln::Tensor;
/// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// let sums: Vec<f32> = (&a + 1.0).sum(1).to_vec()?;
/// assert_eq!(sums, [5.0, 9.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone)]
pub struct Tensor {
    storage: Arc<Storage>,
    view: View,
    detached: bool,
    /// Numbers as the program has them: their dtype gives way to that of a tensor.
    is_literal: bool,
    viewers: origin::Viewers,
}

/// Making and reading handles.
impl Tensor {
    /// New storage that holds the value of `node`.
    pub(crate) fn from_node(node: UOp, device: &Device) -> Tensor {
        Tensor::whole(Storage::new(node, device.clone()))
    }

    /// This value; whatever computes it computes the pending versions of `written` too.
    pub(crate) fn carrying<'a>(&self, written: impl IntoIterator<Item = &'a Tensor>) -> Tensor {
        let mut effects = Vec::new();
        let node = written
            .into_iter()
            .try_for_each(|t| t.storage.version().map(|version| effects.push(version)))
            .and_then(|()| self.value());
        match node {
            Ok(node) => Tensor::from_node(node.after(effects), self.device()),
            Err(error) => Tensor::broken(error),
        }
    }

    fn whole(storage: Arc<Storage>) -> Tensor {
        let view = View::whole(&storage.shape, storage.dtype);
        Tensor {
            storage,
            view,
            detached: false,
            is_literal: false,
            viewers: origin::Viewers::default(),
        }
    }

    /// A tensor that carries `error`.
    pub(crate) fn broken(error: Error) -> Tensor {
        Tensor::whole(Storage::broken(error))
    }

    /// New storage on this tensor's device, or a tensor that carries what was wrong.
    #[track_caller]
    fn lift(&self, op: &'static str, result: Result<UOp, Fault>) -> Tensor {
        Tensor::lift_on(op, self.device(), result)
    }

    #[track_caller]
    fn lift_on(op: &'static str, device: &Device, result: Result<UOp, Fault>) -> Tensor {
        match result {
            Ok(node) => {
                origin::name(&node, op);
                Tensor::from_node(node, device)
            }
            Err(fault) => Tensor::broken(fault.at(op)),
        }
    }

    /// A tensor, or one that carries what was wrong.
    #[track_caller]
    fn or_broken(op: &'static str, result: Result<Tensor, Fault>) -> Tensor {
        match result {
            Ok(tensor) => tensor,
            Err(fault) => Tensor::broken(fault.at(op)),
        }
    }

    /// The same storage under the view that `change` makes of this one. An error that the storage carries stays in it.
    #[track_caller]
    fn alias(&self, op: &'static str, change: impl FnOnce(&View) -> Result<View, Fault>) -> Tensor {
        if self.storage.is_broken() {
            return self.clone();
        }
        match (change(&self.view), self.storage.error()) {
            (Ok(view), _) => Tensor {
                view,
                viewers: self.viewers.and(op),
                detached: self.detached || !is_grad_enabled(),
                is_literal: false,
                ..self.clone()
            },
            (Err(_), Some(error)) => Tensor::broken(error),
            (Err(fault), None) => Tensor::broken(fault.at(op)),
        }
    }

    /// The graph node of what the tensor holds now.
    pub(crate) fn value(&self) -> Result<UOp, Error> {
        self.seen(|base| {
            let value = self.view.of(base);
            self.viewers.name(&value);
            value
        })
    }

    /// What `look` sees of the storage's version, with gradients as this handle has them.
    fn seen(&self, look: impl FnOnce(&UOp) -> UOp) -> Result<UOp, Error> {
        let detached = self.detached || !is_grad_enabled();
        let value = look(&match detached {
            true => self.storage.version()?,
            false => self.storage.marked_version()?,
        });
        Ok(if detached { value.detach() } else { value })
    }

    /// Fails where an operand carries an error; the first one's counts.
    fn all_valid<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<(), Fault> {
        match tensors.into_iter().find_map(Tensor::error) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// How the tensor sees its storage.
    pub(crate) fn handle(&self) -> Handle {
        Handle { view: self.view.clone(), detached: self.detached, is_literal: self.is_literal }
    }

    /// Adds how the tensor sees its storage to a key.
    pub(crate) fn add_handle(&self, key: &mut crate::nn::Key) {
        key.add((self.view.hash(), self.detached, self.is_literal));
    }
}

/// How a tensor sees a storage.
pub(crate) struct Handle {
    view: View,
    detached: bool,
    is_literal: bool,
}

impl Handle {
    /// A tensor that sees this storage so.
    pub(crate) fn of(&self, storage: Arc<Storage>) -> Tensor {
        let Handle { view, detached, is_literal } = self;
        let (detached, is_literal) = (*detached, *is_literal);
        Tensor { view: view.clone(), detached, is_literal, ..Tensor::whole(storage) }
    }
}

/// What is known without computing.
impl Tensor {
    /// The lengths of the axes, outermost first.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3]).shape(), [2, 3]);
    /// ```
    pub fn shape(&self) -> &[usize] {
        self.view.shape()
    }

    /// The number of axes.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3]).ndim(), 2);
    /// ```
    pub fn ndim(&self) -> usize {
        self.shape().len()
    }

    /// The number of elements.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3]).numel(), 6);
    /// ```
    pub fn numel(&self) -> usize {
        self.shape().iter().product()
    }

    /// The element type.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::arange(3).dtype(), kiln::DType::I32);
    /// ```
    pub fn dtype(&self) -> DType {
        self.view.dtype()
    }

    /// Where the tensor lives.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([1]).device(), &kiln::Device::default_device());
    /// ```
    pub fn device(&self) -> &Device {
        &self.storage.device
    }

    /// The error that the tensor carries, if an operation or a write that led to it was invalid.
    ///
    /// ```
    /// let t = kiln::Tensor::zeros([2, 3]);
    /// assert!(t.error().is_none());
    /// assert!(t.reshape([4]).error().is_some());
    /// ```
    pub fn error(&self) -> Option<Error> {
        self.storage.error()
    }

    /// Forgets the error of an invalid write: the data is what it was before. The result of an invalid operation has no
    /// data and keeps its error.
    ///
    /// ```
    /// use kiln::{Tensor, s};
    /// let t = Tensor::from([1, 2]);
    /// t.set(s![5], 0);
    /// t.clear_error();
    /// assert_eq!(t.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn clear_error(&self) {
        self.storage.clear_error();
    }
}
