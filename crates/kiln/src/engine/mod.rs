//! Values become memory: the engine closes graphs, schedules, compiles, binds buffers, launches, and remembers each.
//!
//! `tensor` builds graphs and calls four functions: [`upload`], [`current`], [`realize`] and [`read`].

/// Environment variables: one registry.
pub(crate) mod env;
/// What a node may carry outside its identity: memory, or the leaf that it was computed into.
mod leaf;
/// Devices by name: a backend and a target.
mod device;
/// Whether matrix units may be used.
mod matrices;
/// From live nodes to a closed graph and its key.
mod close;
/// Runs of writes become few.
mod runs;
/// Schedules and kernels, remembered.
mod cache;
/// Maps of bounded memory that keep what is used.
mod generations;
/// Work on all processors.
mod parallel;
/// Options for kernels, by trying.
mod search;
/// Which memory every argument is; what may be overwritten in place.
mod bind;
/// What is overwritten in place, until that is done.
mod taken;
/// Files as memory.
mod file;
/// Values that are in memory as they are.
mod resident;
/// Plan, claim, allocate, launch, commit.
mod realize;
/// Kernels with all that they are called with.
mod launch;
/// What only computing can show to be wrong.
mod checks;
/// Where slices start, as numbers that a graph is given.
mod starts;
/// Counters of what a thread does.
mod measure;
/// What DEBUG=2 says of a launch.
mod line;
/// Long texts about what failed.
mod report;
/// Everything that DEBUG prints: the one module that writes to stderr.
mod debug;

/// Hooks for tests.
pub(crate) mod testing;

pub(crate) use device::DEVICES;
pub(crate) use file::File;
pub(crate) use leaf::extremes;
use measure::count;
pub use measure::{Counts, measure};
use resident::Resident;
pub use search::{Found, search};

use crate::Device;
use crate::error::{Error, Fault};
use crate::tensor::file as files;
use crate::tensor::storage::Storage;
use kiln_ir::arg::Shape;
use kiln_ir::uop::{reaches, substitute, toposort_all};
use kiln_ir::{Arg, DType, Op, UOp};
use kiln_runtime::plain::{Bytes, Plain, bytes};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

/// A failure of the machine, before it is known whose line it was.
pub(crate) type Failure = String;

/// What a device is on this machine, for people: the rung of the ladder and its compiler.
#[track_caller]
pub(crate) fn describe(device: &Device) -> Result<String, Error> {
    match device::open(device) {
        Ok(opened) => Ok(format!("{}, {}", opened.backend.name(), opened.backend.compiler())),
        Err(why) => Err(Error::failed("device", why)),
    }
}

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
    leaf::upload(dtype, shape, device, write).map_err(Fault::Failed)
}

/// A leaf on another device with the value of `node`, which is on `from`.
pub(crate) fn copied(node: &UOp, from: &Device, to: &Device) -> Result<UOp, Fault> {
    files::written_below(std::slice::from_ref(node))?;
    realize::copied(node, from, to).map_err(Fault::Failed)
}

/// The leaf that a node was computed into, if it was.
pub(crate) fn current(version: &UOp) -> Option<UOp> {
    leaf::computed(version)
}

/// Computes what the storages hold.
pub(crate) fn realize(storages: &[Arc<Storage>]) -> Result<(), Fault> {
    let versions = || storages.iter().map(|s| s.version()).collect::<Result<Vec<UOp>, Error>>();
    let mut nodes = versions()?;
    if files::written_below(&nodes)? {
        nodes = versions()?;
    }
    let mut missing = Vec::new();
    for (storage, node) in storages.iter().zip(nodes) {
        match resident::copy(&node, &storage.device).map_err(Fault::Failed)? {
            Some(_) if storage.has_history() && has_gradient(&node, None) => {}
            Some(memory) => storage.settle(&node, memory),
            None => missing.push((storage, node)),
        }
    }
    let Some((first, _)) = missing.first() else { return Ok(()) };
    let ends = missing.iter().filter(|(s, _)| !s.has_history());
    let last: Vec<usize> = ends.map(|(_, node)| node.id()).collect();
    let device = first.device.clone();
    let (storages, nodes): (Vec<_>, Vec<UOp>) = missing.into_iter().unzip();
    let leaves = realize::realize(&nodes, &last, &device).map_err(Fault::Failed)?;
    // what was computed replaces the graph that it was computed from
    storages.iter().zip(nodes).zip(leaves).for_each(|((s, n), leaf)| s.settle(&n, leaf));
    Ok(())
}

