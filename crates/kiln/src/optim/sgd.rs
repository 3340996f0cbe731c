//! Stochastic gradient descent.

use super::sealed::Rule;
use super::{Now, Optimizer, times, unsigned};
use crate::Tensor;
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
pub type SGD = Optimizer<Descent>;

/// The rule of [`SGD`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Descent {
    momentum: f64,
    nesterov: bool,
    weight_decay: f64,
}

impl Optimizer<Descent> {
    /// Without momentum and weight decay.
    ///
    /// ```
    /// let opt = kiln::optim::SGD::new([kiln::Tensor::ones([1])], 0.1);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> SGD {
        Optimizer::with_rule(parameters, lr, Descent::default())
    }

    /// With this share of the last step in each.
    ///
    /// ```
    /// let opt = kiln::optim::SGD::new([kiln::Tensor::ones([1])], 0.1).momentum(0.9);
    /// ```
    pub fn momentum(mut self, momentum: f64) -> SGD {
        self.rule.momentum = momentum;
        self
    }

    /// Whether the momentum is looked ahead at.
    ///
    /// ```
    /// let opt = kiln::optim::SGD::new([kiln::Tensor::ones([1])], 0.1).momentum(0.9).nesterov(true);
    /// ```
    pub fn nesterov(mut self, on: bool) -> SGD {
        self.rule.nesterov = on;
        self
    }

    /// With `decay` times the parameter added to its gradient.
    ///
    /// ```
    /// let opt = kiln::optim::SGD::new([kiln::Tensor::ones([1])], 0.1).weight_decay(1e-4);
    /// ```
    pub fn weight_decay(mut self, decay: f64) -> SGD {
        self.rule.weight_decay = decay;
        self
    }
}

impl Rule for Descent {
    fn kept(&self) -> usize {
        usize::from(self.momentum != 0.0)
    }

    fn fault(&self) -> Option<String> {
        let names = [("the momentum", self.momentum), ("the weight decay", self.weight_decay)];
        let no_momentum = || {
            (self.nesterov && self.momentum == 0.0).then(|| "nesterov wants a momentum".to_string())
        };
        unsigned(names).or_else(no_momentum)
    }

    fn updated(&self, now: Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> UOp {
        let mut grad = grad.clone();
        if self.weight_decay != 0.0 {
            grad = grad + times(value, self.weight_decay);
        }
        if let [velocity] = state {
            *velocity = times(velocity, self.momentum) + &grad;
            let new = velocity.clone();
            grad = if self.nesterov { grad + times(&new, self.momentum) } else { new };
        }
        value - times(&grad, now.lr)
    }
}
