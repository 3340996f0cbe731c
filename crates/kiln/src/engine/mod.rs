//! Values become memory: the engine closes graphs, schedules, compiles, binds buffers, launches, and remembers each.
//!
//! `tensor` builds graphs and calls four functions: [`upload`], [`current`], [`realize`] and [`read`].

/// Environment variables: one registry.
pub(crate) mod env;
/// What a node may carry outside its identity: memory, or the leaf that it was computed into.
mod leaf;
/// Devices by name: a backend and a target.
mod device;
/// From live nodes to a closed graph and its key.
mod close;
/// Schedules and kernels, remembered.
mod cache;
/// Which memory every argument is; what may be overwritten in place.
mod bind;
/// Plan, claim, allocate, launch, commit.
mod realize;
/// Counters of what a thread does.
mod measure;
/// Everything that DEBUG prints: the one module that writes to stderr.
mod debug;

pub use measure::{Counts, measure};

use crate::Device;
use crate::error::Error;
use crate::tensor::storage::Storage;
use kiln_ir::arg::Shape;
use kiln_ir::{DType, UOp};
use std::sync::Arc;

/// A failure of the machine, before it is known whose line it was.
type Failure = String;

/// A leaf that holds `bytes`, row-major.
#[track_caller]
pub(crate) fn upload(
    bytes: &[u8],
    dtype: DType,
    shape: Shape,
    device: &Device,
) -> Result<UOp, Error> {
    match leaf::upload(bytes, dtype, shape, device) {
        Ok(leaf) => Ok(leaf),
        Err(why) => Err(Error::failed("upload", why)),
    }
}

/// The leaf that a node was computed into, if it was.
pub(crate) fn current(version: &UOp) -> Option<UOp> {
    leaf::computed(version)
}

/// Computes what the storages hold.
#[track_caller]
pub(crate) fn realize(storages: &[Arc<Storage>]) -> Result<(), Error> {
    let mut nodes = Vec::with_capacity(storages.len());
    for storage in storages {
        nodes.push(storage.version()?);
    }
    let Some(first) = storages.first() else { return Ok(()) };
    match realize::realize(nodes, &first.device) {
        // what was computed replaces the graph that it was computed from
        Ok(_) => storages.iter().try_for_each(|s| s.version().map(drop)),
        Err(why) => Err(Error::failed("realize", why)),
    }
}

/// Computes a node and copies it out, row-major.
#[track_caller]
pub(crate) fn read(node: &UOp, device: &Device) -> Result<Vec<u8>, Error> {
    match realize::read(node, device) {
        Ok(bytes) => Ok(bytes),
        Err(why) => Err(Error::failed("read", why)),
    }
}

/// `root` with every leaf that was computed from marked storages replaced by what it was computed from.
pub(crate) fn with_history(root: &UOp) -> UOp {
    root.clone()
}
