//! NAdam.

use super::means::{self, Means};
use super::rule::{Now, Rule, betas_fault, number, plus, scaled, setters, unsigned, with_decay};
use super::updates::Updates;
use crate::Tensor;
use crate::error::Error;
use kiln_ir::{Op, UOp};
use std::borrow::Borrow;

/// NAdam: Adam with Nesterov's momentum (Dozat, 2016), as PyTorch's `NAdam`.
///
/// ```
/// use kiln::{Tensor, optim::NAdam};
/// let w = Tensor::from([[3.0f32]]).set_requires_grad(true);
/// let opt = NAdam::new([&w], 0.1);
/// w.square().sum(..).backward()?;
/// opt.step()?;
/// assert!((w.item::<f32>()? - 2.89435).abs() < 1e-4);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type NAdam = Updates<LooksAhead>;

/// The rule of [`NAdam`].
#[derive(Clone, Copy, Debug)]
pub struct LooksAhead {
    betas: (f64, f64),
    eps: f64,
    momentum_decay: f64,
    weight_decay: f64,
}

impl Updates<LooksAhead> {
    /// With betas 0.9 and 0.999, eps 1e-8 and a momentum decay of 4e-3.
    ///
    /// ```
    /// let opt = kiln::optim::NAdam::new([kiln::Tensor::ones([1])], 0.1);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> NAdam {
        let rule =
            LooksAhead { betas: (0.9, 0.999), eps: 1e-8, momentum_decay: 4e-3, weight_decay: 0.0 };
        Updates::with_rule(parameters, lr, rule)
    }

    setters! { NAdam:
        /// With other weights of the past in the mean of gradients and in the mean of their squares.
        betas: (f64, f64) = (0.9, 0.95);
        /// With another number added to the divisor.
        eps: f64 = 1e-6;
        /// With another speed at which the momentum comes to its full strength.
        momentum_decay: f64 = 1e-3;
        /// With this many times the parameter added to its gradient.
        weight_decay: f64 = 1e-4;
    }
}

impl LooksAhead {
    /// The momentum of a step.
    fn momentum(&self, step: u64) -> f64 {
        self.betas.0 * (1.0 - 0.5 * 0.96f64.powf(step as f64 * self.momentum_decay))
    }

    /// The product of the momenta so far. It ends where 1 less the product is 1.
    fn product(&self, step: u64) -> f64 {
        let mut product = 1.0;
        for i in 1..=step {
            if product < f64::EPSILON / 4.0 {
                break;
            }
            product *= self.momentum(i);
        }
        product
    }

    /// How much of the gradient and of the mean of gradients are in a step.
    fn shares(&self, step: u64) -> (f64, f64) {
        let (now, next) = (self.momentum(step), self.momentum(step + 1));
        let product = self.product(step);
        ((1.0 - now) / (1.0 - product), next / (1.0 - product * next))
    }
}

impl Rule for LooksAhead {
    fn kept(&self) -> Vec<&'static str> {
        means::NAMES.to_vec()
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn fault(&self) -> Option<String> {
        let others = [("eps", self.eps), ("the momentum decay", self.momentum_decay)];
        let decay = ("the weight decay", self.weight_decay);
        betas_fault(self.betas).or_else(|| unsigned(others.into_iter().chain([decay])))
    }

    fn updated(&self, now: &Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> Result<UOp, Error> {
        let grad = with_decay(now, value, grad);
        let Means { first, second, fill } = Means::after(state, &grad, self.betas, now);
        let root = number(fill[1].sqrt(), value.dtype());
        let size = UOp::binary(Op::Div, &UOp::unary(Op::Sqrt, &second), &root);
        let divisor = plus(&size, self.eps);
        let (of_grad, of_mean) = self.shares(now.step);
        let change = scaled(&grad, now.lr * of_grad) + scaled(&first, now.lr * of_mean);
        Ok(value - UOp::binary(Op::Div, &change, &divisor))
    }
}
