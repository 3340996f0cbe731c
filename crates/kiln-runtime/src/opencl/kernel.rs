//! Kernels: built from source, launched with blocks and where in them each argument starts.

use super::api::Handle;
use super::codes::checked;
use super::device::Device;
use super::memory::ClMemory;

use crate::buffer::Buffer;
use crate::device::{Kernel, check_arguments, facts};
use crate::error::{Error, Result};
use kiln_ir::program::Program;
use std::ffi::CStr;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

/// No warnings. Square roots and quotients are rounded correctly, as everywhere in kiln, where a device can do that.
const OPTIONS: [&CStr; 2] =
    [c"-w -cl-std=CL1.2", c"-w -cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt"];
const BUILD_LOG: u32 = 0x1183;

/// A built kernel.
pub(super) struct Compiled {
    device: Arc<Device>,
    program: Handle,
    /// Its arguments are set and it is queued by one thread at a time.
    kernel: Mutex<Handle>,
}

// SAFETY: handles may be used by any thread; the kernel's is behind a lock.
unsafe impl Send for Compiled {}
// SAFETY: as above.
unsafe impl Sync for Compiled {}

impl Compiled {
    /// Builds source text.
    pub(super) fn new(device: &Arc<Device>, source: &str) -> Result<Compiled> {
        let api = device.api;
        let (text, len) = (source.as_ptr().cast(), source.len());
        let mut code = 0;
        // SAFETY: one text of this length.
        let program = unsafe { (api.create_program)(device.context, 1, &text, &len, &mut code) };
        checked("source", code)?;
        let mut compiled =
            Compiled { device: device.clone(), program, kernel: Mutex::new(null_mut()) };
        let options = OPTIONS[usize::from(device.rounds)].as_ptr();
        // SAFETY: the program is of the device's context; no callback.
        let built = unsafe { (api.build)(program, 1, &device.id, options, null(), null_mut()) };
        if built != 0 {
            return Err(Error::Compile {
                compiler: device.description.clone(),
                message: compiled.log(),
            });
        }
        // SAFETY: the program is built; the name ends with a zero.
        let kernel = unsafe { (api.create_kernel)(program, c"kiln_entry".as_ptr(), &mut code) };
        checked("kernel", code)?;
        *compiled.kernel.get_mut().unwrap_or_else(PoisonError::into_inner) = kernel;
        Ok(compiled)
    }

    /// What the compiler has said.
    fn log(&self) -> String {
        let mut text = vec![0u8; 16 << 10];
        let (info, id) = (self.device.api.build_info, self.device.id);
        // SAFETY: the answer is at most as long as the room for it, or refused.
        unsafe {
            info(self.program, id, BUILD_LOG, text.len(), text.as_mut_ptr().cast(), null_mut())
        };
        let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).into_owned()
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let kernel = *self.kernel.get_mut().unwrap_or_else(PoisonError::into_inner);
        let api = self.device.api;
        // SAFETY: each handle is given back once. What is queued holds them until it is done.
        unsafe {
            if !kernel.is_null() {
                (api.release_kernel)(kernel);
            }
            (api.release_program)(self.program);
        }
    }
}

/// A kernel of a program.
pub(super) struct ClKernel {
    /// Without its ops and source.
    program: Program,
    compiled: Arc<Compiled>,
}

impl ClKernel {
    pub(super) fn new(program: &Program, compiled: Arc<Compiled>) -> ClKernel {
        ClKernel { program: facts(program), compiled }
    }
}

impl Kernel for ClKernel {
    fn launch(&self, buffers: &[Buffer], vars: &[i64]) -> Result<()> {
        check_arguments(&self.program, buffers, vars)?;
        let device = &*self.compiled.device;
        let kernel = self.compiled.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut next, set) = (0, device.api.set_argument);
        let mut argument = |bytes: &[u8]| {
            // SAFETY: the arguments are those of `kiln_compile`'s signature, in order: for each buffer a handle and 8 bytes,
            // for each scalar 8 bytes. The bytes are copied by the call.
            let code = unsafe { set(*kernel, next, bytes.len(), bytes.as_ptr().cast()) };
            next += 1;
            checked("argument", code)
        };
        for buffer in buffers {
            let block = buffer.as_device()?.and_then(|m| m.as_any().downcast_ref::<ClMemory>());
            let block = block.filter(|m| std::ptr::eq(&*m.device, device));
            let block = block.ok_or_else(|| Error::Launch("memory of another device".into()))?;
            argument(&(block.handle as usize).to_ne_bytes())?;
            argument(&(buffer.offset() as i64).to_ne_bytes())?;
        }
        vars.iter().try_for_each(|var| argument(&var.to_ne_bytes()))?;
        let items: usize = self.program.local.iter().product();
        let groups: usize = self.program.global.iter().product();
        let global =
            groups.checked_mul(items).ok_or_else(|| Error::Launch("too many items".into()))?;
        let launch = device.api.launch;
        // SAFETY: one axis, with sizes for it. `check_arguments` has compared the buffers with what the program was made for,
        // and the program accesses nothing beyond them; the specs of the compiler ensure it.
        let code = unsafe {
            launch(device.queue, *kernel, 1, null(), &global, &items, 0, null(), null_mut())
        };
        checked(&format!("launch of {}", self.program.name), code)?;
        // SAFETY: the queue is the device's. What is queued begins now, not when the host waits.
        checked("queue", unsafe { (device.api.flush)(device.queue) })
    }

    fn size(&self) -> usize {
        self.program.size()
    }
}
