//! Hyperbolic functions and their inverses, exact near 0 and without overflow on the way.

use super::inverse::magnitude;
use super::{as_float, like, quotient, wide};
use crate::Tensor;
use kiln_ir::{DType, Op, UOp};
use std::f64::consts::LN_2;

/// From here on `e^-x` is nothing beside `e^x`.
const LARGE: f64 = 20.0;

/// `e^x / 2` of a large `x`, by halves, as `e^x` may be infinite where this is not; 0 instead where it is not asked for.
fn half_power(x: &UOp, is_large: &UOp) -> UOp {
    let half = is_large.where_(&(x * like(x, 0.5)), &like(x, 0));
    let root = UOp::unary(Op::Exp, &half);
    &root * (&root * like(x, 0.5))
}

/// Half of `t + t / (t + 1)` with `t` of `e^x - 1`.
fn sinh(x: &UOp) -> UOp {
    let (size, negative) = magnitude(x);
    let is_large = like(x, LARGE).lt(&size);
    let t = UOp::unary(Op::Expm1, &is_large.where_(&like(x, 0), &size));
    let small = (&t + quotient(&t, &(&t + like(x, 1)))) * like(x, 0.5);
    let value = is_large.where_(&half_power(&size, &is_large), &small);
    let value = x.eq_(&like(x, 0)).where_(x, &value);
    negative.where_(&-&value, &value)
}

/// `1 + t^2 / (2 (t + 1))` with `t` of `e^x - 1`: the slope is exact near 0.
fn cosh(x: &UOp) -> UOp {
    let (size, _) = magnitude(x);
    let is_large = like(x, LARGE).lt(&size);
    let t = UOp::unary(Op::Expm1, &is_large.where_(&like(x, 0), &size));
    let small = quotient(&(&t * &t), &(&t * like(x, 2) + like(x, 2))) + like(x, 1);
    is_large.where_(&half_power(&size, &is_large), &small)
}

/// Past this, 1 is nothing beside `x^2`.
fn huge(dtype: DType) -> f64 {
    if dtype == DType::F64 { 1e9 } else { 1e5 }
}

/// `log(2 x)` of a huge `x`.
fn log_of_huge(x: &UOp, is_huge: &UOp) -> UOp {
    UOp::unary(Op::Log, &is_huge.where_(x, &like(x, 1))) + like(x, LN_2)
}

/// `log1p(x + x^2 / (1 + sqrt(1 + x^2)))`.
fn asinh(x: &UOp) -> UOp {
    let (size, negative) = magnitude(x);
    let (is_huge, one) = (like(x, huge(x.dtype())).lt(&size), like(x, 1));
    let size_or_1 = is_huge.where_(&one, &size);
    let square = &size_or_1 * &size_or_1;
    let root = UOp::unary(Op::Sqrt, &(&square + &one));
    let small = UOp::unary(Op::Log1p, &(&size_or_1 + quotient(&square, &(root + &one))));
    let value = is_huge.where_(&log_of_huge(&size, &is_huge), &small);
    let value = x.eq_(&like(x, 0)).where_(x, &value);
    negative.where_(&-&value, &value)
}

/// `log1p(t + sqrt(2 t + t^2))` with `t` of `x - 1`.
fn acosh(x: &UOp) -> UOp {
    let is_huge = like(x, huge(x.dtype())).lt(x);
    let t = is_huge.where_(&like(x, 2), x) - like(x, 1);
    // two roots: the product of two negative numbers would have one, and a slope of 0 times infinity where one is 0
    let root = |x: &UOp| UOp::unary(Op::Sqrt, x);
    let small = UOp::unary(Op::Log1p, &(&t + root(&t) * root(&(&t + like(x, 2)))));
    is_huge.where_(&log_of_huge(x, &is_huge), &small)
}

fn atanh(x: &UOp) -> UOp {
    let difference = UOp::unary(Op::Log1p, x) - UOp::unary(Op::Log1p, &-x);
    difference * like(x, 0.5)
}

macro_rules! functions {
    ($($(#[doc = $doc:literal])+ $name:ident $input:literal $output:literal;)*) => {
        /// Hyperbolic functions; integers become f32 first.
        impl Tensor { $(
            $(#[doc = $doc])+
            #[doc = "\n```"]
            #[doc = concat!("let y: f32 = kiln::Tensor::from(", $input, "f32).", stringify!($name), "().item()?;")]
            #[doc = concat!("assert!((y - ", $output, ").abs() < 1e-6);")]
            #[doc = "# Ok::<(), kiln::Error>(())\n```"]
            #[must_use]
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                self.map(stringify!($name), as_float, |x| wide(x, $name))
            }
        )* }
    };
}

functions! {
    /// The hyperbolic sine, `(e^x - e^-x) / 2`.
    sinh "1.0" "1.1752012";
    /// The hyperbolic cosine, `(e^x + e^-x) / 2`.
    cosh "1.0" "1.5430807";
    /// The inverse hyperbolic sine.
    asinh "1.0" "0.8813736";
    /// The inverse hyperbolic cosine; NaN below 1.
    acosh "2.0" "1.316958";
    /// The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.
    atanh "0.5" "0.54930615";
}
