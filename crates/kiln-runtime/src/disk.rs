//! DISK: files as memory. A file is mapped whole; its parts are views at any byte.
//!
//! Nothing here changes the length of a mapped file, so no mapping loses its pages. Another program that truncates a
//! file while it is mapped kills this one (SIGBUS), as for every user of `mmap`.

use crate::buffer::Buffer;
use crate::device::{Backend, Loaded};
use crate::error::{Error, Result};
use crate::memory::Memory;
use kiln_ir::program::Program;
use memmap2::{MmapOptions, MmapRaw};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maps an existing file for reading.
pub fn open(path: &Path) -> Result<Buffer> {
    let file = File::open(path).map_err(|e| Error::file(path, e))?;
    map(path, &file, false)
}

/// Maps an existing file for reading and writing: what is written reaches the file.
pub fn open_writable(path: &Path) -> Result<Buffer> {
    let file =
        OpenOptions::new().read(true).write(true).open(path).map_err(|e| Error::file(path, e))?;
    map(path, &file, true)
}

/// Makes a new file of zeros and maps it for reading and writing. An existing file is left alone and is an error.
pub fn create(path: &Path, bytes: usize) -> Result<Buffer> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| Error::file(path, e))?;
    file.set_len(bytes as u64).map_err(|e| Error::file(path, e))?;
    map(path, &file, true)
}

/// Writes over the first bytes of a file. Whoever has mapped it sees them.
pub fn overwrite(path: &Path, bytes: &[u8]) -> Result<()> {
    OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(bytes))
        .map_err(|e| Error::file(path, e))
}

/// As [`overwrite`], but the file is made anew: whoever has mapped it keeps what was there.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let place = fs::canonicalize(path).map_err(|e| Error::file(path, e))?;
    let mut beside = place.clone().into_os_string();
    beside.push(format!(".{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    let beside = Path::new(&beside);
    let written = fs::copy(&place, beside).map_err(|e| Error::file(path, e)).and_then(|_| {
        overwrite(beside, bytes)?;
        fs::rename(beside, &place).map_err(|e| Error::file(path, e))
    });
    if written.is_err() {
        // the error that counts is the first one
        let _ = fs::remove_file(beside);
    }
    written
}

/// Numbers the files that are written beside others.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// DISK as a device: it holds files and runs nothing. Its buffers come from the functions above.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskBackend;

impl Backend for DiskBackend {
    fn name(&self) -> &str {
        "DISK"
    }

    fn alloc(&self, _: usize) -> Result<Buffer> {
        Err(Error::Unsupported("memory on DISK needs a file".into()))
    }

    fn load(&self, program: &Program) -> Result<Loaded> {
        Err(Error::Unsupported(format!("DISK runs no kernels, so not {}", program.name)))
    }

    fn compiler(&self) -> String {
        "none (files only)".into()
    }
}

fn map(path: &Path, file: &File, writable: bool) -> Result<Buffer> {
    let meta = file.metadata().map_err(|e| Error::file(path, e))?;
    if !meta.is_file() {
        return Err(Error::file(path, "not a regular file"));
    }
    if meta.len() == 0 {
        return Ok(Buffer::from_memory(Memory::zeroed(0)?));
    }
    map_all(file, writable)
        .map(|raw| Buffer::from_memory(Memory::file(raw, writable)))
        .map_err(|e| Error::file(path, e))
}

fn map_all(file: &File, writable: bool) -> std::io::Result<MmapRaw> {
    let options = MmapOptions::new();
    if writable { options.map_raw(file) } else { options.map_raw_read_only(file) }
}
