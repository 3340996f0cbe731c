//! The meaning of every scalar op, in plain Rust. The constant folder, the rules' tests and the interpreter share it.
//!
//! Constants carry their type as a variant and are canonical in it (see [`Const::cast`]). `dtype` is the type of the
//! *result*; a comparison needs only its operands' variant, because the order of values does not depend on width.
//! Everything here is total: an op on types that it is not defined for is `None`, and nothing panics.

use crate::dtype::{Const, DType};
use crate::op::Op;
use half::{bf16, f16};

/// The value of the elementwise `op` with a result of type `dtype`.
///
/// `None` where the op has no meaning on these operands (`Sqrt` of an integer, `Bitcast`, which needs its source's
/// type), and where exact [`DType::Index`] arithmetic leaves i64.
pub fn eval(op: Op, dtype: DType, srcs: &[Const]) -> Option<Const> {
    match (op, srcs) {
        (Op::Where, &[Const::Bool(condition), a, b]) => Some(if condition { a } else { b }),
        (Op::Cast, &[x]) => Some(x.cast(dtype)),
        (Op::CmpLt | Op::CmpEq | Op::CmpNe, &[a, b]) => compare(op, a, b).map(Const::Bool),
        _ if dtype == DType::Bool => bools(op, srcs),
        _ if dtype.is_int() => integers(op, dtype, srcs),
        _ if dtype.is_float() => floats(op, dtype, srcs),
        _ => None,
    }
}

/// The value of `dot(x, y, c)` of type `dtype`: the products of the parts of two u32 are added to `c` one after the other,
/// and a float product rounds together with its addition. A unit of a target may differ as rules.md says.
pub fn dot(parts: [DType; 2], dtype: DType, [x, y, c]: [Const; 3]) -> Option<Const> {
    let (Const::UInt(x), Const::UInt(y)) = (x, y) else { return None };
    let bits = parts[0].bits();
    (0..32 / bits).try_fold(c, |sum, i| {
        let part = |word: u64, of: DType| from_bits(word >> (i * bits), of).cast(dtype);
        let (a, b) = (part(x, parts[0]), part(y, parts[1]));
        match dtype.is_float() {
            true => eval(Op::MulAdd, dtype, &[a, b, sum]),
            false => eval(Op::Add, dtype, &[sum, eval(Op::Mul, dtype, &[a, b])?]),
        }
    })
}

/// What `mma` adds to element `at` of `c`, whose value is `sum`: dots of a row of `x` and a column of `y`, one after the
/// other.
pub fn mma(
    parts: [DType; 2],
    [_, depth, columns]: [u16; 3],
    [x, y]: [&[Const]; 2],
    at: usize,
    sum: Const,
    dtype: DType,
) -> Option<Const> {
    let (depth, columns) = (depth as usize, columns as usize);
    let (row, column) = (at / columns, at % columns);
    (0..depth).try_fold(sum, |sum, k| {
        dot(parts, dtype, [x[row * depth + k], y[k * columns + column], sum])
    })
}

/// The bits of `value`, which is of type `from`, read as `to`; `None` between sizes.
pub fn bitcast(value: Const, from: DType, to: DType) -> Option<Const> {
    (from.size() == to.size()).then(|| from_bits(to_bits(value, from), to))
}

/// The bits that `value` has in memory as a `dtype`, in the low bytes.
pub fn to_bits(value: Const, dtype: DType) -> u64 {
    let mask = u64::MAX >> (64 - dtype.bits().clamp(1, 64));
    match value.cast(dtype) {
        Const::Bool(b) => b as u64,
        Const::Int(i) => i as u64 & mask,
        Const::UInt(u) => u,
        Const::Float(f) => match dtype {
            _ if dtype.is_fp8() => dtype.fp8().map_or(0, |format| format.encode(f as f32)).into(),
            DType::F16 => f16::from_f64(f).to_bits() as u64,
            DType::BF16 => bf16::from_f64(f).to_bits() as u64,
            DType::F32 => (f as f32).to_bits() as u64,
            _ => f.to_bits(),
        },
    }
}

