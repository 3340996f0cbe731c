//! What all optimizers with a rule share: parameters in groups, what is kept of each, and the step.

use super::group::Group;
use super::rule::{Now, Rule, unsigned, with_scalars, with_shared};
use crate::engine;
use crate::error::{Error, Fault, at_caller, refuse};
use crate::jit::numbers;
use crate::origin;
use crate::tensor::compute;
use crate::tensor::recent;
use crate::{DType, Tensor};
use kiln_ir::UOp;
use rustc_hash::FxHashMap;
use std::borrow::Borrow;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

/// Parameters and how they are updated: [`SGD`](super::SGD), [`Adam`](super::Adam) and the others are this with a rule
/// each.
///
/// ```
/// use kiln::{Tensor, optim::SGD};
/// let w = Tensor::from([3.0f32]).set_requires_grad(true);
/// let opt = SGD::new([&w], 0.5);
/// for _ in 0..2 {
///     opt.zero_grad();
///     w.square().sum(..).backward()?;
///     opt.step()?;
/// }
/// assert_eq!(w.to_vec::<f32>()?, [0.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct Updates<R> {
    pub(super) parameters: Vec<Tensor>,
    /// The group of each parameter.
    pub(super) group_of: Vec<usize>,
    pub(super) groups: Vec<Numbers>,
    progress: Mutex<Progress>,
    pub(super) rule: R,
}

/// The numbers of a group. `None` is the optimizer's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    has_own_lr: bool,
    weight_decay: Option<f64>,
}

/// What steps change.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Of each group.
    pub(super) lr: Vec<f64>,
    /// Of each parameter.
    pub(super) states: Vec<State>,
}

/// What the rule keeps of a parameter, once that has had a gradient.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) steps: u64,
    pub(super) kept: Vec<Tensor>,
}

impl<R: Rule> Updates<R> {
    pub(super) fn with_rule<T: Borrow<Tensor>>(
        parameters: impl IntoIterator<Item = T>,
        lr: f64,
        rule: R,
    ) -> Updates<R> {
        let empty = Updates {
            parameters: Vec::new(),
            group_of: Vec::new(),
            groups: Vec::new(),
            progress: Mutex::default(),
            rule,
        };
        let first = empty.with_group(Group::new(parameters).lr(lr));
        Updates { groups: vec![Numbers::default()], ..first }
    }

