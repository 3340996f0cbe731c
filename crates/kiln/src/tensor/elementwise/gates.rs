//! Activations that are straight lines, or gates made of others; integers become f32 first.

use super::{Typing, as_float, as_full, binary, like, quotient, wide};
use crate::Tensor;
use crate::element::Operand;
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use crate::tensor::shape_args::Int;
use kiln_ir::{Op, UOp};

/// `x` between two numbers, with the gradient of what lies inside.
fn between(x: &UOp, low: f64, high: f64) -> UOp {
    let (low, high) = (like(x, low), like(x, high));
    let inside = low.lt(x) & x.lt(&high);
    let fixed = x.detach();
    let bounded = fixed.lt(&low).where_(&low, &high.lt(&fixed).where_(&high, &fixed));
    inside.where_(x, &bounded)
}

fn sigmoid(x: &UOp) -> UOp {
    UOp::unary(Op::Sigmoid, x)
}

/// `min(x, 0) - log(1 + e^-|x|)`.
fn logsigmoid(x: &UOp) -> UOp {
    let zero = &like(x, 0);
    let positive = zero.lt(x);
    let power = UOp::unary(Op::Exp, &positive.where_(&-x, x));
    positive.where_(&like(x, -0.0), x) - UOp::unary(Op::Log1p, &power)
}

/// `log(1 + e^(b x)) / b`.
fn softplus(x: &UOp, beta: f64) -> UOp {
    let scaled = x * like(x, -beta);
    quotient(&-&logsigmoid(&scaled), &like(x, beta))
}

/// `scale x`, and where it is not positive `alpha scale (e^(x / width) - 1)`.
fn exponential(x: &UOp, scale: f64, alpha: f64, width: f64) -> UOp {
    let zero = &like(x, 0);
    let positive = zero.lt(x);
    let low = quotient(&positive.where_(zero, x), &like(x, width));
    let curve = UOp::unary(Op::Expm1, &low) * like(x, alpha * scale);
    positive.where_(&(x * like(x, scale)), &curve)
}

/// `x tanh(log(1 + e^x))`: of `n = e^x (e^x + 2)` it is `x n / (n + 2)`, which loses nothing where `x` is far below 0.
fn mish(x: &UOp) -> UOp {
    let (two, end) = (like(x, 2), like(x, 20));
    let is_large = end.lt(x);
    let power = UOp::unary(Op::Exp, &is_large.where_(&like(x, 0), x));
    let n = &power * (&power + &two);
    let (low, zero) = (x.lt(&like(x, -200)), like(x, 0));
    let bounded = low.where_(&zero, x);
    is_large.where_(x, &(bounded * quotient(&n, &(&n + &two))))
}

/// The scale and the alpha of [`Tensor::selu`]: with them, mean 0 and variance 1 stay what they are.
const SELU: (f64, f64) = (1.050_700_987_355_480_5, 1.673_263_242_354_377_2);

