//! Gradients. They belong to storages: a read of a storage that wants one is marked in the graph, and backward ends
//! at the marks.

use super::Tensor;
use super::recent::remember_loss;
use super::storage::marked_storage;
use crate::element::{Operand, Value};
use crate::engine;
use crate::error::{Error, Fault, at_caller, refuse};
use crate::origin::{name, outermost};
use kiln_ir::UOp;
use marks::{gradients, reads, storage_id};

/// Gradients of one's own.
pub(super) mod custom;
/// Values that are computed again on the way back.
mod checkpoint;
/// Differences that gradients are compared with.
mod check;
/// Reads of storages that want gradients.
mod marks;
/// All derivatives of all elements.
mod jacobian;
/// Whether reads count.
pub(crate) mod scope;
/// Targets of gradients.
mod targets;

pub use check::{gradcheck, gradgradcheck};
pub use checkpoint::checkpoint;
pub use scope::{enable_grad, is_grad_enabled, no_grad};

/// Gradients.
impl Tensor {
    /// Says whether the storage wants gradients, and returns this tensor. Reads from now on count.
    ///
    /// ```
    /// let w = kiln::Tensor::ones([2]).set_requires_grad(true);
    /// assert!(w.requires_grad());
    /// ```
    ///
    /// # Errors
    /// A dtype that is not a float; a [detached](Tensor::detach) tensor, of whose reads no gradient ever comes.
    #[track_caller]
    pub fn set_requires_grad(&self, on: bool) -> Tensor {
        if on && let Err(fault) = self.can_require_grad() {
            return Tensor::broken(fault.at("set_requires_grad"));
        }
        self.storage.set_requires_grad(on);
        self.clone()
    }

    fn can_require_grad(&self) -> Result<(), Fault> {
        if self.storage.is_broken() {
            return Ok(());
        }
        if !self.storage.dtype.is_float() {
            return refuse!("wants a float, not {}", self.storage.dtype);
        }
        match self.detached {
            true => refuse!(
                "no gradient goes through reads of a detached tensor: `copy()` it first, and mark the copy"
            ),
            false => Ok(()),
        }
    }

    /// Whether the storage wants gradients.
    ///
    /// ```
    /// assert!(!kiln::Tensor::ones([2]).requires_grad());
    /// ```
    pub fn requires_grad(&self) -> bool {
        self.storage.requires_grad()
    }

