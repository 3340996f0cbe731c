//! Tensors that are files. A file that is open is one storage, all of it, whoever opens it again. What is written to it
//! reaches the file when something is computed from it, in [`sync`], or when its last handle goes.

use super::Tensor;
use super::storage::Storage;
use super::view::{Slices, View};
use crate::error::{Error, Fault, at_caller, refuse};
use crate::{Device, engine};
use kiln_ir::arg::{Shape, SliceAxis};
use kiln_ir::uop::toposort_all;
use kiln_ir::{DType, UOp};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Files that are open, by their absolute names.
static OPEN: Mutex<BTreeMap<PathBuf, Weak<Storage>>> = Mutex::new(BTreeMap::new());

/// What went wrong while a last handle went.
static FAILED: Mutex<Failed> = Mutex::new(Failed { next: None, sync: None });

/// Errors that nobody could be told when they happened.
struct Failed {
    /// For the next one who can be told anything.
    next: Option<Error>,
    /// For the next `sync`, whoever was told before.
    sync: Option<Error>,
}

/// Versions are written to files one at a time.
static WRITING: Mutex<()> = Mutex::new(());

/// Whether there is any need to look for files.
static EVER_OPEN: AtomicBool = AtomicBool::new(false);

/// Nothing here breaks in the middle.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes everything that was written to tensors on `DISK` to their files, and waits until it is there.
///
/// ```
/// use kiln::{DType, Tensor, s};
/// let path = std::env::temp_dir().join(format!("kiln-sync-{}", std::process::id()));
/// std::fs::write(&path, [1, 2, 3]).expect("a temporary file");
/// let t = Tensor::empty_with([3], (DType::U8, format!("disk:{}", path.display()).as_str()));
/// t.set(s![1], 9);
/// kiln::sync()?;
/// assert_eq!(std::fs::read(&path).expect("is there"), [1, 9, 3]);
/// # std::fs::remove_file(&path).expect("was there");
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// An error that one of the tensors carries; a file that cannot be written, also if that was found when the last handle
/// of its tensor went.
#[track_caller]
pub fn sync() -> Result<(), Error> {
    let open: Vec<_> = locked(&OPEN).values().filter_map(Weak::upgrade).collect();
    // one that fails does not keep others from being written
    let results: Vec<Result<(), Fault>> = open.iter().map(|s| complete(s)).collect();
    let untold = {
        let mut failed = locked(&FAILED);
        failed.sync.take().or(failed.next.take())
    };
    let untold = untold.map_or(Ok(()), |error| Err(error.into()));
    at_caller("sync", results.into_iter().collect::<Result<(), Fault>>().and(untold))
}

/// Writes to the storage's file what it does not hold yet, and waits until the disk has it. A write that was refused is an
/// error: its value is not there.
fn complete(storage: &Storage) -> Result<(), Fault> {
    write(storage)?;
    storage.flush_file()?;
    storage.error().map_or(Ok(()), |error| Err(error.into()))
}

/// An error of a last handle, which the next one who can be told gets.
fn late() -> Result<(), Fault> {
    locked(&FAILED).next.take().map_or(Ok(()), |error| Err(error.into()))
}

/// Writes the versions of files that are still to be written and that `nodes` are computed from. Whether there were any.
pub(crate) fn written_below(nodes: &[UOp]) -> Result<bool, Fault> {
    if !EVER_OPEN.load(Ordering::Relaxed) {
        return Ok(false);
    }
    late()?;
    let open: Vec<_> = locked(&OPEN).values().filter_map(Weak::upgrade).collect();
    let unwritten = |storage: &Arc<Storage>| Some((storage.unwritten()?.0, storage.clone()));
    let pending: FxHashMap<UOp, Arc<Storage>> = open.iter().filter_map(unwritten).collect();
    if pending.is_empty() {
        return Ok(false);
    }
    // nodes that are kept here would count as held
    let below: Vec<Arc<Storage>> = toposort_all(nodes, |node| engine::computed(node).is_none())
        .iter()
        .filter_map(|node| pending.get(node).cloned())
        .collect();
    drop(pending);
    below.iter().try_for_each(|storage| write(storage))?;
    Ok(!below.is_empty())
}

