//! The mapping of a file, and how writes to it reach the disk.
//!
//! An access to a mapping can fail in two ways, and then the system ends the process by a signal. First, the file
//! system has no room for a write: so room is reserved before (`reserve`). Second, another program has made the file
//! shorter: so the length is compared before each use (`check`). Only a change between that comparison and the use
//! still ends the process.

use crate::error::{Error, Result};
use memmap2::{MmapOptions, MmapRaw};
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file in memory.
#[derive(Debug)]
pub(crate) struct FileMemory {
    map: MmapRaw,
    file: File,
    path: PathBuf,
    writes: Writes,
}

/// How writes to the memory reach the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Writes {
    /// It was opened for reading.
    None,
    /// The memory is the file. Its room is reserved.
    Mapped,
    /// The file system cannot promise room to a mapping, so the memory is a copy where it was written, which is written
    /// to the file as such.
    Copied,
}

/// What is compared and written at once.
const PART: usize = 1 << 20;

impl FileMemory {
    /// All of an open file.
    pub(super) fn new(path: &Path, file: File, writes: Writes) -> Result<FileMemory> {
        let map = map_all(&file, writes).map_err(|e| Error::file(path, e))?;
        Ok(FileMemory { map, file, path: path.to_owned(), writes })
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writes != Writes::None
    }

    /// Fails if another program has made the file shorter than its mapping.
    pub(crate) fn check(&self) -> Result<()> {
        let (has, wants) = (meta(&self.path, &self.file)?.len(), self.map.len());
        match has < wants as u64 {
            true => Err(self.failed(format!("was cut from {wants} to {has} bytes"))),
            false => Ok(()),
        }
    }

    /// Copies out what the file holds from byte `at` on.
    pub(crate) fn read(&self, at: usize, to: &mut [u8]) -> Result<()> {
        self.check()?;
        self.file.read_exact_at(to, at as u64).map_err(|e| self.failed(e))
    }

    /// Replaces what the file holds from byte `at` on.
    pub(crate) fn write(&self, at: usize, from: &[u8]) -> Result<()> {
        self.check()?;
        check_size(&self.path, (at + from.len()) as u64)?;
        self.file.write_all_at(from, at as u64).map_err(|e| self.failed(e))
    }

    /// Makes sure that these bytes can be written.
    pub(crate) fn reserve(&self, bytes: Range<usize>) -> Result<()> {
        self.check()?;
        match self.writes {
            Writes::Mapped if !bytes.is_empty() => {
                let why = |e| self.failed(format!("no room for bytes {bytes:?}: {e}"));
                reserve(&self.file, bytes.clone()).map_err(why)
            }
            // what an earlier attempt has left
            Writes::Copied => self.forget_copies(),
            Writes::Mapped | Writes::None => Ok(()),
        }
    }

    /// Brings these bytes, which were written to the memory, to the file.
    pub(crate) fn commit(&self, bytes: Range<usize>) -> Result<()> {
        if self.writes != Writes::Copied {
            return Ok(());
        }
        check_size(&self.path, bytes.end as u64)?;
        let starts = bytes.clone().step_by(PART);
        let parts = starts.map(|start| start..bytes.end.min(start + PART));
        let mut room = Vec::new();
        let mut write = |part| self.write_part(part, &mut room).map_err(|e| self.failed(e));
        let written = parts.into_iter().try_for_each(&mut write);
        written.and(self.forget_copies())
    }

    /// Writes a part where it differs from what the file holds.
    fn write_part(&self, bytes: Range<usize>, room: &mut Vec<u8>) -> std::io::Result<()> {
        room.resize(bytes.len(), 0);
        self.file.read_exact_at(room, bytes.start as u64)?;
        // SAFETY: the bytes are within the mapping, and by `Buffer`'s contract nobody writes to them now.
        let new = unsafe {
            std::slice::from_raw_parts(self.as_ptr().add(bytes.start).cast_const(), bytes.len())
        };
        match new == room.as_slice() {
            true => Ok(()),
            false => self.file.write_all_at(new, bytes.start as u64),
        }
    }

