//! Powers with an exponent that is little arithmetic: `x^2` is `x * x`.

use super::UOp;
use crate::dtype::Const;
use crate::op::Op;

/// Powers of floats.
impl UOp {
    /// `self^exponent` for floats. The exponents that are products, a reciprocal or a root are those: they round three
    /// times at most, narrow floats once more.
    pub fn pow(&self, exponent: &UOp) -> UOp {
        let Some(e) = exponent.as_const().map(Const::as_f64) else {
            return UOp::binary(Op::Pow, self, exponent);
        };
        let wide = &self.cast(self.dtype().accumulator());
        match product(wide, e) {
            Some(product) => product.cast(self.dtype()),
            None => UOp::binary(Op::Pow, self, exponent),
        }
    }

    /// `1 / self` for floats.
    pub fn reciprocal(&self) -> UOp {
        UOp::binary(Op::Div, &self.const_like(1), self)
    }
}

/// `x^e` where that is little arithmetic.
fn product(x: &UOp, e: f64) -> Option<UOp> {
    let square = |x: &UOp| x * x;
    Some(match e {
        // a choice that is made already: 1 for every x, and still a function of it
        0.0 => UOp::bool(true).where_(&x.const_like(1), x),
        1.0 => x.clone(),
        2.0 => square(x),
        3.0 => square(x) * x,
        4.0 => square(&square(x)),
        0.5 => UOp::unary(Op::Sqrt, x),
        -1.0 => x.reciprocal(),
        // the square itself may overflow
        -2.0 => square(&x.reciprocal()),
        _ => return None,
    })
}
