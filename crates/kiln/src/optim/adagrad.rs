//! Adagrad.

use super::rule::{Now, Rule, plus, scaled, setters, unsigned, with_decay};
use super::updates::Updates;
use crate::Tensor;
use crate::error::Error;
use kiln_ir::{Op, UOp};
use std::borrow::Borrow;

/// Adagrad: divides by the root of the sum of all squares so far (Duchi, Hazan, Singer, 2011), as PyTorch's `Adagrad`.
///
/// ```
/// use kiln::{Tensor, optim::Adagrad};
/// let w = Tensor::from([[3.0f32]]).set_requires_grad(true);
/// let opt = Adagrad::new([&w], 0.5);
/// w.square().sum(..).backward()?;
/// opt.step()?;
/// assert!((w.item::<f32>()? - 2.5).abs() < 1e-4);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type Adagrad = Updates<SumOfSquares>;

/// The rule of [`Adagrad`].
#[derive(Clone, Copy, Debug)]
pub struct SumOfSquares {
    lr_decay: f64,
    eps: f64,
    weight_decay: f64,
}

impl Updates<SumOfSquares> {
    /// With eps 1e-10, and neither decay.
    ///
    /// ```
    /// let opt = kiln::optim::Adagrad::new([kiln::Tensor::ones([1])], 0.1);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> Adagrad {
        let rule = SumOfSquares { lr_decay: 0.0, eps: 1e-10, weight_decay: 0.0 };
        Updates::with_rule(parameters, lr, rule)
    }

    setters! { Adagrad:
        /// With the learning rate divided by 1 and this many times the number of earlier steps.
        lr_decay: f64 = 0.01;
        /// With another number added to the divisor.
        eps: f64 = 1e-6;
        /// With this many times the parameter added to its gradient.
        weight_decay: f64 = 1e-4;
    }
}

impl Rule for SumOfSquares {
    fn kept(&self) -> Vec<&'static str> {
        vec!["sum"]
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn fault(&self) -> Option<String> {
        let numbers = [("the decay of the learning rate", self.lr_decay), ("eps", self.eps)];
        unsigned(numbers.into_iter().chain([("the weight decay", self.weight_decay)]))
    }

    fn updated(&self, now: &Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> Result<UOp, Error> {
        let [sum] = state else { unreachable!("one tensor is kept") };
        let grad = with_decay(now, value, grad);
        *sum = &*sum + &grad * &grad;
        let lr = now.lr / (1.0 + (now.step - 1) as f64 * self.lr_decay);
        let divisor = plus(&UOp::unary(Op::Sqrt, sum), self.eps);
        Ok(value - UOp::binary(Op::Div, &scaled(&grad, lr), &divisor))
    }
}
