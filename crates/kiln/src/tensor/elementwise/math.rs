//! Powers, roots, exponentials, trigonometry, signs.

use super::{as_float, as_full, as_is, binary, counted, like, quotient, wide};
use crate::Tensor;
use crate::defaults::OrFloat;
use crate::element::{Operand, Value};
use crate::error::{Error, Fault};
use crate::origin::outermost;
use crate::tensor::autocast::full;
use kiln_ir::dtype::Weak;
use kiln_ir::{DType, Op, UOp};
use std::f64::consts::LOG10_2;

macro_rules! float_methods {
    ($($(#[doc = $doc:literal])+ $name:ident $op:ident $typing:ident;)*) => {
        /// Float functions; integers become f32 first.
        impl Tensor { $(
            $(#[doc = $doc])+
            #[must_use]
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                self.map(stringify!($name), $typing, |x| UOp::unary(Op::$op, x))
            }
        )* }
    };
}

float_methods! {
    /// The square root.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([4.0f32, 9.0]).sqrt().to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    sqrt Sqrt as_float;
    /// `e^x`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32]).exp().to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    exp Exp as_full;
    /// `2^x`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3.0f32]).exp2().to_vec::<f32>()?, [8.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    exp2 Exp2 as_full;
    /// `e^x - 1`, to the last places where `x` is small too.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1e-10f32]).expm1().to_vec::<f32>()?, [1e-10]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    expm1 Expm1 as_full;
    /// The natural logarithm.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.0f32]).log().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    log Log as_full;
    /// The natural logarithm of `1 + x`, to the last places where `x` is small too.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1e-10f32]).log1p().to_vec::<f32>()?, [1e-10]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    log1p Log1p as_full;
    /// The logarithm to base 2.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([8.0f32]).log2().to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    log2 Log2 as_full;
    /// The sine of radians.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32]).sin().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    sin Sin as_float;
    /// The cosine of radians.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32]).cos().to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    cos Cos as_float;
    /// The hyperbolic tangent.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32]).tanh().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    tanh Tanh as_float;
}

/// Float functions made of others.
impl Tensor {
    /// The tangent of radians.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32]).tan().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn tan(&self) -> Tensor {
        self.map("tan", as_full, |x| quotient(&UOp::unary(Op::Sin, x), &UOp::unary(Op::Cos, x)))
    }

    /// The logarithm to base 10.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.0f32]).log10().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn log10(&self) -> Tensor {
        self.map("log10", as_full, |x| UOp::unary(Op::Log2, x) * like(x, LOG10_2))
    }

    /// `10^x`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32, 3.0]).exp10().to_vec::<f32>()?, [1.0, 1000.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn exp10(&self) -> Tensor {
        self.map("exp10", as_full, |x| wide(x, |x| like(x, 10).pow(x)))
    }

    /// `1 / sqrt(x)`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([4.0f32]).rsqrt().to_vec::<f32>()?, [0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn rsqrt(&self) -> Tensor {
        self.map("rsqrt", as_full, |x| quotient(&like(x, 1), &UOp::unary(Op::Sqrt, x)))
    }

    /// `1 / x`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([4.0f32]).reciprocal().to_vec::<f32>()?, [0.25]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn reciprocal(&self) -> Tensor {
        self.map("reciprocal", as_full, UOp::reciprocal)
    }
}

/// Signs and squares, in any dtype.
impl Tensor {
    /// `-x`. Same as the operator.
    ///
    /// ```
    /// assert_eq!((-kiln::Tensor::from([1, -2])).to_vec::<i32>()?, [-1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    #[allow(clippy::should_implement_trait)] // it is implemented too
    #[must_use]
    pub fn neg(&self) -> Tensor {
        self.map("neg", counted, |x| -x)
    }

    /// The distance from 0.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, -2]).abs().to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn abs(&self) -> Tensor {
        self.map("abs", as_is, abs)
    }

    /// -1, 0 or 1 by the sign; NaN of NaN.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3, -2, 0]).sign().to_vec::<i32>()?, [1, -1, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn sign(&self) -> Tensor {
        self.map("sign", as_is, |x| {
            let zero = like(x, 0);
            // 0 keeps its sign and NaN stays, neither with a gradient
            let rest = if x.dtype().is_float() { x * &zero } else { zero.clone() };
            let positive = zero.lt(x).where_(&like(x, 1), &rest);
            if x.dtype().is_float() || x.dtype().is_signed() {
                return x.lt(&zero).where_(&like(x, -1), &positive);
            }
            positive
        })
    }

    /// `x * x`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3, -2]).square().to_vec::<i32>()?, [9, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn square(&self) -> Tensor {
        self.map("square", as_is, |x| x * x)
    }

    /// `x^exponent`, with IEEE's special cases: a negative base has a power where the exponent is whole, else NaN.
    /// Integers stay integers where the exponent is a whole constant, which must not be negative then.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([2, 3]).pow(3).to_vec::<i32>()?, [8, 27]);
    /// assert_eq!(kiln::Tensor::from([4.0f32, 100.0]).pow(-1.5).to_vec::<f32>()?, [0.125, 0.001]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices; a negative power of integers.
    #[must_use]
    #[track_caller]
    pub fn pow(&self, exponent: impl Operand) -> Tensor {
        let _method = outermost("pow");
        let exponent = exponent.into_value();
        if let (Some(n), false) = (whole(&exponent), self.dtype().is_float()) {
            return self.whole_pow(n);
        }
        let base = self.into_value();
        let dtype = full(base.common_dtype(&exponent).or_float());
        binary("pow", base, exponent, wide_float, |x, e| x.pow(e).cast(dtype))
    }

    /// The power of integers.
    #[track_caller]
    fn whole_pow(&self, n: i128) -> Tensor {
        match u64::try_from(n) {
            Ok(n) => self.map("pow", counted, |x| whole_power(x, n)),
            Err(_) => {
                let why = format!("integers have no power {n}: make them floats first");
                Tensor::broken(Error::invalid("pow", why))
            }
        }
    }
}

/// The type that powers are computed in.
fn wide_float(dtype: DType) -> Result<DType, Fault> {
    Ok(dtype.or_float().accumulator())
}

/// An exponent that is a constant integer.
fn whole(exponent: &Value) -> Option<i128> {
    match exponent {
        Value::Scalar(c, Weak::Int | Weak::Bool) => c.as_i128().or(Some(c.as_f64() as i128)),
        _ => None,
    }
}

/// `x^n` of integers by repeated squaring.
fn whole_power(x: &UOp, mut n: u64) -> UOp {
    let mut result: Option<UOp> = None;
    let mut square = x.clone();
    while n > 0 {
        if n % 2 == 1 {
            result = Some(result.map_or_else(|| square.clone(), |r| r * &square));
        }
        n /= 2;
        if n > 0 {
            square = &square * &square;
        }
    }
    // x^0 is 1 for every x, in x's shape
    result.unwrap_or_else(|| like(x, 1).broadcast_to(x.shape()))
}

/// The distance from 0, -0.0 included. NaN stays; neither has a gradient there.
pub(super) fn abs(x: &UOp) -> UOp {
    let zero = &like(x, 0);
    if x.dtype().is_unsigned() || x.dtype() == DType::Bool {
        return x.clone();
    }
    if !x.dtype().is_float() {
        return x.lt(zero).where_(&-x, x);
    }
    let rest = x.detach();
    let rest = &rest * &rest;
    x.lt(zero).where_(&-x, &zero.lt(x).where_(x, &rest))
}
