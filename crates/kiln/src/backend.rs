//! What a device of your own is made of.
//!
//! A device is a [`Backend`](crate::backend::Backend), which has memory and runs programs, and a
//! [`Target`](crate::backend::Target), which describes what its programs may use. Everything else (rules, schedules,
//! optimizations, gradients) is the same for all devices. [`Device::add`](crate::Device::add) gives it a name.
//!
//! The smallest device interprets programs, with [`interpret`](crate::backend::interpret). `tests/it/toy.rs` of this crate
//! is one; the host cannot address its memory. A device with a language of its own also needs a renderer:
//! `docs/book/src/devices.md` is the recipe.

use crate::device::Device;
use crate::engine;
use crate::error::{Error, at_caller};
use std::sync::Arc;

pub use kiln_compile::target::Target;
pub use kiln_ir::program::Program;
pub use kiln_runtime::device::check_arguments;
pub use kiln_runtime::error::{Error as BackendError, Result as BackendResult};
pub use kiln_runtime::interp::{InterpBuffer, run as interpret};
pub use kiln_runtime::memory::{DeviceMemory, Memory};
pub use kiln_runtime::pool::{MemoryUse, Pool};
pub use kiln_runtime::{Backend, Buffer, Kernel, Loaded, Origin, Prepared};

/// Devices of a program's own.
impl Device {
    /// Adds a device to those that can be named, for the rest of the process.
    ///
    /// ```
    /// use kiln::backend::{Pool, Target};
    /// // an interpreter with a limit of its own
    /// let small = kiln::backend::interpreter(Pool::bounded(0, 100));
    /// let device = kiln::Device::add("SMALL", small, Target::interp())?;
    /// let fits = kiln::Tensor::ones_with([10], &device) + 1.0;
    /// assert_eq!(fits.to_vec::<f32>()?, [2.0; 10]);
    /// assert!((kiln::Tensor::ones_with([1000], &device) + 1.0).realize().is_err());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A name that is none, or that an open device has.
    #[track_caller]
    pub fn add(name: &str, backend: Arc<dyn Backend>, target: Target) -> Result<Device, Error> {
        let device = Device::parse(name)?;
        let added = engine::add(&device, backend, target);
        at_caller("device", added.map_err(crate::error::Fault::Failed))?;
        Ok(device)
    }
}

/// The interpreter as a backend, with this memory.
pub fn interpreter(memory: Arc<Pool>) -> Arc<dyn Backend> {
    Arc::new(kiln_runtime::interp::InterpBackend::with(memory))
}
