//! Scalar types, their promotion, and typed constants.

use crate::fp8::Fp8;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// The type of one element.
///
/// All but two are storage types that a tensor may have. `Index` is the exact integer of index arithmetic inside
/// a kernel (no width, no overflow; `lower` gives it one), and `Void` is the type of effects such as a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// IEEE 754 half precision.
    F16,
    /// The upper half of an f32.
    BF16,
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// Exact index arithmetic inside kernels.
    #[doc(hidden)]
    Index,
    /// No value: the type of stores, loops and sinks.
    #[doc(hidden)]
    Void,
    // these are last, because hashes of graphs, and with them the order of operands, hold the place of a type
    /// Eight bits, four of them an exponent, three a mantissa: no infinity, numbers up to 448 (e4m3fn).
    F8E4M3,
    /// Eight bits, five of them an exponent, two a mantissa: the upper half of an f16.
    F8E5M2,
    /// As `F8E4M3`, without -0, numbers up to 240.
    F8E4M3FNUZ,
    /// As `F8E5M2`, without -0 and infinity.
    F8E5M2FNUZ,
}

use DType::*;

impl DType {
    /// Every storage type but the floats of eight bits, in declaration order.
    pub const STORAGE: [DType; 13] =
        [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64];

    /// The floats of eight bits.
    pub const FP8: [DType; 4] = [F8E4M3, F8E5M2, F8E4M3FNUZ, F8E5M2FNUZ];

    /// How many types there are.
    pub(crate) const COUNT: usize = DType::F8E5M2FNUZ as usize + 1;

    /// Whether a tensor may have the type.
    pub const fn is_storage(self) -> bool {
        !matches!(self, Index | Void)
    }

    /// What it is, if it is a float of eight bits.
    pub const fn fp8(self) -> Option<Fp8> {
        match self {
            DType::F8E4M3 => Some(Fp8::E4M3FN),
            DType::F8E5M2 => Some(Fp8::E5M2),
            DType::F8E4M3FNUZ => Some(Fp8::E4M3FNUZ),
            DType::F8E5M2FNUZ => Some(Fp8::E5M2FNUZ),
            _ => None,
        }
    }

    /// A float of eight bits.
    pub const fn is_fp8(self) -> bool {
        matches!(self, F8E4M3 | F8E5M2 | F8E4M3FNUZ | F8E5M2FNUZ)
    }

    /// A float that is computed with in f32.
    pub const fn is_narrow_float(self) -> bool {
        matches!(self, F16 | BF16) || self.is_fp8()
    }

    /// Bytes per element (0 for `Void`).
    pub const fn size(self) -> usize {
        match self {
            Bool | I8 | U8 => 1,
            F8E4M3 | F8E5M2 | F8E4M3FNUZ | F8E5M2FNUZ => 1,
            I16 | U16 | F16 | BF16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 | Index => 8,
            Void => 0,
        }
    }

    /// Bits per element.
    pub const fn bits(self) -> u32 {
        self.size() as u32 * 8
    }

    /// f32, f64 or a narrower float.
    pub const fn is_float(self) -> bool {
        matches!(self, F32 | F64) || self.is_narrow_float()
    }

    /// A signed integer (`Index` included).
    pub const fn is_signed(self) -> bool {
        matches!(self, I8 | I16 | I32 | I64 | Index)
    }

    /// An unsigned integer (bool excluded).
    pub const fn is_unsigned(self) -> bool {
        matches!(self, U8 | U16 | U32 | U64)
    }

    /// Any integer, bool excluded.
    pub const fn is_int(self) -> bool {
        self.is_signed() || self.is_unsigned()
    }

    /// The smallest and largest value of an integer type or bool, as far as i64 holds them.
    pub const fn int_bounds(self) -> (i64, i64) {
        match self {
            Bool => (0, 1),
            I8 => (i8::MIN as i64, i8::MAX as i64),
            I16 => (i16::MIN as i64, i16::MAX as i64),
            I32 => (i32::MIN as i64, i32::MAX as i64),
            U8 => (0, u8::MAX as i64),
            U16 => (0, u16::MAX as i64),
            U32 => (0, u32::MAX as i64),
            U64 => (0, i64::MAX),
            I64 | Index | Void => (i64::MIN, i64::MAX),
            F8E4M3 | F8E5M2 | F8E4M3FNUZ | F8E5M2FNUZ => (i64::MIN, i64::MAX),
            F16 | BF16 | F32 | F64 => (i64::MIN, i64::MAX),
        }
    }

    /// The smallest and largest value of an integer type.
    fn all_int_bounds(self) -> (i128, i128) {
        match self.int_bounds() {
            (low, _) if self == U64 => (low.into(), u64::MAX.into()),
            (low, high) => (low.into(), high.into()),
        }
    }

    /// The largest finite value of a float type.
    pub fn largest(self) -> f64 {
        if let Some(format) = self.fp8() {
            return format.decode(format.largest as u8);
        }
        match self {
            F16 => half::f16::MAX.to_f64(),
            BF16 => half::bf16::MAX.to_f64(),
            F32 => f32::MAX.into(),
            _ => f64::MAX,
        }
    }

