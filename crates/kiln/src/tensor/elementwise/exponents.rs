//! Floats by their parts: fraction and exponent, and the next one.

use super::{binary, wide};
use crate::Tensor;
use crate::defaults::OrFloat;
use crate::element::Operand;
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::{DType, Op, UOp};

/// The integer of a float's size, how many bits its fraction has, and the exponent of 1/2 in its bits.
fn layout(dtype: DType) -> (DType, u32, i64) {
    match dtype {
        DType::F16 => (DType::I16, 10, 14),
        DType::BF16 => (DType::I16, 7, 126),
        DType::F64 => (DType::I64, 52, 1022),
        _ => (DType::I32, 23, 126),
    }
}

/// The fraction from 1/2 to 1 and the exponent of 2 beside it. What has none is its own fraction.
fn parts(x: &UOp) -> (UOp, UOp) {
    const LIFT: i64 = 64;
    let (int, bits, bias) = layout(x.dtype());
    let small = super::math::abs(x).lt(&x.const_like(f64::exp2((1 - bias) as f64)));
    let raised = small.where_(&(x * x.const_like(f64::exp2(LIFT as f64))), x);
    let word = raised.bitcast(int);
    let one = |n: i64| word.const_like(n);
    let mask = (1i64 << (int.bits() - 1 - bits)) - 1;
    let exponent = UOp::binary(Op::Shr, &word, &one(bits.into())) & one(mask);
    let has_none = x.eq_(&x.const_like(0)) | exponent.eq_(&one(mask));
    let lift = small.where_(&one(LIFT), &one(0));
    let shifted = (&word & one(!(mask << bits))) | one(bias << bits);
    let fraction = has_none.where_(x, &shifted.bitcast(x.dtype()));
    (fraction, has_none.where_(&one(0), &(&exponent - one(bias) - lift)).cast(DType::I32))
}

/// The float beside `x` on the way to `y`.
fn next(x: &UOp, y: &UOp) -> UOp {
    let (int, ..) = layout(x.dtype());
    let word = x.bitcast(int);
    let zero = x.const_like(0);
    let grows = x.lt(y).eq_(&zero.lt(x));
    let step = grows.where_(&word.const_like(1), &word.const_like(-1));
    let beside = (&word + step).bitcast(x.dtype());
    let least = word.const_like(1).bitcast(x.dtype());
    let from_zero = zero.lt(y).where_(&least, &-&least);
    let moved = x.eq_(&zero).where_(&from_zero, &beside);
    let is_nan = x.ne_(x) | y.ne_(y);
    is_nan.where_(&(x + y), &x.eq_(y).where_(y, &moved))
}

fn float(dtype: DType) -> Result<DType, Fault> {
    let is_one = dtype.is_float() && dtype.size() > 1;
    if is_one { Ok(dtype) } else { refuse!("wants floats of 16 bits or more, not {dtype}") }
}

/// Parts of floats.
impl Tensor {
    /// The fraction, from 1/2 to 1, and the exponent of the power of 2, of I32, whose product with it is this. Zero, infinity and
    /// NaN are their own fraction.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let (fraction, exponent) = Tensor::from([10.0, -0.25]).frexp();
    /// assert_eq!(fraction.to_vec::<f64>()?, [0.625, -0.5]);
    /// assert_eq!(exponent.to_vec::<i32>()?, [4, -1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Dtypes that are not floats.
    #[must_use]
    #[track_caller]
    pub fn frexp(&self) -> (Tensor, Tensor) {
        let _method = outermost("frexp");
        let split = |of: fn((UOp, UOp)) -> UOp| {
            let narrow = self.dtype().accumulator();
            self.detach().map(
                "frexp",
                |d| Ok(float(d)?.accumulator()),
                |x| of(parts(&x.cast(narrow))),
            )
        };
        let (fraction, exponent) = (split(|p| p.0).cast(self.dtype()), split(|p| p.1));
        if fraction.error().is_some() {
            return (fraction, exponent);
        }
        let scale = exponent.neg().cast(DType::F64).exp2();
        (fraction.with_gradient([self], |g| [(g * scale).cast(self.dtype())]), exponent)
    }

    /// This times 2 to the power of `exponent`.
    ///
    /// ```
    /// use kiln::Tensor;
    /// assert_eq!(Tensor::from([1.5, 1.0]).ldexp([2, -1]).to_vec::<f64>()?, [6.0, 0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn ldexp(&self, exponent: impl Operand) -> Tensor {
        let _method = outermost("ldexp");
        binary(
            "ldexp",
            self.into_value(),
            exponent.into_value(),
            |d| Ok(d.or_float()),
            |x, e| wide(x, |x| x * UOp::unary(Op::Exp2, &e.cast(x.dtype()))),
        )
    }

    /// The float next to this one on the way to `other`.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let next = Tensor::from([1.0f32]).nextafter(2.0);
    /// assert_eq!(next.to_vec::<f32>()?, [1.0 + f32::EPSILON]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Dtypes that are not floats, shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn nextafter(&self, other: impl Operand) -> Tensor {
        binary("nextafter", self.into_value(), other.into_value(), float, next)
    }

    /// This to the power of `exponent`, both as F64.
    ///
    /// ```
    /// use kiln::Tensor;
    /// assert_eq!(Tensor::from([2, 3]).float_power(-1).to_vec::<f64>()?[0], 0.5);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn float_power(&self, exponent: impl Operand) -> Tensor {
        let _method = outermost("float_power");
        match exponent.into_value() {
            crate::element::Value::Tensor(e) => self.double().pow(e.double()),
            crate::element::Value::Scalar(c, _) => self.double().pow(c.as_f64()),
        }
    }
}
