//! RMSprop.

use super::rule::{Now, Rule, below_one, mean, plus, scaled, setters, times, unsigned, with_decay};
use super::updates::Updates;
use crate::Tensor;
use crate::error::Error;
use kiln_ir::{Op, UOp};
use std::borrow::Borrow;

/// RMSprop: divides by the root of the mean of squares (Hinton, Lecture 6e, 2012), as PyTorch's `RMSprop`.
///
/// ```
/// use kiln::{Tensor, optim::RMSprop};
/// let w = Tensor::from([[3.0f32]]).set_requires_grad(true);
/// let opt = RMSprop::new([&w], 0.1);
/// w.square().sum(..).backward()?;
/// opt.step()?;
/// assert!((w.item::<f32>()? - 2.0).abs() < 1e-4);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type RMSprop = Updates<MeanOfSquares>;

/// The rule of [`RMSprop`].
#[derive(Clone, Copy, Debug)]
pub struct MeanOfSquares {
    alpha: f64,
    eps: f64,
    momentum: f64,
    centered: bool,
    weight_decay: f64,
}

impl Updates<MeanOfSquares> {
    /// With alpha 0.99 and eps 1e-8, without momentum and weight decay.
    ///
    /// ```
    /// let opt = kiln::optim::RMSprop::new([kiln::Tensor::ones([1])], 0.1);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> RMSprop {
        let rule = MeanOfSquares {
            alpha: 0.99,
            eps: 1e-8,
            momentum: 0.0,
            centered: false,
            weight_decay: 0.0,
        };
        Updates::with_rule(parameters, lr, rule)
    }

    setters! { RMSprop:
        /// With another weight of the past in the mean of squares.
        alpha: f64 = 0.9;
        /// With another number added to the divisor.
        eps: f64 = 1e-6;
        /// With this share of the last step in each.
        momentum: f64 = 0.9;
        /// Whether the square of the mean is taken off the mean of squares.
        centered: bool = true;
        /// With this many times the parameter added to its gradient.
        weight_decay: f64 = 1e-4;
    }
}

impl MeanOfSquares {
    fn has_momentum(&self) -> bool {
        self.momentum != 0.0
    }
}

impl Rule for MeanOfSquares {
    fn kept(&self) -> Vec<&'static str> {
        let all = [
            ("square_avg", true),
            ("momentum_buffer", self.has_momentum()),
            ("grad_avg", self.centered),
        ];
        all.into_iter().filter(|(_, is_kept)| *is_kept).map(|(name, _)| name).collect()
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn fault(&self) -> Option<String> {
        let others = [("eps", self.eps), ("the momentum", self.momentum)];
        let decay = ("the weight decay", self.weight_decay);
        below_one([("alpha", self.alpha)]).or_else(|| unsigned(others.into_iter().chain([decay])))
    }

    fn updated(&self, now: &Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> Result<UOp, Error> {
        let (square, rest) = state.split_first_mut().expect("the mean of squares is kept");
        let grad = with_decay(now, value, grad);
        *square = mean(square, &(&grad * &grad), self.alpha);
        let mut size = square.clone();
        if self.centered {
            let average = rest.last_mut().expect("the mean is kept");
            *average = mean(average, &grad, self.alpha);
            size = size - &*average * &*average;
        }
        let divisor = plus(&UOp::unary(Op::Sqrt, &size), self.eps);
        let mut change = UOp::binary(Op::Div, &grad, &divisor);
        if self.has_momentum() {
            rest[0] = times(&rest[0], self.momentum) + &change;
            change = rest[0].clone();
        }
        Ok(value - scaled(&change, now.lr))
    }
}
