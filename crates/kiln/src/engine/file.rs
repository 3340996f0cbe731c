//! Files as memory: a storage whose buffer is a mapped file, and writing to it.
//!
//! A new version is computed straight into the mapping, by the kernels that would overwrite any other buffer. If the
//! old version is still needed, it is copied to memory first. A write waits for kernels that read files.

use super::{Failure, leaf, testing};
use crate::device::Device;
use kiln_ir::arg::Shape;
use kiln_ir::{DType, UOp};
use kiln_runtime::disk::{self, Identity};
use kiln_runtime::{Backend, Buffer};
use std::ops::Range;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A file that is open.
#[derive(Clone)]
pub(crate) struct File {
    /// The leaf of its present content.
    pub(crate) leaf: UOp,
    /// Its memory; none until the file exists.
    memory: Option<(Buffer, Identity)>,
    /// Whether it was written and not yet waited for.
    pub(crate) is_dirty: bool,
}

/// Kernels that read files exclude writers. This lock is taken after the planning lock, if at all, and released before
/// it.
static ACCESS: RwLock<()> = RwLock::new(());

/// A lock for reading files, or for writing to one.
pub(super) enum Access {
    Reads { _guard: RwLockReadGuard<'static, ()> },
    Writes { _guard: RwLockWriteGuard<'static, ()> },
}

/// No file is written while this lives.
pub(super) fn reading() -> Access {
    Access::Reads { _guard: ACCESS.read().unwrap_or_else(PoisonError::into_inner) }
}

/// No file is used by anybody else while this lives.
pub(super) fn writing() -> Access {
    Access::Writes { _guard: ACCESS.write().unwrap_or_else(PoisonError::into_inner) }
}

/// A version that will be the content of a file.
pub(crate) struct Pinned {
    pub(super) version: UOp,
    /// The content of the file until then.
    pub(super) old: UOp,
    /// How many references to `old` are neither a graph's nor a reader's.
    pub(super) own: usize,
    pub(super) memory: Buffer,
}

impl File {
    /// The file at `path`. Its leaf has this dtype and shape if they cover the whole file, else it is flat. Until the
    /// file exists, the leaf has no value.
    pub(crate) fn open(
        path: &Path,
        dtype: DType,
        shape: Shape,
        device: &Device,
    ) -> Result<File, Failure> {
        let wanted = leaf::bytes_of(dtype, &shape)?;
        let memory = match disk::open(path) {
            Ok(memory) => memory,
            Err(why) if path.exists() => return Err(why.to_string()),
            Err(why) => {
                let why = format!("{why}; the first write would make it");
                let leaf = leaf::missing(&why, dtype, shape, device);
                return Ok(File { leaf, memory: None, is_dirty: false });
            }
        };
        let holds = memory.len();
        if holds < wanted {
            let why = format!("holds {holds} bytes, too few for {shape:?} of {dtype}");
            return Err(format!("{} {why}", path.display()));
        }
        let identity = disk::identity(path).map_err(|e| e.to_string())?;
        let (dtype, shape) = match holds.is_multiple_of(dtype.size()) {
            _ if holds == wanted => (dtype, shape),
            true => (dtype, Shape::from_slice(&[holds / dtype.size()])),
            false => (DType::U8, Shape::from_slice(&[holds])),
        };
        let leaf = leaf::new(memory.clone(), dtype, shape, device);
        Ok(File { leaf, memory: Some((memory, identity)), is_dirty: false })
    }

    /// Whether `path` still names this file.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        self.memory.as_ref().map(|(_, identity)| *identity) == disk::identity(path).ok()
    }

    /// Fails if `path` names no file any more, or another one.
    pub(crate) fn check_is_at(&self, path: &Path) -> Result<(), Failure> {
        let now = disk::identity(path).map_err(|why| format!("{why}; it was there before"))?;
        match &self.memory {
            Some((_, then)) if *then != now => {
                Err(format!("{} is another file than was opened", path.display()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Makes the file writable: maps it again, or creates it.
    pub(crate) fn make_writable(&mut self, path: &Path) -> Result<(), Failure> {
        let text = |e: kiln_runtime::Error| e.to_string();
        let memory = match &self.memory {
            Some((memory, _)) if memory.is_writable() => return Ok(()),
            Some((memory, _)) => {
                self.check_is_at(path)?;
                let writable = opened_writable(path).map_err(text)?;
                writable.view(0, memory.len()).map_err(text)?
            }
            None => disk::create(path, leaf::bytes_of(self.leaf.dtype(), self.leaf.shape())?)
                .map_err(text)?,
        };
        leaf::give_back(&self.leaf, memory.clone());
        self.memory = Some((memory, disk::identity(path).map_err(text)?));
        Ok(())
    }

    /// What makes `version` the content of the file at `path`. The storage that the file belongs to holds one other
    /// `File`.
    pub(crate) fn pinned(self, version: &UOp, path: &Path) -> Result<Pinned, Failure> {
        self.check_is_at(path)?;
        let (memory, _) = self.memory.expect("what has been written to is mapped");
        Ok(Pinned { version: version.clone(), old: self.leaf, own: 2, memory })
    }

    /// Waits until the disk holds what was written to the file.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        let Some((memory, _)) = &self.memory else { return Ok(()) };
        memory.check().and_then(|()| memory.flush()).map_err(|e| e.to_string())
    }
}

/// A file for reading and writing.
fn opened_writable(path: &Path) -> kiln_runtime::Result<Buffer> {
    match testing::cannot_reserve() {
        true => disk::open_writable_copied(path),
        false => disk::open_writable(path),
    }
}

/// Writes changed bytes to a file: from other memory, or from its own mapping.
pub(super) fn bring(
    memory: &Buffer,
    elsewhere: Option<&Buffer>,
    changed: &Range<usize>,
) -> Result<(), Failure> {
    let part = |buffer: &Buffer| buffer.view(changed.start, changed.len());
    let copied = elsewhere.map_or(Ok(()), |from| part(memory)?.copy_from(&part(from)?));
    copied.and_then(|()| memory.commit(changed.clone())).map_err(|e| e.to_string())
}

impl Pinned {
    /// Copies the old version out of the file.
    pub(super) fn keep_old(&self, backend: &dyn Backend) -> Result<(), Failure> {
        let copy = backend.alloc(self.memory.len()).map_err(|e| e.to_string())?;
        copy.copy_from(&self.memory).map_err(|e| e.to_string())?;
        leaf::give_back(&self.old, copy);
        Ok(())
    }

    /// Whether the old version is in the file and nowhere else.
    pub(super) fn is_old_there(&self) -> bool {
        leaf::buffer(&self.old).is_ok_and(|buffer| buffer.overlaps(&self.memory))
    }

    /// Whether a leaf is in the file.
    pub(super) fn is_there(&self, leaf: &UOp) -> bool {
        leaf::buffer(leaf).is_ok_and(|buffer| buffer.overlaps(&self.memory) || buffer.is_empty())
    }

    /// A leaf that is the file.
    pub(super) fn leaf(&self, device: &Device) -> UOp {
        let (dtype, shape) = (self.old.dtype(), self.old.shape().clone());
        leaf::new(self.memory.clone(), dtype, shape, device)
    }
}
