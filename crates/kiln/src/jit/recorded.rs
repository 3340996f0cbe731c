//! A recorded call: the plan of what it computes, and where its results go.

use super::arguments::{Arguments, Inputs, Refusal, Storages};
use super::numbers::{Numbers, Source};
use super::returned::Returned;
use crate::engine::note;
use crate::engine::plan::Plan;
use crate::engine::record::Recording;
use crate::tensor::known::are_like;
use crate::tensor::random::shared_words;
use crate::tensor::storage::{Lent, Storage};
use crate::tensor::{Handle, Tensor};
use crate::{Device, engine};
use kiln_ir::{Const, DType, Op, UOp};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What a replay needs.
pub(super) struct Recorded<R: Returned> {
    plan: Plan,
    sources: Vec<Source>,
    /// Storages of arguments that get a new version, and the end of the plan that it is.
    written: Vec<(usize, usize)>,
    /// Storages of arguments whose gradient changes.
    grads: Vec<(usize, Option<Place>)>,
    /// Storages of arguments whose gradient is dropped unseen, and its storage.
    dropped: Vec<(usize, usize)>,
    /// Storages that the call makes: the ends that they hold, and their devices.
    made: Vec<(usize, Device)>,
    /// The tensors that it returns.
    tensors: Vec<(Place, Handle)>,
    form: R::Form,
}

/// A storage.
#[derive(Clone, Copy)]
enum Place {
    /// Of an argument.
    Argument(usize),
    /// One that the call makes.
    Made(usize),
}

/// What a function has done, from which a [`Recorded`] is made.
pub(super) struct Outcome<R: Returned> {
    pub(super) recording: Recording,
    pub(super) numbers: Numbers,
    pub(super) form: R::Form,
    pub(super) tensors: Vec<Tensor>,
}

/// The storages that a call makes.
#[derive(Default)]
struct Made {
    storages: Vec<Arc<Storage>>,
    number: FxHashMap<u64, usize>,
}

impl Made {
    fn place(&mut self, storages: &Storages, storage: &Arc<Storage>) -> Place {
        if let Some(&argument) = storages.number.get(&storage.id) {
            return Place::Argument(argument);
        }
        Place::Made(*self.number.entry(storage.id).or_insert_with(|| {
            self.storages.push(storage.clone());
            self.storages.len() - 1
        }))
    }
}

impl<R: Returned> Recorded<R> {
    /// From what the function did with `inputs`; `after` are the storages of the arguments now.
    pub(super) fn new(
        outcome: Outcome<R>,
        inputs: &Inputs,
        wanted: &[bool],
        after: &Storages,
    ) -> Result<Recorded<R>, Refusal> {
        let before = &inputs.storages;
        let mut made = Made::default();
        let tensors = outcome.tensors.iter();
        let tensors: Vec<_> =
            tensors.map(|t| (made.place(before, t.storage()), t.handle())).collect();
        let (mut written, mut ends, mut grads) = (Vec::new(), Vec::new(), Vec::new());
        for (at, storage) in before.all.iter().enumerate() {
            if storage.requires_grad() != wanted[at] || !storage.is_plain() {
                return Err("it changes what gradients are wanted, or leaves an error");
            }
            if leaf_of(storage)? != inputs.versions[at] {
                if inputs.versions[at].op() != Op::Buffer {
                    return Err("it writes to a part of a tensor as a whole");
                }
                written.push((at, ends.len()));
                ends.push(leaf_of(storage)?);
            }
            let grad = storage.grad().clone();
            let old = before.grads[at].map(|grad| before.all[grad].id);
            if grad.as_ref().map(|grad| grad.id) != old {
                grads.push((at, grad.map(|grad| made.place(before, &grad))));
            }
        }
        let is_new = |s: &Arc<Storage>| !before.number.contains_key(&s.id);
        let others = after.all.iter().filter(|s| is_new(s) && !made.number.contains_key(&s.id));
        if others.count() > 0 {
            return Err("it makes state that later calls have");
        }
        let mut new = Vec::new();
        for storage in &made.storages {
            if storage.requires_grad() || storage.grad().is_some() || !storage.is_plain() {
                return Err("it returns a tensor that wants a gradient, or an error");
            }
            new.push((ends.len(), storage.device.clone()));
            ends.push(leaf_of(storage)?);
        }
        let plan = outcome.recording.plan(&inputs.leaves, &ends, &outcome.numbers.places)?;
        let unseen = |&(of, _): &(usize, Option<Place>)| {
            let grad = before.grads[of].filter(|&grad| !plan.needs(inputs.places[grad]))?;
            Some((of, grad))
        };
        let dropped = grads.iter().filter_map(unseen).collect();
        let (sources, form) = (outcome.numbers.sources, outcome.form);
        Ok(Recorded { plan, sources, written, grads, dropped, made: new, tensors, form })
    }

