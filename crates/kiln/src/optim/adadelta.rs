//! Adadelta.

use super::rule::{Now, Rule, below_one, mean, plus, scaled, setters, unsigned, with_decay};
use super::updates::Updates;
use crate::Tensor;
use crate::error::Error;
use kiln_ir::{Op, UOp};
use std::borrow::Borrow;

/// Adadelta: steps as long as earlier ones, by the root of the mean squares of both (Zeiler, 2012, arXiv:1212.5701), as
/// PyTorch's `Adadelta`.
///
/// ```
/// use kiln::{Tensor, optim::Adadelta};
/// let w = Tensor::from([3.0f32]).set_requires_grad(true);
/// let opt = Adadelta::new([&w], 1.0);
/// w.square().sum(..).backward()?;
/// opt.step()?;
/// assert!(w.item::<f32>()? < 3.0);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type Adadelta = Updates<Lengths>;

/// The rule of [`Adadelta`].
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    rho: f64,
    eps: f64,
    weight_decay: f64,
}

impl Updates<Lengths> {
    /// With rho 0.9 and eps 1e-6.
    ///
    /// ```
    /// let opt = kiln::optim::Adadelta::new([kiln::Tensor::ones([1])], 1.0);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> Adadelta {
        let rule = Lengths { rho: 0.9, eps: 1e-6, weight_decay: 0.0 };
        Updates::with_rule(parameters, lr, rule)
    }

    setters! { Adadelta:
        /// With another weight of the past in both means.
        rho: f64 = 0.95;
        /// With another number added under the roots.
        eps: f64 = 1e-8;
        /// With this many times the parameter added to its gradient.
        weight_decay: f64 = 1e-4;
    }
}

impl Rule for Lengths {
    fn kept(&self) -> Vec<&'static str> {
        vec!["square_avg", "acc_delta"]
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn fault(&self) -> Option<String> {
        let numbers = [("eps", self.eps), ("the weight decay", self.weight_decay)];
        below_one([("rho", self.rho)]).or_else(|| unsigned(numbers))
    }

    fn updated(&self, now: &Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> Result<UOp, Error> {
        let [squares, steps] = state else { unreachable!("two tensors are kept") };
        let grad = with_decay(now, value, grad);
        let root = |x: &UOp| UOp::unary(Op::Sqrt, &plus(x, self.eps));
        *squares = mean(squares, &(&grad * &grad), self.rho);
        let step = UOp::binary(Op::Div, &root(steps), &root(squares)) * grad;
        *steps = mean(steps, &(&step * &step), self.rho);
        Ok(value - scaled(&step, now.lr))
    }
}
