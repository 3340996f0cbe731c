//! Gradients. They belong to storages: a read of a storage that wants one is marked in the graph, and backward ends
//! at the marks.

use super::Tensor;
use super::recent::remember_loss;
use super::storage::marked_storage;
use crate::engine;
use crate::error::{Error, Fault, at_caller, refuse};
use crate::origin::{name, outermost};
use kiln_compile::grad::gradient;
use kiln_ir::uop::toposort_all;
use kiln_ir::{Arg, Op, UOp};
use std::collections::BTreeSet;
use std::slice::from_ref;

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
    /// A dtype that is not a float.
    #[track_caller]
    pub fn set_requires_grad(&self, on: bool) -> Tensor {
        if on && !self.storage.is_broken() && !self.storage.dtype.is_float() {
            let why = format!("wants a float, not {}", self.storage.dtype);
            return Tensor::broken(Error::invalid("set_requires_grad", why));
        }
        self.storage.set_requires_grad(on);
        self.clone()
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
        at_caller("backward", self.add_gradients())
    }

    fn add_gradients(&self) -> Result<(), Fault> {
        let root = self.differentiable()?;
        let reads = reads(&root);
        let grads = gradients(&root, &reads);
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
                "no storage that wants a gradient is read on the way: call `set_requires_grad(true)` before it is used; \
                 gradients do not go through `detach()`, integers, or what backward started from before"
            );
        }
        remember_loss(self);
        Ok(())
    }

    /// The gradients of this one element with respect to `targets`, which want gradients. Nothing is added up.
    ///
    /// ```
    /// let w = kiln::Tensor::from([1.0f32, 2.0]).set_requires_grad(true);
    /// let grads = w.square().sum(..).gradient([&w])?;
    /// assert_eq!(grads[0].to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error that the tensor carries; not one float element; a target that does not want a gradient or is not read
    /// on the way.
    #[track_caller]
    pub fn gradient<'a>(
        &self,
        targets: impl IntoIterator<Item = &'a Tensor>,
    ) -> Result<Vec<Tensor>, Error> {
        let targets: Vec<&Tensor> = targets.into_iter().collect();
        at_caller("gradient", self.gradients_of(&targets))
    }

    fn gradients_of(&self, targets: &[&Tensor]) -> Result<Vec<Tensor>, Fault> {
        let root = self.differentiable()?;
        let wanted = |read: &UOp| targets.iter().any(|t| t.storage.id == storage_id(read));
        let reads: Vec<UOp> = reads(&root).into_iter().filter(wanted).collect();
        let grads = gradients(&root, &reads);
        let of_target = |(i, t): (usize, &&Tensor)| {
            if !t.requires_grad() {
                return refuse!(
                    "target {i} does not want a gradient: call `set_requires_grad(true)` before it is used"
                );
            }
            let own = reads.iter().zip(&grads).filter(|(read, _)| storage_id(read) == t.storage.id);
            match own.filter_map(|(_, grad)| grad.clone()).reduce(|a, b| a + b) {
                Some(sum) => {
                    name(&sum, "backward");
                    Ok(Tensor { view: t.view.clone(), ..Tensor::from_node(sum, &t.storage.device) })
                }
                None => refuse!("target {i} is not read on the way"),
            }
        };
        targets.iter().enumerate().map(of_target).collect()
    }

    /// The value, which has one float element, with what computed leaves were computed from.
    fn differentiable(&self) -> Result<UOp, Fault> {
        let value = self.value()?;
        match value.numel() == 1 && value.dtype().is_float() {
            true => Ok(engine::with_history(&value)),
            false => refuse!("wants one float, not {} {:?}", value.dtype(), value.shape()),
        }
    }
}

/// The marked reads that gradients of `root` could reach, in order of computation.
pub(super) fn reads(root: &UOp) -> Vec<UOp> {
    let mut nodes = toposort_all(from_ref(root), engine::is_open);
    nodes.retain(|n| n.op() == Op::Mark);
    nodes
}

/// The gradients of the one element `root` with respect to marked reads. Those of a storage that others were written to
/// go on to these, but what reaches such a storage through itself is not its own.
fn gradients(root: &UOp, reads: &[UOp]) -> Vec<Option<UOp>> {
    let through = reads.iter().filter(|read| engine::is_open(read));
    let derived: BTreeSet<u64> = through.map(storage_id).collect();
    let group = |read: &UOp| Some(storage_id(read)).filter(|id| derived.contains(id));
    let mut grads = vec![None; reads.len()];
    for of in std::iter::once(None).chain(derived.iter().copied().map(Some)) {
        let own: Vec<usize> = (0..reads.len()).filter(|&i| group(&reads[i]) == of).collect();
        let targets: Vec<UOp> = own.iter().map(|&i| reads[i].clone()).collect();
        for (i, grad) in own.into_iter().zip(gradient(root, &root.const_like(1), &targets)) {
            grads[i] = grad;
        }
    }
    grads
}

/// The storage that a marked read names.
fn storage_id(read: &UOp) -> u64 {
    match read.arg() {
        Arg::Mark { storage, .. } => *storage,
        _ => unreachable!("a mark"),
    }
}
