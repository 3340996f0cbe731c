//! What a node carries besides its identity. A `Buffer` node carries its memory. A computed node carries its leaf, or,
//! while a thread computes it, a promise of that leaf.

use super::measure::count;
use super::sharded::{Sharded, moved};
use super::{Failure, device, testing};
use crate::device::Device;
use kiln_ir::arg::{Arg, Shape};
use kiln_ir::uop::Payload;
use kiln_ir::{Const, DType, Op, UOp, WeakUOp, eval};
use kiln_runtime::Buffer;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// The payload of a leaf.
struct LeafMemory {
    dtype: DType,
    shape: Shape,
    device: Device,
    state: Mutex<State>,
    /// The node that the leaf was computed from, if a gradient may go there.
    history: Mutex<Option<UOp>>,
    /// An error in what the leaf was computed from.
    fault: Mutex<Option<Failure>>,
    extremes: OnceLock<Option<Extremes>>,
}

/// The smallest and the largest of some integers.
pub(crate) type Extremes = (i128, i128);

enum State {
    /// It holds the leaf's value.
    Live(Buffer),
    /// Its parts are leaves on several devices.
    Sharded(Sharded),
    /// It was donated to a later value.
    Spent,
    /// A kernel that was overwriting it failed.
    Failed(Arc<str>),
}

/// The payload of a computed node.
pub(super) enum Slot {
    /// A thread is computing it.
    Pending(Latch),
    /// Its value.
    Computed(Value),
    /// The value of a filler (`arange`, random numbers). It counts on the leaf's device alone: programs on other devices
    /// may have the same node.
    Filler(Value),
    /// The same if the leaf remembers the node: it keeps the node alive, so the node must not keep it. If the leaf is
    /// dropped first, it hands its value to the node: see [`LeafMemory::drop`].
    Remembered { leaf: WeakUOp, differentiable: bool },
}

/// The value of a computed node.
#[derive(Clone)]
pub(super) struct Value {
    pub(super) leaf: UOp,
    /// Whether a gradient could go through the node.
    pub(super) differentiable: bool,
    /// Whether the node is computed from this very leaf: it shares the memory, and the leaf cannot remember the node.
    pub(super) shares: bool,
}

/// A leaf around memory.
pub(super) fn new(buffer: Buffer, dtype: DType, shape: Shape, device: &Device) -> UOp {
    with_state(State::Live(buffer), dtype, shape, device)
}

/// A leaf on a set of devices.
pub(super) fn sharded(parts: Sharded, dtype: DType, shape: Shape, device: &Device) -> UOp {
    with_state(State::Sharded(parts), dtype, shape, device)
}

/// The parts of a leaf on a set of devices.
pub(super) fn sharded_parts(leaf: &UOp) -> Option<Sharded> {
    match &*memory_of(leaf)?.state() {
        State::Sharded(parts) => Some(parts.clone()),
        State::Live(_) | State::Spent | State::Failed(_) => None,
    }
}

