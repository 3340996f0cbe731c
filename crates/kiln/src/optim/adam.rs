//! Adam and AdamW.

use super::means::{self, Means};
use super::rule::{Now, Rule, number, plus, scaled, setters, shrunk, with_decay};
use super::updates::Updates;
use crate::Tensor;
use crate::error::Error;
use kiln_ir::{Op, UOp};
use std::borrow::Borrow;

/// Adam; weight decay is added to the gradient, as in PyTorch's `Adam`.
///
/// ```
/// use kiln::{Tensor, optim::Adam};
/// let w = Tensor::from([3.0f32]).set_requires_grad(true);
/// let opt = Adam::new([&w], 0.5);
/// w.square().sum(..).backward()?;
/// opt.step()?;
/// assert!((w.item::<f32>()? - 2.5).abs() < 1e-5);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type Adam = Updates<Moments<false>>;

/// Adam with weight decay that is kept out of the gradient, 0.01 unless said otherwise, as in PyTorch's `AdamW`.
///
/// ```
/// use kiln::{Tensor, optim::AdamW};
/// let w = Tensor::from([3.0f32]).set_requires_grad(true);
/// let opt = AdamW::new([&w], 0.5).weight_decay(0.1);
/// w.square().sum(..).backward()?;
/// opt.step()?;
/// assert!((w.item::<f32>()? - 2.35).abs() < 1e-5);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type AdamW = Updates<Moments<true>>;

/// The rule of [`Adam`] and, with decay kept out of the gradient, of [`AdamW`].
#[derive(Clone, Copy, Debug)]
pub struct Moments<const DECOUPLED: bool> {
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
    amsgrad: bool,
}

impl<const DECOUPLED: bool> Updates<Moments<DECOUPLED>> {
    /// With betas 0.9 and 0.999, and eps 1e-8.
    ///
    /// ```
    /// let opt = kiln::optim::AdamW::new([kiln::Tensor::ones([1])], 1e-3);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> Self {
        let weight_decay = if DECOUPLED { 0.01 } else { 0.0 };
        let rule = Moments { betas: (0.9, 0.999), eps: 1e-8, weight_decay, amsgrad: false };
        Updates::with_rule(parameters, lr, rule)
    }

    setters! { AdamW:
        /// With other weights of the past in the mean of gradients and in the mean of their squares.
        betas: (f64, f64) = (0.9, 0.95);
        /// With another number added to the divisor.
        eps: f64 = 1e-6;
        /// With another weight decay.
        weight_decay: f64 = 0.1;
        /// With the largest mean square so far in the divisor (Reddi, Kale, Kumar, 2019, arXiv:1904.09237), or not.
        amsgrad: bool = true;
    }
}

impl<const DECOUPLED: bool> Rule for Moments<DECOUPLED> {
    fn kept(&self) -> Vec<&'static str> {
        let largest = self.amsgrad.then_some("max_exp_avg_sq");
        means::NAMES.into_iter().chain(largest).collect()
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn fault(&self) -> Option<String> {
        means::fault(self.betas, self.eps, self.weight_decay)
    }

    fn updated(&self, now: &Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> Result<UOp, Error> {
        let (value, grad) = match DECOUPLED {
            true => (shrunk(now, value), grad.clone()),
            false => (value.clone(), with_decay(now, value, grad)),
        };
        let (means, largest) = state.split_at_mut(means::NAMES.len());
        let Means { first, mut second, fill } = Means::after(means, &grad, self.betas, now);
        if let [largest] = largest {
            *largest = largest.maximum(&second);
            second = largest.clone();
        }
        let root = number(fill[1].sqrt(), value.dtype());
        let size = UOp::binary(Op::Div, &UOp::unary(Op::Sqrt, &second), &root);
        let divisor = plus(&size, self.eps);
        Ok(&value - UOp::binary(Op::Div, &scaled(&first, now.lr / fill[0]), &divisor))
    }
}