    /// The name as it appears in text forms and messages: `f32`, `index`.
    pub const fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            I8 => "i8",
            I16 => "i16",
            I32 => "i32",
            I64 => "i64",
            U8 => "u8",
            U16 => "u16",
            U32 => "u32",
            U64 => "u64",
            F8E4M3 => "f8e4m3",
            F8E5M2 => "f8e5m2",
            F8E4M3FNUZ => "f8e4m3fnuz",
            F8E5M2FNUZ => "f8e5m2fnuz",
            F16 => "f16",
            BF16 => "bf16",
            F32 => "f32",
            F64 => "f64",
            Index => "index",
            Void => "void",
        }
    }

    /// The type with this [`name`](DType::name).
    pub fn parse(name: &str) -> Option<DType> {
        let all = DType::STORAGE.into_iter().chain(DType::FP8).chain([Index, Void]);
        all.into_iter().find(|d| d.name() == name)
    }

    /// The type of a sum: small integers widen to 32 bits, everything else stays.
    pub const fn sum_dtype(self) -> DType {
        match self {
            Bool | I8 | I16 => I32,
            U8 | U16 => U32,
            other => other,
        }
    }

    /// The type that a float sum or product is accumulated in: at least f32.
    pub const fn accumulator(self) -> DType {
        if self.is_narrow_float() { F32 } else { self }
    }

    /// The common type of two operands by the JAX lattice of type promotion
    /// (<https://docs.jax.dev/en/latest/type_promotion.html>), both strongly typed.
    ///
    /// `bool < ints < floats`; signed with unsigned goes to the next wider signed type, u64 with a signed type goes
    /// to f32 (kiln has no weak float storage), f16 with bf16 goes to f32. Floats of eight bits are below f16, in which two
    /// different ones meet.
    pub fn promote(self, other: DType) -> DType {
        let (a, b) = if self <= other { (self, other) } else { (other, self) };
        match (a, b) {
            (a, b) if a == b => a,
            (Bool, b) => b,
            (F16, BF16) => F32,
            (a, b) if a.is_fp8() && b.is_fp8() => F16,
            (a, b) if b.is_float() => {
                if a.is_float() {
                    if a.size() >= b.size() { a } else { b }
                } else {
                    b
                }
            }
            (a, b) if a.is_signed() && b.is_signed() => b,
            (a, b) if a.is_unsigned() && b.is_unsigned() => b,
            (s, U64) if s.is_signed() => F32,
            (s, u) if s.size() > u.size() => s,
            (_, U8) => I16,
            (_, U16) => I32,
            (_, U32) => I64,
            (a, b) => unreachable!("promotion of {a} and {b}"),
        }
    }

    /// The common type of this type and a Rust scalar, which is weak: it keeps the tensor's type unless its kind
    /// (bool < int < float) is higher; then ints become i32 and floats f32.
    pub fn promote_weak(self, kind: Weak) -> DType {
        match kind {
            Weak::Bool => self,
            Weak::Int => {
                if self == Bool {
                    I32
                } else {
                    self
                }
            }
            Weak::Float => {
                if self.is_float() {
                    self
                } else {
                    F32
                }
            }
        }
    }

    /// The float type that `sqrt` and the like give for this type.
    pub const fn least_float(self) -> DType {
        if self.is_float() { self } else { F32 }
    }
}

/// The kind of a weakly typed scalar: it takes part in promotion by kind, not by width.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Weak {
    /// A Rust `bool`.
    Bool,
    /// Any Rust integer.
    Int,
    /// Any Rust float.
    Float,
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A constant. Which variant a type uses is fixed ([`Const::cast`] brings a value into it), so equal constants are
/// equal nodes.
#[derive(Clone, Copy, Debug)]
pub enum Const {
    /// `bool`.
    Bool(bool),
    /// Signed integers and `index`.
    Int(i64),
    /// Unsigned integers.
    UInt(u64),
    /// Every float type; the value is exactly representable in the node's type. All NaNs are one NaN.
    Float(f64),
}

impl Const {
    /// The identity bits: tag and payload.
    pub fn key(self) -> (u8, u64) {
        match self {
            Const::Bool(b) => (0, b as u64),
            Const::Int(i) => (1, i as u64),
            Const::UInt(u) => (2, u),
            Const::Float(f) => (3, if f.is_nan() { f64::NAN.to_bits() } else { f.to_bits() }),
        }
    }

    /// The value as a float (integers rounded to nearest even).
    pub fn as_f64(self) -> f64 {
        match self {
            Const::Bool(b) => b as u8 as f64,
            Const::Int(i) => i as f64,
            Const::UInt(u) => u as f64,
            Const::Float(f) => f,
        }
    }

    /// The value as an exact wide integer, if it is an integer or bool.
    pub fn as_i128(self) -> Option<i128> {
        match self {
            Const::Bool(b) => Some(b as i128),
            Const::Int(i) => Some(i as i128),
            Const::UInt(u) => Some(u as i128),
            Const::Float(_) => None,
        }
    }

