//! Gradients that a program gives itself.

use crate::Tensor;
use crate::error::{Fault, at_caller, refuse};
use crate::tensor::storage::next_id;
use kiln_ir::UOp;

/// Gradients of one's own.
impl Tensor {
    /// This value with a gradient of its own: from the value's gradient `gradient` makes those of `inputs`, and nothing
    /// else on the way to the value gets one (PyTorch's `autograd.Function`).
    ///
    /// `gradient` is called once, now. Its argument has the value's shape and dtype, and stands for a gradient that is
    /// known later: to read numbers from it gives zeros.
    ///
    /// ```
    /// use kiln::Tensor;
    /// // rounds, and passes the gradient on as if it did not
    /// let x = Tensor::from([0.3f32, 1.6]).set_requires_grad(true);
    /// let y = x.round().with_gradient([&x], |g| [g.clone()]);
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 2.0]);
    /// assert_eq!((y * 3.0).sum(..).gradient([&x])?[0].to_vec::<f32>()?, [3.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A value or an input that is not a float; a gradient that has not its input's shape, or another dtype or device.
    #[track_caller]
    pub fn with_gradient<const N: usize>(
        &self,
        inputs: [&Tensor; N],
        gradient: impl FnOnce(&Tensor) -> [Tensor; N],
    ) -> Tensor {
        let floats = [self].into_iter().chain(inputs).try_for_each(float);
        if let Err(error) = at_caller("with_gradient", floats) {
            return Tensor::broken(error);
        }
        let seed = self.value().map(|value| stand_in(&value));
        let grads = seed.map_err(Fault::from).map(|seed| {
            let grads = gradient(&Tensor::from_node(seed.clone(), self.device()));
            (seed, grads)
        });
        self.lift(
            "with_gradient",
            grads.and_then(|(seed, grads)| self.given(&seed, inputs, &grads)),
        )
    }

    fn given<const N: usize>(
        &self,
        seed: &UOp,
        inputs: [&Tensor; N],
        grads: &[Tensor; N],
    ) -> Result<UOp, Fault> {
        let pair = |(i, (x, dx)): (usize, (&Tensor, &Tensor))| {
            let wanted = (x.dtype(), x.shape(), x.device());
            let node = dx.value()?;
            match wanted == (dx.dtype(), dx.shape(), dx.device()) {
                true => Ok((x.value()?, node)),
                false => refuse!(
                    "gradient {i} is {} {:?} on {}, its input {} {:?} on {}",
                    dx.dtype(),
                    dx.shape(),
                    dx.device(),
                    x.dtype(),
                    x.shape(),
                    x.device()
                ),
            }
        };
        let pairs = inputs.into_iter().zip(grads).enumerate().map(pair);
        let pairs: Vec<(UOp, UOp)> = pairs.collect::<Result<_, Fault>>()?;
        Ok(self.value()?.with_vjp(seed, pairs))
    }
}

fn float(t: &Tensor) -> Result<(), Fault> {
    match t.error() {
        Some(error) => Err(error.into()),
        None if t.dtype().is_float() => Ok(()),
        None => refuse!("wants floats, not {}", t.dtype()),
    }
}

/// A node that stands for something of a value's shape and dtype, and for nothing else in any graph. Gradients lead to it.
pub(in crate::tensor) fn placeholder(value: &UOp) -> UOp {
    value.const_like(0).broadcast_to(value.shape()).mark(next_id(), true)
}

/// The same, which no gradient leads to.
pub(in crate::tensor) fn stand_in(value: &UOp) -> UOp {
    placeholder(value).detach()
}
