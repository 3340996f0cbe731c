//! Lion.

use super::rule::{Now, Rule, betas_fault, mean, scaled, setters, shrunk, unsigned};
use super::updates::Updates;
use crate::Tensor;
use crate::error::Error;
use kiln_ir::UOp;
use std::borrow::Borrow;

/// Lion: steps by the sign of a mean of gradients (Chen et al., 2023, arXiv:2302.06675). Weight decay is kept out of the
/// gradient.
///
/// ```
/// use kiln::{Tensor, optim::Lion};
/// let w = Tensor::from([[3.0f32]]).set_requires_grad(true);
/// let opt = Lion::new([&w], 0.1);
/// w.square().sum(..).backward()?;
/// opt.step()?;
/// assert!((w.item::<f32>()? - 2.9).abs() < 1e-4);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type Lion = Updates<Signs>;

/// The rule of [`Lion`].
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    betas: (f64, f64),
    weight_decay: f64,
}

impl Updates<Signs> {
    /// With betas 0.9 and 0.99, without weight decay.
    ///
    /// ```
    /// let opt = kiln::optim::Lion::new([kiln::Tensor::ones([1])], 0.1);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> Lion {
        let rule = Signs { betas: (0.9, 0.99), weight_decay: 0.0 };
        Updates::with_rule(parameters, lr, rule)
    }

    setters! { Lion:
        /// With other weights of the past in what gives the sign and in what is kept.
        betas: (f64, f64) = (0.95, 0.98);
        /// With another weight decay.
        weight_decay: f64 = 1e-4;
    }
}

impl Rule for Signs {
    fn kept(&self) -> Vec<&'static str> {
        vec!["exp_avg"]
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn fault(&self) -> Option<String> {
        betas_fault(self.betas).or_else(|| unsigned([("the weight decay", self.weight_decay)]))
    }

    fn updated(&self, now: &Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> Result<UOp, Error> {
        let [average] = state else { unreachable!("one tensor is kept") };
        let direction = now.tensor(&mean(average, grad, self.betas.0)).sign().value()?;
        *average = mean(average, grad, self.betas.1);
        Ok(shrunk(now, value) - scaled(&direction, now.lr))
    }
}
