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
use std::fs::{File, OpenOptions};
use std::path::Path;

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

/// Fails where this process may not write a file of so many bytes: the system would end it.
pub fn check_size(path: &Path, bytes: u64) -> Result<()> {
    let most = most_bytes();
    match bytes > most {
        true => Err(Error::file(path, format!("{bytes} bytes, where {most} may be written"))),
        false => Ok(()),
    }
}

/// The most bytes that a file of this process may have.
#[cfg(unix)]
fn most_bytes() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: it writes two numbers.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur
}

#[cfg(not(unix))]
fn most_bytes() -> u64 {
    u64::MAX
}

/// Which file it is, whatever its name: another one that was put in its place is told from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity(u64, u64);

/// The identity of the file at `path`. Where the system has none, all are equal.
pub fn identity(path: &Path) -> Result<Identity> {
    let meta = std::fs::metadata(path).map_err(|e| Error::file(path, e))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        Ok(Identity(meta.dev(), meta.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = meta;
        Ok(Identity(0, 0))
    }
}

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