    /// The optimizer with more parameters, which may have a learning rate and a weight decay of their own.
    ///
    /// ```
    /// use kiln::{Tensor, optim::{SGD, Group}};
    /// let w = [1.0f32, 1.0].map(|x| Tensor::from([x]).set_requires_grad(true));
    /// let opt = SGD::new([&w[0]], 0.5).with_group(Group::new([&w[1]]).lr(0.25));
    /// (&w[0] + &w[1]).sum(..).backward()?;
    /// opt.step()?;
    /// assert_eq!((w[0].item::<f32>()?, w[1].item::<f32>()?), (0.5, 0.75));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn with_group(mut self, group: Group) -> Updates<R> {
        // Initial values get memory here, so that the first step's graph is every step's. What fails here fails again in
        // the step, which can say so.
        let _ = settle(&group.parameters);
        let numbers = Numbers { has_own_lr: group.lr.is_some(), weight_decay: group.weight_decay };
        {
            let mut progress = self.progress();
            let lr = group.lr.or(progress.lr.first().copied()).unwrap_or_default();
            progress.lr.push(lr);
            progress
                .states
                .resize_with(self.parameters.len() + group.parameters.len(), State::default);
        }
        self.group_of.resize(self.parameters.len() + group.parameters.len(), self.groups.len());
        self.groups.push(numbers);
        self.parameters.extend(group.parameters);
        self
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect("no step panics")
    }

    /// Updates every parameter that has a gradient, and computes them, the gradients, the optimizer's state and the
    /// losses that backward started from since the last step, all at once: reading one of them afterwards costs nothing.
    ///
    /// # Errors
    /// A learning rate, or a number of the rule, that is negative, infinite or NaN, before anything changes; a parameter
    /// in two groups; no parameter with a gradient; an error that a gradient carries; a failing device or compiler. The
    /// parameters still have their new values then, to be computed when they are read.
    #[track_caller]
    pub fn step(&self) -> Result<(), Error> {
        self.step_with([])
    }

    /// As [`step`](Updates::step), computing the tensors `also` with the rest.
    ///
    /// ```
    /// use kiln::{Tensor, optim::SGD};
    /// let w = Tensor::from([3.0f32]).set_requires_grad(true);
    /// let opt = SGD::new([&w], 0.5);
    /// let (loss, norm) = (w.square().sum(..), w.abs().sum(..));
    /// loss.backward()?;
    /// opt.step_with([&norm])?;
    /// assert_eq!((loss.item::<f32>()?, norm.item::<f32>()?), (9.0, 3.0));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`step`](Updates::step).
    #[track_caller]
    pub fn step_with<'a>(&self, also: impl IntoIterator<Item = &'a Tensor>) -> Result<(), Error> {
        let naming = origin::outermost("step");
        let changed = at_caller("step", self.update_all())?;
        drop(naming);
        let mut storages: Vec<_> = changed.iter().map(|t| t.storage().clone()).collect();
        let device = &storages[0].device.clone();
        storages.extend(recent::take_losses().into_iter().filter(|loss| loss.device == *device));
        storages.extend(also.into_iter().map(|t| t.storage().clone()));
        at_caller("step", compute::realize(&storages))
    }

    /// Makes the new versions; gives all that has to be computed.
    fn update_all(&self) -> Result<Vec<Tensor>, Fault> {
        let progress = &mut *self.progress();
        if let Some(why) = self.fault(progress) {
            return Err(Fault::New(why));
        }
        let mut work = Vec::new();
        for (i, parameter) in self.parameters.iter().enumerate() {
            let Some(grad) = parameter.grad() else { continue };
            if let Some(error) = parameter.error().or(grad.error()) {
                return Err(error.into());
            }
            if let Some(why) = self.rule.refuses(parameter) {
                return Err(Fault::New(why));
            }
            self.fill(parameter, &mut progress.states[i].kept)?;
            work.push((i, grad));
        }
        if work.is_empty() {
            return refuse!("no parameter has a gradient: backward comes first");
        }
        work.iter().for_each(|(i, _)| progress.states[*i].steps += 1);
        let (states, lr) = (&progress.states, &progress.lr);
        let steps: Vec<usize> = work.iter().map(|(i, _)| *i).collect();
        let recorded = numbers::stepped(self, || self.stepped(&steps, states, lr));
        let mut scalars = FxHashMap::default();
        let mut changed = Vec::new();
        for (i, grad) in work {
            let (parameter, state) = (&self.parameters[i], &states[i]);
            let now = self.now(i, lr[self.group_of[i]], state.steps);
            let update = || self.update(&now, parameter, &grad, &state.kept);
            match &recorded {
                Some((stepped, all)) => with_scalars(stepped.scalars_of(i, all), update),
                None => {
                    with_shared(scalars.entry((self.group_of[i], state.steps)).or_default(), update)
                }
            }?;
            changed.push(parameter.clone());
            changed.extend(state.kept.iter().cloned());
            changed.push(grad);
        }
        Ok(changed)
    }

    /// What keeps all of the next step from making sense.
    pub(super) fn fault(&self, progress: &Progress) -> Option<String> {
        let rates = progress.lr.iter().map(|&lr| ("the learning rate", lr));
        let decays = self.groups.iter().filter_map(|g| Some(("the weight decay", g.weight_decay?)));
        unsigned(rates.chain(decays)).or(self.rule.fault()).or_else(|| self.in_two_groups())
    }

    fn in_two_groups(&self) -> Option<String> {
        if self.groups.len() < 2 {
            return None;
        }
        let mut groups = std::collections::HashMap::new();
        let again = |(p, &group): (&Tensor, &usize)| {
            *groups.entry(p.storage().id).or_insert(group) != group
        };
        let found = self.parameters.iter().zip(&self.group_of).any(again);
        found.then(|| "a parameter is in two groups".to_owned())
    }

    pub(super) fn now(&self, i: usize, lr: f64, step: u64) -> Now {
        let own = self.groups[self.group_of[i]].weight_decay;
        let weight_decay = own.unwrap_or_else(|| self.rule.weight_decay());
        Now { lr, weight_decay, step, device: self.parameters[i].device().clone() }
    }

    /// Makes the new version of a parameter and of what is kept of it.
    fn update(
        &self,
        now: &Now,
        parameter: &Tensor,
        grad: &Tensor,
        state: &[Tensor],
    ) -> Result<(), Error> {
        // gradients do not run into earlier steps
        let detached = parameter.detach();
        let wide = parameter.dtype().accumulator();
        let (value, slope) = (detached.value()?.cast(wide), grad.detach().value()?.cast(wide));
        let mut kept = state.iter().map(Tensor::value).collect::<Result<Vec<UOp>, _>>()?;
        let new = self.rule.updated(now, &value, &slope, &mut kept)?;
        let assign = |t: &Tensor, node: UOp| t.try_assign(Tensor::from_node(node, t.device()));
        for (tensor, node) in state.iter().zip(kept) {
            assign(tensor, node)?;
        }
        assign(&detached, new.cast(parameter.dtype()))?;
        Ok(())
    }

    /// What is kept of a parameter: memory from the start, so that the first step's graph is every step's.
    fn fill(&self, parameter: &Tensor, kept: &mut Vec<Tensor>) -> Result<(), Fault> {
        for _ in kept.len()..self.rule.kept().len() {
            kept.push(zeros_like(parameter)?);
        }
        Ok(())
    }

    /// Forgets the gradients of all parameters.
    ///
    /// ```
    /// use kiln::{Tensor, optim::SGD};
    /// let w = Tensor::from([3.0f32]).set_requires_grad(true);
    /// w.sum(..).backward()?;
    /// SGD::new([&w], 0.5).zero_grad();
    /// assert!(w.grad().is_none());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn zero_grad(&self) {
        self.parameters.iter().for_each(Tensor::zero_grad);
    }

    /// The learning rate.
    ///
    /// ```
    /// use kiln::{Tensor, optim::SGD};
    /// assert_eq!(SGD::new([Tensor::ones([1])], 0.5).lr(), 0.5);
    /// ```
    pub fn lr(&self) -> f64 {
        self.progress().lr[0]
    }

    /// Sets the learning rate of the next steps, of all groups without one of their own. It may change at every step:
    /// nothing is compiled for it.
    ///
    /// ```
    /// use kiln::{Tensor, optim::SGD};
    /// let opt = SGD::new([Tensor::ones([1])], 0.5);
    /// opt.set_lr(0.1);
    /// assert_eq!(opt.lr(), 0.1);
    /// ```
    pub fn set_lr(&self, lr: f64) {
        let mut progress = self.progress();
        let shared = self.groups.iter().zip(&mut progress.lr).filter(|(g, _)| !g.has_own_lr);
        shared.for_each(|(_, of_group)| *of_group = lr);
    }

    /// Sets the learning rate of one group: 0 is what the optimizer was made with, others follow in order. A number
    /// that no group has changes nothing.
    ///
    /// ```
    /// use kiln::{Tensor, optim::{Group, SGD}};
    /// let group = Group::new([Tensor::ones([1])]).lr(0.1);
    /// let opt = SGD::new([Tensor::ones([1])], 0.5).with_group(group);
    /// opt.set_group_lr(1, 0.2);
    /// assert_eq!((opt.group_lr(1), opt.lr()), (Some(0.2), 0.5));
    /// ```
    pub fn set_group_lr(&self, group: usize, lr: f64) {
        if let Some(of_group) = self.progress().lr.get_mut(group) {
            *of_group = lr;
        }
    }

    /// The learning rate of one group.
    ///
    /// ```
    /// use kiln::{Tensor, optim::SGD};
    /// assert_eq!(SGD::new([Tensor::ones([1])], 0.5).group_lr(1), None);
    /// ```
    pub fn group_lr(&self, group: usize) -> Option<f64> {
        self.progress().lr.get(group).copied()
    }

    /// The parameters.
    ///
    /// ```
    /// use kiln::{Tensor, optim::SGD};
    /// assert_eq!(SGD::new([Tensor::ones([1])], 0.5).parameters().len(), 1);
    /// ```
    pub fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }
}

/// Computes initial values. Equal ones are one value, which would be copied in the first step: each gets its own memory.
pub(super) fn settle(parameters: &[Tensor]) -> Result<(), Fault> {
    crate::realize(parameters)?;
    let mut seen = HashSet::new();
    for parameter in parameters {
        let storage = parameter.storage();
        let version = storage.version()?;
        if !seen.insert(engine::memory_of(&version)) {
            storage.overwrite(compute::copied(&version, &storage.device, &storage.device)?, false);
        }
    }
    Ok(())
}

/// Zeros in memory, in the precision that updates are computed in.
fn zeros_like(t: &Tensor) -> Result<Tensor, Fault> {
    let dtype: DType = t.dtype().accumulator();
    let zeros = |to: &mut [u8]| {
        to.fill(0);
        Ok(())
    };
    let leaf = compute::upload_with(dtype, t.shape().into(), t.device(), zeros)?;
    Ok(Tensor::from_node(leaf, t.device()))
}
