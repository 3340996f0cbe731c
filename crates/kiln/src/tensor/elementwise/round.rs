//! Rounding; integers are round already.

use super::{as_is, like, math};
use crate::Tensor;
use kiln_ir::{Op, UOp};

/// Rounding to whole numbers, in the same dtype.
impl Tensor {
    /// Rounds toward zero.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.5f32, -1.5]).trunc().to_vec::<f32>()?, [1.0, -1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn trunc(&self) -> Tensor {
        self.rounded("trunc", trunc)
    }

    /// Rounds down.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.5f32, -1.5]).floor().to_vec::<f32>()?, [1.0, -2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn floor(&self) -> Tensor {
        self.rounded("floor", floor)
    }

    /// Rounds up.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.5f32, -1.5]).ceil().to_vec::<f32>()?, [2.0, -1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn ceil(&self) -> Tensor {
        self.rounded("ceil", ceil)
    }

    /// Rounds to the nearest whole number, halves to the even one.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1.5f32, 2.5]).round().to_vec::<f32>()?, [2.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn round(&self) -> Tensor {
        self.rounded("round", round)
    }

    #[track_caller]
    fn rounded(&self, op: &'static str, f: fn(&UOp) -> UOp) -> Tensor {
        self.map(op, as_is, |x| if x.dtype().is_float() { f(x) } else { x.clone() })
    }
}

pub(super) fn trunc(x: &UOp) -> UOp {
    UOp::unary(Op::Trunc, x)
}

fn floor(x: &UOp) -> UOp {
    let whole = trunc(x);
    x.lt(&whole).where_(&(&whole - like(x, 1)), &whole)
}

fn ceil(x: &UOp) -> UOp {
    let whole = trunc(x);
    whole.lt(x).where_(&(&whole + like(x, 1)), &whole)
}

/// Away from the truncated number where more than a half was cut off, or exactly a half from an odd one.
fn round(x: &UOp) -> UOp {
    let whole = trunc(x);
    let cut = math::abs(&(x - &whole)); // exact
    let half = like(x, 0.5);
    let halved = &whole * &half;
    let odd = trunc(&halved).ne_(&halved);
    let away = half.lt(&cut) | (cut.eq_(&half) & odd);
    let unit = x.lt(&like(x, 0)).where_(&like(x, -1), &like(x, 1));
    away.where_(&(&whole + unit), &whole)
}