    /// Computes the call again; none if the function itself has to run. Then nothing has changed.
    pub(super) fn replay(&self, arguments: &Arguments<'_>, inputs: Inputs) -> Option<R> {
        let Inputs { mut storages, versions, leaves, places, .. } = inputs;
        for guard in self.plan.guards() {
            let leaf = &leaves[guard.argument];
            let device = &storages.all[0].device;
            if !are_like(leaf, &guard.range, guard.is_negative, device).unwrap_or(false) {
                return None;
            }
        }
        let steps = self.steps(arguments)?;
        let prepared = self.plan.prepare().ok()??;
        let mut leaves: Vec<Option<UOp>> = leaves.into_iter().map(Some).collect();
        self.drop_gradients(&mut storages, &places, &mut leaves);
        let lent = self.lent(&storages, &versions)?;
        drop(versions);
        let numbers = self.numbers(steps);
        let ends = match prepared.run(&mut leaves, &numbers) {
            Ok(ends) => ends,
            Err(why) => {
                note(|| format!("jit: runs the function after a failure: {why}"));
                self.give_back(lent, &places, &leaves);
                return None;
            }
        };
        drop(leaves);
        for ((_, cell), (_, end)) in lent.into_iter().zip(&self.written) {
            cell.give(ends[*end].clone());
        }
        self.advance(arguments);
        Some(self.finish(&storages, &ends))
    }

    /// The numbers of the steps of optimizers, by source.
    fn steps(&self, arguments: &Arguments<'_>) -> Option<Vec<Vec<(Const, DType)>>> {
        let of = |source: &Source| match source {
            Source::Draw(_) => Some(Vec::new()),
            Source::Step(which, form) => arguments.steppers[*which].next(form),
        };
        self.sources.iter().map(of).collect()
    }

    /// All numbers, with those of new draws.
    fn numbers(&self, steps: Vec<Vec<(Const, DType)>>) -> Vec<Const> {
        let mut numbers = Vec::new();
        for (source, steps) in self.sources.iter().zip(steps) {
            match source {
                Source::Draw(n) => numbers.extend(shared_words(*n).map(Const::from)),
                Source::Step(..) => numbers.extend(steps.into_iter().map(|(value, _)| value)),
            }
        }
        numbers
    }

    fn advance(&self, arguments: &Arguments<'_>) {
        for source in &self.sources {
            if let Source::Step(which, form) = source {
                arguments.steppers[*which].advance(form);
            }
        }
    }

    /// The versions that will be overwritten, taken out of their storages; none if somebody was faster.
    fn lent<'a>(&self, storages: &'a Storages, versions: &[UOp]) -> Option<Vec<(usize, Lent<'a>)>> {
        // in the order of their identities, as another thread may want the same
        let mut order: Vec<usize> = (0..self.written.len()).collect();
        let storage = |i: usize| self.written[i].0;
        order.sort_by_key(|&i| storages.all[storage(i)].id);
        let mut lent: Vec<(usize, Lent<'a>)> = Vec::with_capacity(order.len());
        for &i in &order {
            let (cell, version) = storages.all[storage(i)].lend().ok()?;
            if version != versions[storage(i)] {
                cell.give(version);
                lent.into_iter().for_each(|(i, cell)| cell.give(versions[storage(i)].clone()));
                return None;
            }
            lent.push((i, cell));
        }
        lent.sort_by_key(|(i, _)| *i);
        Some(lent)
    }
}

impl<R: Returned> Recorded<R> {
    /// Gives the storages what they had, as far as it is still there.
    fn give_back(&self, lent: Vec<(usize, Lent<'_>)>, places: &[usize], leaves: &[Option<UOp>]) {
        for (i, cell) in lent {
            cell.give(leaves[places[self.written[i].0]].clone().expect("given back"));
        }
    }

    /// Drops the gradients that the call would drop unseen: their memory is free for the new ones.
    fn drop_gradients(
        &self,
        storages: &mut Storages,
        places: &[usize],
        leaves: &mut [Option<UOp>],
    ) {
        for &(of, grad) in &self.dropped {
            let old = storages.all[of].grad().take();
            storages.all[grad] = storages.all[of].clone();
            leaves[places[grad]] = None;
            drop(old);
        }
    }

    /// Sets the gradients, and makes what the call returns.
    fn finish(&self, storages: &Storages, ends: &[UOp]) -> R {
        let new =
            |(end, device): &(usize, Device)| Storage::new(ends[*end].clone(), device.clone());
        let made: Vec<Arc<Storage>> = self.made.iter().map(new).collect();
        let storage = |place: &Place| match place {
            Place::Argument(argument) => storages.all[*argument].clone(),
            Place::Made(number) => made[*number].clone(),
        };
        for (of, grad) in &self.grads {
            let old = std::mem::replace(&mut *storages.all[*of].grad(), grad.as_ref().map(storage));
            drop(old);
        }
        let tensors = self.tensors.iter();
        let mut tensors = tensors.map(|(place, handle)| handle.of(storage(place)));
        R::together(&self.form, &mut tensors)
    }
}

/// The leaf that a storage holds.
fn leaf_of(storage: &Storage) -> Result<UOp, Refusal> {
    let version = storage.version().map_err(|_| "it leaves an error")?;
    match version.op() {
        _ if storage.has_history() && engine::has_gradient(&version, None) => {
            Err("a gradient goes through what it gives: see `no_grad`")
        }
        Op::Buffer => Ok(version),
        _ => Err("it gives a part of a tensor as a whole"),
    }
}
