//! Lazy tensors over one graph, with generated kernels.
//!
//! A [`Tensor`] method builds a graph; nothing computes until data is asked for. A program means what it would mean if
//! every line ran at once.
//!
//! ```
//! use kiln::{Tensor, s};
//! let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
//! a.set(s![.., 0], 0.0);
//! let y: Vec<f32> = a.matmul(&Tensor::eye(2)).relu().to_vec()?;
//! assert_eq!(y, [0.0, 2.0, 0.0, 4.0]);
//! # Ok::<(), kiln::Error>(())
//! ```

// what `#[derive(Module)]` makes names the crate
extern crate self as kiln;

/// Which method made a node.
mod origin;
/// The error type.
mod error;
/// Names of devices.
mod device;
/// What a device of one's own is made of.
pub mod backend;
/// What a thread has instead of the environment.
mod scoped;
/// Settings in code.
mod settings;
/// What new tensors have that are told nothing.
mod defaults;
/// What computes.
mod engine;
/// What closes traits.
mod sealed;
/// Rust types of elements and operands.
mod element;
/// The methods.
mod tensor;
/// What can be shown of the compiler.
mod compiler;
/// Tensors in files.
mod files;
/// Files from the network.
#[cfg(feature = "fetch")]
mod fetch;
/// What a run did, as a file.
pub mod record;
/// The description of this machine, and what it measures.
mod calibrate;
/// Functions that are recorded once and replayed.
mod jit;
/// Layers, and weights in files.
pub mod nn;
/// Optimizers.
pub mod optim;
/// Data sets and batches.
pub mod data;

pub use backend::MemoryUse;
pub use calibrate::{Cost, calibrate};
pub use compiler::{Pass, passes};
pub use defaults::{default_float, set_default_float};
pub use device::Device;
pub use element::{Element, Operand};
pub use engine::{Counts, Found, measure, search};
pub use error::{Error, ErrorKind, Result};
#[cfg(feature = "fetch")]
pub use fetch::{Fetch, fetch};
pub use files::numpy;
pub use half::{self, bf16, f16};
pub use jit::jit;
pub use kiln_ir::{DType, UnknownDType};
pub use record::record;
pub use settings::with;
pub use tensor::{
    AttentionOptions, ClassLoss, ConvOptions, CtcLoss, FromNested, Graph, Index, Indices, Length,
    MatrixNorm, Nested, Options, PadMode, Padding, PoolOptions, Reduce, Reduction, Resize, Rng,
    Sampling, Tensor, Variable, autocast, autocast_dtype, checkpoint, enable_grad, gradcheck,
    gradgradcheck, is_grad_enabled, manual_seed, no_grad, realize, rng_state, set_rng_state, sync,
};

/// What arguments of methods may be; nothing here needs naming.
pub mod args {
    pub use crate::jit::{Argument, Compile, Own, Ref, Returned, Value};
    pub use crate::tensor::{
        AxesArg, DeviceArg, Int, LengthArg, List, ListItem, PadsArg, PairArg, RangeArg,
        ReductionArg, ShapeArg, SizesArg, SplitArg,
    };
}

/// Hooks for kiln's own tests, without any promise.
#[doc(hidden)]
pub mod testing {
    pub use crate::engine::testing::{
        INJECTED, Stages, break_next_kernel, fail_after, fault_after, limit_options, limit_pending,
        reserve_nothing,
    };
    pub use crate::engine::{regret, stages};
    pub use crate::tensor::close::assert_close;
}

/// The environment variables that kiln reads.
pub mod env {
    pub use crate::engine::env::{Variable, describe};
}

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// So are those of the page that says what programs mean.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/semantics.md")]
struct Semantics;
