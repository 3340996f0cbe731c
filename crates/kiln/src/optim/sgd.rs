//! Stochastic gradient descent.

use super::rule::{Now, Rule, scaled, setters, times, unsigned, with_decay};
use super::updates::Updates;
use crate::Tensor;
use crate::error::Error;
use kiln_ir::UOp;
use std::borrow::Borrow;

/// Stochastic gradient descent, with momentum and weight decay as PyTorch's `SGD`.
///
/// ```
/// use kiln::{Tensor, optim::SGD};
/// let w = Tensor::from([3.0f32]).set_requires_grad(true);
/// let opt = SGD::new([&w], 0.25).momentum(0.9).nesterov(true).weight_decay(1e-4);
/// w.square().sum(..).backward()?;
/// opt.step()?;
/// assert!(w.item::<f32>()? < 3.0);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type SGD = Updates<Descent>;

/// The rule of [`SGD`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Descent {
    momentum: f64,
    nesterov: bool,
    weight_decay: f64,
}

impl Updates<Descent> {
    /// Without momentum and weight decay.
    ///
    /// ```
    /// let opt = kiln::optim::SGD::new([kiln::Tensor::ones([1])], 0.1);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> SGD {
        Updates::with_rule(parameters, lr, Descent::default())
    }

    setters! { SGD:
        /// With this share of the last step in each.
        momentum: f64 = 0.9;
        /// Whether the momentum is looked ahead at, which wants a momentum.
        nesterov: bool = true;
        /// With this many times the parameter added to its gradient.
        weight_decay: f64 = 1e-4;
    }
}

impl Rule for Descent {
    fn kept(&self) -> Vec<&'static str> {
        if self.momentum == 0.0 { Vec::new() } else { vec!["momentum_buffer"] }
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn fault(&self) -> Option<String> {
        let names = [("the momentum", self.momentum), ("the weight decay", self.weight_decay)];
        let no_momentum = || {
            (self.nesterov && self.momentum == 0.0).then(|| "nesterov wants a momentum".to_string())
        };
        unsigned(names).or_else(no_momentum)
    }

    fn updated(&self, now: &Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> Result<UOp, Error> {
        let mut grad = with_decay(now, value, grad);
        if let [velocity] = state {
            *velocity = times(velocity, self.momentum) + &grad;
            let new = velocity.clone();
            grad = if self.nesterov { grad + times(&new, self.momentum) } else { new };
        }
        Ok(value - scaled(&grad, now.lr))
    }
}
