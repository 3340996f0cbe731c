//! LARS.

use super::rule::{Now, Rule, scaled, setters, times, unsigned};
use super::updates::Updates;
use crate::Tensor;
use crate::error::Error;
use kiln_ir::UOp;
use std::borrow::Borrow;

/// LARS: momentum in which each parameter's step is scaled by its norm over that of its gradient (You, Gitman, Ginsburg,
/// 2017, arXiv:1708.03888).
///
/// ```
/// use kiln::{Tensor, optim::LARS};
/// let w = Tensor::from([[3.0f32]]).set_requires_grad(true);
/// let opt = LARS::new([&w], 10.0);
/// w.square().sum(..).backward()?;
/// opt.step()?;
/// assert!((w.item::<f32>()? - 2.97).abs() < 1e-4);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type LARS = Updates<LayerRates>;

/// The rule of [`LARS`].
#[derive(Clone, Copy, Debug)]
pub struct LayerRates {
    momentum: f64,
    trust: f64,
    weight_decay: f64,
}

impl Updates<LayerRates> {
    /// With momentum 0.9 and a trust coefficient of 0.001, without weight decay.
    ///
    /// ```
    /// let opt = kiln::optim::LARS::new([kiln::Tensor::ones([1])], 0.1);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> LARS {
        let rule = LayerRates { momentum: 0.9, trust: 1e-3, weight_decay: 0.0 };
        Updates::with_rule(parameters, lr, rule)
    }

    setters! { LARS:
        /// With another share of the last step in each.
        momentum: f64 = 0.8;
        /// With another trust coefficient, the length of a step relative to the parameter's.
        trust: f64 = 0.01;
        /// With this many times the parameter added to its gradient.
        weight_decay: f64 = 1e-4;
    }
}

impl Rule for LayerRates {
    fn kept(&self) -> Vec<&'static str> {
        vec!["momentum_buffer"]
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn fault(&self) -> Option<String> {
        let others = [("the momentum", self.momentum), ("the trust coefficient", self.trust)];
        unsigned(others.into_iter().chain([("the weight decay", self.weight_decay)]))
    }

    fn updated(&self, now: &Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> Result<UOp, Error> {
        let [velocity] = state else { unreachable!("one tensor is kept") };
        let (w, g) = (now.tensor(value), now.tensor(grad));
        let (size, slope) = (w.norm(2.0, ..), g.norm(2.0, ..));
        let rate = (&size * self.trust) / (&slope + &size * now.weight_decay);
        let is_some = size.gt(0.0) & slope.gt(0.0);
        let change = (g + &w * now.weight_decay) * is_some.where_(rate, 1.0);
        *velocity = times(velocity, self.momentum) + scaled(&change.value()?, now.lr);
        Ok(value - &*velocity)
    }
}