/// Writes to the storage's file what it does not hold yet.
fn write(storage: &Storage) -> Result<(), Fault> {
    let _one = locked(&WRITING);
    let Some((version, file)) = storage.unwritten() else { return Ok(()) };
    let Some(path) = storage.device.file() else { return Ok(()) };
    let pinned = file.pinned(&version, path).map_err(Fault::Failed)?;
    let leaf = engine::write(&pinned, &storage.device).map_err(Fault::Failed)?;
    storage.settle_file(&version, leaf);
    Ok(())
}

/// Completes the file of a storage that nobody has any more.
fn complete_last(storage: &Storage) {
    let refused = storage.error();
    if let Err(error) = at_caller("write", write(storage).and_then(|()| storage.flush_file())) {
        let mut failed = locked(&FAILED);
        failed.next.get_or_insert(error.clone());
        failed.sync.get_or_insert(error);
    } else if let Some(error) = refused {
        // whoever read the tensor was told
        locked(&FAILED).sync.get_or_insert(error);
    }
}

/// The beginning of the file at `path` as a tensor.
#[track_caller]
pub(super) fn open(path: &Path, dtype: DType, shape: Shape, device: &Device) -> Tensor {
    EVER_OPEN.store(true, Ordering::Relaxed);
    let opened = storage_of(path, dtype, &shape, device).and_then(|storage| {
        let view = beginning(&storage, dtype, shape, path)?;
        Ok(Tensor { view, ..Tensor::whole(storage) })
    });
    Tensor::or_broken("empty", opened)
}

/// The storage that is the file at `path`.
fn storage_of(
    path: &Path,
    dtype: DType,
    shape: &Shape,
    device: &Device,
) -> Result<Arc<Storage>, Fault> {
    let name = name_of(path);
    let mut open = locked(&OPEN);
    open.retain(|_, storage| storage.strong_count() > 0);
    let known = open.get(&name).and_then(Weak::upgrade);
    let known = known.filter(|storage| storage.file().is_some_and(|file| file.is_at(path)));
    if let Some(storage) = known {
        return Ok(storage);
    }
    let file = engine::File::open(path, dtype, shape.clone(), device).map_err(Fault::Failed)?;
    let storage = Storage::of_file(file, device.clone(), complete_last);
    open.insert(name, Arc::downgrade(&storage));
    Ok(storage)
}

/// The name that every path to a file has in common, also while there is no file yet.
fn name_of(path: &Path) -> PathBuf {
    let canonical = std::fs::canonicalize(path).ok();
    let beside = || Some(std::fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?));
    canonical.or_else(beside).unwrap_or_else(|| path.to_owned())
}

/// The view of an open file's first bytes.
fn beginning(storage: &Storage, dtype: DType, shape: Shape, path: &Path) -> Result<View, Fault> {
    let whole = View::whole(&storage.shape, storage.dtype);
    if (dtype, &shape) == (storage.dtype, &storage.shape) {
        return Ok(whole);
    }
    let numel = |shape: &Shape| shape.iter().product::<usize>();
    let (has, wants) = (numel(&storage.shape) * storage.dtype.size(), numel(&shape) * dtype.size());
    if wants > has {
        return refuse!("{} holds {has} bytes, too few for {shape:?} of {dtype}", path.display());
    }
    let flat = |n| Shape::from_slice(&[n]);
    let bytes = whole.reshape(flat(numel(&storage.shape))).bitcast(DType::U8)?;
    let first = Slices::from_slice(&[SliceAxis { start: 0, step: 1, len: wants }]);
    Ok(bytes.slice(first).bitcast(dtype)?.reshape(shape))
}
