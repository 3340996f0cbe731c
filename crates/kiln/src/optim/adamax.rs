//! Adamax.

use super::rule::{
    Now, Rule, betas_fault, mean, plus, scaled, setters, times, unsigned, with_decay,
};
use super::updates::Updates;
use crate::Tensor;
use crate::error::Error;
use kiln_ir::{Op, UOp};
use std::borrow::Borrow;

/// Adamax: Adam that divides by the largest gradient, whose weight falls (Kingma and Ba, 2014, arXiv:1412.6980), as PyTorch's
/// `Adamax`.
///
/// ```
/// use kiln::{Tensor, optim::Adamax};
/// let w = Tensor::from([3.0f32]).set_requires_grad(true);
/// let opt = Adamax::new([&w], 0.5);
/// w.square().sum(..).backward()?;
/// opt.step()?;
/// assert!((w.item::<f32>()? - 2.5).abs() < 1e-5);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type Adamax = Updates<Largest>;

/// The rule of [`Adamax`].
#[derive(Clone, Copy, Debug)]
pub struct Largest {
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
}

impl Updates<Largest> {
    /// With betas 0.9 and 0.999, and eps 1e-8.
    ///
    /// ```
    /// let opt = kiln::optim::Adamax::new([kiln::Tensor::ones([1])], 2e-3);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> Adamax {
        let rule = Largest { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0 };
        Updates::with_rule(parameters, lr, rule)
    }

    setters! { Adamax:
        /// With other weights of the past in the mean of gradients and in the largest one.
        betas: (f64, f64) = (0.9, 0.95);
        /// With another number added to sizes.
        eps: f64 = 1e-6;
        /// With this many times the parameter added to its gradient.
        weight_decay: f64 = 1e-4;
    }
}

impl Rule for Largest {
    fn kept(&self) -> Vec<&'static str> {
        vec!["exp_avg", "exp_inf"]
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn fault(&self) -> Option<String> {
        let numbers = [("eps", self.eps), ("the weight decay", self.weight_decay)];
        betas_fault(self.betas).or_else(|| unsigned(numbers))
    }

    fn updated(&self, now: &Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> Result<UOp, Error> {
        let [first, largest] = state else { unreachable!("two tensors are kept") };
        let grad = with_decay(now, value, grad);
        *first = mean(first, &grad, self.betas.0);
        let size = plus(&UOp::binary(Op::Max, &grad, &-&grad), self.eps);
        *largest = UOp::binary(Op::Max, &times(largest, self.betas.1), &size);
        let lr = now.lr / (1.0 - self.betas.0.powi(now.exponent()));
        Ok(value - UOp::binary(Op::Div, &scaled(first, lr), largest))
    }
}