/// A leaf without a value, and the reason.
pub(super) fn missing(why: &str, dtype: DType, shape: Shape, device: &Device) -> UOp {
    with_state(State::Failed(why.into()), dtype, shape, device)
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// No leaf that exists has this number or a higher one.
pub(super) fn next_number() -> u64 {
    NEXT.load(Ordering::Relaxed)
}

/// The number of a leaf.
pub(super) fn number_of(leaf: &UOp) -> u64 {
    match leaf.arg() {
        Arg::Buffer { id, .. } => *id,
        _ => unreachable!("a leaf"),
    }
}

fn with_state(state: State, dtype: DType, shape: Shape, device: &Device) -> UOp {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let leaf = UOp::buffer(number, dtype, shape.clone(), device.shared_name());
    let memory: Payload = Arc::new(LeafMemory {
        dtype,
        shape,
        device: device.clone(),
        state: Mutex::new(state),
        history: Mutex::default(),
        fault: Mutex::default(),
        extremes: OnceLock::new(),
    });
    leaf.set_payload(Some(memory));
    leaf
}

/// A leaf with the bytes, row-major, that `write` writes.
pub(crate) fn upload(
    dtype: DType,
    shape: Shape,
    device: &Device,
    write: impl FnOnce(&mut [u8]) -> Result<(), Failure>,
) -> Result<UOp, Failure> {
    if let Some(devices) = device.members() {
        // the first has it, the others get copies when they need them
        let first = upload(dtype, shape.clone(), &devices[0], write)?;
        let parts = devices.iter().map(|to| moved(&first, &devices[0], to)).collect();
        let parts = Sharded { parts, split: None };
        return Ok(sharded(parts, dtype, shape, device));
    }
    let mut buffer = alloc(dtype, &shape, device, "data of the program")?;
    buffer.fill(write).map_err(|e| e.to_string())??;
    Ok(new(buffer, dtype, shape, device))
}

/// Memory for a leaf, and what it is for.
pub(super) fn alloc(
    dtype: DType,
    shape: &[usize],
    device: &Device,
    purpose: &'static str,
) -> Result<Buffer, Failure> {
    device::open(device)?.alloc(bytes_of(dtype, shape)?, purpose)
}

/// A leaf with the value that is in this memory, on another device or the same.
pub(super) fn copy_of(
    memory: &Buffer,
    dtype: DType,
    shape: &Shape,
    to: &Device,
) -> Result<UOp, Failure> {
    testing::step()?;
    let copy = alloc(dtype, shape, to, "copies")?;
    device::open(to)?.backend.copy(memory, &copy).map_err(|e| e.to_string())?;
    count(|c| c.bytes += 2 * copy.len() as u64);
    Ok(new(copy, dtype, shape.clone(), to))
}

/// The size of a value in memory.
pub(super) fn bytes_of(dtype: DType, shape: &[usize]) -> Result<usize, Failure> {
    let bytes = shape.iter().try_fold(dtype.size(), |n, &d| n.checked_mul(d));
    bytes.ok_or_else(|| format!("{shape:?} {dtype} does not fit memory"))
}

/// A leaf with these elements.
pub(super) fn table(
    values: &[Const],
    dtype: DType,
    shape: Shape,
    device: &Device,
) -> Result<UOp, Failure> {
    let bits = values.iter().map(|&value| eval::to_bits(value, dtype));
    upload(dtype, shape, device, |to| {
        for (element, bits) in to.chunks_exact_mut(dtype.size()).zip(bits) {
            element.copy_from_slice(&bits.to_le_bytes()[..dtype.size()]);
        }
        Ok(())
    })
}

fn memory_of(leaf: &UOp) -> Option<Arc<LeafMemory>> {
    leaf.payload()?.downcast::<LeafMemory>().ok()
}

/// The device of a leaf.
pub(super) fn device_of(leaf: &UOp) -> Option<Device> {
    Some(memory_of(leaf)?.device.clone())
}

/// The extremes of a leaf's integers. They are searched once, as its value never changes; a file's may, as others write
/// it.
pub(crate) fn extremes<E>(
    leaf: &UOp,
    find: impl FnOnce() -> Result<Option<Extremes>, E>,
) -> Result<Option<Extremes>, E> {
    let memory = memory_of(leaf).expect("a leaf has memory");
    if buffer(leaf).is_ok_and(|b| b.is_file()) {
        return find();
    }
    if let Some(known) = memory.extremes.get() {
        return Ok(*known);
    }
    let found = find()?;
    Ok(*memory.extremes.get_or_init(|| found))
}

/// A leaf's memory, or the reason why its value is lost. Reading a spent leaf is a bug of kiln.
pub(super) fn buffer(leaf: &UOp) -> Result<Buffer, Failure> {
    match &*memory_of(leaf).expect("a leaf has memory").state() {
        State::Live(buffer) => Ok(buffer.clone()),
        State::Failed(why) => Err(why.to_string()),
        State::Sharded(_) => Err("it is on several devices".to_owned()),
        State::Spent => Err(format!(
            "{leaf:?} was overwritten in place and read again: a bug of kiln's binding"
        )),
    }
}

/// What a leaf was computed from, if it is remembered.
pub(super) fn history(leaf: &UOp) -> Option<UOp> {
    memory_of(leaf)?.history.lock().expect("history lock").clone()
}

/// Remembers, or forgets, what a leaf was computed from.
pub(super) fn set_history(leaf: &UOp, history: Option<UOp>) {
    if let Some(memory) = memory_of(leaf) {
        let old = std::mem::replace(&mut *memory.history.lock().expect("history lock"), history);
        drop(old);
    }
}

/// Makes a leaf forget the node that it was computed from. The node may stay, in the graph of a gradient. From now on it
/// keeps the leaf, so the leaf is not overwritten before the gradient is read.
pub(super) fn forget_history(leaf: &UOp) {
    let Some(node) = history(leaf) else { return };
    set_history(leaf, None);
    if let Some(value) = value(&node).filter(|value| value.leaf == *leaf) {
        set_computed(&node, value);
    }
}

/// The error that reading a leaf gives, if any.
pub(super) fn fault(leaf: &UOp) -> Option<Failure> {
    memory_of(leaf)?.fault.lock().expect("fault lock").clone()
}

/// Makes reads of a leaf fail, or not any more.
pub(super) fn set_fault(leaf: &UOp, fault: Option<Failure>) {
    if let Some(memory) = memory_of(leaf) {
        *memory.fault.lock().expect("fault lock") = fault;
    }
}

/// Forgets what was found wrong when `version`, a leaf, was computed.
pub(crate) fn forgive(version: &UOp) {
    set_fault(version, None);
}

/// Donates a leaf's memory: the leaf is spent.
pub(super) fn take(leaf: &UOp) -> Buffer {
    match set_state(leaf, State::Spent) {
        State::Live(buffer) => buffer,
        State::Sharded(_) | State::Spent | State::Failed(_) => {
            unreachable!("only a living leaf is taken")
        }
    }
}

/// Gives a leaf its memory, with its value in it.
pub(super) fn give_back(leaf: &UOp, buffer: Buffer) {
    drop(set_state(leaf, State::Live(buffer)));
}

/// The leaf's value is lost.
pub(super) fn fail(leaf: &UOp, why: &str) {
    drop(set_state(leaf, State::Failed(why.into())));
}

fn set_state(leaf: &UOp, state: State) -> State {
    let memory = memory_of(leaf).expect("a leaf has memory");
    let mut current = memory.state();
    std::mem::replace(&mut current, state)
}

impl LeafMemory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("leaf lock")
    }

    /// Hands the memory to the node that was computed into it, in a new leaf that does not remember the node.
    fn leave_to(&self, node: &UOp) {
        let remembered = slot(node);
        let Some(Slot::Remembered { leaf, differentiable }) = remembered.as_deref() else { return };
        if leaf.upgrade().is_some() {
            return; // it was computed again
        }
        let state = std::mem::replace(&mut *self.state(), State::Spent);
        let leaf = with_state(state, self.dtype, self.shape.clone(), &self.device);
        set_fault(&leaf, self.fault.lock().expect("fault lock").take());
        let value = Value { leaf, differentiable: *differentiable, shares: false };
        set_slot(node, Some(Arc::new(Slot::Computed(value))));
    }
}