    /// Makes the memory show the file again.
    fn forget_copies(&self) -> Result<()> {
        use memmap2::UncheckedAdvice::DontNeed;
        // SAFETY: the mapping is private and of a file, so its pages come back as that file's; by `Buffer`'s contract
        // nobody uses them now.
        let done = unsafe { self.map.unchecked_advise_range(DontNeed, 0, self.map.len()) };
        done.map_err(|e| self.failed(e))
    }

    /// Waits until the disk holds what the file does.
    pub(crate) fn flush(&self) -> Result<()> {
        let flushed = match self.writes {
            Writes::None => Ok(()),
            Writes::Mapped => self.map.flush(),
            Writes::Copied => self.file.sync_data(),
        };
        flushed.map_err(|e| self.failed(e))
    }

    fn failed(&self, why: impl ToString) -> Error {
        Error::file(&self.path, why)
    }
}

fn map_all(file: &File, writes: Writes) -> std::io::Result<MmapRaw> {
    let mut options = MmapOptions::new();
    match writes {
        Writes::None => options.map_raw_read_only(file),
        Writes::Mapped => options.map_raw(file),
        // SAFETY: only raw pointers into it are handed out, for which `Buffer`'s contract holds.
        Writes::Copied => unsafe { options.no_reserve_swap().map_copy(file) }.map(MmapRaw::from),
    }
}

pub(super) fn meta(path: &Path, file: &File) -> Result<Metadata> {
    file.metadata().map_err(|e| Error::file(path, e))
}

/// Fails if this process may not write so many bytes to a file: the system would end it.
pub fn check_size(path: &Path, bytes: u64) -> Result<()> {
    let most = most_bytes();
    match bytes > most {
        true => Err(Error::file(path, format!("{bytes} bytes, where {most} may be written"))),
        false => Ok(()),
    }
}

/// The most bytes that a file of this process may have.
#[cfg(unix)]
pub(crate) fn most_bytes() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: it writes two numbers.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur
}

#[cfg(not(unix))]
pub(crate) fn most_bytes() -> u64 {
    u64::MAX
}

/// Whether space that is reserved in the file can be used by a mapping of it.
#[cfg(target_os = "linux")]
pub(super) fn can_reserve(file: &File) -> bool {
    use std::os::fd::AsRawFd;
    /// File systems that write changed blocks to another place: btrfs, ZFS, bcachefs, F2FS.
    const MOVING: [u32; 4] = [0x9123_683e, 0x2fc1_2fc1, 0xca45_1a4e, 0xf2f5_2010];
    // SAFETY: numbers, for which zeros are valid, and a descriptor that is open.
    let (known, found) = unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        (libc::fstatfs(file.as_raw_fd(), &mut found) == 0, found)
    };
    // asked of one byte at the end, which is there
    let probe = || {
        let len = file.metadata()?.len() as usize;
        reserve(file, len.saturating_sub(1)..len.max(1))
    };
    let is_full = |e: &std::io::Error| {
        matches!(e.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EINTR))
    };
    known
        && !MOVING.contains(&(found.f_type as u32))
        && probe().as_ref().map_or_else(is_full, |()| true)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn can_reserve(_: &File) -> bool {
    false
}

/// Gives these bytes of a file blocks on the disk, all or with an error. They keep their values.
#[cfg(target_os = "linux")]
fn reserve(file: &File, bytes: Range<usize>) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let (start, len) = (bytes.start as libc::off_t, bytes.len() as libc::off_t);
    loop {
        // SAFETY: a descriptor that is open, and numbers. The length of the file stays.
        let done =
            unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, start, len) };
        let error = std::io::Error::last_os_error();
        match done {
            0 => return Ok(()),
            _ if error.kind() == std::io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_: &File, _: Range<usize>) -> std::io::Result<()> {
    Ok(())
}
