//! Elements as bytes and as numbers, and arithmetic that is exact or not done at all.

use super::program::{Binary, Fold, Num, Unary};
use kiln::DType;

/// The dtypes that programs use, beside bool.
pub(super) const DTYPES: [DType; 7] =
    [DType::F32, DType::I32, DType::U8, DType::U32, DType::I16, DType::I64, DType::F64];

impl Num {
    /// The number's bytes as an element: integers wrap, floats to integers truncate and saturate.
    pub(super) fn encode(self, dtype: DType) -> Vec<u8> {
        macro_rules! as_number {
            ($t:ty) => {
                match self {
                    Num::Int(i) => (i as $t).to_ne_bytes().to_vec(),
                    Num::Float(f) => (f as $t).to_ne_bytes().to_vec(),
                }
            };
        }
        match dtype {
            DType::Bool => vec![!matches!(self, Num::Int(0) | Num::Float(0.0)) as u8],
            DType::F32 => as_number!(f32),
            DType::F64 => as_number!(f64),
            DType::U8 => as_number!(u8),
            DType::U32 => as_number!(u32),
            DType::I16 => as_number!(i16),
            DType::I32 => as_number!(i32),
            DType::I64 => as_number!(i64),
            other => panic!("programs do not use {other}"),
        }
    }

    pub(super) fn decode(dtype: DType, bytes: &[u8]) -> Num {
        macro_rules! number {
            ($t:ty, $kind:ident, $wide:ty) => {
                Num::$kind(<$t>::from_ne_bytes(bytes.try_into().expect("one element")) as $wide)
            };
        }
        match dtype {
            DType::Bool => Num::Int((bytes[0] != 0) as i64),
            DType::F32 => number!(f32, Float, f64),
            DType::F64 => number!(f64, Float, f64),
            DType::U8 => number!(u8, Int, i64),
            DType::U32 => number!(u32, Int, i64),
            DType::I16 => number!(i16, Int, i64),
            DType::I32 => number!(i32, Int, i64),
            DType::I64 => number!(i64, Int, i64),
            other => panic!("programs do not use {other}"),
        }
    }

    pub(super) fn cast(self, dtype: DType) -> Num {
        Num::decode(dtype, &self.encode(dtype))
    }

    /// An integer as near as integers of the dtype come to it; they are taken as floats are.
    pub(super) fn saturated(self, dtype: DType) -> Num {
        match self {
            Num::Int(i) if !dtype.is_float() => Num::Float(i as f64).cast(dtype),
            other => other,
        }
    }

    /// The dtype of a value of a tensor of `dtype` and this number.
    pub(super) fn with(self, dtype: DType) -> DType {
        match self {
            Num::Float(_) if !dtype.is_float() => DType::F32,
            _ => dtype,
        }
    }

    /// Whether arithmetic may use it: floats are short multiples of 1/256, so that no order of sums and no fusion of a
    /// product with a sum rounds.
    pub(super) fn is_exact(self) -> bool {
        match self {
            Num::Int(_) => true,
            Num::Float(f) => (f * 256.0).fract() == 0.0 && f.abs() <= 4096.0,
        }
    }

    pub(super) fn is_negative_zero(self) -> bool {
        matches!(self, Num::Float(f) if f == 0.0 && f.is_sign_negative())
    }
}

/// One of two; the first if neither is larger.
pub(super) fn larger(a: Num, b: Num) -> Num {
    let b_is = match (a, b) {
        (Num::Int(a), Num::Int(b)) => b > a,
        (Num::Float(a), Num::Float(b)) => b > a,
        _ => unreachable!("of one dtype"),
    };
    if b_is { b } else { a }
}

fn smaller(a: Num, b: Num) -> Num {
    if a == b || larger(a, b) == b { a } else { b }
}

fn negative(a: Num) -> Num {
    match a {
        Num::Int(a) => Num::Int(a.wrapping_neg()),
        Num::Float(a) => Num::Float(-a),
    }
}

/// Of two numbers of `dtype`.
pub(super) fn binary(op: Binary, a: Num, b: Num, dtype: DType) -> Num {
    let arithmetic = |int: fn(i64, i64) -> i64, float: fn(f64, f64) -> f64| match (a, b) {
        (Num::Int(a), Num::Int(b)) => Num::Int(int(a, b)),
        (Num::Float(a), Num::Float(b)) => Num::Float(float(a, b)),
        _ => unreachable!("of one dtype"),
    };
    let result = match op {
        Binary::Add => arithmetic(i64::wrapping_add, |a, b| a + b),
        Binary::Sub => arithmetic(i64::wrapping_sub, |a, b| a - b),
        Binary::Mul => arithmetic(i64::wrapping_mul, |a, b| a * b),
        Binary::Maximum => larger(a, b),
        Binary::Minimum => smaller(a, b),
    };
    result.cast(dtype)
}

pub(super) fn unary(op: Unary, a: Num, dtype: DType) -> Num {
    let result = match (op, a) {
        (Unary::Copy | Unary::Hop(_) | Unary::Contiguous | Unary::Cast(_), a) => a,
        (Unary::Neg, a) => negative(a),
        (Unary::Abs, Num::Int(a)) => Num::Int(a.wrapping_abs()),
        (Unary::Abs, Num::Float(a)) => Num::Float(a.abs()),
    };
    result.cast(dtype)
}

/// Of a row of numbers, all that the fold makes of them; none if some order of the row would give something else, and for
/// the maximum of nothing.
pub(super) fn fold(op: Fold, row: &[Num], dtype: DType) -> Option<Vec<Num>> {
    if row.iter().any(|x| x.is_negative_zero()) {
        return None;
    }
    let zero = Num::Int(0).cast(dtype);
    let last = |step: fn(Num, Num) -> Num| row.iter().copied().reduce(step).map(|x| vec![x]);
    match op {
        Fold::Sum => Some(vec![
            row.iter().fold(zero, |sum, &x| binary(Binary::Add, sum, x.cast(dtype), dtype)),
        ]),
        Fold::CumSum => {
            let add = |sum: &mut Num, x: &Num| {
                *sum = binary(Binary::Add, *sum, x.cast(dtype), dtype);
                Some(*sum)
            };
            Some(row.iter().scan(zero, add).collect())
        }
        Fold::Max => last(larger),
        Fold::Min => last(smaller),
    }
}

/// The dtype of sums.
pub(super) fn sum_dtype(dtype: DType) -> DType {
    match dtype {
        DType::I16 | DType::Bool => DType::I32,
        DType::U8 => DType::U32,
        other => other,
    }
}
