//! Modules on other devices, or of another dtype.

use super::Module;
use crate::args::DeviceArg;
use crate::error::{Error, Fault};
use crate::{Options, Tensor};
use kiln_ir::UOp;
use std::collections::HashMap;

/// Puts all tensors of a module elsewhere. What is there twice is put there once.
pub(super) fn to<M: Module>(module: &mut M, options: &Options) -> Result<(), Fault> {
    change(module, |tensor| elsewhere(tensor, options))
}

/// Puts all tensors of a module on several devices.
pub(super) fn shard<M: Module, D: DeviceArg>(
    module: &mut M,
    devices: &[D],
    axis: Option<isize>,
) -> Result<(), Fault> {
    change(module, |tensor| {
        let rank = tensor.ndim() as isize;
        let axis = axis.filter(|axis| (-rank..rank).contains(axis));
        let new = tensor.detach().shard(devices, axis);
        marked_as(tensor, new)
    })
}

fn change<M: Module>(module: &mut M, new: impl Fn(&Tensor) -> Tensor) -> Result<(), Fault> {
    let (mut done, mut wrong) = (HashMap::new(), None);
    module.visit_mut("", &mut |_, tensor| match changed(tensor, &new, &mut done) {
        Ok(new) => *tensor = new,
        Err(error) => wrong = wrong.take().or(Some(error)),
    })?;
    wrong.map_or(Ok(()), |error| Err(error.into()))
}

fn changed(
    tensor: &Tensor,
    new: impl Fn(&Tensor) -> Tensor,
    done: &mut HashMap<usize, (UOp, Tensor)>,
) -> Result<Tensor, Error> {
    let new = new(tensor);
    if let Some(error) = new.error() {
        return Err(error);
    }
    if new.storage().id == tensor.storage().id {
        return Ok(new); // so numbers that nobody has asked for stay uncomputed
    }
    // equal views of one storage are one node, as long as it does not change and somebody holds it
    let before = tensor.realize()?.value()?;
    if let Some((_, new)) = done.get(&before.id()) {
        return Ok(new.clone());
    }
    done.insert(before.id(), (before, new.clone()));
    Ok(new)
}

fn elsewhere(tensor: &Tensor, options: &Options) -> Tensor {
    let mut new = tensor.detach().to(options.clone());
    if new.error().is_some() {
        return new;
    }
    if !tensor.dtype().is_float() {
        // what counts stays what it is
        new = tensor.detach().to(new.device());
    }
    match new.dtype() == tensor.dtype() && new.device() == tensor.device() {
        true => tensor.clone(),
        false => marked_as(tensor, new),
    }
}

/// `new`, which wants gradients if `old` does, and is a parameter if `old` is one.
fn marked_as(old: &Tensor, new: Tensor) -> Tensor {
    match new.error().is_none() && old.storage().is_parameter() {
        true => new.set_requires_grad(true).set_requires_grad(old.requires_grad()),
        false => new,
    }
}
