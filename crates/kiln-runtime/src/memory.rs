//! A block of bytes from the system, aligned and initialised. A failed allocation is an error and never ends the
//! process.
//!
//! Blocks start as zeros. So bytes are always initialised, and reading memory that nobody wrote is useless but
//! harmless.

use crate::disk::FileMemory;
use crate::error::{Error, Result};
use memmap2::{MmapMut, MmapOptions, MmapRaw};
use std::alloc::Layout;
use std::ptr::NonNull;

/// Every block starts at a multiple of this: a cache line, and the widest vector register.
pub const ALIGN: usize = 64;

/// From here on blocks are mapped: the system's zero pages cost nothing until they are touched.
const MAPPED_FROM: usize = 256 << 10;

/// From here on the system is asked for huge pages.
const HUGE_FROM: usize = 4 << 20;

/// A huge page, on x86-64 and with the usual pages of arm64.
const HUGE: usize = 2 << 20;

/// What advice about memory is given in multiples of: as large as pages are on any processor.
#[cfg(target_os = "linux")]
const PAGE: usize = 64 << 10;

/// From here on a request is compared with the memory that is available, since Linux grants what it does not have and
/// kills the process later.
const CHECKED_FROM: usize = 64 << 20;

/// Memory that only its device can address. The host reads and writes it by copies.
///
/// Both methods wait until everything is done that the device was asked to do before.
pub trait DeviceMemory: Send + Sync + std::fmt::Debug {
    /// Copies out the bytes from `offset` on.
    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()>;

    /// Replaces the bytes from `offset` on.
    fn write(&self, offset: usize, from: &[u8]) -> Result<()>;

    /// Itself, so that its device knows it again.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// One block.
#[derive(Debug)]
pub struct Memory {
    ptr: NonNull<u8>,
    len: usize,
    origin: Origin,
}

#[derive(Debug)]
enum Origin {
    Heap(Layout),
    /// Held for its `Drop`, which unmaps.
    Mapped(#[allow(dead_code)] MmapRaw),
    File(FileMemory),
    Device(Box<dyn DeviceMemory>),
}

// SAFETY: a block owns its bytes; nothing in it is tied to a thread.
unsafe impl Send for Memory {}
// SAFETY: shared access only hands out the pointer; whoever follows it answers for the race (see `Buffer`).
unsafe impl Sync for Memory {}

impl Memory {
    /// A block of zeros, or the reason why there is none.
    pub fn zeroed(bytes: usize) -> Result<Memory> {
        check_available(bytes)?;
        if bytes >= MAPPED_FROM { Memory::mapped(bytes) } else { Memory::heap(bytes) }
    }

    /// A block of zeros that kernels read again and again, in huge pages where the system has them: a huge page is contiguous
    /// in physical memory, so none of its parts take the same places of a cache, and it needs one entry of the TLB.
    pub(crate) fn scratch(bytes: usize) -> Result<Memory> {
        if bytes < MAPPED_FROM {
            return Memory::zeroed(bytes);
        }
        let len = bytes.next_multiple_of(HUGE);
        let mut memory = Memory::zeroed(len + HUGE)?;
        let skipped = memory.ptr.as_ptr().align_offset(HUGE);
        #[cfg(target_os = "linux")]
        if let Origin::Mapped(map) = &memory.origin {
            let _ = map.advise_range(memmap2::Advice::HugePage, skipped, len);
        }
        // SAFETY: at most `HUGE` bytes are skipped, and the block has as many more than `len`.
        memory.ptr = unsafe { memory.ptr.add(skipped) };
        memory.len = len;
        Ok(memory)
    }

    /// A mapped file.
    pub(crate) fn file(file: FileMemory) -> Memory {
        let ptr = NonNull::new(file.as_ptr()).expect("a mapping has an address");
        Memory { ptr, len: file.len(), origin: Origin::File(file) }
    }

    /// A block of a device.
    pub fn of_device(memory: Box<dyn DeviceMemory>, len: usize) -> Memory {
        Memory { ptr: NonNull::dangling(), len, origin: Origin::Device(memory) }
    }

    /// The device's memory, if the host cannot address it.
    pub fn as_device(&self) -> Option<&dyn DeviceMemory> {
        match &self.origin {
            Origin::Device(memory) => Some(&**memory),
            Origin::Heap(_) | Origin::Mapped(_) | Origin::File(_) => None,
        }
    }

    /// The first byte; of a device's block an address that nobody may follow.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the bytes may be changed: all but files that were opened for reading.
    pub fn is_writable(&self) -> bool {
        self.as_file().is_none_or(FileMemory::is_writable)
    }

