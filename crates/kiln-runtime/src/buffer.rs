//! A handle on a range of device memory: cheap to clone, allocated on first use.
//!
//! Contract: the engine orders access. A range is written by one copy or launch at a time, and nothing reads it
//! meanwhile. This follows from tensors being immutable values; no lock checks it.

use crate::disk::FileMemory;
use crate::error::{Error, Result};
use crate::memory::{self, DeviceMemory, Memory};
use crate::meter::Metered;
use crate::plain::Plain;
use crate::pool::{Pool, Taken};
use kiln_ir::observe::{self, Event, Kind};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A range of bytes in a shared block.
#[derive(Clone, Debug)]
pub struct Buffer {
    block: Arc<Block>,
    offset: usize,
    len: usize,
}

/// The purpose of memory for which none was told.
const UNTOLD: &str = "other values";

/// How much is copied at once by way of other memory.
const PART: usize = 1 << 20;

#[derive(Debug)]
struct Block {
    len: usize,
    fill: Fill,
    memory: OnceLock<Memory>,
    /// What it is for.
    purpose: &'static str,
    /// Its number in the pool's books.
    entry: OnceLock<usize>,
    /// Counts the block for whoever measures.
    metered: OnceLock<Metered>,
    /// Its number, if observers have seen it.
    seen: OnceLock<u64>,
    /// Where the memory comes from and goes back to; none for files.
    pool: Option<Arc<Pool>>,
}

/// What a block holds before anything is written to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fill {
    Anything,
    Zeros,
}

impl Buffer {
    /// Memory with arbitrary contents. A size that this machine cannot have is refused here, though nothing is
    /// allocated before the first touch.
    pub fn new(pool: &Arc<Pool>, bytes: usize) -> Result<Buffer> {
        Buffer::lazy(pool, bytes, Fill::Anything)
    }

    /// Memory full of zeros.
    pub fn zeroed(pool: &Arc<Pool>, bytes: usize) -> Result<Buffer> {
        Buffer::lazy(pool, bytes, Fill::Zeros)
    }

    /// The same, and what it is for. Nobody may have another handle on it yet.
    #[must_use]
    pub fn held_for(mut self, purpose: &'static str) -> Buffer {
        if let Some(block) = Arc::get_mut(&mut self.block) {
            block.purpose = purpose;
        }
        self
    }

    /// Memory that exists already, such as a mapped file.
    pub fn from_memory(memory: Memory) -> Buffer {
        let len = memory.len();
        let block = Block {
            len,
            fill: Fill::Anything,
            memory: OnceLock::from(memory),
            purpose: "a file",
            entry: OnceLock::new(),
            metered: OnceLock::new(),
            seen: OnceLock::new(),
            pool: None,
        };
        Buffer { block: Arc::new(block), offset: 0, len }
    }

