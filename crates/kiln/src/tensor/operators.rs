//! The operators, for every mix of `Tensor`, `&Tensor` and scalar.
//!
//! On the right stands any number. On the left stand the types that Rust's literals have, and those that no literal
//! has: of two candidates for the type of `2.0`, Rust would choose neither. With `f32` beside `f64` on the left,
//! `(2.0 * &a).sum(..)` is `error[E0282]: type annotations needed`, `cannot infer type` of `(2.0 * &a)`. So `&a * k`
//! where `k` is of another type, or `f64::from(k) * &a`.

use super::Tensor;
use super::elementwise::{binary, binary_op, counted};
use crate::element::{Operand, Value};
use kiln_ir::{Op, UOp};
use std::ops;

#[track_caller]
fn remainder(lhs: Value, rhs: Value) -> Tensor {
    binary("rem", lhs, rhs, counted, UOp::floormod)
}

macro_rules! operators {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident $apply:expr;)*) => { $(
        impl<R: Operand> ops::$trait<R> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: R) -> Tensor { $apply(self.into_value(), rhs.into_value()) }
        }
        impl<R: Operand> ops::$trait<R> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: R) -> Tensor { $apply(self.into_value(), rhs.into_value()) }
        }
        /// Writes through the view, for all aliases.
        impl<R: Operand> ops::$assign<R> for Tensor {
            #[track_caller]
            fn $assign_method(&mut self, rhs: R) {
                Tensor::$assign_method(self, rhs);
            }
        }
        /// Writes through the view, for all aliases.
        impl<R: Operand> ops::$assign<R> for &Tensor {
            #[track_caller]
            fn $assign_method(&mut self, rhs: R) {
                Tensor::$assign_method(self, rhs);
            }
        }
        operators!(@scalars $trait $method $apply =>
            bool, i32, f64, half::f16, half::bf16);
    )* };
    (@scalars $trait:ident $method:ident $apply:expr => $($t:ty),*) => { $(
        impl ops::$trait<Tensor> for $t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: Tensor) -> Tensor { $apply(self.into_value(), rhs.into_value()) }
        }
        impl ops::$trait<&Tensor> for $t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Tensor { $apply(self.into_value(), rhs.into_value()) }
        }
    )* };
}

macro_rules! table_ops {
    ($($name:ident $text:literal $op:ident;)*) => { $(
        #[track_caller]
        fn $name(lhs: Value, rhs: Value) -> Tensor { binary_op($text, Op::$op, lhs, rhs) }
    )* };
}
table_ops! {
    sum "add" Add; difference "sub" Sub; product "mul" Mul; quotient "div" Div;
    both "bitwise_and" And; either "bitwise_or" Or; one_of "bitwise_xor" Xor; up "lshift" Shl; down "rshift" Shr;
}

operators! {
    Add add AddAssign add_assign sum;
    Sub sub SubAssign sub_assign difference;
    Mul mul MulAssign mul_assign product;
    Div div DivAssign div_assign quotient;
    Rem rem RemAssign rem_assign remainder;
    BitAnd bitand BitAndAssign bitand_assign both;
    BitOr bitor BitOrAssign bitor_assign either;
    BitXor bitxor BitXorAssign bitxor_assign one_of;
    Shl shl ShlAssign shl_assign up;
    Shr shr ShrAssign shr_assign down;
}

macro_rules! unary_operators {
    ($($trait:ident $method:ident $call:ident;)*) => { $(
        impl ops::$trait for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor { Tensor::$call(&self) }
        }
        impl ops::$trait for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor { Tensor::$call(self) }
        }
    )* };
}
unary_operators! { Neg neg neg; Not not bitwise_not; }
