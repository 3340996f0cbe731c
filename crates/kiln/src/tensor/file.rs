//! Tensors that are files. A file that is open is one storage, whoever opens it again. What is written to it reaches the
//! file when the tensor is read or realized, in [`sync`], or when its last handle goes.

use super::Tensor;
use super::storage::Storage;
use super::view::{Slices, View};
use crate::error::{Error, Fault, at_caller, refuse};
use crate::{Device, engine};
use kiln_ir::DType;
use kiln_ir::arg::{Shape, SliceAxis};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Files that are open, by their absolute names.
static OPEN: Mutex<BTreeMap<PathBuf, Weak<Storage>>> = Mutex::new(BTreeMap::new());

/// What went wrong while a last handle went, for the next one who can be told.
static FAILED: Mutex<Option<Error>> = Mutex::new(None);

/// Nothing here breaks in the middle.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes everything that was written to tensors on `DISK` to their files.
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
    open.iter().try_for_each(written)?;
    locked(&FAILED).take().map_or(Ok(()), Err)
}

/// What was written to the storage is in its file, if it has one.
#[track_caller]
pub(super) fn written(storage: &Arc<Storage>) -> Result<(), Error> {
    match storage.unwritten() {
        Some(_) => at_caller("write", engine::realize(std::slice::from_ref(storage))),
        None => Ok(()),
    }
}

/// Writes the version of a storage that nobody has any more.
pub(super) fn write_last(version: &kiln_ir::UOp, storage: &Storage) {
    let written = engine::compute(version, &storage.device).and_then(|leaf| {
        storage.settle(version, leaf);
        storage.write_back()
    });
    if let Err(error) = written {
        locked(&FAILED).get_or_insert(error);
    }
}

/// The beginning of the file at `path` as a tensor.
#[track_caller]
pub(super) fn open(path: &Path, dtype: DType, shape: Shape, device: &Device) -> Tensor {
    let name = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut open = locked(&OPEN);
    open.retain(|_, storage| storage.strong_count() > 0);
    if let Some(storage) = open.get(&name).and_then(Weak::upgrade) {
        drop(open); // the handle may be the last one by now
        let view = beginning(&storage, dtype, shape, path);
        return match at_caller("empty", view) {
            Ok(view) => Tensor { view, ..Tensor::whole(storage) },
            Err(error) => Tensor::broken(error),
        };
    }
    match engine::map(path, dtype, shape, device) {
        Ok(leaf) => {
            let storage = Storage::of_file(leaf, device.clone());
            open.insert(name, Arc::downgrade(&storage));
            Tensor::whole(storage)
        }
        Err(error) => Tensor::broken(error),
    }
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
        return refuse!("{} is open already, {has} bytes of it, not {wants}", path.display());
    }
    let flat = |n| Shape::from_slice(&[n]);
    let bytes = whole.reshape(flat(numel(&storage.shape))).bitcast(DType::U8)?;
    let first = Slices::from_slice(&[SliceAxis { start: 0, step: 1, len: wants }]);
    Ok(bytes.slice(first).bitcast(dtype)?.reshape(shape))
}