    fn lazy(pool: &Arc<Pool>, len: usize, fill: Fill) -> Result<Buffer> {
        pool.check(len)?;
        let block = Block {
            len,
            fill,
            memory: OnceLock::new(),
            purpose: UNTOLD,
            entry: OnceLock::new(),
            metered: OnceLock::new(),
            seen: OnceLock::new(),
            pool: Some(pool.clone()),
        };
        Ok(Buffer { block: Arc::new(block), offset: 0, len })
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it starts in its block.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// A part of it, at any byte.
    pub fn view(&self, offset: usize, len: usize) -> Result<Buffer> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => {
                Ok(Buffer { block: self.block.clone(), offset: self.offset + offset, len })
            }
            _ => Err(Error::Launch(format!(
                "bytes {offset}..{offset}+{len} of a buffer of {} bytes",
                self.len
            ))),
        }
    }

    /// Whether both have bytes in common.
    pub fn overlaps(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.block, &other.block)
            && self.offset < other.offset + other.len
            && other.offset < self.offset + self.len
    }

    /// Whether no other handle on the block exists.
    pub fn is_unique(&self) -> bool {
        Arc::strong_count(&self.block) == 1
    }

    /// Whether it came from this pool, or is a file, which comes from none.
    pub fn is_of(&self, pool: &Arc<Pool>) -> bool {
        self.block.pool.as_ref().is_none_or(|own| Arc::ptr_eq(own, pool))
    }

    /// Whether its memory exists by now.
    pub fn is_allocated(&self) -> bool {
        self.block.memory.get().is_some()
    }

    /// Whether it may be written: all but files that were opened for reading.
    pub fn is_writable(&self) -> bool {
        self.block.memory.get().is_none_or(Memory::is_writable)
    }

    /// Whether it is part of a file.
    pub fn is_file(&self) -> bool {
        self.file().is_some()
    }

    fn file(&self) -> Option<&FileMemory> {
        self.block.memory.get()?.as_file()
    }

    /// An error if it is part of a file that has become shorter. To be called before its pointer is followed.
    pub fn check(&self) -> Result<()> {
        self.file().map_or(Ok(()), FileMemory::check)
    }

    /// Makes sure that its file, if it is part of one, has room for what will be written to these of its bytes.
    pub fn reserve(&self, bytes: Range<usize>) -> Result<()> {
        self.file().map_or(Ok(()), |file| file.reserve(self.in_block(bytes)))
    }

    /// Brings what was written to these of its bytes to its file.
    pub fn commit(&self, bytes: Range<usize>) -> Result<()> {
        self.file().map_or(Ok(()), |file| file.commit(self.in_block(bytes)))
    }

    fn in_block(&self, bytes: Range<usize>) -> Range<usize> {
        bytes.start + self.offset..bytes.end + self.offset
    }

    /// Waits until its file, if it is part of one, holds what was written to it.
    pub fn flush(&self) -> Result<()> {
        self.file().map_or(Ok(()), FileMemory::flush)
    }

    /// The first byte; allocates. Valid for `len` bytes as long as a handle exists.
    ///
    /// # Errors
    /// No room, and memory that the host cannot address.
    pub fn as_ptr(&self) -> Result<*mut u8> {
        let memory = self.block.memory()?;
        match memory.as_device() {
            // `wrapping_add` stays within the block: `view` has checked the offset.
            None => Ok(memory.as_ptr().wrapping_add(self.offset)),
            Some(_) => Err(Error::Launch("this memory is a device's, not the host's".into())),
        }
    }

    /// The block of memory that only its device can address, if it is part of one; allocates.
    pub fn as_device(&self) -> Result<Option<&dyn DeviceMemory>> {
        Ok(self.block.memory()?.as_device())
    }

    /// Copies all of it out.
    pub fn read(&self, to: &mut [u8]) -> Result<()> {
        self.same_len(to.len())?;
        if let Some(file) = self.file() {
            return file.read(self.offset, to);
        }
        if let Some(device) = self.as_device()? {
            return device.read(self.offset, to);
        }
        let from = self.as_ptr()?;
        // SAFETY: `from` is valid for `len` initialised bytes, `to` is a distinct Rust slice of that length.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), self.len) };
        Ok(())
    }

    /// All of it as a vector of numbers.
    pub fn to_vec<T: Plain>(&self) -> Result<Vec<T>> {
        let len = self.len / size_of::<T>();
        self.same_len(len * size_of::<T>())?;
        let mut numbers = memory::vector::<T>(len)?;
        if self.is_file() || self.as_device()?.is_some() {
            // SAFETY: the vector has room for as many bytes, which are zeros before they are read, and any bytes are numbers.
            unsafe {
                let bytes: *mut u8 = numbers.as_mut_ptr().cast();
                bytes.write_bytes(0, self.len);
                numbers.set_len(len);
                self.read(std::slice::from_raw_parts_mut(bytes, self.len))?;
            }
            return Ok(numbers);
        }
        let from = self.as_ptr()?;
        // SAFETY: `from` is valid for `self.len` initialised bytes, the vector has room for as many, and any bytes are
        // numbers.
        unsafe {
            std::ptr::copy_nonoverlapping(from, numbers.as_mut_ptr().cast(), self.len);
            numbers.set_len(len);
        }
        Ok(numbers)
    }

    /// Shows all of it as numbers; a copy where it is a file, or is not aligned to them. Nobody may write to it meanwhile.
    pub fn with_slice<T: Plain, R>(&self, see: impl FnOnce(&[T]) -> R) -> Result<R> {
        let len = self.len / size_of::<T>();
        self.same_len(len * size_of::<T>())?;
        if self.as_device()?.is_some() {
            return Ok(see(&self.to_vec()?));
        }
        let from = self.as_ptr()?.cast::<T>();
        if self.is_empty() || self.is_file() || !from.is_aligned() {
            return Ok(see(&self.to_vec()?));
        }
        // SAFETY: `from` is aligned and valid for `self.len` initialised bytes as long as this handle, and any bytes are
        // numbers. Kernels write only to memory whose value nobody holds, and whoever calls this holds it.
        Ok(see(unsafe { std::slice::from_raw_parts(from, len) }))
    }

    /// Has its only owner write to it.
    pub fn fill<R>(&mut self, write: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        if !self.is_unique() {
            return Err(Error::Launch("memory that others have, too".into()));
        }
        if let Some(device) = self.as_device()? {
            let mut bytes = vec![0; self.len];
            let result = write(&mut bytes);
            device.write(self.offset, &bytes)?;
            return Ok(result);
        }
        let to = self.writable_ptr()?;
        // SAFETY: `to` is valid for `len` bytes, which are initialised as all memory is, and writable. No other handle on
        // them exists, and this one is borrowed.
        Ok(write(unsafe { std::slice::from_raw_parts_mut(to, self.len) }))
    }

    /// Replaces all of it.
    pub fn write(&self, from: &[u8]) -> Result<()> {
        self.same_len(from.len())?;
        if let Some(device) = self.as_device()? {
            return device.write(self.offset, from);
        }
        let to = self.writable_ptr()?;
        if let Some(file) = self.file() {
            return file.write(self.offset, from);
        }
        // SAFETY: `to` is valid for `len` bytes and writable, `from` is a distinct Rust slice of that length.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, self.len) };
        Ok(())
    }

    /// Replaces all of it by the bytes of another buffer, which may overlap if both are the host's memory.
    pub fn copy_from(&self, other: &Buffer) -> Result<()> {
        self.same_len(other.len)?;
        if self.goes_by_parts()? || other.goes_by_parts()? {
            return self.copy_in_parts(other);
        }
        let (from, to) = (other.as_ptr()?, self.writable_ptr()?);
        // SAFETY: both are valid for `len` bytes, `to` is writable; `copy` permits overlap.
        unsafe { std::ptr::copy(from, to, self.len) };
        Ok(())
    }

    /// Whether the host cannot copy it where it is.
    fn goes_by_parts(&self) -> Result<bool> {
        Ok(self.is_file() || self.as_device()?.is_some())
    }

    /// By way of other memory: the system copies to and from files, and says what is wrong with them.
    fn copy_in_parts(&self, other: &Buffer) -> Result<()> {
        let mut part = vec![0; self.len.min(PART)];
        for start in (0..self.len).step_by(PART) {
            let part = &mut part[..PART.min(self.len - start)];
            other.view(start, part.len())?.read(part)?;
            self.view(start, part.len())?.write(part)?;
        }
        Ok(())
    }

    /// The first byte, for writing.
    pub fn writable_ptr(&self) -> Result<*mut u8> {
        let ptr = self.as_ptr()?;
        if self.is_writable() {
            return Ok(ptr);
        }
        Err(Error::Launch("this memory is a file opened for reading".into()))
    }

    fn same_len(&self, len: usize) -> Result<()> {
        if len == self.len {
            return Ok(());
        }
        Err(Error::Launch(format!("{len} bytes for a buffer of {}", self.len)))
    }
}