/// The value whose memory as a `dtype` holds `bits` in its low bytes. A bool is true where any bit of its byte is set.
pub fn from_bits(bits: u64, dtype: DType) -> Const {
    match dtype {
        DType::Bool => Const::Bool(bits as u8 != 0),
        _ if dtype.is_fp8() => {
            Const::Float(dtype.fp8().map_or(0.0, |format| format.decode(bits as u8)))
        }
        DType::F16 => Const::Float(f16::from_bits(bits as u16).to_f64()),
        DType::BF16 => Const::Float(bf16::from_bits(bits as u16).to_f64()),
        DType::F32 => Const::Float(f32::from_bits(bits as u32) as f64),
        DType::F64 => Const::Float(f64::from_bits(bits)),
        _ if dtype.is_unsigned() => Const::UInt(bits).cast(dtype),
        _ => Const::Int(bits as i64).cast(dtype),
    }
}

fn compare(op: Op, a: Const, b: Const) -> Option<bool> {
    let order = match (a, b) {
        (Const::Bool(a), Const::Bool(b)) => Some(a.cmp(&b)),
        (Const::Int(a), Const::Int(b)) => Some(a.cmp(&b)),
        (Const::UInt(a), Const::UInt(b)) => Some(a.cmp(&b)),
        (Const::Float(a), Const::Float(b)) => a.partial_cmp(&b),
        _ => return None,
    };
    Some(match op {
        Op::CmpLt => order.is_some_and(|o| o.is_lt()),
        Op::CmpEq => order.is_some_and(|o| o.is_eq()),
        _ => order.is_none_or(|o| o.is_ne()),
    })
}

fn bools(op: Op, srcs: &[Const]) -> Option<Const> {
    let value = match (op, srcs) {
        (Op::Not, &[Const::Bool(x)]) => !x,
        (Op::Add | Op::Or | Op::Max, &[Const::Bool(a), Const::Bool(b)]) => a | b,
        (Op::Mul | Op::And | Op::Min, &[Const::Bool(a), Const::Bool(b)]) => a & b,
        (Op::Xor, &[Const::Bool(a), Const::Bool(b)]) => a ^ b,
        _ => return None,
    };
    Some(Const::Bool(value))
}

/// In i128, where only the product of two u64 can overflow, and that harmlessly: it is reduced to 64 bits next.
fn integers(op: Op, dtype: DType, srcs: &[Const]) -> Option<Const> {
    let operand = |c: &Const| match c {
        Const::Int(i) if dtype.is_signed() => Some(*i as i128),
        Const::UInt(u) if dtype.is_unsigned() => Some(*u as i128),
        _ => None,
    };
    let value = match *srcs {
        [ref x] => integer_unary(op, operand(x)?)?,
        [ref a, ref b] => integer_binary(op, dtype.bits() as i128, operand(a)?, operand(b)?)?,
        _ => return None,
    };
    if dtype == DType::Index && i64::try_from(value).is_err() {
        return None;
    }
    Some(Const::Int(value as i64).cast(dtype))
}

fn integer_unary(op: Op, x: i128) -> Option<i128> {
    match op {
        Op::Neg => Some(-x),
        Op::Not => Some(!x),
        _ => None,
    }
}

fn integer_binary(op: Op, bits: i128, a: i128, b: i128) -> Option<i128> {
    let in_width = (0..bits).contains(&b);
    Some(match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a.wrapping_mul(b),
        Op::FloorDiv => floor_div(a, b),
        Op::FloorMod if b == 0 => 0,
        Op::FloorMod => a - floor_div(a, b) * b,
        Op::TruncDiv => a.checked_div(b).unwrap_or(0),
        Op::TruncMod => a.checked_rem(b).unwrap_or(0),
        Op::Shl if in_width => a << b,
        Op::Shl => 0,
        Op::Shr if in_width => a >> b,
        Op::Shr => a >> 127,
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        Op::Max => a.max(b),
        Op::Min => a.min(b),
        _ => return None,
    })
}

fn floor_div(a: i128, b: i128) -> i128 {
    if b == 0 {
        return 0;
    }
    let inexact_and_negative = a % b != 0 && (a < 0) != (b < 0);
    a / b - inexact_and_negative as i128
}

