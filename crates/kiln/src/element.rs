//! The Rust types that elements and scalar operands have.

use crate::Tensor;
use crate::defaults::OrFloat;
use crate::error::Fault;
use crate::sealed::Sealed;
use kiln_ir::dtype::{Const, Weak};
use kiln_ir::{DType, UOp};
use kiln_runtime::plain::{Bytes, Plain};
use std::cmp::Ordering;

/// A Rust type that a tensor's elements can be read as.
pub trait Element: Bytes + Send + Sync + Sealed + 'static {
    /// The tensor dtype whose elements these are.
    const DTYPE: DType;

    /// The numbers that memory holds of these: their own type, unless not every byte is one.
    #[doc(hidden)]
    type Raw: Plain;

    #[doc(hidden)]
    fn of_raw(raw: Vec<Self::Raw>) -> Vec<Self>;

    /// The same memory as elements, unless it must be looked at.
    #[doc(hidden)]
    fn of_raw_slice(raw: &[Self::Raw]) -> Option<&[Self]>;

    #[doc(hidden)]
    fn decode(bytes: &[u8]) -> Self;
}

macro_rules! elements {
    ($($t:ty => $dtype:ident),*) => { $(
        impl Sealed for $t {}
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            type Raw = $t;
            fn of_raw(raw: Vec<$t>) -> Vec<$t> { raw }
            fn of_raw_slice(raw: &[$t]) -> Option<&[$t]> { Some(raw) }
            fn decode(bytes: &[u8]) -> $t {
                <$t>::from_ne_bytes(bytes.try_into().expect("as many bytes as an element has"))
            }
        }
    )* };
}
elements!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f32 => F32, f64 => F64, half::f16 => F16, half::bf16 => BF16);

impl Sealed for bool {}
impl Element for bool {
    const DTYPE: DType = DType::Bool;
    type Raw = u8;
    fn of_raw(raw: Vec<u8>) -> Vec<bool> {
        raw.into_iter().map(|b| b != 0).collect()
    }
    fn of_raw_slice(_: &[u8]) -> Option<&[bool]> {
        None
    }
    fn decode(bytes: &[u8]) -> bool {
        bytes[0] != 0
    }
}

/// An empty vector with room for `len` elements, or the reason why there is none.
pub(crate) fn with_room<T>(len: usize) -> Result<Vec<T>, Fault> {
    let mut elements = Vec::new();
    let bytes = len.saturating_mul(size_of::<T>());
    let why = |e| Fault::Failed(format!("cannot allocate {bytes} bytes: {e}"));
    elements.try_reserve_exact(len).map_err(why)?;
    Ok(elements)
}

/// A value in an expression: a tensor, any Rust number or bool, or arrays, slices and `Vec`s of them, nested. Numbers are weak: they take the tensor's dtype unless
/// their kind (bool < integer < float) is higher.
pub trait Operand: Sealed {
    #[doc(hidden)]
    #[track_caller]
    fn into_value(self) -> Value;
}

/// What an [`Operand`] is.
#[doc(hidden)]
#[derive(Clone)]
pub enum Value {
    /// A tensor, strongly typed.
    Tensor(Tensor),
    /// A Rust number, weakly typed.
    Scalar(Const, Weak),
}

impl Sealed for Tensor {}
impl Operand for Tensor {
    fn into_value(self) -> Value {
        Value::Tensor(self)
    }
}
impl Sealed for &Tensor {}
impl Operand for &Tensor {
    fn into_value(self) -> Value {
        Value::Tensor(self.clone())
    }
}

macro_rules! scalar_operands {
    ($($t:ty => $weak:ident)*) => { $(
        impl Operand for $t {
            fn into_value(self) -> Value { Value::Scalar(Const::from(self), Weak::$weak) }
        }
    )* };
}
impl Sealed for isize {}
impl Sealed for usize {}
scalar_operands!(bool => Bool i8 => Int i16 => Int i32 => Int i64 => Int isize => Int u8 => Int u16 => Int
    u32 => Int u64 => Int usize => Int f32 => Float f64 => Float);

impl Operand for half::f16 {
    fn into_value(self) -> Value {
        self.to_f64().into_value()
    }
}
impl Operand for half::bf16 {
    fn into_value(self) -> Value {
        self.to_f64().into_value()
    }
}

impl Value {
    /// A value on the device of what it is combined with.
    pub(crate) fn beside(&self, other: &Value) -> Value {
        match (self, other) {
            (Value::Tensor(t), Value::Tensor(other)) => Value::Tensor(t.literal_on(other.device())),
            _ => self.clone(),
        }
    }

    /// The dtype that two values meet in; two scalars meet as i32, f32 or bool.
    pub(crate) fn common_dtype(&self, other: &Value) -> DType {
        match (self, other) {
            (Value::Tensor(a), Value::Tensor(b)) => a.common_dtype(b),
            (Value::Tensor(t), Value::Scalar(_, weak))
            | (Value::Scalar(_, weak), Value::Tensor(t)) => t.dtype().beside(*weak),
            (Value::Scalar(_, a), Value::Scalar(_, b)) => DType::Bool.beside(*a).beside(*b),
        }
    }

    /// A number in the dtype that it shares with `other`: the nearest value of that dtype, and how the number compares
    /// with it. A tensor stays as it is.
    pub(crate) fn saturated(self, other: &Value) -> (Value, Ordering) {
        let dtype = self.common_dtype(other);
        match self {
            Value::Scalar(c, weak) => {
                let (nearest, side) = c.saturated(dtype);
                (Value::Scalar(if side.is_eq() { c } else { nearest }, weak), side)
            }
            tensor => (tensor, Ordering::Equal),
        }
    }

    /// The value as a node of dtype `dtype`.
    pub(crate) fn node(&self, dtype: DType) -> Result<UOp, crate::Error> {
        match self {
            Value::Tensor(t) => Ok(t.value()?.cast(dtype)),
            Value::Scalar(c, _) => Ok(UOp::constant(*c, dtype)),
        }
    }
}
