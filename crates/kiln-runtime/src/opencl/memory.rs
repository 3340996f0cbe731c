//! A block of a device's memory.

use super::api::Handle;
use super::codes::checked;
use super::device::Device;
use crate::error::{Error, Result};
use crate::memory::DeviceMemory;
use std::any::Any;
use std::fmt;
use std::ptr::{null, null_mut};
use std::sync::Arc;

const READ_WRITE: u64 = 1;
const WAIT: u32 = 1;

/// A block.
pub(super) struct ClMemory {
    pub(super) device: Arc<Device>,
    pub(super) handle: Handle,
    len: usize,
}

// SAFETY: a handle may be used by any thread.
unsafe impl Send for ClMemory {}
// SAFETY: as above; the queue orders what is done to the block.
unsafe impl Sync for ClMemory {}

impl ClMemory {
    /// A block with arbitrary contents.
    pub(super) fn new(device: Arc<Device>, len: usize) -> Result<ClMemory> {
        let mut code = 0;
        let create = device.api.create_buffer;
        // SAFETY: a new buffer of the context, not made of memory of the host.
        let handle =
            unsafe { create(device.context, READ_WRITE, len.max(1), null_mut(), &mut code) };
        match code {
            0 => Ok(ClMemory { device, handle, len }),
            code => Err(Error::Memory { bytes: len, why: format!("OpenCL says {code}") }),
        }
    }

    fn inside(&self, offset: usize, len: usize) -> Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(Error::Launch(format!("bytes {offset}..{offset}+{len} of {}", self.len))),
        }
    }
}

impl DeviceMemory for ClMemory {
    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.inside(offset, to.len())?;
        if to.is_empty() {
            return Ok(());
        }
        let (queue, to, len) = (self.device.queue, to.as_mut_ptr().cast(), to.len());
        let read = self.device.api.read;
        // SAFETY: the bytes are inside of the block, and the call returns when they are copied.
        checked("reading", unsafe {
            read(queue, self.handle, WAIT, offset, len, to, 0, null(), null_mut())
        })
    }

    fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.inside(offset, from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        let (queue, len) = (self.device.queue, from.len());
        let write = self.device.api.write;
        // SAFETY: as above.
        checked("writing", unsafe {
            write(
                queue,
                self.handle,
                WAIT,
                offset,
                len,
                from.as_ptr().cast(),
                0,
                null(),
                null_mut(),
            )
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for ClMemory {
    fn drop(&mut self) {
        // SAFETY: the handle is given back once. What is queued holds the block until it is done.
        unsafe { (self.device.api.release_buffer)(self.handle) };
    }
}

impl fmt::Debug for ClMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of OpenCL", self.len)
    }
}