impl Block {
    fn memory(&self) -> Result<&Memory> {
        if let Some(memory) = self.memory.get() {
            return Ok(memory);
        }
        let pool = self.pool.as_ref().expect("memory without a pool exists from the start");
        let start = (self.len > 0 && observe::is_wanted(Kind::Runs)).then(Instant::now);
        let Taken { memory, entry, is_zero, is_reused } = pool.take(self.len, self.purpose)?;
        if self.fill == Fill::Zeros && !is_zero {
            match memory.as_device() {
                Some(device) => device.write(0, &vec![0; self.len])?,
                // SAFETY: a block from the pool has at least `len` bytes, and nobody else knows of it yet.
                None => unsafe { memory.as_ptr().write_bytes(0, self.len) },
            }
        }
        // Two threads may have come here at once; the loser's block goes back.
        match self.memory.set(memory) {
            Ok(()) => {
                _ = self.entry.set(entry);
                _ = self.metered.set(Metered::new(self.len));
                start.into_iter().for_each(|start| self.show(pool, start, is_reused));
            }
            Err(second) => pool.give(second, entry),
        }
        Ok(self.memory.get().expect("set above"))
    }

    /// Shows observers that the block has memory.
    fn show(&self, pool: &Pool, start: Instant, is_reused: bool) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let block = *self.seen.get_or_init(|| NEXT.fetch_add(1, Relaxed));
        let (device, bytes, holder, end) = (pool.device(), self.len, self.purpose, Instant::now());
        observe::see(&Event::Allocated { device, block, bytes, holder, is_reused, start, end });
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let (Some(memory), Some(pool)) = (self.memory.take(), &self.pool) {
            pool.give(memory, *self.entry.get().expect("set with the memory"));
            let seen = self.seen.get().filter(|_| observe::is_wanted(Kind::Runs));
            if let Some(&block) = seen {
                observe::see(&Event::Freed { device: pool.device(), block });
            }
        }
    }
}
