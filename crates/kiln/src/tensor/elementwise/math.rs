//! Powers, roots, exponentials, trigonometry, signs.

use super::{as_float, as_is, binary, counted, like, quotient};
use crate::Tensor;
use crate::element::{Operand, Value};
use crate::tensor::origin::outermost;
use kiln_ir::dtype::{Const, Weak};
use kiln_ir::{DType, Op, UOp};
use std::f64::consts::{LN_10, LOG10_2};

macro_rules! float_methods {
    ($($(#[doc = $doc:literal])+ $name:ident $op:ident;)*) => {
        /// Float functions; integers become f32 first.
        impl Tensor { $(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                self.map(stringify!($name), as_float, |x| UOp::unary(Op::$op, x))
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
    sqrt Sqrt;
    /// `e^x`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32]).exp().to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    exp Exp;
    /// `2^x`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3.0f32]).exp2().to_vec::<f32>()?, [8.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    exp2 Exp2;
    /// The natural logarithm.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.0f32]).log().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    log Log;
    /// The logarithm to base 2.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([8.0f32]).log2().to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    log2 Log2;
    /// The sine of radians.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32]).sin().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    sin Sin;
    /// The cosine of radians.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32]).cos().to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    cos Cos;
    /// The hyperbolic tangent.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32]).tanh().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    tanh Tanh;
}

/// Float functions made of others.
impl Tensor {
    /// The tangent of radians.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32]).tan().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn tan(&self) -> Tensor {
        self.map("tan", as_float, |x| quotient(&UOp::unary(Op::Sin, x), &UOp::unary(Op::Cos, x)))
    }

    /// The logarithm to base 10.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.0f32]).log10().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn log10(&self) -> Tensor {
        self.map("log10", as_float, |x| UOp::unary(Op::Log2, x) * like(x, LOG10_2))
    }

    /// `10^x`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([0.0f32]).exp10().to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn exp10(&self) -> Tensor {
        self.map("exp10", as_float, |x| UOp::unary(Op::Exp, &(x * like(x, LN_10))))
    }

    /// `1 / sqrt(x)`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([4.0f32]).rsqrt().to_vec::<f32>()?, [0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn rsqrt(&self) -> Tensor {
        self.map("rsqrt", as_float, |x| quotient(&like(x, 1), &UOp::unary(Op::Sqrt, x)))
    }

    /// `1 / x`.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([4.0f32]).reciprocal().to_vec::<f32>()?, [0.25]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn reciprocal(&self) -> Tensor {
        self.map("reciprocal", as_float, |x| quotient(&like(x, 1), x))
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
    pub fn neg(&self) -> Tensor {
        self.map("neg", counted, |x| -x)
    }

    /// The distance from 0.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, -2]).abs().to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
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
    #[track_caller]
    pub fn square(&self) -> Tensor {
        self.map("square", as_is, |x| x * x)
    }

    /// `x^exponent`. Small whole constants multiply, 0.5 is a square root; the others go through `exp2` and `log2`.
    /// A negative base has a power where the exponent is whole, else NaN. Integers stay integers where the exponent is
    /// a constant of 0 or more.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([2, 3]).pow(3).to_vec::<i32>()?, [8, 27]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[track_caller]
    pub fn pow(&self, exponent: impl Operand) -> Tensor {
        let _method = outermost("pow");
        let exponent = exponent.into_value();
        match constant_power(&exponent) {
            Some(Power::Whole(n)) => self.map("pow", weak_float(&exponent), |x| whole_power(x, n)),
            Some(Power::Inverse(n)) => {
                self.map("pow", as_float, |x| quotient(&like(x, 1), &whole_power(x, n)))
            }
            Some(Power::Root) => self.sqrt(),
            None => binary("pow", self.into_value(), exponent, as_float, power),
        }
    }
}

/// What a weak exponent makes of the base's dtype.
fn weak_float(exponent: &Value) -> impl FnOnce(DType) -> Result<DType, crate::error::Fault> {
    let is_float = matches!(exponent, Value::Scalar(_, Weak::Float));
    move |dtype| if is_float { as_float(dtype) } else { counted(dtype) }
}

/// Exponents that need no logarithm.
enum Power {
    Whole(u32),
    Inverse(u32),
    Root,
}

/// The largest whole exponent that is multiplied out: 2^5 takes ten products at most.
const MULTIPLIED_POWER: f64 = 32.0;

fn constant_power(exponent: &Value) -> Option<Power> {
    let Value::Scalar(c, _) = exponent else { return None };
    match c.as_f64() {
        0.5 => Some(Power::Root),
        e if e.fract() != 0.0 => None,
        e if (0.0..=MULTIPLIED_POWER).contains(&e) => Some(Power::Whole(e as u32)),
        // one division rounds twice, which a reciprocal of a square or a cube is allowed
        e if (-3.0..0.0).contains(&e) => Some(Power::Inverse(-e as u32)),
        // past that an integer has wrapped to what repeated squaring says
        e if matches!(c, Const::Int(_) | Const::UInt(_))
            && (0.0..=u32::MAX as f64).contains(&e) =>
        {
            Some(Power::Whole(e as u32))
        }
        _ => None,
    }
}

/// `x^n` by repeated squaring.
fn whole_power(x: &UOp, mut n: u32) -> UOp {
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

/// `base^exponent` for floats: the magnitude through base-2 logarithms, then the sign and the cases that they miss.
fn power(base: &UOp, exponent: &UOp) -> UOp {
    let (zero, one) = (like(base, 0), like(base, 1));
    let magnitude = UOp::unary(Op::Exp2, &(UOp::unary(Op::Log2, &abs(base)) * exponent));
    let whole = UOp::unary(Op::Trunc, exponent).eq_(exponent);
    let half = exponent * like(exponent, 0.5);
    let odd = UOp::unary(Op::Trunc, &half).ne_(&half);
    let signed = odd.where_(&-&magnitude, &magnitude);
    // a root of minus infinity is a limit, of which the sign does not matter
    let infinite = base.eq_(&like(base, f64::NEG_INFINITY));
    let root = infinite.where_(&magnitude, &like(base, f64::NAN));
    let of_negative = whole.where_(&signed, &root);
    let result = base.lt(&zero).where_(&of_negative, &magnitude);
    let is_one = exponent.eq_(&zero) | base.eq_(&one);
    is_one.where_(&one, &result)
}

/// The distance from 0, -0.0 included; the gradient at 0 is 0.
pub(super) fn abs(x: &UOp) -> UOp {
    let zero = like(x, 0);
    let unsigned = x.dtype().is_unsigned() || x.dtype() == DType::Bool;
    if unsigned {
        return x.clone();
    }
    let by_sign = x.lt(&zero).where_(&-x, x);
    if x.dtype().is_float() { x.eq_(&zero).where_(&zero, &by_sign) } else { by_sign }
}
