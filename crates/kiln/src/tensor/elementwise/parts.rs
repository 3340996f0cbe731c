//! What floats are made of: signs, fractions, and whether they are numbers.

use super::inverse::is_negative;
use super::{as_float, as_is, binary, like, math};
use crate::Tensor;
use crate::element::Operand;
use kiln_ir::dtype::Const;
use kiln_ir::{DType, Op, UOp};

fn truth(x: &UOp) -> UOp {
    UOp::bool(true).broadcast_to(x.shape())
}

/// Kinds of numbers: bool tensors.
impl Tensor {
    /// True where the value is neither infinite nor NaN.
    ///
    /// ```
    /// let t = kiln::Tensor::from([0.0, f64::INFINITY, f64::NAN]);
    /// assert_eq!(t.isfinite().to_vec::<bool>()?, [true, false, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn isfinite(&self) -> Tensor {
        self.map("isfinite", as_is, |x| match x.dtype().is_float() {
            true => math::abs(x).lt(&like(x, f64::INFINITY)),
            false => truth(x),
        })
    }

    /// True where the value is infinity.
    ///
    /// ```
    /// let t = kiln::Tensor::from([f64::INFINITY, f64::NEG_INFINITY]);
    /// assert_eq!(t.isposinf().to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn isposinf(&self) -> Tensor {
        self.map("isposinf", as_float, |x| x.eq_(&like(x, f64::INFINITY)))
    }

    /// True where the value is -infinity.
    ///
    /// ```
    /// let t = kiln::Tensor::from([f64::INFINITY, f64::NEG_INFINITY]);
    /// assert_eq!(t.isneginf().to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn isneginf(&self) -> Tensor {
        self.map("isneginf", as_float, |x| x.eq_(&like(x, f64::NEG_INFINITY)))
    }

    /// True where the sign bit is set: of -0.0 too.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([-0.0, 0.0, -2.0]).signbit().to_vec::<bool>()?, [true, false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn signbit(&self) -> Tensor {
        self.map("signbit", as_is, |x| match x.dtype() {
            dtype if dtype.is_float() => is_negative(x),
            DType::Bool => truth(x).not(),
            _ => x.lt(&like(x, 0)),
        })
    }
}

/// Parts of numbers.
impl Tensor {
    /// What is behind the point, with the sign of the value.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.25, -1.25]).frac().to_vec::<f64>()?, [0.25, -0.25]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn frac(&self) -> Tensor {
        self.map("frac", as_float, |x| x - UOp::unary(Op::Trunc, x))
    }

    /// The size of this with the sign of `other`; integers become f32 first. At 0 there is no gradient.
    ///
    /// ```
    /// let t = kiln::Tensor::from([1.0, -2.0]).copysign(-0.0);
    /// assert_eq!(t.to_vec::<f64>()?, [-1.0, -2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn copysign(&self, other: impl Operand) -> Tensor {
        binary("copysign", self.into_value(), other.into_value(), as_float, |x, sign| {
            let x = x.eq_(&like(x, 0)).where_(&x.detach(), x);
            is_negative(&x).ne_(&is_negative(sign)).where_(&-&x, &x)
        })
    }

    /// The step function: 0 for negative numbers and NaN, 1 for positive numbers, `values` at 0.
    ///
    /// ```
    /// let t = kiln::Tensor::from([-3.0, 0.0, 2.0]).heaviside(0.5);
    /// assert_eq!(t.to_vec::<f64>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn heaviside(&self, values: impl Operand) -> Tensor {
        binary("heaviside", self.into_value(), values.into_value(), as_is, |x, values| {
            let (zero, one) = (like(x, 0), like(x, 1));
            let step = zero.lt(x).where_(&one, &zero);
            x.eq_(&zero).where_(values, &step)
        })
    }

    /// 0 in place of NaN, and the largest and smallest numbers of the dtype in place of infinities.
    ///
    /// ```
    /// let t = kiln::Tensor::from([f32::NAN, f32::INFINITY]).nan_to_num();
    /// assert_eq!(t.to_vec::<f32>()?, [0.0, f32::MAX]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn nan_to_num(&self) -> Tensor {
        let largest = DType::largest(self.dtype());
        self.nan_to_num_with(0.0, largest, -largest)
    }

    /// Numbers in place of NaN, infinity and -infinity.
    ///
    /// ```
    /// let t = kiln::Tensor::from([f32::NAN, f32::NEG_INFINITY]).nan_to_num_with(7.0, 1.0, -1.0);
    /// assert_eq!(t.to_vec::<f32>()?, [7.0, -1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn nan_to_num_with(&self, nan: f64, infinity: f64, negative_infinity: f64) -> Tensor {
        self.map("nan_to_num", as_is, |x| {
            if !x.dtype().is_float() {
                return x.clone();
            }
            let number = |value: f64| like(x, Const::from(value));
            let [up, down] = [f64::INFINITY, f64::NEG_INFINITY].map(|end| x.eq_(&number(end)));
            let finite = up.where_(&number(infinity), &down.where_(&number(negative_infinity), x));
            x.ne_(x).where_(&number(nan), &finite)
        })
    }
}