fn floats(op: Op, dtype: DType, srcs: &[Const]) -> Option<Const> {
    match *srcs {
        [Const::Float(x)] => float_unary(op, x).map(|y| {
            let y = if op.is_transcendental() { y } else { through_f32(y, dtype) };
            Const::Float(y).cast(dtype)
        }),
        [Const::Float(a), Const::Float(b)] if matches!(op, Op::FloorDiv | Op::FloorMod) => {
            Some(Const::Float(floor_parts(op, dtype, a, b)).cast(dtype))
        }
        [Const::Float(a), Const::Float(b)] => {
            Some(Const::Float(through_f32(float_binary(op, a, b)?, dtype)).cast(dtype))
        }
        [Const::Float(a), Const::Float(b), Const::Float(c)] if op == Op::MulAdd => {
            Some(Const::Float(mul_add(dtype, a, b, c)).cast(dtype))
        }
        _ => None,
    }
}

/// The narrow floats compute in f32 and round its result. For f32 itself the f64 result of `+ - * / sqrt` rounds to
/// what f32 arithmetic gives (53 bits are more than twice 24 and two), so f64 serves every type.
fn through_f32(x: f64, dtype: DType) -> f64 {
    if dtype == DType::F64 { x } else { x as f32 as f64 }
}

fn float_unary(op: Op, x: f64) -> Option<f64> {
    Some(match op {
        Op::Neg => -x,
        Op::Sqrt => x.sqrt(),
        Op::Exp => x.exp(),
        Op::Exp2 => x.exp2(),
        Op::Log => x.ln(),
        Op::Log2 => x.log2(),
        Op::Sin => x.sin(),
        Op::Cos => x.cos(),
        Op::Tanh => x.tanh(),
        Op::Expm1 => x.exp_m1(),
        Op::Log1p => x.ln_1p(),
        Op::Sigmoid => sigmoid(x),
        Op::Trunc => x.trunc(),
        _ => return None,
    })
}

fn float_binary(op: Op, a: f64, b: f64) -> Option<f64> {
    Some(match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Div => a / b,
        Op::Pow => a.powf(b),
        Op::Max if a < b || b.is_nan() => b,
        Op::Min if b < a || b.is_nan() => b,
        Op::Max | Op::Min => a,
        _ => return None,
    })
}

/// `e^x` is at most 1 on either side, so nothing overflows and nothing cancels.
fn sigmoid(x: f64) -> f64 {
    let power = (-x.abs()).exp();
    (if x < 0.0 { power } else { 1.0 }) / (1.0 + power)
}

/// The quotient rounded down, or the remainder with the divisor's sign, of floats: the remainder of the quotient rounded
/// toward zero is exact, and everything else rounds.
fn floor_parts(op: Op, dtype: DType, a: f64, b: f64) -> f64 {
    let round = |x| through_f32(x, dtype);
    let rest = a % b;
    let moves = rest != 0.0 && (rest < 0.0) != (b < 0.0);
    if op == Op::FloorMod {
        let zero = if rest == 0.0 { 0f64.copysign(b) } else { rest };
        return if moves { round(rest + b) } else { zero };
    }
    if b == 0.0 {
        return a / b;
    }
    let quotient = round(round(a - rest) / b);
    let quotient = if moves { round(quotient - 1.0) } else { quotient };
    if quotient == 0.0 {
        return 0f64.copysign(round(a / b));
    }
    let floor = quotient.floor();
    if round(quotient - floor) > 0.5 { round(floor + 1.0) } else { floor }
}

/// `a * b + c` that rounds once, when the result is cast.
fn mul_add(dtype: DType, a: f64, b: f64, c: f64) -> f64 {
    match dtype {
        DType::F64 => a.mul_add(b, c),
        DType::F32 => (a as f32).mul_add(b as f32, c as f32) as f64,
        _ => sum_to_odd(a * b, c),
    }
}

/// The sum, rounded so that its last bit says whether anything was lost: rounding it again to half as many bits is
/// then rounding once. (The product of two narrow floats is exact in f64.)
fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let kept = sum - a;
    let lost = (a - (sum - kept)) + (b - kept);
    if lost == 0.0 || !sum.is_finite() || sum.to_bits() & 1 == 1 {
        return sum;
    }
    if lost > 0.0 { sum.next_up() } else { sum.next_down() }
}

#[cfg(test)]
mod tests;
