//! The NULL device: counts launches and runs nothing. It measures what the compiler costs.

use crate::buffer::Buffer;
use crate::device::{Backend, Kernel, Loaded, Origin, check_arguments, facts};
use crate::error::Result;
use crate::pool::Pool;
use kiln_ir::program::Program;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The device.
#[derive(Debug)]
pub struct NullBackend {
    pool: Arc<Pool>,
    launches: Arc<AtomicU64>,
}

struct NullKernel {
    program: Program,
    launches: Arc<AtomicU64>,
}

impl NullBackend {
    /// A device with nothing counted yet.
    pub fn new() -> NullBackend {
        NullBackend::with(Pool::new())
    }

    /// The same, with this memory.
    pub fn with(pool: Arc<Pool>) -> NullBackend {
        NullBackend { pool, launches: Arc::default() }
    }

    /// How many kernels were launched.
    pub fn launches(&self) -> u64 {
        self.launches.load(Relaxed)
    }
}

impl Default for NullBackend {
    fn default() -> NullBackend {
        NullBackend::new()
    }
}

impl Backend for NullBackend {
    fn name(&self) -> &str {
        "NULL"
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        // Whoever reads a result finds zeros, not what an earlier program left.
        Buffer::zeroed(&self.pool, bytes)
    }

    fn another(&self) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(NullBackend { pool: self.pool.another(), launches: self.launches.clone() }))
    }

    fn reaches(&self, buffer: &Buffer) -> bool {
        buffer.is_of(&self.pool)
    }

    fn load(&self, program: &Program) -> Result<Loaded> {
        let kernel = NullKernel { program: facts(program), launches: self.launches.clone() };
        Ok(Loaded { kernel: Arc::new(kernel), origin: Origin::Interpreted })
    }

    fn compiler(&self) -> String {
        "none (kernels are counted, not run)".into()
    }

    fn pool(&self) -> Option<&Arc<Pool>> {
        Some(&self.pool)
    }
}

impl Kernel for NullKernel {
    fn launch(&self, buffers: &[Buffer], vars: &[i64]) -> Result<()> {
        check_arguments(&self.program, buffers, vars)?;
        self.launches.fetch_add(1, Relaxed);
        Ok(())
    }

    fn size(&self) -> usize {
        self.program.size()
    }
}
