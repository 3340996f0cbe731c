//! RAdam.

use super::means::{self, Means};
use super::rule::{Now, Rule, plus, scaled, setters, with_decay};
use super::updates::Updates;
use crate::Tensor;
use crate::error::Error;
use kiln_ir::{Op, UOp};
use std::borrow::Borrow;

/// RAdam: Adam that steps by the mean of gradients until their mean square is known well enough (Liu et al., 2019,
/// arXiv:1908.03265), as PyTorch's `RAdam`.
///
/// ```
/// use kiln::{Tensor, optim::RAdam};
/// let w = Tensor::from([[3.0f32]]).set_requires_grad(true);
/// let opt = RAdam::new([&w], 0.1);
/// w.square().sum(..).backward()?;
/// opt.step()?;
/// assert!((w.item::<f32>()? - 2.4).abs() < 1e-4);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type RAdam = Updates<Rectified>;

/// The rule of [`RAdam`].
#[derive(Clone, Copy, Debug)]
pub struct Rectified {
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
}

impl Updates<Rectified> {
    /// With betas 0.9 and 0.999, and eps 1e-8.
    ///
    /// ```
    /// let opt = kiln::optim::RAdam::new([kiln::Tensor::ones([1])], 0.1);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> RAdam {
        let rule = Rectified { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0 };
        Updates::with_rule(parameters, lr, rule)
    }

    setters! { RAdam:
        /// With other weights of the past in the mean of gradients and in the mean of their squares.
        betas: (f64, f64) = (0.9, 0.95);
        /// With another number added to the divisor.
        eps: f64 = 1e-6;
        /// With this many times the parameter added to its gradient.
        weight_decay: f64 = 1e-4;
    }
}

impl Rectified {
    /// What the quotient is multiplied by, once the mean square has seen enough.
    fn rectification(&self, now: &Now) -> Option<f64> {
        let (b2, t) = (self.betas.1, now.step as f64);
        let past = b2.powi(now.exponent());
        let last = 2.0 / (1.0 - b2) - 1.0;
        let length = last - 2.0 * t * past / (1.0 - past);
        let part = |x: f64| (x - 4.0) * (x - 2.0) / x;
        (length > 5.0).then(|| (part(length) / part(last) * (1.0 - past)).sqrt())
    }
}

impl Rule for Rectified {
    fn kept(&self) -> Vec<&'static str> {
        means::NAMES.to_vec()
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn fault(&self) -> Option<String> {
        means::fault(self.betas, self.eps, self.weight_decay)
    }

    fn updated(&self, now: &Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> Result<UOp, Error> {
        let grad = with_decay(now, value, grad);
        let Means { first, second, fill } = Means::after(state, &grad, self.betas, now);
        let change = scaled(&first, now.lr / fill[0]);
        Ok(match self.rectification(now) {
            Some(factor) => {
                let divisor = plus(&UOp::unary(Op::Sqrt, &second), self.eps);
                value - UOp::binary(Op::Div, &scaled(&change, factor), &divisor)
            }
            None => value - change,
        })
    }
}
