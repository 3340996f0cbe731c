//! ASGD.

use super::rule::{Now, Rule, scaled, setters, unsigned, with_decay};
use super::updates::Updates;
use crate::Tensor;
use crate::error::Error;
use kiln_ir::UOp;
use std::borrow::Borrow;

/// Averaged stochastic gradient descent: steps that get shorter, and the mean of the parameters, kept as `ax` (Polyak and
/// Juditsky, 1992), as PyTorch's `ASGD`.
///
/// ```
/// use kiln::{Tensor, optim::ASGD};
/// let w = Tensor::from([3.0f64]).set_requires_grad(true);
/// let opt = ASGD::new([&w], 0.25).lambd(0.0);
/// w.square().sum(..).backward()?;
/// opt.step()?;
/// assert_eq!(w.item::<f64>()?, 1.5);
/// assert_eq!(opt.state_dict()["state.0.ax"].item::<f64>()?, 1.5);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type ASGD = Updates<Averaged>;

/// The rule of [`ASGD`].
#[derive(Clone, Copy, Debug)]
pub struct Averaged {
    lambd: f64,
    alpha: f64,
    t0: f64,
    weight_decay: f64,
}

impl Updates<Averaged> {
    /// With lambd 1e-4, alpha 0.75, and a mean that starts after 1 000 000 steps.
    ///
    /// ```
    /// let opt = kiln::optim::ASGD::new([kiln::Tensor::ones([1])], 1e-2);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> ASGD {
        let rule = Averaged { lambd: 1e-4, alpha: 0.75, t0: 1e6, weight_decay: 0.0 };
        Updates::with_rule(parameters, lr, rule)
    }

    setters! { ASGD:
        /// With another share of the parameter, times the length of a step, that each step takes off.
        lambd: f64 = 1e-3;
        /// With another power by which steps get shorter.
        alpha: f64 = 0.5;
        /// With a mean that starts after so many steps; until then it is the parameter.
        t0: f64 = 100.0;
        /// With this many times the parameter added to its gradient.
        weight_decay: f64 = 1e-4;
    }
}

impl Rule for Averaged {
    fn kept(&self) -> Vec<&'static str> {
        vec!["ax"]
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn fault(&self) -> Option<String> {
        unsigned([
            ("lambd", self.lambd),
            ("alpha", self.alpha),
            ("t0", self.t0),
            ("the weight decay", self.weight_decay),
        ])
    }

    fn updated(&self, now: &Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> Result<UOp, Error> {
        let [mean] = state else { unreachable!("one tensor is kept") };
        let grad = with_decay(now, value, grad);
        let before = (now.step - 1) as f64;
        let length = now.lr / (1.0 + self.lambd * now.lr * before).powf(self.alpha);
        let new = scaled(value, 1.0 - self.lambd * length) - scaled(&grad, length);
        let share = 1.0 / (before - self.t0).max(1.0);
        *mean = &*mean + scaled(&(&new - &*mean), share);
        Ok(new)
    }
}
