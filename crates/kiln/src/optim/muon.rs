//! Muon.

use super::rule::{Now, Rule, below_one, mean, scaled, setters, shrunk, unsigned};
use super::updates::Updates;
use crate::Tensor;
use crate::error::Error;
use kiln_ir::UOp;
use std::borrow::Borrow;

/// Muon: momentum whose matrix is made nearly orthogonal by Newton-Schulz iterations (Jordan et al., 2024), as PyTorch's
/// `Muon`. It is for matrices: other parameters want another optimizer.
///
/// ```
/// use kiln::{Tensor, optim::Muon};
/// let w = Tensor::from([[3.0f32]]).set_requires_grad(true);
/// let opt = Muon::new([&w], 0.1);
/// w.square().sum(..).backward()?;
/// opt.step()?;
/// assert!(w.item::<f32>()? < 3.0);
/// # Ok::<(), kiln::Error>(())
/// ```
pub type Muon = Updates<Orthogonal>;

/// The rule of [`Muon`].
#[derive(Clone, Copy, Debug)]
pub struct Orthogonal {
    momentum: f64,
    nesterov: bool,
    weight_decay: f64,
    steps: usize,
    eps: f64,
}

impl Updates<Orthogonal> {
    /// With Nesterov's momentum of 0.95, a weight decay of 0.1 and 5 iterations.
    ///
    /// ```
    /// let opt = kiln::optim::Muon::new([kiln::Tensor::ones([1])], 0.1);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> Muon {
        let rule =
            Orthogonal { momentum: 0.95, nesterov: true, weight_decay: 0.1, steps: 5, eps: 1e-7 };
        Updates::with_rule(parameters, lr, rule)
    }

    setters! { Muon:
        /// With another weight of the past in the mean of gradients.
        momentum: f64 = 0.9;
        /// Whether the momentum is looked ahead at.
        nesterov: bool = false;
        /// With another weight decay.
        weight_decay: f64 = 1e-4;
        /// With another number of iterations.
        steps: usize = 3;
        /// With another least norm that a gradient is divided by.
        eps: f64 = 1e-6;
    }
}

impl Rule for Orthogonal {
    fn kept(&self) -> Vec<&'static str> {
        vec!["momentum_buffer"]
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn fault(&self) -> Option<String> {
        let others = [("the weight decay", self.weight_decay), ("eps", self.eps)];
        below_one([("the momentum", self.momentum)]).or_else(|| unsigned(others))
    }

    fn refuses(&self, parameter: &Tensor) -> Option<String> {
        let shape = parameter.shape();
        (shape.len() != 2).then(|| format!("Muon updates matrices, not a parameter of {shape:?}"))
    }

    fn updated(&self, now: &Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> Result<UOp, Error> {
        let [buffer] = state else { unreachable!("one tensor is kept") };
        *buffer = mean(buffer, grad, self.momentum);
        let ahead = match self.nesterov {
            true => mean(grad, buffer, 1.0 - self.momentum),
            false => buffer.clone(),
        };
        let direction = orthogonal(&now.tensor(&ahead), self.steps, self.eps).value()?;
        let &[rows, columns] = &value.shape()[..] else { unreachable!("others are refused") };
        // tall matrices have longer columns
        let scale = (rows as f64 / columns.max(1) as f64).max(1.0).sqrt();
        Ok(shrunk(now, value) - scaled(&direction, now.lr * scale))
    }
}

/// The coefficients of the polynomial, chosen for a steep slope at 0.
const POLYNOMIAL: [f64; 3] = [3.4445, -4.775, 2.0315];

/// The matrix with its singular values near 1, by iterations of `x (a + b x^T x + c (x^T x)^2)`.
fn orthogonal(matrix: &Tensor, steps: usize, eps: f64) -> Tensor {
    let is_tall = matrix.shape()[0] > matrix.shape()[1];
    let [a, b, c] = POLYNOMIAL;
    let mut x = if is_tall { matrix.t() } else { matrix.clone() };
    x = &x / x.norm(2.0, ..).clamp_min(eps);
    for _ in 0..steps {
        let square = x.times(&x.t());
        let sum = &square * b + square.times(&square) * c;
        x = &x * a + sum.times(&x);
    }
    if is_tall { x.t() } else { x }
}