    /// Converts into `dtype` with the meaning of a cast: floats to integers truncate and saturate, NaN becomes 0;
    /// integers to integers wrap; anything to bool is "is not zero"; to a float rounds to nearest even.
    pub fn cast(self, dtype: DType) -> Const {
        match dtype {
            Bool => Const::Bool(match self {
                Const::Bool(b) => b,
                Const::Int(i) => i != 0,
                Const::UInt(u) => u != 0,
                Const::Float(f) => f != 0.0,
            }),
            I8 | I16 | I32 | I64 | Index => Const::Int(self.to_signed(dtype)),
            U8 | U16 | U32 | U64 => Const::UInt(self.to_unsigned(dtype)),
            F64 => Const::Float(self.as_f64()),
            F32 => Const::Float(self.to_f32() as f64),
            F8E4M3 | F8E5M2 | F8E4M3FNUZ | F8E5M2FNUZ => {
                let format = dtype.fp8().expect("a format of eight bits");
                Const::Float(format.decode(format.encode(self.to_odd_f32())))
            }
            F16 => Const::Float(half::f16::from_f32(self.to_odd_f32()).to_f64()),
            BF16 => Const::Float(half::bf16::from_f32(self.to_odd_f32()).to_f64()),
            Void => self,
        }
    }

    /// The value in `dtype`, and how this compares with it: equal but for rounding if the dtype reaches so far; else it is
    /// the nearest finite one.
    pub fn saturated(self, dtype: DType) -> (Const, Ordering) {
        let rounded = self.cast(dtype);
        let (side, nearest) = match (self.as_i128(), rounded) {
            (Some(exact), Const::Int(_) | Const::UInt(_)) => {
                let (low, high) = dtype.all_int_bounds();
                let nearest = exact.clamp(low, high);
                (
                    exact.cmp(&nearest),
                    i64::try_from(nearest).map_or(Const::UInt(u64::MAX), Const::Int),
                )
            }
            (_, Const::Float(f)) if f.is_infinite() && self.as_f64().is_finite() => {
                let side = if f > 0.0 { Ordering::Greater } else { Ordering::Less };
                (side, Const::Float(dtype.largest().copysign(f)))
            }
            _ => (Ordering::Equal, rounded),
        };
        (if side.is_eq() { rounded } else { nearest.cast(dtype) }, side)
    }

    fn to_signed(self, dtype: DType) -> i64 {
        let wide = match self {
            Const::Float(f) => {
                let (lo, hi) = dtype.int_bounds();
                return (f as i64).clamp(lo, hi);
            }
            Const::Bool(b) => b as i64,
            Const::Int(i) => i,
            Const::UInt(u) => u as i64,
        };
        match dtype {
            I8 => wide as i8 as i64,
            I16 => wide as i16 as i64,
            I32 => wide as i32 as i64,
            _ => wide,
        }
    }

    fn to_unsigned(self, dtype: DType) -> u64 {
        let max = match dtype.size() {
            8 => u64::MAX,
            n => (1u64 << (8 * n)) - 1,
        };
        match self {
            Const::Float(f) => (f as u64).min(max),
            Const::Bool(b) => b as u64,
            Const::Int(i) => i as u64 & max,
            Const::UInt(u) => u & max,
        }
    }

    fn to_f32(self) -> f32 {
        match self {
            Const::Bool(b) => b as u8 as f32,
            Const::Int(i) => i as f32,
            Const::UInt(u) => u as f32,
            Const::Float(f) => f as f32,
        }
    }

    /// The value in f32, where a last bit of 1 stands for anything that was lost, so that rounding it again to a narrow
    /// float is rounding once. Integers get here through f64: exact up to 2^53, which docs/rules.md states.
    fn to_odd_f32(self) -> f32 {
        let exact = self.as_f64();
        let near = exact as f32;
        if near as f64 == exact || near.is_nan() || near.to_bits() & 1 == 1 {
            return near;
        }
        if (near as f64) < exact { near.next_up() } else { near.next_down() }
    }
}

impl PartialEq for Const {
    fn eq(&self, other: &Const) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Const {}
impl Hash for Const {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Display for Const {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Const::Bool(b) => write!(f, "{b}"),
            Const::Int(i) => write!(f, "{i}"),
            Const::UInt(u) => write!(f, "{u}"),
            Const::Float(x) => write!(f, "{x:?}"),
        }
    }
}

macro_rules! const_from {
    ($($t:ty => $variant:ident as $wide:ty),*) => { $(
        impl From<$t> for Const {
            fn from(value: $t) -> Const { Const::$variant(value as $wide) }
        }
    )* };
}
const_from!(bool => Bool as bool, i8 => Int as i64, i16 => Int as i64, i32 => Int as i64, i64 => Int as i64,
    isize => Int as i64, u8 => UInt as u64, u16 => UInt as u64, u32 => UInt as u64, u64 => UInt as u64,
    usize => UInt as u64, f32 => Float as f64, f64 => Float as f64);
