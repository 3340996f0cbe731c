//! Optimizers: from gradients to new parameters. A step is a handful of lazy writes, computed together with the loss.

mod adam;
mod sgd;

pub use adam::{Adam, AdamW};
pub use sgd::SGD;

use crate::engine;
use crate::error::{Error, Fault, at_caller, refuse};
use crate::origin;
use crate::tensor::compute;
use crate::tensor::recent;
use crate::{DType, Tensor};
use kiln_ir::UOp;
use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;

/// Parameters and how they are updated: [`SGD`], [`Adam`] and [`AdamW`] are this with a rule each.
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
pub struct Optimizer<R> {
    parameters: Vec<Tensor>,
    /// What the rule keeps of each parameter, once that has had a gradient.
    states: RefCell<Vec<Vec<Tensor>>>,
    lr: Cell<f64>,
    steps: Cell<u64>,
    rule: R,
}

/// Numbers that change from step to step. They are scalars of the launch: none compiles anything.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Now {
    lr: f64,
    /// The number of this step, from 1.
    step: u64,
}

mod sealed {
    use super::{Now, UOp};

    /// How one parameter is updated. In nodes, not tensors: a step builds thousands, which would all be checked and kept
    /// somewhere as what users write is.
    pub trait Rule {
        /// How many tensors are kept of each parameter, zeros at first.
        fn kept(&self) -> usize;
        /// Why its numbers are no rule, if they are not.
        fn fault(&self) -> Option<String>;
        /// The parameter's new value, from its value and gradient, of one float dtype all; updates `state`.
        fn updated(&self, now: Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> UOp;
    }
}
use sealed::Rule;

/// Numbers with names, of which none may be negative, infinite or NaN: what is wrong with the first that is.
fn unsigned<'a>(numbers: impl IntoIterator<Item = (&'a str, f64)>) -> Option<String> {
    let is_wrong = |&(_, x): &(&str, f64)| !(0.0..f64::INFINITY).contains(&x);
    let (name, x) = numbers.into_iter().find(is_wrong)?;
    Some(format!("{name} is {x}, wants a number that is 0 or more"))
}

/// A node times a number.
fn times(x: &UOp, factor: f64) -> UOp {
    x * UOp::constant(factor, x.dtype())
}

#[allow(private_bounds)] // the rules are ours
impl<R: Rule> Optimizer<R> {
    fn with_rule<T: Borrow<Tensor>>(
        parameters: impl IntoIterator<Item = T>,
        lr: f64,
        rule: R,
    ) -> Optimizer<R> {
        let parameters: Vec<Tensor> = parameters.into_iter().map(|p| p.borrow().clone()).collect();
        // Initial values get memory here, so that the first step's graph is every step's. What fails here fails again in
        // the step, which can say so.
        let _ = settle(&parameters);
        Optimizer {
            states: RefCell::new(vec![Vec::new(); parameters.len()]),
            parameters,
            lr: Cell::new(lr),
            steps: Cell::new(0),
            rule,
        }
    }

    /// Updates every parameter that has a gradient, and computes them, the gradients, the optimizer's state and the
    /// losses that backward started from since the last step, all at once: reading one of them afterwards costs nothing.
    ///
    /// # Errors
    /// A learning rate, or a number of the rule, that is negative, infinite or NaN, before anything changes; no parameter
    /// with a gradient; an error that a gradient carries; a failing device or compiler. The parameters still have their
    /// new values then, to be computed when they are read.
    #[track_caller]
    pub fn step(&self) -> Result<(), Error> {
        self.step_with([])
    }

    /// As [`step`](Optimizer::step), computing the tensors `also` with the rest.
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
    /// As [`step`](Optimizer::step).
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
        if let Some(why) = unsigned([("the learning rate", self.lr.get())]).or(self.rule.fault()) {
            return Err(Fault::New(why));
        }
        let mut work = Vec::new();
        for (i, parameter) in self.parameters.iter().enumerate() {
            let Some(grad) = parameter.grad() else { continue };
            if let Some(error) = parameter.error().or(grad.error()) {
                return Err(error.into());
            }
            let state = self.state(i)?;
            work.push((parameter, grad, state));
        }
        if work.is_empty() {
            return refuse!("no parameter has a gradient: backward comes first");
        }
        self.steps.set(self.steps.get() + 1);
        let now = Now { lr: self.lr.get(), step: self.steps.get() };
        let mut changed = Vec::new();
        for (parameter, grad, state) in work {
            self.update(now, parameter, &grad, &state)?;
            changed.push(parameter.clone());
            changed.extend(state);
            changed.push(grad);
        }
        Ok(changed)
    }

    /// Makes the new version of a parameter and of what is kept of it.
    fn update(
        &self,
        now: Now,
        parameter: &Tensor,
        grad: &Tensor,
        state: &[Tensor],
    ) -> Result<(), Error> {
        // gradients do not run into earlier steps
        let detached = parameter.detach();
        let wide = parameter.dtype().accumulator();
        let (value, slope) = (detached.value()?.cast(wide), grad.detach().value()?.cast(wide));
        let mut kept = state.iter().map(Tensor::value).collect::<Result<Vec<UOp>, _>>()?;
        let new = self.rule.updated(now, &value, &slope, &mut kept);
        let assign = |t: &Tensor, node: UOp| t.try_assign(Tensor::from_node(node, t.device()));
        for (tensor, node) in state.iter().zip(kept) {
            assign(tensor, node)?;
        }
        assign(&detached, new.cast(parameter.dtype()))?;
        Ok(())
    }

    /// What is kept of a parameter: memory from the start, so that the first step's graph is every step's.
    fn state(&self, i: usize) -> Result<Vec<Tensor>, Fault> {
        let mut states = self.states.borrow_mut();
        while states[i].len() < self.rule.kept() {
            states[i].push(zeros_like(&self.parameters[i])?);
        }
        Ok(states[i].clone())
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
        self.lr.get()
    }

    /// Sets the learning rate of the next steps. It may change at every step: nothing is compiled for it.
    ///
    /// ```
    /// use kiln::{Tensor, optim::SGD};
    /// let opt = SGD::new([Tensor::ones([1])], 0.5);
    /// opt.set_lr(0.1);
    /// assert_eq!(opt.lr(), 0.1);
    /// ```
    pub fn set_lr(&self, lr: f64) {
        self.lr.set(lr);
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
fn settle(parameters: &[Tensor]) -> Result<(), Fault> {
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
