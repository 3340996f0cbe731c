//! What tensors ask of the engine. What was written to files is in them before anything is computed from it, and a
//! failure of the machine becomes a fault.

use super::file::written_below;
use super::storage::Storage;
use crate::device::Device;
use crate::engine::{self, Failure, Few};
use crate::error::{Error, Fault};
use kiln_ir::arg::Shape;
use kiln_ir::{DType, Op, UOp};
use kiln_runtime::plain::{Bytes, Plain, bytes};
use std::slice::from_ref;
use std::sync::Arc;

/// Writes that may wait in one storage, at most. A chain takes a few hundred bytes a write until it is computed.
const MAX_PENDING: usize = 1 << 16;

/// A leaf that holds `numbers`, row-major.
pub(crate) fn upload<T: Bytes>(
    numbers: &[T],
    dtype: DType,
    shape: Shape,
    device: &Device,
) -> Result<UOp, Fault> {
    upload_with(dtype, shape, device, |to| {
        to.copy_from_slice(bytes(numbers));
        Ok(())
    })
}

/// A leaf that holds the bytes, row-major, that `write` writes.
pub(crate) fn upload_with(
    dtype: DType,
    shape: Shape,
    device: &Device,
    write: impl FnOnce(&mut [u8]) -> Result<(), Failure>,
) -> Result<UOp, Fault> {
    let leaf = engine::upload(dtype, shape, device, write).map_err(Fault::Failed)?;
    engine::record::made(&leaf);
    Ok(leaf)
}

/// A leaf on another device with the value of `node`, which is on `from`.
pub(crate) fn copied(node: &UOp, from: &Device, to: &Device) -> Result<UOp, Fault> {
    written_below(from_ref(node))?;
    engine::copied(node, from, to).map_err(Fault::Failed)
}

/// Makes sure that there is such a device.
pub(crate) fn check(device: &Device) -> Result<(), Fault> {
    engine::check(device).map_err(Fault::Failed)
}

/// A value that says which device it is on: the gradient of a copy finds the way back by this.
pub(crate) fn placed(value: &UOp, device: &Device) -> UOp {
    match value.op() {
        Op::Buffer | Op::Update | Op::Copy => value.clone(),
        _ => value.on_device(device.shared_name()),
    }
}

/// Computes a value of a set of devices, and gives its parts.
pub(crate) fn shards(node: &UOp, device: &Device) -> Result<Vec<UOp>, Fault> {
    written_below(from_ref(node))?;
    engine::shards(node, device).map_err(Fault::Failed)
}

/// Computes what the storages hold.
pub(crate) fn realize(storages: &[Arc<Storage>]) -> Result<(), Fault> {
    let versions = || storages.iter().map(|s| s.version()).collect::<Result<Few<UOp>, Error>>();
    let mut nodes = versions()?;
    if written_below(&nodes)? {
        nodes = versions()?;
    }
    let (mut missing, mut roots, mut last) = (Few::new(), Few::new(), Few::new());
    for (storage, node) in storages.iter().zip(nodes) {
        match engine::realized_view(&node, &storage.device).map_err(Fault::Failed)? {
            Some(_) if storage.has_history() && engine::has_gradient(&node, None) => {}
            Some(memory) => storage.settle(&node, memory),
            None => {
                last.extend((!storage.has_history()).then(|| node.id()));
                missing.push(storage);
                roots.push(node);
            }
        }
    }
    let devices: Few<&Device> = missing.iter().map(|storage| &storage.device).collect();
    let leaves = engine::realize_all(&roots, &devices, &last).map_err(Fault::Failed)?;
    // what was computed replaces the graph that it was computed from
    missing.iter().zip(&roots).zip(leaves).for_each(|((s, node), leaf)| s.settle(node, leaf));
    Ok(())
}

/// Makes room for one more write to a storage: as many as may wait are computed first.
pub(super) fn bound_pending(storage: &Arc<Storage>) -> Result<(), Fault> {
    let limit = engine::testing::pending_limit().unwrap_or(MAX_PENDING);
    if storage.pending() >= limit { realize(from_ref(storage)) } else { Ok(()) }
}

/// Computes a node and copies it out, row-major.
pub(crate) fn read<T: Plain>(node: &UOp, device: &Device) -> Result<Vec<T>, Fault> {
    written_below(from_ref(node))?;
    engine::read(node, device).map_err(Fault::Failed)
}

/// Computes a node and shows its memory, row-major.
pub(crate) fn show<T: Plain, R>(
    node: &UOp,
    device: &Device,
    see: impl FnOnce(&[T]) -> R,
) -> Result<R, Fault> {
    written_below(from_ref(node))?;
    engine::show(node, device, see).map_err(Fault::Failed)
}

/// Computes a node and copies out the elements at these row-major positions.
pub(crate) fn read_at(node: &UOp, device: &Device, at: &[usize]) -> Result<Vec<u8>, Fault> {
    written_below(from_ref(node))?;
    engine::read_at(node, device, at).map_err(Fault::Failed)
}

/// As [`read`], but passes one part after the other to `take`.
pub(crate) fn read_parts(
    node: &UOp,
    device: &Device,
    take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Fault> {
    written_below(from_ref(node))?;
    engine::read_parts(node, device, take).map_err(Fault::Failed)
}
