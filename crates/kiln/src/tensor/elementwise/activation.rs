//! Activation functions; integers become f32 first.

use super::compare::at_most;
use super::{as_float, as_full, as_is, like, wide};
use crate::Tensor;
use kiln_ir::{Op, UOp};
use std::f64::consts::PI;

/// Activation functions.
impl Tensor {
    /// `max(x, 0)`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.0f32, -2.0]).relu().to_vec::<f32>()?, [1.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn relu(&self) -> Tensor {
        // not a maximum, whose gradient two equal operands share: at 0 there is none
        self.map("relu", as_is, |x| {
            let zero = like(x, 0);
            at_most(x, &zero).where_(&zero, x)
        })
    }

    /// `1 / (1 + e^-x)`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32]).sigmoid().to_vec::<f32>()?, [0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn sigmoid(&self) -> Tensor {
        self.map("sigmoid", as_float, sigmoid)
    }

    /// `x * sigmoid(x)`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32]).silu().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn silu(&self) -> Tensor {
        self.map("silu", as_float, |x| wide(x, |x| x * sigmoid(x)))
    }

    /// The Gaussian error linear unit in its tanh form: `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32]).gelu().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn gelu(&self) -> Tensor {
        self.map("gelu", as_float, |x| wide(x, gelu))
    }

    /// `x`, times `slope` where it is negative.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.0f32, -2.0]).leaky_relu(0.5).to_vec::<f32>()?, [1.0, -1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn leaky_relu(&self, slope: f64) -> Tensor {
        self.map("leaky_relu", as_float, |x| like(x, 0).lt(x).where_(x, &(x * like(x, slope))))
    }

    /// `x`, and `alpha (e^x - 1)` where it is not positive.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.0f32, 0.0]).elu(1.0).to_vec::<f32>()?, [1.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Tensor {
        self.map("elu", as_float, |x| wide(x, |x| elu(x, alpha)))
    }

    /// `log(1 + e^x)`.
    ///
    /// ```
    /// let y: f32 = kiln::Tensor::from(0.0f32).softplus().item()?;
    /// assert!((y - 2.0f32.ln()).abs() < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn softplus(&self) -> Tensor {
        self.map("softplus", as_full, |x| wide(x, softplus))
    }
}

fn sigmoid(x: &UOp) -> UOp {
    UOp::unary(Op::Sigmoid, x)
}

/// `1 + tanh(u)` is `2 sigmoid(2 u)`, which keeps its places where `u` is far below 0.
fn gelu(x: &UOp) -> UOp {
    let scale = 2.0 * (2.0 / PI).sqrt();
    // past this the sigmoid is 0 or 1, and a larger square would be infinite at last, times 0 in the gradient
    let (square, most) = (x * x, like(x, 10_000));
    let bounded = most.lt(&square).where_(&most, &square);
    let slope = bounded * like(x, 0.044715 * scale) + like(x, scale);
    x * sigmoid(&(x * slope))
}

/// e^x of a large x would be infinite in the branch that is not taken, and so would its gradient.
fn elu(x: &UOp, alpha: f64) -> UOp {
    let zero = &like(x, 0);
    let positive = zero.lt(x);
    let low = positive.where_(zero, x);
    positive.where_(x, &(UOp::unary(Op::Expm1, &low) * like(x, alpha)))
}

/// `max(x, 0) + log(1 + e^-|x|)`. At 0 the second term alone has a gradient, which is the right one.
fn softplus(x: &UOp) -> UOp {
    let zero = &like(x, 0);
    let positive = zero.lt(x);
    let power = UOp::unary(Op::Exp, &positive.where_(&-x, x));
    positive.where_(x, zero) + UOp::unary(Op::Log1p, &power)
}
