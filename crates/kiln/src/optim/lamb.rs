//! LAMB.

use super::means::{self, Means};
use super::rule::{Now, Rule, scaled, setters};
use super::updates::Updates;
use crate::Tensor;
use crate::error::Error;
use kiln_ir::UOp;
use std::borrow::Borrow;

/// LAMB: Adam in which each parameter's step is scaled by the parameter's norm (You et al., 2019, arXiv:1904.00962).
///
/// ```
/// use kiln::{Tensor, optim::LAMB};
/// let w = Tensor::from([[3.0f32]]).set_requires_grad(true);
/// let opt = LAMB::new([&w], 0.1);
/// w.square().sum(..).backward()?;
/// opt.step()?;
/// assert!((w.item::<f32>()? - 2.7).abs() < 1e-4);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type LAMB = Updates<LayerMoments>;

/// The rule of [`LAMB`].
#[derive(Clone, Copy, Debug)]
pub struct LayerMoments {
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
}

impl Updates<LayerMoments> {
    /// With betas 0.9 and 0.999, and eps 1e-6.
    ///
    /// ```
    /// let opt = kiln::optim::LAMB::new([kiln::Tensor::ones([1])], 0.1);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> LAMB {
        let rule = LayerMoments { betas: (0.9, 0.999), eps: 1e-6, weight_decay: 0.0 };
        Updates::with_rule(parameters, lr, rule)
    }

    setters! { LAMB:
        /// With other weights of the past in the mean of gradients and in the mean of their squares.
        betas: (f64, f64) = (0.9, 0.95);
        /// With another number added to the divisor.
        eps: f64 = 1e-6;
        /// With another weight decay.
        weight_decay: f64 = 1e-4;
    }
}

impl Rule for LayerMoments {
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
        let Means { first, second, fill } = Means::after(state, grad, self.betas, now);
        let (w, mean) = (now.tensor(value), now.tensor(&scaled(&first, 1.0 / fill[0])));
        let size = (now.tensor(&scaled(&second, 1.0 / fill[1]))).sqrt() + self.eps;
        let change = mean / size + &w * now.weight_decay;
        let (length, of_change) = (w.norm(2.0, ..), change.norm(2.0, ..));
        let is_some = length.gt(0.0) & of_change.gt(0.0);
        let trust = is_some.where_(&length / &of_change, 1.0);
        Ok(value - scaled(&(change * trust).value()?, now.lr))
    }
}
