//! The shared cell that tensors alias: its current version, or the error that a write left in it.

use crate::device::Device;
use crate::engine;
use crate::error::{Error, Fault};
use kiln_ir::arg::Shape;
use kiln_ir::{DType, Op, UOp};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// One storage. Shape, dtype and device never change; the version does.
pub(crate) struct Storage {
    pub(crate) id: u64,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) device: Device,
    cell: Mutex<Cell>,
    requires_grad: AtomicBool,
    /// Whether it wants gradients or ever did.
    is_parameter: AtomicBool,
    grad: Mutex<Option<Arc<Storage>>>,
    /// What to do with a file when nobody has the storage any more.
    complete: Option<fn(&Storage)>,
}

/// What changes. `version` is missing where the operation that made the storage was invalid.
#[derive(Default)]
struct Cell {
    version: Option<UOp>,
    error: Option<Error>,
    /// Backward has started from this version: what it is computed from is no longer needed.
    differentiated: bool,
    /// Of a storage that wants a gradient: whether others that do were written to it since, which then have one.
    derived: bool,
    /// The file that it is. A version that is not the file's leaf is still to be written.
    file: Option<engine::File>,
    /// How many writes the version has seen since it was computed.
    pending: usize,
}

/// A number that nothing else has.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Storage {
    /// A storage whose first version is `node`.
    pub(crate) fn new(node: UOp, device: Device) -> Arc<Storage> {
        let (dtype, shape) = (node.dtype(), Shape::from_slice(node.shape()));
        let cell = Cell { version: Some(node), ..Cell::default() };
        Storage::with_cell(dtype, shape, device, cell, None)
    }

    /// A storage that is a file. `complete` is called when nobody has it any more.
    pub(crate) fn of_file(
        file: engine::File,
        device: Device,
        complete: fn(&Storage),
    ) -> Arc<Storage> {
        let (dtype, shape) = (file.leaf.dtype(), file.leaf.shape().clone());
        let cell = Cell { version: Some(file.leaf.clone()), file: Some(file), ..Cell::default() };
        Storage::with_cell(dtype, shape, device, cell, Some(complete))
    }

    /// The storage of an invalid operation's result.
    pub(crate) fn broken(error: Error) -> Arc<Storage> {
        let cell = Cell { error: Some(error), ..Cell::default() };
        Storage::with_cell(DType::F32, Shape::new(), Device::default_device(), cell, None)
    }

    fn with_cell(
        dtype: DType,
        shape: Shape,
        device: Device,
        cell: Cell,
        complete: Option<fn(&Storage)>,
    ) -> Arc<Storage> {
        Arc::new(Storage {
            id: next_id(),
            dtype,
            shape,
            device,
            cell: Mutex::new(cell),
            requires_grad: AtomicBool::new(false),
            is_parameter: AtomicBool::new(false),
            grad: Mutex::new(None),
            complete,
        })
    }

    fn cell(&self) -> MutexGuard<'_, Cell> {
        // whoever panics with the lock leaves an error in the cell: see `Lent`
        self.cell.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the version out, until it is given back. Others who want it wait.
    pub(crate) fn lend(&self) -> Result<(Lent<'_>, UOp), Error> {
        let mut cell = self.cell();
        let version = self.version_in(&mut cell)?;
        cell.version = None;
        Ok((Lent { cell }, version))
    }

    /// Whether it can be an argument of a recorded function: gradients of what is written to it are its own.
    pub(crate) fn is_plain(&self) -> bool {
        let cell = self.cell();
        cell.file.is_none() && !cell.derived && cell.error.is_none()
    }

    /// The current version, unless the storage carries an error. A version that was computed is replaced by its leaf.
    pub(crate) fn version(&self) -> Result<UOp, Error> {
        self.version_in(&mut self.cell())
    }

    /// The current version as a gradient has it: a read of a storage that wants one is marked.
    pub(crate) fn marked_version(&self) -> Result<UOp, Error> {
        let mut cell = self.cell();
        let version = self.version_in(&mut cell)?;
        Ok(match self.requires_grad() {
            true => version.mark(self.id, self.ends_gradients(&cell)),
            false => version,
        })
    }

    fn version_in(&self, cell: &mut Cell) -> Result<UOp, Error> {
        if let Some(error) = &cell.error {
            return Err(error.clone());
        }
        let remembers = self.remembers(cell);
        let version = cell.version.as_mut().expect("a storage without an error has a version");
        if let Some(leaf) = settled(version, remembers) {
            (*version, cell.pending) = (leaf, 0);
        }
        Ok(version.clone())
    }

    /// Whether gradients end at reads of the storage: it wants one, and nothing that has one was written to it.
    fn ends_gradients(&self, cell: &Cell) -> bool {
        self.requires_grad() && !cell.derived
    }

    /// As [`ends_gradients`](Storage::ends_gradients), now.
    pub(crate) fn is_end(&self) -> bool {
        self.ends_gradients(&self.cell())
    }

    fn remembers(&self, cell: &Cell) -> bool {
        !cell.differentiated && !self.ends_gradients(cell)
    }

    /// Whether gradients go through what the version is computed from.
    pub(crate) fn has_history(&self) -> bool {
        self.remembers(&self.cell())
    }

    /// Replaces the version `node` by the leaf that it was computed into, unless it was overwritten meanwhile.
    pub(crate) fn settle(&self, node: &UOp, leaf: UOp) {
        let mut cell = self.cell();
        if cell.version.as_ref() == Some(node) {
            // where the node remembers its leaf, so that a gradient may go through both
            let settled = settled(node, self.remembers(&cell)).unwrap_or(leaf);
            let old = cell.version.replace(settled);
            cell.pending = 0;
            drop(cell);
            drop(old);
        }
    }

    /// The file that the storage is.
    pub(crate) fn file(&self) -> Option<engine::File> {
        self.cell().file.clone()
    }

    /// The version that the file of this storage does not hold yet.
    pub(crate) fn unwritten(&self) -> Option<(UOp, engine::File)> {
        let cell = self.cell();
        let file = cell.file.as_ref()?;
        let version = cell.version.as_ref().filter(|version| **version != file.leaf)?;
        Some((version.clone(), file.clone()))
    }

    /// The file holds `version` now, as `leaf`.
    pub(crate) fn settle_file(&self, version: &UOp, leaf: UOp) {
        if let Some(file) = &mut self.cell().file {
            (file.leaf, file.is_dirty) = (leaf.clone(), true);
        }
        self.settle(version, leaf);
    }

    /// Waits until the disk has what was written to the file. If it cannot have it, the value is lost.
    pub(crate) fn flush_file(&self) -> Result<(), Fault> {
        let Some((file, path)) = self.file().filter(|f| f.is_dirty).zip(self.device.file()) else {
            return Ok(());
        };
        file.check_is_at(path).map_err(Fault::Failed)?;
        // before, as somebody may write meanwhile
        self.set_dirty(false);
        file.flush().map_err(|why| {
            // the system says so once
            self.fail(Error::failed("sync", why.clone()));
            Fault::Failed(why)
        })
    }

    fn set_dirty(&self, is_dirty: bool) {
        if let Some(file) = &mut self.cell().file {
            file.is_dirty = is_dirty;
        }
    }

    /// Makes sure that a file can be written.
    pub(crate) fn make_writable(&self) -> Result<(), Fault> {
        match (&mut self.cell().file, self.device.file()) {
            (Some(file), Some(path)) => file.make_writable(path).map_err(Fault::Failed),
            _ => Ok(()),
        }
    }

    /// How many writes wait to be computed.
    pub(crate) fn pending(&self) -> usize {
        self.cell().pending
    }

    /// Whether the operation that made the storage was invalid: there is nothing to fall back to.
    pub(crate) fn is_broken(&self) -> bool {
        self.cell().version.is_none()
    }

    /// The error that the storage carries.
    pub(crate) fn error(&self) -> Option<Error> {
        self.cell().error.clone()
    }

    /// Makes later reads give `error`, unless an earlier one is there; the data stays.
    pub(crate) fn fail(&self, error: Error) {
        self.cell().error.get_or_insert(error);
    }

    /// Forgets an invalid write; the data is what it was before.
    pub(crate) fn clear_error(&self) {
        let mut cell = self.cell();
        if let Some(version) = &cell.version {
            let leaf = engine::computed(version);
            engine::forgive(leaf.as_ref().unwrap_or(version));
            cell.error = None;
        }
    }

    /// Whether a gradient goes through a write of `value`. Where the storage wants one itself, what it is computed from has
    /// none of its own reads.
    pub(crate) fn derives_from(&self, value: &UOp) -> bool {
        self.requires_grad() && engine::has_gradient(value, Some(self.id))
    }

    /// Replaces the whole value, which also ends an error that a write left; `derived` as [`derives_from`] has it.
    ///
    /// [`derives_from`]: Storage::derives_from
    pub(crate) fn overwrite(&self, value: UOp, derived: bool) {
        let mut cell = self.cell();
        let old = cell.version.replace(value);
        (cell.error, cell.differentiated, cell.derived) = (None, false, derived);
        cell.pending += 1;
        drop(cell);
        drop(old); // may free a long graph: not under the lock
    }

    /// Replaces the version by `change` of it, in one step; `derived` as [`derives_from`](Storage::derives_from) has it of
    /// what is written.
    pub(crate) fn update(
        &self,
        derived: bool,
        change: impl FnOnce(&UOp) -> UOp,
    ) -> Result<(), Error> {
        let mut cell = self.cell();
        let mut old = self.version_in(&mut cell)?;
        cell.version = None; // `change` may find that nobody else has it
        if derived && !cell.derived {
            // the gradient of what was there before is the storage's own
            old = if engine::has_gradient(&old, None) { old.detach() } else { old };
            cell.derived = true;
        }
        // what is made of constants alone has no device yet: what is written to it, has
        if !matches!(old.op(), Op::Buffer | Op::Update | Op::Copy) {
            old = old.on_device(self.device.shared_name());
        }
        cell.version = Some(change(&old));
        cell.differentiated = false;
        cell.pending += 1;
        Ok(())
    }

    /// Forgets what the version was computed from, now or when it is computed: backward has started from it, and what
    /// somebody reads of a loss must not keep old weights.
    pub(crate) fn forget_history(&self) {
        let mut cell = self.cell();
        cell.differentiated = true;
        if let Some(version) = &cell.version {
            engine::forget_history(version);
        }
    }

    pub(crate) fn requires_grad(&self) -> bool {
        self.requires_grad.load(Ordering::Relaxed)
    }

    /// Whether it wants gradients or ever did: a parameter that is frozen stays a parameter.
    pub(crate) fn is_parameter(&self) -> bool {
        self.is_parameter.load(Ordering::Relaxed)
    }

    pub(crate) fn set_requires_grad(self: &Arc<Storage>, on: bool) {
        self.is_parameter.fetch_or(on, Ordering::Relaxed);
        if self.requires_grad.swap(on, Ordering::Relaxed) != on {
            self.cell().derived = false;
        }
        let mut marked = marked().lock().expect("registry lock");
        match on {
            true => marked.insert(self.id, Arc::downgrade(self)),
            false => marked.remove(&self.id),
        };
    }

    pub(crate) fn grad(&self) -> MutexGuard<'_, Option<Arc<Storage>>> {
        self.grad.lock().expect("gradient lock")
    }
}