/// Whether a value is in memory as it is, one element after the other, so that a copy of it could share that: not in a file,
/// which others may write to.
pub(crate) fn is_in_memory(node: &UOp) -> bool {
    Resident::find(node).is_some_and(|found| !found.is_file())
}

/// What tells memory apart: the leaf whose memory a version is, or the version itself.
pub(crate) fn memory_of(version: &UOp) -> UOp {
    Resident::find(version).map_or_else(|| version.clone(), |found| found.leaf)
}

/// Computes a node and copies it out, row-major.
pub(crate) fn read<T: Plain>(node: &UOp, device: &Device) -> Result<Vec<T>, Fault> {
    files::written_below(std::slice::from_ref(node))?;
    realize::read(node, device).map_err(Fault::Failed)
}

/// Computes a node and copies out the elements at these row-major positions.
pub(crate) fn read_at(node: &UOp, device: &Device, at: &[usize]) -> Result<Vec<u8>, Fault> {
    files::written_below(std::slice::from_ref(node))?;
    realize::read_at(node, device, at).map_err(Fault::Failed)
}

/// As [`read`], but passes one part after the other to `take`.
pub(crate) fn read_parts(
    node: &UOp,
    device: &Device,
    take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Fault> {
    files::written_below(std::slice::from_ref(node))?;
    realize::read_parts(node, device, take).map_err(Fault::Failed)
}

/// Fails where this process may not write files of so many bytes.
pub(crate) fn check_file_size(path: &Path, bytes: usize) -> Result<(), Fault> {
    kiln_runtime::disk::check_size(path, bytes as u64).map_err(|e| Fault::Failed(e.to_string()))
}

/// Forgets what was found wrong when `version`, a leaf, was computed.
pub(crate) fn forgive(version: &UOp) {
    leaf::set_fault(version, None);
}

/// What stands for `node`, which a gradient may go through and which was computed: its leaf, which remembers the node from
/// now on. Where the leaf is not the node's own that is the node itself.
pub(crate) fn remember(node: &UOp, leaf: UOp) -> UOp {
    match leaf::value(node) {
        Some(value) if value.shares => node.clone(),
        Some(value) => {
            leaf::set_history(&value.leaf, Some(node.clone()));
            leaf::set_computed(node, value);
            leaf
        }
        None => leaf,
    }
}

/// `root` with every leaf that remembers what it was computed from replaced by that.
pub(crate) fn with_history(root: &UOp) -> UOp {
    let remembers = |n: &UOp| n.op() == Op::Buffer && leaf::history(n).is_some();
    let mut root = root.clone();
    while reaches(&root, is_open, remembers) {
        let map: FxHashMap<UOp, UOp> =
            leaves(&root).filter_map(|l| Some((l.clone(), leaf::history(&l)?))).collect();
        root = substitute(&[root], &map).remove(0);
    }
    root
}

/// Whether a gradient of `root` could reach a marked read, or a leaf that remembers what it was computed from. Reads of the
/// storage `own` that end a gradient do not count.
pub(crate) fn has_gradient(root: &UOp, own: Option<u64>) -> bool {
    if leaf::value(root).is_some_and(|value| !value.differentiable) {
        return false;
    }
    let leads_on = |n: &UOp| match n.arg() {
        Arg::Mark { storage, ends } => !ends || own != Some(*storage),
        Arg::Buffer { .. } => leaf::history(n).is_some(),
        _ => false,
    };
    let visited = Cell::new(0);
    let enter = |n: &UOp| {
        visited.set(visited.get() + 1);
        is_open(n)
    };
    let found = reaches(root, enter, leads_on);
    count(|c| c.visited += visited.get());
    found
}

/// Makes every leaf under `root` forget what it was computed from.
pub(crate) fn forget_history(root: &UOp) {
    let forgets = |n: &UOp| {
        if n.op() == Op::Buffer {
            leaf::set_history(n, None);
        }
        false
    };
    reaches(root, is_open, forgets);
}

/// The leaves that a gradient could reach.
fn leaves(root: &UOp) -> impl Iterator<Item = UOp> {
    let nodes = toposort_all(std::slice::from_ref(root), is_open);
    nodes.into_iter().filter(|n| n.op() == Op::Buffer)
}

/// Whether gradients go through a node to its sources.
pub(crate) fn is_open(node: &UOp) -> bool {
    match node.arg() {
        Arg::Mark { ends, .. } => !ends,
        _ => node.op() != Op::Detach,
    }
}
