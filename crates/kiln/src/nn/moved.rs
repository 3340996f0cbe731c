//! Modules on other devices, or of another dtype.

use super::Module;
use crate::error::{Error, Fault};
use crate::{Options, Tensor};
use kiln_ir::UOp;
use std::collections::HashMap;

/// Changes all tensors of a module. What is there twice is changed once.
pub(super) fn to<M: Module>(module: &mut M, options: &Options) -> Result<(), Fault> {
    let (mut done, mut wrong) = (HashMap::new(), None);
    module.visit_mut("", &mut |_, tensor| match changed(tensor, options, &mut done) {
        Ok(new) => *tensor = new,
        Err(error) => wrong = wrong.take().or(Some(error)),
    })?;
    wrong.map_or(Ok(()), |error| Err(error.into()))
}

fn changed(
    tensor: &Tensor,
    options: &Options,
    done: &mut HashMap<usize, (UOp, Tensor)>,
) -> Result<Tensor, Error> {
    // equal views of one storage are one node, as long as it does not change and somebody holds it
    let before = tensor.realize()?.value()?;
    if let Some((_, new)) = done.get(&before.id()) {
        return Ok(new.clone());
    }
    let new = elsewhere(tensor, options);
    if let Some(error) = new.error() {
        return Err(error);
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
    if new.dtype() == tensor.dtype() && new.device() == tensor.device() {
        return tensor.clone();
    }
    new.set_requires_grad(tensor.requires_grad())
}