/// A storage whose version was taken out.
pub(crate) struct Lent<'a> {
    cell: MutexGuard<'a, Cell>,
}

impl Lent<'_> {
    /// Gives the storage a version.
    pub(crate) fn give(mut self, version: UOp) {
        (self.cell.version, self.cell.pending) = (Some(version), 0);
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if self.cell.version.is_none() {
            let why = "the thread that was overwriting it panicked";
            self.cell.error.get_or_insert_with(|| Error::failed("jit", why));
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(complete) = self.complete {
            complete(self);
        }
        if self.requires_grad() {
            marked().lock().expect("registry lock").remove(&self.id);
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Storage({}, {:?}, {})", self.id, self.shape, self.dtype)
    }
}

/// The leaf that `version` was computed into, or what else stands for it. If it `remembers`, it does so with the graph that
/// a gradient would go through: not where gradients end, nor what backward has started from.
fn settled(version: &UOp, remembers: bool) -> Option<UOp> {
    let leaf = engine::computed(version)?;
    match remembers && engine::has_gradient(version, None) {
        true => Some(engine::remember(version, leaf)),
        false => Some(leaf),
    }
}

/// Storages that want gradients, by the identity that `Mark` nodes carry.
fn marked() -> &'static Mutex<HashMap<u64, Weak<Storage>>> {
    static MARKED: OnceLock<Mutex<HashMap<u64, Weak<Storage>>>> = OnceLock::new();
    MARKED.get_or_init(Mutex::default)
}

/// The living storage that a `Mark` names.
pub(crate) fn marked_storage(id: u64) -> Option<Arc<Storage>> {
    marked().lock().expect("registry lock").get(&id)?.upgrade()
}
