//! Activation functions; integers become f32 first.

use super::compare::at_most;
use super::{as_float, as_is, like, math, quotient};
use crate::Tensor;
use kiln_ir::{Op, UOp};

/// Activation functions.
impl Tensor {
    /// `max(x, 0)`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.0f32, -2.0]).relu().to_vec::<f32>()?, [1.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
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
    #[track_caller]
    pub fn silu(&self) -> Tensor {
        self.map("silu", as_float, |x| x * sigmoid(x))
    }

    /// The Gaussian error linear unit in its tanh form: `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32]).gelu().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn gelu(&self) -> Tensor {
        self.map("gelu", as_float, |x| {
            let cubic = x + x * x * x * like(x, 0.044715);
            let scale = (2.0 / std::f64::consts::PI).sqrt();
            let tanh = UOp::unary(Op::Tanh, &(cubic * like(x, scale)));
            x * like(x, 0.5) * (tanh + like(x, 1))
        })
    }

    /// `x`, times `slope` where it is negative.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.0f32, -2.0]).leaky_relu(0.5).to_vec::<f32>()?, [1.0, -1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
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
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Tensor {
        self.map("elu", as_float, |x| {
            // e^x of a large x would be infinite in the branch that is not taken, and so would its gradient
            let (zero, positive) = (like(x, 0), like(x, 0).lt(x));
            let low = positive.where_(&zero, x);
            let curve = (UOp::unary(Op::Exp, &low) - like(x, 1)) * like(x, alpha);
            positive.where_(x, &curve)
        })
    }

    /// `log(1 + e^x)`.
    ///
    /// ```
    /// let y: f32 = kiln::Tensor::from(0.0f32).softplus().item()?;
    /// assert!((y - 2.0f32.ln()).abs() < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn softplus(&self) -> Tensor {
        self.map("softplus", as_float, |x| {
            let small = UOp::unary(Op::Exp, &-&math::abs(x));
            UOp::binary(Op::Max, x, &like(x, 0)) + UOp::unary(Op::Log, &(small + like(x, 1)))
        })
    }
}

fn sigmoid(x: &UOp) -> UOp {
    let one = like(x, 1);
    quotient(&one, &(UOp::unary(Op::Exp, &-x) + &one))
}
