//! OpenCL: kernels as OpenCL C for whatever drivers the system has. The library is looked for at run time.
//!
//! A device has one queue, in order. A launch returns once it is queued. The library keeps freed memory until the
//! commands queued before are done. The host waits when it reads or writes.

mod api;
mod codes;
mod device;
mod kernel;
mod memory;

use crate::buffer::Buffer;
use crate::device::{Backend, Loaded, Origin};
use crate::error::Result;
use crate::memory::Memory;
use crate::pool::Pool;
use device::Device;
use kernel::ClKernel;
use kiln_ir::program::Program;
use memory::ClMemory;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The device.
pub struct ClBackend {
    name: String,
    device: Arc<Device>,
    pool: Arc<Pool>,
    kernels: Mutex<FxHashMap<String, Arc<kernel::Compiled>>>,
}

impl ClBackend {
    /// The device of this number: first GPUs, then others. `keep` and `limit` are those of [`Pool::bounded`].
    ///
    /// # Errors
    /// No OpenCL library, no such device. The message says what was tried.
    pub fn open(number: usize, keep: usize, limit: usize) -> Result<ClBackend> {
        let device = Arc::new(Device::open(number)?);
        let of = device.clone();
        let pool = Pool::of_device(keep, limit, move |bytes| {
            let memory = ClMemory::new(of.clone(), bytes)?;
            Ok(Memory::of_device(Box::new(memory), bytes))
        });
        let name = if number == 0 { "CL".to_owned() } else { format!("CL:{number}") };
        Ok(ClBackend { name, device, pool, kernels: Mutex::default() })
    }

    /// The most items of a group, and the bytes that they share.
    pub fn limits(&self) -> (usize, usize) {
        (self.device.most_items, self.device.shared_bytes)
    }

    /// How many items of a group exchange values; 1 if none can.
    pub fn subgroup(&self) -> usize {
        self.device.subgroup
    }
}

impl Backend for ClBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        Buffer::new(&self.pool, bytes)
    }

    fn reaches(&self, buffer: &Buffer) -> bool {
        let own = |m: &ClMemory| Arc::ptr_eq(&m.device, &self.device);
        matches!(buffer.as_device(), Ok(Some(block)) if block.as_any().downcast_ref().is_some_and(own))
    }

    fn load(&self, program: &Program) -> Result<Loaded> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kernels.get(&program.source).cloned();
        let origin = if known.is_some() { Origin::Memory } else { Origin::Compiled };
        let compiled = match known {
            Some(compiled) => compiled,
            None => {
                let new = Arc::new(kernel::Compiled::new(&self.device, &program.source)?);
                kernels.insert(program.source.clone(), new.clone());
                new
            }
        };
        Ok(Loaded { kernel: Arc::new(ClKernel::new(program, compiled)), origin })
    }

    fn compiler(&self) -> String {
        self.device.description.clone()
    }

    fn pool(&self) -> Option<&Arc<Pool>> {
        Some(&self.pool)
    }
}
