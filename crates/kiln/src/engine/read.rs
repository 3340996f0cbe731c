//! Copies values out of memory, or to other memory. A value that is not in memory is computed first.

use super::file;
use super::history::has_gradient;
use super::leaf::{self, Value};
use super::realize::realize;
use super::record;
use super::resident::Resident;
use super::sharded::gathered;
use super::{Failure, checks, watch};
use crate::device::Device;
use kiln_ir::UOp;
use kiln_runtime::Buffer;
use kiln_runtime::plain::Plain;
use smallvec::smallvec;

/// How much is copied out at once if the whole value is not needed in one piece.
const PART: usize = 1 << 20;

/// Computes a node and copies it out, row-major.
pub(crate) fn read<T: Plain>(node: &UOp, device: &Device) -> Result<Vec<T>, Failure> {
    look(node, device, |memory| memory.to_vec().map_err(|e| e.to_string()))
}

/// Computes a node and shows its memory, row-major. The leaf is held meanwhile: what is written goes elsewhere.
pub(crate) fn show<T: Plain, R>(
    node: &UOp,
    device: &Device,
    see: impl FnOnce(&[T]) -> R,
) -> Result<R, Failure> {
    look(node, device, |memory| memory.with_slice(see).map_err(|e| e.to_string()))
}

/// Computes a node and copies out the elements at these positions.
pub(crate) fn read_at(node: &UOp, device: &Device, at: &[usize]) -> Result<Vec<u8>, Failure> {
    let size = node.dtype().size();
    let mut bytes = vec![0; at.len() * size];
    look(node, device, |memory| {
        let mut pairs = at.iter().zip(bytes.chunks_exact_mut(size));
        let copied = pairs.try_for_each(|(&at, to)| memory.view(at * size, size)?.read(to));
        copied.map_err(|e: kiln_runtime::Error| e.to_string())
    })?;
    Ok(bytes)
}

/// As [`read`], but passes one part after the other to `take`, so that there is never a copy of the whole.
pub(crate) fn read_parts(
    node: &UOp,
    device: &Device,
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    look(node, device, |buffer| {
        let text = |e: kiln_runtime::Error| e.to_string();
        let mut part = vec![0; buffer.len().min(PART)];
        for start in (0..buffer.len()).step_by(PART) {
            let part = &mut part[..PART.min(buffer.len() - start)];
            buffer.view(start, part.len()).and_then(|from| from.read(part)).map_err(text)?;
            take(part)?;
        }
        Ok(())
    })
}

/// Computes a node and copies it to another device.
pub(crate) fn copied(node: &UOp, from: &Device, to: &Device) -> Result<UOp, Failure> {
    if from.members().is_some() || to.members().is_some() {
        // a node of its own, so that its memory is its own
        let copy = node.on_device(from.shared_name()).on_device(to.shared_name()).contiguous();
        return Ok(realize(&[copy], &[], to)?.remove(0));
    }
    look(node, from, |memory| leaf::copy_of(memory, node.dtype(), node.shape(), to))
}

/// Computes a value of a set of devices, and gives its parts.
pub(crate) fn shards(node: &UOp, set: &Device) -> Result<Vec<UOp>, Failure> {
    let leaf = realize(std::slice::from_ref(node), &[], set)?.remove(0);
    Ok(leaf::sharded_parts(&leaf).expect("a leaf of a set").parts)
}

/// Computes a node that already lies in memory: its copy needs no kernel.
fn duplicate(node: &UOp, device: &Device) -> Result<UOp, Failure> {
    let leaf = copied(node, device, device)?;
    let differentiable = has_gradient(node, None);
    leaf::set_computed(node, Value { leaf: leaf.clone(), differentiable, shares: false });
    Ok(leaf)
}

/// Calls `see` with the memory of a node. The node is computed first if it has none.
fn look<R>(
    node: &UOp,
    device: &Device,
    see: impl FnOnce(&Buffer) -> Result<R, Failure>,
) -> Result<R, Failure> {
    record::spoil("it reads a value");
    if let Some(devices) = device.members() {
        let leaf = realize(std::slice::from_ref(node), &[], device)?.remove(0);
        checks::sound(smallvec![leaf.clone()])?;
        let value = leaf::sharded_parts(&leaf).expect("a leaf of a set");
        return look(&gathered(&value, &devices, &devices[0]), &devices[0], see);
    }
    let found = match Resident::find(node) {
        Some(found) => found,
        None => Resident::all_of(realize(std::slice::from_ref(node), &[], device)?.remove(0)),
    };
    watch::reads(&found.leaf);
    checks::sound(smallvec![found.leaf.clone()])?;
    let _access = leaf::buffer(&found.leaf)?.is_file().then(file::reading);
    // not earlier: the leaf of a file may have been copied out of it meanwhile
    let len = leaf::bytes_of(node.dtype(), node.shape())?;
    let memory = leaf::buffer(&found.leaf)?.view(found.offset, len);
    see(&memory.map_err(|e| e.to_string())?)
}

/// The leaf of a value that lies in memory already but is no leaf. A view of the whole leaf shares its memory. A part
/// is copied, because keeping a part must not keep the rest alive. A part of a file is copied because others may write
/// there.
pub(crate) fn realized_view(node: &UOp, device: &Device) -> Result<Option<UOp>, Failure> {
    if leaf::of(node).is_some() || device.members().is_some() {
        return Ok(None);
    }
    let Some(found) = Resident::find(node) else { return Ok(None) };
    checks::sound(smallvec![found.leaf.clone()])?;
    let size = |x: &UOp| x.numel() * x.dtype().size();
    match size(&found.leaf) == size(node) && !leaf::buffer(&found.leaf)?.is_file() {
        true => Ok(Some(seen_as(&found.leaf, node))),
        false => duplicate(node, device).map(Some),
    }
}

/// All that a leaf holds, with the dtype and shape of `node`.
fn seen_as(leaf: &UOp, node: &UOp) -> UOp {
    let shape = node.shape().clone();
    match leaf.dtype() == node.dtype() {
        true => leaf.reshape(shape),
        false => leaf.reshape([leaf.numel()].as_slice()).bitcast(node.dtype()).reshape(shape),
    }
}
