//! The trait of a device. Everything else (targets, rules, schedules) is the same for all devices.

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::memory::ALIGN;
use crate::pool::Pool;
use kiln_ir::observe::MachineCode;
use kiln_ir::program::Program;
use std::sync::Arc;

/// A device: memory, and a way to turn programs into kernels. Used by many threads at once.
pub trait Backend: Send + Sync {
    /// Such as `CPU:LLVM`.
    fn name(&self) -> &str;

    /// Memory with arbitrary contents; may be allocated as late as its first touch.
    fn alloc(&self, bytes: usize) -> Result<Buffer>;

    /// Another device of this kind: the same processors and compiler, with memory of its own. None where that makes no
    /// sense.
    fn another(&self) -> Option<Arc<dyn Backend>> {
        None
    }

    /// Whether kernels of this device may be given that memory. A mapped file belongs to no device.
    fn reaches(&self, buffer: &Buffer) -> bool;

    /// Replaces all of one buffer, of this device, by the bytes of another, of any device.
    fn copy(&self, from: &Buffer, to: &Buffer) -> Result<()> {
        to.copy_from(from)
    }

    /// Makes a program ready to run. Loading the same program again is cheap.
    fn load(&self, program: &Program) -> Result<Loaded>;

    /// As [`load`](Backend::load), but the kernel knows the lines of its machine code, where the device can tell. Its
    /// instructions are the same.
    fn load_with_lines(&self, program: &Program) -> Result<Loaded> {
        self.load(program)
    }

    /// As [`load`](Backend::load), but for a program that is perhaps never run again: nothing is remembered.
    fn try_out(&self, program: &Program) -> Result<Arc<dyn Kernel>> {
        self.load(program).map(|loaded| loaded.kernel)
    }

    /// What an earlier process has noted about something, if this device keeps notes.
    fn note(&self, _about: &str) -> Option<String> {
        None
    }

    /// Notes something for later processes.
    fn set_note(&self, _about: &str, _text: &str) {}

    /// Which compiler does the work, and where it was found.
    fn compiler(&self) -> String;

    /// Its memory, if it keeps books about that.
    fn pool(&self) -> Option<&Arc<Pool>> {
        None
    }
}

/// A kernel, and what it took to have it.
#[derive(Clone)]
pub struct Loaded {
    /// The kernel.
    pub kernel: Arc<dyn Kernel>,
    /// What it took this time.
    pub origin: Origin,
}

/// Where a kernel came from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// A compiler ran.
    Compiled,
    /// An earlier process had compiled it.
    Disk,
    /// This process had it already.
    Memory,
    /// This device compiles nothing.
    Interpreted,
}

/// Something that can be launched, by several threads at once.
pub trait Kernel: Send + Sync {
    /// Runs it to the end. Buffers by slot of `Param`, scalars by slot of `Var` (8 raw bytes each).
    fn launch(&self, buffers: &[Buffer], vars: &[i64]) -> Result<()>;

    /// A launch that has all it needs at hand: several in a row wait for nothing that the kernels between them have pushed
    /// out of the caches.
    fn prepare<'a>(&'a self, buffers: &'a [Buffer], vars: &'a [i64]) -> Result<Prepared<'a>> {
        Ok(Box::new(move || self.launch(buffers, vars)))
    }

    /// About how much memory it takes as long as it is held.
    fn size(&self) -> usize {
        0
    }

    /// The machine code as text, where the device can show it.
    fn disassemble(&self) -> Option<MachineCode> {
        None
    }
}

/// A launch, to be run once or more often.
pub type Prepared<'a> = Box<dyn Fn() -> Result<()> + 'a>;

/// What a launch needs to know of a program: all but its ops and source.
pub(crate) fn facts(program: &Program) -> Program {
    Program {
        name: program.name.clone(),
        ops: Vec::new(),
        source: String::new(),
        params: program.params.clone(),
        vars: program.vars.clone(),
        threads: program.threads.clone(),
        global: program.global.clone(),
        local: program.local.clone(),
        scratch_bytes: program.scratch_bytes,
        flops: program.flops,
        bytes: program.bytes,
        accessed: program.accessed,
    }
}

/// Whether arguments fit a program: enough of them, large enough, aligned to their elements, writable where written.
/// Every backend asks this before it follows a pointer.
pub fn check_arguments(program: &Program, buffers: &[Buffer], vars: &[i64]) -> Result<()> {
    if buffers.len() != program.params.len() || vars.len() != program.vars.len() {
        return Err(Error::Launch(format!(
            "{} takes {} buffers and {} scalars, not {} and {}",
            program.name,
            program.params.len(),
            program.vars.len(),
            buffers.len(),
            vars.len()
        )));
    }
    let wrong = |slot: usize, what: String| {
        Err(Error::Launch(format!("argument {slot} of {}: {what}", program.name)))
    };
    for (slot, (param, buffer)) in program.params.iter().zip(buffers).enumerate() {
        let size = param.dtype.size().max(1);
        let align = if param.streamed { ALIGN } else { size };
        match param.len.checked_mul(size) {
            Some(need) if need <= buffer.len() => {}
            _ => return wrong(slot, format!("{} bytes for {} elements", buffer.len(), param.len)),
        }
        // Blocks and mapped files start at multiples of every element size, and of a line.
        if !buffer.offset().is_multiple_of(align) {
            return wrong(slot, format!("not aligned to {align} bytes"));
        }
        if param.written && !buffer.is_writable() {
            return wrong(slot, "a file opened for reading".into());
        }
    }
    Ok(())
}
