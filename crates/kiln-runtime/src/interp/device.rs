//! INTERP as a device: memory like the CPU's, kernels that are executed op by op.

use super::{InterpBuffer, InterpError, run};
use crate::buffer::Buffer;
use crate::device::{Backend, Kernel, Loaded, Origin, check_arguments};
use crate::error::{Error, Result};
use crate::pool::Pool;
use kiln_ir::program::Program;
use std::cell::Cell;
use std::sync::Arc;

/// The device.
#[derive(Debug)]
pub struct InterpBackend {
    pool: Arc<Pool>,
}

struct InterpKernel(Program);

impl InterpBackend {
    /// A device with memory of its own.
    pub fn new() -> InterpBackend {
        InterpBackend::with(Pool::new())
    }

    /// A device with this memory.
    pub fn with(pool: Arc<Pool>) -> InterpBackend {
        InterpBackend { pool }
    }
}

impl Default for InterpBackend {
    fn default() -> InterpBackend {
        InterpBackend::new()
    }
}

impl Backend for InterpBackend {
    fn name(&self) -> &str {
        "INTERP"
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        Buffer::new(&self.pool, bytes)
    }

    fn another(&self) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(InterpBackend::with(self.pool.another())))
    }

    fn reaches(&self, buffer: &Buffer) -> bool {
        buffer.is_of(&self.pool)
    }

    fn load(&self, program: &Program) -> Result<Loaded> {
        let kernel = Arc::new(InterpKernel(program.clone()));
        Ok(Loaded { kernel, origin: Origin::Interpreted })
    }

    fn compiler(&self) -> String {
        "none (kernels are interpreted)".into()
    }

    fn pool(&self) -> Option<&Arc<Pool>> {
        Some(&self.pool)
    }
}

impl Kernel for InterpKernel {
    fn launch(&self, buffers: &[Buffer], vars: &[i64]) -> Result<()> {
        check_arguments(&self.0, buffers, vars)?;
        let cells = buffers.iter().map(cells).collect::<Result<Vec<_>>>()?;
        Ok(run(&self.0, &cells, vars)?)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// A buffer's bytes. The interpreter runs on this thread alone, so cells are enough, also where buffers overlap.
fn cells(buffer: &Buffer) -> Result<InterpBuffer<'_>> {
    let first = buffer.as_ptr()?.cast::<Cell<u8>>();
    // SAFETY: valid for `len` initialised bytes while the buffer is borrowed; the engine lets nobody else touch what
    // the program writes, and files opened for reading are not written (`check_arguments`).
    Ok(unsafe { std::slice::from_raw_parts(first, buffer.len()) })
}

impl From<InterpError> for Error {
    fn from(error: InterpError) -> Error {
        Error::Launch(error.to_string())
    }
}
