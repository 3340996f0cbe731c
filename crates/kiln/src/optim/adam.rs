//! Adam and AdamW.

use super::sealed::Rule;
use super::{Now, Optimizer, times, unsigned};
use crate::Tensor;
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
pub type Adam = Optimizer<Moments<false>>;

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
pub type AdamW = Optimizer<Moments<true>>;

/// The rule of [`Adam`] and, with decay kept out of the gradient, of [`AdamW`].
#[derive(Clone, Copy, Debug)]
pub struct Moments<const DECOUPLED: bool> {
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
}

impl<const DECOUPLED: bool> Optimizer<Moments<DECOUPLED>> {
    /// With betas 0.9 and 0.999, and eps 1e-8.
    ///
    /// ```
    /// let opt = kiln::optim::AdamW::new([kiln::Tensor::ones([1])], 1e-3);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> Self {
        let weight_decay = if DECOUPLED { 0.01 } else { 0.0 };
        let rule = Moments { betas: (0.9, 0.999), eps: 1e-8, weight_decay };
        Optimizer::with_rule(parameters, lr, rule)
    }

    /// With other weights of the past in the mean of gradients and in the mean of their squares.
    ///
    /// ```
    /// let opt = kiln::optim::AdamW::new([kiln::Tensor::ones([1])], 1e-3).betas((0.9, 0.95));
    /// ```
    pub fn betas(mut self, betas: (f64, f64)) -> Self {
        self.rule.betas = betas;
        self
    }

    /// With another number added to the divisor.
    ///
    /// ```
    /// let opt = kiln::optim::AdamW::new([kiln::Tensor::ones([1])], 1e-3).eps(1e-6);
    /// ```
    pub fn eps(mut self, eps: f64) -> Self {
        self.rule.eps = eps;
        self
    }

    /// With another weight decay.
    ///
    /// ```
    /// let opt = kiln::optim::AdamW::new([kiln::Tensor::ones([1])], 1e-3).weight_decay(0.1);
    /// ```
    pub fn weight_decay(mut self, decay: f64) -> Self {
        self.rule.weight_decay = decay;
        self
    }
}

impl<const DECOUPLED: bool> Rule for Moments<DECOUPLED> {
    fn kept(&self) -> usize {
        2
    }

    fn fault(&self) -> Option<String> {
        let (b1, b2) = self.betas;
        let is_large = |&(_, beta): &(&str, f64)| beta >= 1.0;
        let betas = [("the first beta", b1), ("the second beta", b2)];
        let large = || {
            let (name, beta) = betas.into_iter().find(is_large)?;
            Some(format!("{name} is {beta}, wants less than 1"))
        };
        let others = [("eps", self.eps), ("the weight decay", self.weight_decay)];
        unsigned(betas.into_iter().chain(others)).or_else(large)
    }

    fn updated(&self, now: Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> UOp {
        let [mean, square] = state else { unreachable!("two tensors are kept") };
        let (mut value, mut grad) = (value.clone(), grad.clone());
        if self.weight_decay != 0.0 {
            match DECOUPLED {
                true => value = times(&value, 1.0 - now.lr * self.weight_decay),
                false => grad = grad + times(&value, self.weight_decay),
            }
        }
        let (b1, b2) = self.betas;
        *mean = times(mean, b1) + times(&grad, 1.0 - b1);
        *square = times(square, b2) + times(&(&grad * &grad), 1.0 - b2);
        let step = i32::try_from(now.step).unwrap_or(i32::MAX);
        // both means start at 0: what is missing from their weights yet
        let (fill1, fill2) = (1.0 - b1.powi(step), 1.0 - b2.powi(step));
        let number = |x: f64| UOp::constant(x, value.dtype());
        let size = UOp::binary(Op::Div, &UOp::unary(Op::Sqrt, square), &number(fill2.sqrt()));
        let divisor = size + number(self.eps);
        &value - UOp::binary(Op::Div, &times(mean, now.lr / fill1), &divisor)
    }
}