    /// The file that it is, if it is one.
    pub(crate) fn as_file(&self) -> Option<&FileMemory> {
        match &self.origin {
            Origin::File(file) => Some(file),
            Origin::Heap(_) | Origin::Mapped(_) | Origin::Device(_) => None,
        }
    }

    fn heap(bytes: usize) -> Result<Memory> {
        let layout = Layout::from_size_align(bytes.max(1), ALIGN)
            .map_err(|e| Error::Memory { bytes, why: e.to_string() })?;
        // SAFETY: the layout has a size of at least one byte.
        let ptr = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
            .ok_or_else(|| Error::Memory { bytes, why: "the allocator is out of memory".into() })?;
        Ok(Memory { ptr, len: bytes, origin: Origin::Heap(layout) })
    }

    fn mapped(bytes: usize) -> Result<Memory> {
        let map: MmapMut = MmapOptions::new()
            .len(bytes)
            .map_anon()
            .map_err(|e| Error::Memory { bytes, why: e.to_string() })?;
        // all of it: a part without the advice would keep neighbouring blocks from sharing a huge page
        #[cfg(target_os = "linux")]
        if bytes >= HUGE_FROM {
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        let map = MmapRaw::from(map);
        let ptr = NonNull::new(map.as_mut_ptr()).expect("a mapping has an address");
        Ok(Memory { ptr, len: bytes, origin: Origin::Mapped(map) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Origin::Heap(layout) = self.origin {
            // SAFETY: allocated by `heap` with this layout, freed only here.
            unsafe { std::alloc::dealloc(self.ptr.as_ptr(), layout) }
        }
    }
}

/// A vector with room for so many elements, or the reason why there is none.
pub(crate) fn vector<T>(len: usize) -> Result<Vec<T>> {
    let bytes = len.saturating_mul(size_of::<T>());
    check_available(bytes)?;
    let mut vector: Vec<T> = Vec::new();
    vector.try_reserve_exact(len).map_err(|e| Error::Memory { bytes, why: e.to_string() })?;
    ask_for_huge_pages(vector.as_mut_ptr().cast(), bytes);
    Ok(vector)
}

/// Asks for huge pages inside a block of the heap that is about to be touched for the first time: a fault for each 4 KiB
/// takes several times as long as writing them does. Only a hint, as for mappings: without it everything works.
fn ask_for_huge_pages(start: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= HUGE_FROM {
        // whole pages inside the block
        let skipped = start.align_offset(PAGE);
        let len = (bytes - skipped) / PAGE * PAGE;
        // SAFETY: the pages belong to the block, and the advice changes nothing of what they hold.
        unsafe { libc::madvise(start.wrapping_add(skipped).cast(), len, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}

/// Fails if the machine cannot have so much memory.
pub(crate) fn check_available(bytes: usize) -> Result<()> {
    if bytes > isize::MAX as usize - ALIGN {
        return Err(Error::Memory { bytes, why: "more than can be addressed".into() });
    }
    if bytes < CHECKED_FROM {
        return Ok(());
    }
    match available() {
        Some(left) if bytes > left => {
            Err(Error::Memory { bytes, why: format!("{left} bytes are available") })
        }
        _ => Ok(()),
    }
}

/// Fails where so many bytes cannot be had now, of the machine or of this process's address space.
pub(crate) fn check_room(bytes: usize) -> Result<()> {
    let none = |why: String| Err(Error::Memory { bytes, why });
    match available() {
        Some(left) if bytes > left => none(format!("{left} bytes are available")),
        // taken and given back: limits of address space are not told otherwise
        _ => MmapOptions::new().len(bytes).map_anon().map(drop).or_else(|e| none(e.to_string())),
    }
}

/// Bytes that this process may still use: the machine's, or its control group's if those are fewer.
pub fn available() -> Option<usize> {
    [machine_available(), group_available()].into_iter().flatten().min()
}

fn machine_available() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()? << 10)
}

fn group_available() -> Option<usize> {
    let number = |path| std::fs::read_to_string(path).ok()?.trim().parse::<usize>().ok();
    let limit = number("/sys/fs/cgroup/memory.max")?;
    // Cached files count as used, but make room for those who need it.
    let stat = std::fs::read_to_string("/sys/fs/cgroup/memory.stat").ok()?;
    let files = stat.lines().find_map(|line| line.strip_prefix("file ")?.trim().parse().ok());
    let used = number("/sys/fs/cgroup/memory.current")?.saturating_sub(files.unwrap_or(0));
    Some(limit.saturating_sub(used))
}