macro_rules! activations {
    ($($(#[doc = $doc:literal])+ $name:ident $f:expr, $input:literal => $output:literal;)*) => {
        /// Activation functions of one number.
        impl Tensor { $(
            $(#[doc = $doc])+
            #[doc = "\n```"]
            #[doc = concat!("let y: f32 = kiln::Tensor::from(", $input, "f32).", stringify!($name), "().item()?;")]
            #[doc = concat!("assert!((y - ", $output, ").abs() < 1e-5);")]
            #[doc = "# Ok::<(), kiln::Error>(())\n```"]
            #[must_use]
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                self.map(stringify!($name), as_float, |x| wide(x, $f))
            }
        )* }
    };
}

activations! {
    /// `x` between 0 and 6.
    relu6 |x| between(x, 0.0, 6.0), "7.0" => "6.0";
    /// `log(sigmoid(x))`, to the last places where the sigmoid is 0 or 1.
    logsigmoid logsigmoid, "0.0" => "-0.6931472";
    /// A sigmoid of straight lines: `x / 6 + 1/2` between 0 and 1.
    hardsigmoid hardsigmoid, "1.5" => "0.75";
    /// `x` times [`hardsigmoid`](Tensor::hardsigmoid).
    hardswish hardswish, "3.0" => "3.0";
    /// `x`, and where it is not positive `1.6733 (e^x - 1)`, both times 1.0507.
    selu |x| exponential(x, SELU.0, SELU.1, 1.0), "1.0" => "1.050701";
    /// `x * sigmoid(1.702 x)`.
    quick_gelu |x| x * sigmoid(&(x * like(x, 1.702))), "1.0" => "0.845796";
    /// Same as [`silu`](Tensor::silu).
    swish |x| x * sigmoid(x), "0.0" => "0.0";
    /// `x tanh(softplus(x))`.
    mish mish, "1.0" => "0.8650984";
    /// `x / (1 + |x|)`.
    softsign softsign, "1.0" => "0.5";
    /// `x - tanh(x)`.
    tanhshrink |x| x - UOp::unary(Op::Tanh, x), "1.0" => "0.23840584";
}

fn hardsigmoid(x: &UOp) -> UOp {
    let inside = between(x, -3.0, 3.0);
    quotient(&(inside + like(x, 3)), &like(x, 6))
}

/// `x` from 3 on, 0 up to -3: what is between is multiplied first, as a small sum keeps its places.
fn hardswish(x: &UOp) -> UOp {
    let (end, zero) = (like(x, 3), like(x, 0));
    let (low, high) = (x.lt(&like(x, -3)) | x.eq_(&like(x, -3)), end.lt(x) | x.eq_(&end));
    let inside = (&low | &high).where_(&zero, x);
    let curve = quotient(&(&inside * (&inside + &end)), &like(x, 6));
    low.where_(&zero, &high.where_(x, &curve))
}

fn softsign(x: &UOp) -> UOp {
    let (size, _) = super::inverse::magnitude(x);
    quotient(x, &(size + like(x, 1)))
}

/// Activation functions with numbers to choose.
impl Tensor {
    /// `x` between `low` and `high`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([2.0f32, -0.5]).hardtanh(-1.0, 1.0).to_vec::<f32>()?, [1.0, -0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn hardtanh(&self, low: f64, high: f64) -> Tensor {
        self.map("hardtanh", as_float, |x| wide(x, |x| between(x, low, high)))
    }

    /// `x`, and `alpha (e^(x / alpha) - 1)` where it is not positive: a smooth step for every `alpha`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([2.0f32, 0.0]).celu(0.5).to_vec::<f32>()?, [2.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn celu(&self, alpha: f64) -> Tensor {
        self.map("celu", as_float, |x| wide(x, |x| exponential(x, 1.0, alpha, alpha)))
    }

    /// `log(1 + e^(beta x)) / beta`: [`softplus`](Tensor::softplus), sharper.
    ///
    /// ```
    /// let y: f32 = kiln::Tensor::from(0.0f32).softplus_with(2.0).item()?;
    /// assert!((y - 2.0f32.ln() / 2.0).abs() < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn softplus_with(&self, beta: f64) -> Tensor {
        self.map("softplus_with", as_full, |x| wide(x, |x| softplus(x, beta)))
    }

    /// `x`, brought `width` nearer to 0; 0 where it is nearer already.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([2.0f32, -0.25]).softshrink(0.5).to_vec::<f32>()?, [1.5, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn softshrink(&self, width: f64) -> Tensor {
        self.map("softshrink", as_float, |x| {
            let (width, zero) = (like(x, width), like(x, 0));
            let below = x.lt(&-&width).where_(&(x + &width), &zero);
            let shrunk = width.lt(x).where_(&(x - &width), &below);
            x.ne_(x).where_(&x.detach(), &shrunk)
        })
    }

    /// `x`, and 0 where it is not further than `width` from 0.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([2.0f32, -0.25]).hardshrink(0.5).to_vec::<f32>()?, [2.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn hardshrink(&self, width: f64) -> Tensor {
        self.map("hardshrink", as_float, |x| {
            let (size, width) = (super::inverse::magnitude(x).0, like(x, width));
            let near = x.ne_(x).where_(&x.detach(), &like(x, 0));
            width.lt(&size).where_(x, &near)
        })
    }

    /// `x`, and `value` where it is not above `bound`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([2.0f32, 0.5]).threshold(1.0, -7.0).to_vec::<f32>()?, [2.0, -7.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn threshold(&self, bound: f64, value: f64) -> Tensor {
        self.map("threshold", as_float, |x| {
            let bound = like(x, bound);
            (x.lt(&bound) | x.eq_(&bound)).where_(&like(x, value), x)
        })
    }

    /// The first half along `axis` times the sigmoid of the second.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([4.0f32, 0.0]).glu(0).to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or has an odd length.
    #[must_use]
    #[track_caller]
    pub fn glu(&self, axis: impl Int) -> Tensor {
        let _method = outermost("glu");
        let halves = self.axis_length(axis).and_then(|(axis, n)| match n % 2 {
            0 => Ok((axis, n / 2)),
            _ => refuse!("axis {axis} of {:?} has no halves", self.shape()),
        });
        match halves {
            Ok((axis, n)) => self.piece(axis, 0, n).mul(self.piece(axis, n, n).sigmoid()),
            Err(fault) => Tensor::broken(fault.at("glu")),
        }
    }

    /// `x`, times `slope` where it is negative; a slope of one axis has a number for each channel, axis 1.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let y = Tensor::from([1.0f32, -2.0]).prelu(&Tensor::from(0.5f32));
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, -1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Slopes for another number of channels, or a slope that does not broadcast; other devices.
    #[must_use]
    #[track_caller]
    pub fn prelu(&self, slope: &Tensor) -> Tensor {
        let _method = outermost("prelu");
        let channels = self.shape().get(1).or(self.shape().first()).copied().unwrap_or(1);
        // slopes broadcast to the channels; a single channel would broadcast to the slopes
        if slope.ndim() == 1 && channels == 1 && slope.numel() != 1 && self.error().is_none() {
            let why = format!("{} slopes for the one channel of {:?}", slope.numel(), self.shape());
            return Tensor::broken(Fault::New(why).at("prelu"));
        }
        let channels = slope.ndim() == 1 && slope.numel() > 1 && self.ndim() > 2;
        let slope = match channels {
            true => slope.reshape(
                std::iter::once(slope.numel()).chain(vec![1; self.ndim() - 2]).collect::<Vec<_>>(),
            ),
            false => slope.clone(),
        };
        let typing: Typing = as_float;
        let (x, slope) = (self.into_value(), slope.into_value());
        binary("prelu", x, slope, typing, |x, slope| like(x, 0).lt(x).where_(x, &(x * slope)))
    }
}
