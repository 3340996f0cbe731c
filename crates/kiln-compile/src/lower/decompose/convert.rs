//! Part of pass `decompose`: casts. Floats to integers saturate, a cast to bool compares with 0, and narrow floats go
//! through f32.

use super::narrow::{Wide, is_narrow, narrow, round_to_odd};
use kiln_ir::{Const, DType, UOp};

/// `x` converted to `dtype`.
pub(super) fn cast(x: &UOp, dtype: DType, wide: &mut Wide) -> UOp {
    if x.dtype() == dtype {
        return x.clone();
    }
    if is_narrow(x.dtype()) {
        let x = wide.widen(x);
        return cast(&x, dtype, wide);
    }
    match dtype {
        DType::Bool => x.ne_(&x.const_like(0)),
        _ if is_narrow(dtype) => to_narrow(x, dtype),
        _ if dtype.is_int() && x.dtype().is_float() => float_to_int(x, dtype),
        _ => x.cast(dtype),
    }
}

/// Small integers are exact in f32; everything else gets there in a way that rounds only once.
fn to_narrow(x: &UOp, dtype: DType) -> UOp {
    match x.dtype() {
        DType::F32 => narrow(x, dtype),
        DType::Bool | DType::I8 | DType::I16 | DType::U8 | DType::U16 => {
            narrow(&x.cast(DType::F32), dtype)
        }
        _ => narrow(&round_to_odd(&x.cast(DType::F64)), dtype),
    }
}

/// Truncates what is inside the integer's range, so that the machine's conversion is defined; NaN becomes 0.
fn float_to_int(x: &UOp, dtype: DType) -> UOp {
    let (lowest, highest) = bounds(dtype);
    let limit = Const::Float(2f64.powi(value_bits(dtype)));
    let lowest = x.const_like(lowest.as_f64());
    // f32 holds 2^31 but not 2^31 - 1: there the largest integer is a case of its own
    if Const::Float(highest.as_f64()).cast(x.dtype()) == limit {
        let limit = &x.const_like(limit);
        let inside = x.lt(limit).where_(&x.maximum(&lowest), &x.const_like(0));
        let value = inside.cast(dtype);
        let past = limit.lt(x) | limit.eq_(x);
        return past.where_(&value.const_like(highest), &value);
    }
    let number = x.eq_(x).where_(x, &x.const_like(0));
    number.maximum(&lowest).minimum(&x.const_like(highest.as_f64())).cast(dtype)
}

/// How many bits hold the value: all but the sign.
fn value_bits(dtype: DType) -> i32 {
    dtype.bits() as i32 - dtype.is_signed() as i32
}

fn bounds(dtype: DType) -> (Const, Const) {
    let (lo, hi) = dtype.int_bounds();
    let highest = if dtype == DType::U64 { Const::UInt(u64::MAX) } else { Const::Int(hi) };
    (Const::Int(lo), highest)
}
