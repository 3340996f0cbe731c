//! Rprop.

use super::rule::{self, Now, Rule, setters};
use super::updates::Updates;
use crate::Tensor;
use crate::error::Error;
use kiln_ir::UOp;
use std::borrow::Borrow;

/// Rprop: a step length for each element, which grows while the gradient's sign stays and shrinks where it changes
/// (Riedmiller and Braun, 1993), as PyTorch's `Rprop`.
///
/// ```
/// use kiln::{Tensor, optim::Rprop};
/// let w = Tensor::from([3.0f32]).set_requires_grad(true);
/// let opt = Rprop::new([&w], 0.5);
/// w.square().sum(..).backward()?;
/// opt.step()?;
/// assert!((w.item::<f32>()? - 2.5).abs() < 1e-5);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type Rprop = Updates<Signs>;

/// The rule of [`Rprop`].
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    etas: (f64, f64),
    step_sizes: (f64, f64),
}

impl Updates<Signs> {
    /// With factors 0.5 and 1.2, and lengths from 1e-6 to 50.
    ///
    /// ```
    /// let opt = kiln::optim::Rprop::new([kiln::Tensor::ones([1])], 0.01);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> Rprop {
        let rule = Signs { etas: (0.5, 1.2), step_sizes: (1e-6, 50.0) };
        Updates::with_rule(parameters, lr, rule)
    }

    setters! { Rprop:
        /// With other factors of the length, where the sign changes and where it stays.
        etas: (f64, f64) = (0.6, 1.1);
        /// With other bounds of the length.
        step_sizes: (f64, f64) = (1e-5, 10.0);
    }
}

impl Rule for Signs {
    fn kept(&self) -> Vec<&'static str> {
        vec!["prev", "step_size"]
    }

    fn weight_decay(&self) -> f64 {
        0.0
    }

    fn fault(&self) -> Option<String> {
        let ((down, up), (least, most)) = (self.etas, self.step_sizes);
        let fits = 0.0 < down && down < 1.0 && 1.0 < up && 0.0 <= least && least <= most;
        (!fits)
            .then(|| format!("wants factors below and above 1 and bounds in order, not {self:?}"))
    }

    fn updated(&self, now: &Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> Result<UOp, Error> {
        let [before, length] = state else { unreachable!("two tensors are kept") };
        let number = |x: f64| value.const_like(x);
        let zero = &number(0.0);
        let agreement = grad * &*before;
        let (stays, turns) = (zero.lt(&agreement), agreement.lt(zero));
        let factor =
            stays.where_(&number(self.etas.1), &turns.where_(&number(self.etas.0), &number(1.0)));
        let is_first = zero.lt(&rule::number((now.step == 1) as u8 as f64, value.dtype()));
        let last = is_first.where_(&rule::number(now.lr, value.dtype()), &*length);
        *length =
            (last * factor).maximum(&number(self.step_sizes.0)).minimum(&number(self.step_sizes.1));
        // after a change of sign the element rests, and the next sign is not compared
        *before = turns.where_(zero, grad);
        let sign =
            zero.lt(before).where_(&number(1.0), &before.lt(zero).where_(&number(-1.0), zero));
        Ok(value - sign * &*length)
    }
}
