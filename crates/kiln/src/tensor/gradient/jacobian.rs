//! Derivatives of every element by every element, and along a direction.

use super::custom::stand_in;
use super::targets::{gradients_of, not_read};
use crate::Tensor;
use crate::element::{Operand, Value};
use crate::error::{Error, Fault, at_caller};
use kiln_compile::grad::gradient;
use kiln_ir::UOp;

/// Derivatives of more than one element.
impl Tensor {
    /// How much this tensor grows where each target moves along its tangent: the product of the Jacobian with the
    /// tangents, of this tensor's shape and dtype (PyTorch's `jvp`). A target counts as in
    /// [`gradient`](Tensor::gradient); one that is not read on the way changes nothing.
    ///
    /// ```
    /// let x = kiln::Tensor::from([1.0f32, 2.0]);
    /// let slope = x.square().jvp([(&x, &kiln::Tensor::from([1.0f32, 10.0]))])?;
    /// assert_eq!(slope.to_vec::<f32>()?, [2.0, 40.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error that a tensor carries; a dtype that is not a float; a tangent of another shape, device or kind of number
    /// than its target.
    #[track_caller]
    pub fn jvp<'a>(
        &self,
        targets: impl IntoIterator<Item = (&'a Tensor, &'a Tensor)>,
    ) -> Result<Tensor, Error> {
        let (targets, tangents): (Vec<&Tensor>, Vec<&Tensor>) = targets.into_iter().unzip();
        at_caller("jvp", self.along_tangents(&targets, &tangents))
    }

    /// The product with the transposed Jacobian is linear in its seed: its own gradient is the product with the Jacobian.
    fn along_tangents(&self, targets: &[&Tensor], tangents: &[&Tensor]) -> Result<Tensor, Fault> {
        let seed = stand_in(&self.value()?);
        let weight = Value::Tensor(Tensor::from_node(seed.clone(), self.device()));
        let grads = self.gradients_if_read(targets, Some(weight))?;
        let mut sum = self.value()?.const_like(0);
        for ((grad, target), tangent) in grads.iter().zip(targets).zip(tangents) {
            let tangent = target.fitting(&tangent.into_value(), target.shape())?;
            let Some(grad) = grad else { continue };
            let part = Tensor::from_node(grad.value()? * tangent, self.device());
            sum = sum + part.sum(..).cast(self.dtype()).value()?;
        }
        let grad = gradient(&sum, &sum.const_like(1), &[seed]).remove(0);
        let zeros = || self.value().map(|v| v.const_like(0).broadcast_to(v.shape()));
        let grad = grad.map_or_else(zeros, Ok)?;
        Ok(Tensor::from_node(grad, self.device()))
    }

    /// The derivative of every element by every element of `target`, of this shape followed by the target's. It is
    /// computed now, one element of this tensor after the other.
    ///
    /// ```
    /// let x = kiln::Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.square().jacobian(&x)?.to_vec::<f32>()?, [2.0, 0.0, 0.0, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`gradient`](Tensor::gradient), for any number of elements; a failing device or compiler.
    #[track_caller]
    pub fn jacobian(&self, target: &Tensor) -> Result<Tensor, Error> {
        at_caller("jacobian", self.derivatives(target, true))
    }

    /// The second derivatives of this one element by each two elements of `target`, of the target's shape twice. They
    /// are computed now, one row after the other.
    ///
    /// ```
    /// let x = kiln::Tensor::from([1.0f32, 2.0]);
    /// let hessian = x.prod(..).hessian(&x)?;
    /// assert_eq!(hessian.to_vec::<f32>()?, [0.0, 1.0, 1.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`gradient`](Tensor::gradient); a failing device or compiler.
    #[track_caller]
    pub fn hessian(&self, target: &Tensor) -> Result<Tensor, Error> {
        let slopes = at_caller("hessian", self.gradients_of(&[target], None))?.remove(0);
        at_caller("hessian", slopes.derivatives(target, false))
    }

    /// The Jacobian. A target that is not read on the way has zeros, if it need not be.
    pub(super) fn derivatives(&self, target: &Tensor, must_read: bool) -> Result<Tensor, Fault> {
        let shape: Vec<usize> = self.shape().iter().chain(target.shape()).copied().collect();
        // taken before the first row: computing a row may compute this value, whose leaf has no history
        let value = self.value()?;
        let rows = (0..self.numel()).map(|i| self.row_of_jacobian(&value, i, target, must_read));
        let rows = rows.collect::<Result<Vec<Tensor>, Fault>>()?;
        match rows.is_empty() {
            true => Ok(Tensor::zeros_with(shape, (target.dtype(), target.device()))),
            false => Ok(Tensor::stack(&rows, 0).reshape(shape)),
        }
    }

    fn row_of_jacobian(
        &self,
        value: &UOp,
        i: usize,
        target: &Tensor,
        must_read: bool,
    ) -> Result<Tensor, Fault> {
        // as data, so that all rows are one kernel
        let mut one_hot = vec![0.0f32; self.numel()];
        one_hot[i] = 1.0;
        let seed = Tensor::from_vec_on(one_hot, self.shape(), self.device()).cast(self.dtype());
        let (root, seed) = self.differentiable_from(value.clone(), Some(Value::Tensor(seed)))?;
        let row = gradients_of(&root, &seed, &[target])?.remove(0);
        let row = match row {
            None if must_read => return not_read(0, target),
            None => target.zeros_like(),
            Some(row) => row.copy(),
        };
        row.realize()?;
        Ok(row)
    }
}
