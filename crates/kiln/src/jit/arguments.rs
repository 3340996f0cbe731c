//! The arguments of a call: the storages below them, and the key of what they are apart from their data.

use super::step::Stepper;
use super::value::Value;
use crate::engine;
use crate::error::Error;
use crate::nn::{Key, Module, is_training};
use crate::optim::{Rule, Updates};
use crate::tensor::compute;
use crate::tensor::storage::Storage;
use crate::{Tensor, autocast_dtype, default_float, is_grad_enabled, scoped};
use kiln_ir::{Arg, Op, UOp};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// An argument by reference of a function of [`jit`](crate::jit()): what holds tensors.
#[diagnostic::on_unimplemented(
    message = "`&{Self}` is no argument that a function of `jit` takes",
    note = "derive `kiln::nn::Module` for what holds tensors"
)]
pub trait Argument {
    /// Adds its tensors, and what else it is.
    #[doc(hidden)]
    fn join<'a>(&'a self, all: &mut Arguments<'a>);
}

impl<M: Module> Argument for M {
    fn join<'a>(&'a self, all: &mut Arguments<'a>) {
        self.visit("", &mut |_, tensor| all.tensors.push(tensor.clone()));
        self.key(&mut all.key);
    }
}

impl<R: Rule> Argument for Updates<R> {
    fn join<'a>(&'a self, all: &mut Arguments<'a>) {
        Stepper::visit(self, &mut |tensor| all.tensors.push(tensor.clone()));
        self.add_to(&mut all.key);
        all.steppers.push(self);
    }
}

/// The arguments of one call.
#[doc(hidden)]
#[derive(Default)]
pub struct Arguments<'a> {
    pub(super) tensors: Vec<Tensor>,
    pub(super) steppers: Vec<&'a dyn Stepper>,
    parts: Vec<&'a dyn Argument>,
    key: Key,
}

impl std::fmt::Debug for Arguments<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arguments").field("tensors", &self.tensors.len()).finish_non_exhaustive()
    }
}

impl<'a> Arguments<'a> {
    pub(super) fn add<A: Argument>(&mut self, argument: &'a A) {
        self.join(argument);
    }

    fn join(&mut self, part: &'a dyn Argument) {
        self.parts.push(part);
        self.key.add(self.tensors.len());
        part.join(self);
    }

    /// The same arguments as they are now.
    pub(super) fn again(&self) -> Arguments<'a> {
        let mut all = Arguments::default();
        self.parts.iter().for_each(|part| all.join(*part));
        all
    }

    pub(super) fn add_value<V: Value>(&mut self, value: &V) {
        value.add_to(&mut self.key);
    }
}

/// The storages below the tensors of a call, each once, and then their gradients.
pub(super) struct Storages {
    pub(super) all: Vec<Arc<Storage>>,
    /// By storage, the number of the one that holds its gradient.
    pub(super) grads: Vec<Option<usize>>,
    pub(super) number: FxHashMap<u64, usize>,
}

impl Storages {
    pub(super) fn of(tensors: &[Tensor]) -> Storages {
        let (all, number) = (Vec::with_capacity(tensors.len()), FxHashMap::default());
        let mut storages = Storages { all, grads: Vec::new(), number };
        tensors.iter().for_each(|t| _ = storages.add(t.storage()));
        let mut next = 0;
        while next < storages.all.len() {
            let grad = storages.all[next].grad().clone();
            let number = grad.map(|grad| storages.add(&grad));
            storages.grads.push(number);
            next += 1;
        }
        storages
    }

    fn add(&mut self, storage: &Arc<Storage>) -> usize {
        *self.number.entry(storage.id).or_insert_with(|| {
            self.all.push(storage.clone());
            self.all.len() - 1
        })
    }
}

/// Arguments in memory.
pub(super) struct Inputs {
    pub(super) storages: Storages,
    /// By storage: its version.
    pub(super) versions: Vec<UOp>,
    /// The leaves below them, each once.
    pub(super) leaves: Vec<UOp>,
    /// By storage: its leaf.
    pub(super) places: Vec<usize>,
    /// What the call is apart from the data.
    pub(super) key: u128,
}

/// Why a call is not recorded.
pub(super) type Refusal = &'static str;

impl Arguments<'_> {
    /// Computes what is pending in the arguments, and finds the key of the call.
    pub(super) fn inputs(&self) -> Result<Inputs, Refusal> {
        let storages = Storages::of(&self.tensors);
        let fits = |s: &Arc<Storage>| s.is_plain() && s.device.members().is_none();
        if !storages.all.iter().all(fits) {
            return Err(
                "an argument is a file, on several devices, an error, or written with a history",
            );
        }
        let versions = settled(&storages.all).map_err(|_| "an argument cannot be computed")?;
        let mut key = self.key.clone();
        let (mut leaves, mut places, mut number) = (Vec::new(), Vec::new(), FxHashMap::default());
        for (storage, version) in storages.all.iter().zip(&versions) {
            if storage.has_history() && engine::has_gradient(version, None) {
                return Err("an argument has a history that gradients go through");
            }
            let leaf = add_path(version, &mut key)?;
            let place = *number.entry(leaf.id()).or_insert_with(|| {
                leaves.push(leaf.clone());
                leaves.len() - 1
            });
            places.push(place);
            key.add((place, storage.dtype, storage.device.name(), storage.requires_grad()));
            key.add(storage.shape.as_slice());
        }
        for tensor in &self.tensors {
            key.add(storages.number[&tensor.storage().id]);
            tensor.add_handle(&mut key);
        }
        key.add(&storages.grads);
        key.add((is_training(), is_grad_enabled(), default_float(), autocast_dtype()));
        key.add(scoped::own());
        Ok(Inputs { storages, versions, leaves, places, key: key.finish()? })
    }
}

/// The versions of storages, in memory.
pub(super) fn settled(storages: &[Arc<Storage>]) -> Result<Vec<UOp>, Error> {
    let versions = || storages.iter().map(|s| s.version()).collect::<Result<Vec<UOp>, Error>>();
    let found = versions()?;
    if found.iter().all(|version| version.op() == Op::Buffer) {
        return Ok(found);
    }
    drop(found);
    compute::realize(storages).map_err(|fault| fault.at("jit"))?;
    versions()
}

/// Adds how a version lies in its leaf, which is given.
fn add_path<'a>(version: &'a UOp, key: &mut Key) -> Result<&'a UOp, Refusal> {
    let mut node = version;
    while node.op() != Op::Buffer {
        if !matches!(node.op(), Op::Reshape | Op::Bitcast) {
            return Err("an argument has no memory of its own");
        }
        key.add((node.op(), node.dtype()));
        key.add(node.shape().as_slice());
        node = node.src(0);
    }
    let Arg::Buffer { shape, .. } = node.arg() else { unreachable!("a leaf") };
    key.add((node.dtype(), shape.as_slice()));
    Ok(node)
}
