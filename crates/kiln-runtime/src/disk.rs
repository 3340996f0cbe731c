//! The DISK device: files as memory. A file is mapped whole, and its parts are views at any byte.

mod mapping;

pub use mapping::check_size;
pub(crate) use mapping::{FileMemory, most_bytes};

use crate::buffer::Buffer;
use crate::device::{Backend, Loaded};
use crate::error::{Error, Result};
use crate::memory::Memory;
use kiln_ir::program::Program;
use mapping::{Writes, can_reserve, meta};
use std::fs::{File, FileType, OpenOptions};
use std::path::Path;

/// Maps an existing file for reading.
pub fn open(path: &Path) -> Result<Buffer> {
    map(path, open_regular(path, OpenOptions::new().read(true))?, Writes::None)
}

/// Maps an existing file for reading and writing: what is written reaches the file by [`Buffer::commit`].
pub fn open_writable(path: &Path) -> Result<Buffer> {
    let file = open_regular(path, OpenOptions::new().read(true).write(true))?;
    let writes = if can_reserve(&file) { Writes::Mapped } else { Writes::Copied };
    map(path, file, writes)
}

/// As [`open_writable`], but as if the file system could not reserve room.
pub fn open_writable_copied(path: &Path) -> Result<Buffer> {
    map(path, open_regular(path, OpenOptions::new().read(true).write(true))?, Writes::Copied)
}

/// Makes a new file of zeros and maps it for reading and writing. An existing file is left alone and is an error.
pub fn create(path: &Path, bytes: usize) -> Result<Buffer> {
    if path.as_os_str().is_empty() {
        return Err(no_name());
    }
    check_size(path, bytes as u64)?;
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    made.and_then(|file| file.set_len(bytes as u64)).map_err(|e| Error::file(path, e))?;
    open_writable(path)
}

/// Opens a file that has memory. Without waiting: a named pipe would wait for somebody at its other end.
fn open_regular(path: &Path, options: &mut OpenOptions) -> Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    }
    if path.as_os_str().is_empty() {
        return Err(no_name());
    }
    // a folder is refused as what it is, not for what cannot be done to it
    let kind = std::fs::metadata(path).map(|meta| meta.file_type());
    kind.map_err(|e| Error::file(path, e)).and_then(|kind| check_kind(path, kind))?;
    let file = options.open(path).map_err(|e| Error::file(path, e))?;
    check_kind(path, meta(path, &file)?.file_type())?;
    Ok(file)
}

fn no_name() -> Error {
    Error::file(Path::new("DISK:"), "names no file")
}

fn check_kind(path: &Path, kind: FileType) -> Result<()> {
    match kind.is_file() {
        true => Ok(()),
        false => Err(Error::file(path, format!("is {}, not a file with memory", name_of(kind)))),
    }
}

#[cfg(unix)]
fn name_of(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match kind {
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a named pipe",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(not(unix))]
fn name_of(kind: FileType) -> &'static str {
    if kind.is_dir() { "a folder" } else { "a device" }
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

    fn reaches(&self, _: &Buffer) -> bool {
        false
    }

    fn load(&self, program: &Program) -> Result<Loaded> {
        Err(Error::Unsupported(format!("DISK runs no kernels, so not {}", program.name)))
    }

    fn compiler(&self) -> String {
        "none (files only)".into()
    }
}

fn map(path: &Path, file: File, writes: Writes) -> Result<Buffer> {
    let len = meta(path, &file)?.len();
    if len == 0 {
        return Ok(Buffer::from_memory(Memory::zeroed(0)?));
    }
    let file = FileMemory::new(path, file, writes)?;
    Ok(Buffer::from_memory(Memory::file(file)))
}
