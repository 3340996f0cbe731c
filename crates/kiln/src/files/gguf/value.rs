//! Metadata: numbers, texts, and arrays of them.

/// A fact about a model.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum GgufValue {
    /// An unsigned 8-bit integer.
    U8(u8),
    /// A signed 8-bit integer.
    I8(i8),
    /// An unsigned 16-bit integer.
    U16(u16),
    /// A signed 16-bit integer.
    I16(i16),
    /// An unsigned 32-bit integer.
    U32(u32),
    /// A signed 32-bit integer.
    I32(i32),
    /// Single precision.
    F32(f32),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(String),
    /// Values of one type.
    Array(Vec<GgufValue>),
    /// An unsigned 64-bit integer.
    U64(u64),
    /// A signed 64-bit integer.
    I64(i64),
    /// Double precision.
    F64(f64),
}

use GgufValue::*;

impl GgufValue {
    /// The value of an integer of any width; `None` of others, and of those that i64 does not hold.
    ///
    /// ```
    /// use kiln::nn::state::GgufValue;
    /// assert_eq!(GgufValue::U32(7).as_i64(), Some(7));
    /// assert_eq!(GgufValue::from("seven").as_i64(), None);
    /// ```
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            U8(n) => Some(n.into()),
            I8(n) => Some(n.into()),
            U16(n) => Some(n.into()),
            I16(n) => Some(n.into()),
            U32(n) => Some(n.into()),
            I32(n) => Some(n.into()),
            U64(n) => n.try_into().ok(),
            I64(n) => Some(n),
            F32(_) | F64(_) | Bool(_) | Text(_) | Array(_) => None,
        }
    }

    /// The value of a float of either width.
    ///
    /// ```
    /// assert_eq!(kiln::nn::state::GgufValue::F32(0.5).as_f64(), Some(0.5));
    /// ```
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            F32(x) => Some(x.into()),
            F64(x) => Some(x),
            _ => None,
        }
    }

    /// The text that it is.
    ///
    /// ```
    /// assert_eq!(kiln::nn::state::GgufValue::from("llama").as_str(), Some("llama"));
    /// ```
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Text(text) => Some(text),
            _ => None,
        }
    }

    /// The values of an array.
    ///
    /// ```
    /// use kiln::nn::state::GgufValue;
    /// assert_eq!(GgufValue::Array(vec![GgufValue::U8(1)]).as_array().map(<[_]>::len), Some(1));
    /// ```
    pub fn as_array(&self) -> Option<&[GgufValue]> {
        match self {
            Array(values) => Some(values),
            _ => None,
        }
    }

    /// The number of its type in files.
    pub(super) fn code(&self) -> u32 {
        match self {
            U8(_) => 0,
            I8(_) => 1,
            U16(_) => 2,
            I16(_) => 3,
            U32(_) => 4,
            I32(_) => 5,
            F32(_) => 6,
            Bool(_) => 7,
            Text(_) => 8,
            Array(_) => 9,
            U64(_) => 10,
            I64(_) => 11,
            F64(_) => 12,
        }
    }
}

impl From<&str> for GgufValue {
    fn from(text: &str) -> GgufValue {
        Text(text.to_owned())
    }
}

macro_rules! from_numbers {
    ($($of:ty => $to:ident),*) => { $(
        impl From<$of> for GgufValue {
            fn from(value: $of) -> GgufValue { $to(value) }
        }
    )* };
}
from_numbers!(u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64,
    f32 => F32, f64 => F64, bool => Bool, String => Text);