    /// What backward has added up for these elements since the last [`zero_grad`](Tensor::zero_grad).
    ///
    /// ```
    /// let w = kiln::Tensor::from([3.0f32]).set_requires_grad(true);
    /// w.square().sum(..).backward()?;
    /// assert_eq!(w.grad().expect("reached").to_vec::<f32>()?, [6.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn grad(&self) -> Option<Tensor> {
        let grad = Tensor::whole(self.storage.grad().clone()?);
        Some(Tensor { view: self.view.clone(), detached: true, ..grad })
    }

    /// Forgets what backward has added up.
    ///
    /// ```
    /// let w = kiln::Tensor::from([3.0f32]).set_requires_grad(true);
    /// w.sum(..).backward()?;
    /// w.zero_grad();
    /// assert!(w.grad().is_none());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn zero_grad(&self) {
        let old = self.storage.grad().take();
        drop(old); // may free a long graph: not under the lock
    }

    /// Adds this one element's gradient with respect to every storage that wants one to that storage's
    /// [`grad`](Tensor::grad).
    ///
    /// ```
    /// let w = kiln::Tensor::from([1.0f32, 2.0]).set_requires_grad(true);
    /// (&w * 3.0).sum(..).backward()?;
    /// assert_eq!(w.grad().expect("reached").to_vec::<f32>()?, [3.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error that the tensor carries; not one float element; no storage that wants a gradient.
    #[track_caller]
    pub fn backward(&self) -> Result<(), Error> {
        let _method = outermost("backward");
        at_caller("backward", self.add_gradients(None))
    }

    /// As [`backward`](Tensor::backward), of a tensor of any shape. `seed` has the weight of each element, and is
    /// broadcast to that shape. `y.backward_with(v)` is `(y * v).sum(..).backward()`.
    ///
    /// ```
    /// let w = kiln::Tensor::from([1.0f32, 2.0]).set_requires_grad(true);
    /// w.square().backward_with(kiln::Tensor::from([1.0f32, 10.0]))?;
    /// assert_eq!(w.grad().expect("reached").to_vec::<f32>()?, [2.0, 40.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error that the tensor carries; a dtype that is not a float; a seed of another shape, device or kind of number;
    /// no storage that wants a gradient.
    #[track_caller]
    pub fn backward_with(&self, seed: impl Operand) -> Result<(), Error> {
        let _method = outermost("backward");
        at_caller("backward", self.add_gradients(Some(seed.into_value())))
    }

    fn add_gradients(&self, seed: Option<Value>) -> Result<(), Fault> {
        let (root, seed) = self.differentiable(seed)?;
        let reads = reads(&root);
        let grads = gradients(&root, &seed, &reads);
        let mut reached = false;
        for (read, grad) in reads.iter().zip(grads) {
            let (Some(grad), Some(storage)) = (grad, marked_storage(storage_id(read))) else {
                continue;
            };
            reached = true;
            // what is added up is a value, as in PyTorch: `gradient` is what can be differentiated again
            let grad = grad.detach();
            name(&grad, "backward");
            let new = Tensor::from_node(grad, &storage.device);
            let mut sum = storage.grad();
            let sum_of = |old| Tensor::whole(old).add(&new).storage;
            *sum = Some(sum.take().map_or_else(|| new.storage.clone(), sum_of));
        }
        self.storage.forget_history();
        if !reached {
            return refuse!(
                "no tensor that wants a gradient is read on the way: call `set_requires_grad(true)` before it is used; no \
                 gradient goes through `detach()`, `no_grad`, integers, or a tensor whose `backward` was called before"
            );
        }
        remember_loss(self);
        Ok(())
    }

    /// The gradients of this one element with respect to `targets`. Nothing is added up.
    ///
    /// A target that does not [want gradients](Tensor::set_requires_grad) counts by its value: equal values that are
    /// computed in the same way are one, and what was computed before the gradient is asked for leads to none.
    ///
    /// ```
    /// let w = kiln::Tensor::from([1.0f32, 2.0]);
    /// let grads = w.square().sum(..).gradient([&w])?;
    /// assert_eq!(grads[0].to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error that the tensor carries; not one float element; a target that is not read on the way, or is a constant
    /// that does not want gradients.
    #[track_caller]
    pub fn gradient<'a>(
        &self,
        targets: impl IntoIterator<Item = &'a Tensor>,
    ) -> Result<Vec<Tensor>, Error> {
        let targets: Vec<&Tensor> = targets.into_iter().collect();
        at_caller("gradient", self.gradients_of(&targets, None))
    }

    /// As [`gradient`](Tensor::gradient), of a tensor of any shape. `seed` has the weight of each element, and is
    /// broadcast to that shape. This is the product of `seed` with the Jacobian (PyTorch's `vjp`).
    ///
    /// ```
    /// let x = kiln::Tensor::from([1.0f32, 2.0]);
    /// let grads = x.square().gradient_with([&x], kiln::Tensor::from([1.0f32, 10.0]))?;
    /// assert_eq!(grads[0].to_vec::<f32>()?, [2.0, 40.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`gradient`](Tensor::gradient), for any number of elements; a seed of another shape, device or kind of number.
    #[track_caller]
    pub fn gradient_with<'a>(
        &self,
        targets: impl IntoIterator<Item = &'a Tensor>,
        seed: impl Operand,
    ) -> Result<Vec<Tensor>, Error> {
        let targets: Vec<&Tensor> = targets.into_iter().collect();
        at_caller("gradient", self.gradients_of(&targets, Some(seed.into_value())))
    }

    fn gradients_of(&self, targets: &[&Tensor], seed: Option<Value>) -> Result<Vec<Tensor>, Fault> {
        let found = self.gradients_if_read(targets, seed)?.into_iter().enumerate();
        found.map(|(i, grad)| grad.map_or_else(|| targets::not_read(i, targets[i]), Ok)).collect()
    }

    /// The gradients with respect to `targets`; `None` for one that is not read on the way.
    pub(crate) fn gradients_if_read(
        &self,
        targets: &[&Tensor],
        seed: Option<Value>,
    ) -> Result<Vec<Option<Tensor>>, Fault> {
        let (root, seed) = self.differentiable(seed)?;
        targets::gradients_of(&root, &seed, targets)
    }

    /// The value with what computed leaves were computed from, and what its elements weigh: by `seed`, else as one element
    /// of weight 1.
    fn differentiable(&self, seed: Option<Value>) -> Result<(UOp, UOp), Fault> {
        self.differentiable_from(self.value()?, seed)
    }

    /// The same of the value that the tensor had.
    fn differentiable_from(&self, value: UOp, seed: Option<Value>) -> Result<(UOp, UOp), Fault> {
        if !value.dtype().is_float() || seed.is_none() && value.numel() != 1 {
            let wanted = if seed.is_none() { "one float" } else { "floats" };
            return refuse!("wants {wanted}, not {} {:?}", value.dtype(), value.shape());
        }
        let seed = match seed {
            Some(seed) => self.fitting(&seed, self.shape())?,
            None => value.const_like(1),
        };
        Ok((engine::with_history(&value), seed))
    }
}