/// A graph that was built before the leaf existed finds the value by its node. As long as such a graph lives, the value
/// does.
impl Drop for LeafMemory {
    fn drop(&mut self) {
        let history = std::mem::take(&mut *self.history.lock().expect("history lock"));
        // this reference is the only one if nothing else holds the node
        if let Some(node) = history.filter(|node| node.ref_count() > 1) {
            self.leave_to(&node);
        }
    }
}

/// The leaf that a node is, or was computed into.
pub(super) fn of(node: &UOp) -> Option<UOp> {
    if node.op() == Op::Buffer { Some(node.clone()) } else { computed(node) }
}

/// What a computed node carries.
pub(super) fn slot(node: &UOp) -> Option<Arc<Slot>> {
    match node.op() {
        Op::Buffer => None,
        _ => node.payload()?.downcast::<Slot>().ok(),
    }
}

/// Replaces what a computed node carries.
pub(super) fn set_slot(node: &UOp, slot: Option<Arc<Slot>>) {
    node.set_seen(false);
    let old = node.set_payload(slot.map(|s| s as Payload));
    drop(old);
}

/// The node has been computed into the leaf.
pub(super) fn set_computed(node: &UOp, value: Value) {
    let slot = match history(&value.leaf) {
        Some(_) => {
            let Value { leaf, differentiable, .. } = value;
            Slot::Remembered { leaf: leaf.downgrade(), differentiable }
        }
        None => Slot::Computed(value),
    };
    set_slot(node, Some(Arc::new(slot)));
}

/// The node has the value of another, unless it has one already. No leaf remembers the node, so it may hold the leaf.
pub(super) fn keep(node: &UOp, value: Value) {
    if self::value(node).is_none() && node.op() != Op::Buffer {
        set_slot(node, Some(Arc::new(Slot::Computed(value))));
    }
}

/// The copy of a value from another device has been made. If another thread was first, its copy stays.
pub(super) fn set_copied(copy: &UOp, value: Value) {
    if self::value(copy).is_none() {
        set_slot(copy, Some(Arc::new(Slot::Computed(value))));
    }
}

/// Who makes a copy.
pub(super) enum Claim {
    /// It is made.
    Made,
    /// Another thread, which this waits for.
    Others(Arc<Slot>),
    /// This thread, which ends its claim.
    Own(Arc<Slot>),
}

/// Claims a copy: only one thread makes it, and the others wait.
pub(super) fn claim_copy(copy: &UOp) -> Claim {
    static CLAIMING: Mutex<()> = Mutex::new(());
    let _claiming = CLAIMING.lock().unwrap_or_else(PoisonError::into_inner);
    match slot(copy) {
        Some(slot) if slot.is_pending() => Claim::Others(slot),
        Some(slot) if slot.value().is_some() => Claim::Made,
        _ => {
            let pending = Slot::pending();
            set_slot(copy, Some(pending.clone()));
            Claim::Own(pending)
        }
    }
}

/// The copy is made, or has failed.
pub(super) fn end_claim(copy: &UOp, pending: &Slot) {
    if slot(copy).is_some_and(|slot| slot.is_pending()) {
        set_slot(copy, None);
    }
    pending.open();
}

impl Slot {
    /// That a thread is computing some nodes.
    pub(super) fn pending() -> Arc<Slot> {
        Arc::new(Slot::Pending(Latch::default()))
    }

    pub(super) fn is_pending(&self) -> bool {
        matches!(self, Slot::Pending(_))
    }

    /// Waits until the thread that computes has ended, successfully or not.
    pub(super) fn wait(&self) {
        if let Slot::Pending(latch) = self {
            latch.wait();
        }
    }

    /// The computation has ended.
    pub(super) fn open(&self) {
        if let Slot::Pending(latch) = self {
            latch.open();
        }
    }

    /// What the node was computed into, if that is still there.
    pub(super) fn value(&self) -> Option<Value> {
        match self {
            Slot::Computed(value) => Some(value.clone()),
            Slot::Remembered { leaf, differentiable } => {
                let (leaf, differentiable) = (leaf.upgrade()?, *differentiable);
                Some(Value { leaf, differentiable, shares: false })
            }
            Slot::Filler(_) | Slot::Pending(_) => None,
        }
    }

    /// The same for a graph that is computed on this device. A filler counts if it was computed there.
    pub(super) fn value_on(&self, device: &Device) -> Option<Value> {
        match self {
            Slot::Filler(value) => {
                Some(value.clone()).filter(|v| device_of(&v.leaf) == Some(device.clone()))
            }
            _ => self.value(),
        }
    }

    pub(super) fn is_filler(&self) -> bool {
        matches!(self, Slot::Filler(_))
    }

    /// Whether it keeps the leaf alive, and would let a later value have its memory.
    pub(super) fn keeps(&self) -> bool {
        matches!(self, Slot::Computed(_))
    }
}

/// What a node was computed into.
pub(super) fn value(node: &UOp) -> Option<Value> {
    slot(node)?.value()
}

/// The leaf that a node was computed into.
pub(crate) fn computed(node: &UOp) -> Option<UOp> {
    value(node).map(|value| value.leaf)
}

/// Opens once, when a computation has ended, successfully or not.
#[derive(Default)]
pub(super) struct Latch {
    state: Mutex<Latched>,
    changed: Condvar,
}

#[derive(Default)]
struct Latched {
    is_open: bool,
    /// Whether somebody waits: to wake nobody is a call of the system, too.
    is_awaited: bool,
}

impl Latch {
    fn wait(&self) {
        let mut state = self.state.lock().expect("latch lock");
        state.is_awaited = true;
        drop(self.changed.wait_while(state, |state| !state.is_open).expect("latch lock"));
    }

    fn open(&self) {
        let mut state = self.state.lock().expect("latch lock");
        state.is_open = true;
        if state.is_awaited {
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_are_looked_for_once() {
        let device = Device::parse("INTERP").expect("a device");
        let values = [Const::Int(3), Const::Int(7)];
        let leaf = table(&values, DType::U8, Shape::from_slice(&[2]), &device).expect("memory");
        assert_eq!(extremes(&leaf, || Err("unreadable")), Err("unreadable"));
        assert_eq!(extremes(&leaf, || Ok::<_, &str>(Some((3, 7)))), Ok(Some((3, 7))));
        assert_eq!(extremes(&leaf, || Err("looked for again")), Ok(Some((3, 7))));
    }
}
