//! Part of pass `decompose`: f16, bf16 and floats of eight bits. Values are stored in them; arithmetic is f32 with a rounding after every op.
//!
//! f16 is converted by `Cast`. The others need no hardware: bf16 is the upper half of an f32, rounded in integers, and a
//! float of eight bits a few bits in the middle of one.

use super::pieces::{Sums, abs, constant, shl, shr};
use kiln_ir::fp8::{Fp8, SIGN};
use kiln_ir::uop::Srcs;
use kiln_ir::{DType, Op, UOp};
use rustc_hash::FxHashMap;

/// A float that is computed with in f32.
pub(super) fn is_narrow(dtype: DType) -> bool {
    dtype.is_narrow_float()
}

/// The f32 that narrow values are known to be, so that a result which needed no rounding is not converted twice.
pub(super) struct Wide {
    known: FxHashMap<UOp, UOp>,
    /// How formulas on them add products.
    pub(super) sums: Sums,
}

impl Wide {
    /// Nothing is known yet.
    pub(super) fn over(sums: Sums) -> Wide {
        Wide { known: FxHashMap::default(), sums }
    }

    /// The narrow value `x` as f32, exactly.
    pub(super) fn widen(&mut self, x: &UOp) -> UOp {
        self.known.entry(x.clone()).or_insert_with(|| widen(x)).clone()
    }
}

/// Takes an op apart that has no narrow floats.
type Exactly = fn(&UOp, Srcs, Sums) -> UOp;

/// The op with f32 in place of narrow floats.
fn arithmetic_on_f32(node: &UOp, srcs: Srcs, wide: &mut Wide, exactly: Exactly) -> UOp {
    let srcs: Srcs =
        srcs.iter().map(|s| if is_narrow(s.dtype()) { wide.widen(s) } else { s.clone() }).collect();
    let dtype = if is_narrow(node.dtype()) { DType::F32 } else { node.dtype() };
    let exact = UOp::new(node.op(), dtype, node.lanes(), srcs.clone(), node.arg().clone());
    exactly(&exact, srcs, wide.sums)
}

/// An elementwise op, some of whose sources are narrow floats: the op on f32, rounded back if it gives a narrow float.
/// What only picks, negates or truncates operands is exact already.
pub(super) fn arithmetic(node: &UOp, srcs: Srcs, wide: &mut Wide, exactly: Exactly) -> UOp {
    let value = arithmetic_on_f32(node, srcs, wide, exactly);
    if !is_narrow(node.dtype()) {
        return value;
    }
    let rounded = narrow(&value, node.dtype());
    let is_exact = match node.op() {
        Op::Where | Op::Max | Op::Min => true,
        // -0 is not a number of each
        Op::Neg | Op::Trunc => node.dtype().fp8().is_none_or(|format| format.has_minus_zero),
        _ => false,
    };
    if is_exact {
        wide.known.insert(rounded.clone(), value);
    }
    rounded
}

fn widen(x: &UOp) -> UOp {
    if let (Some(format), None) = (x.dtype().fp8(), constant(x)) {
        return widen_fp8(x, format);
    }
    match (x.dtype(), constant(x)) {
        (_, Some(c)) => UOp::constant(c, DType::F32).splat(x.lanes()),
        (DType::BF16, _) => shl(&x.bitcast(DType::U16).cast(DType::U32), 16).bitcast(DType::F32),
        _ => x.cast(DType::F32),
    }
}

/// The f32 value `x` rounded to nearest even.
pub(super) fn narrow(x: &UOp, dtype: DType) -> UOp {
    if let (Some(format), None) = (dtype.fp8(), constant(x)) {
        return narrow_to_fp8(x, format).cast(DType::U8).bitcast(dtype);
    }
    match (dtype, constant(x)) {
        (_, Some(c)) => UOp::constant(c, dtype).splat(x.lanes()),
        (DType::BF16, _) => narrow_to_bf16(x),
        _ => x.cast(dtype),
    }
}

/// Adds just under half of the last place that stays (half, where that place is odd), and cuts. A NaN gets a bit that
/// the cut leaves, instead.
fn narrow_to_bf16(x: &UOp) -> UOp {
    let bits = &x.bitcast(DType::U32);
    let rounded = bits + ((shr(bits, 16) & 1) + 0x7fff);
    let kept = x.ne_(x).where_(&(bits | 0x40_0000), &rounded);
    shr(&kept, 16).cast(DType::U16).bitcast(DType::BF16)
}

/// A normal number has its bits in the middle of an f32's; a smaller one is a multiple of the smallest.
fn widen_fp8(x: &UOp, format: Fp8) -> UOp {
    let bits = &x.bitcast(DType::U8).cast(DType::U32);
    let code = &(bits & 0x7f);
    let small = code.cast(DType::F32);
    let small = (&small * small.const_like(format.step())).bitcast(DType::U32);
    let normal = shl(code, format.shift() as i64) + i64::from(format.rebias());
    let number = code.lt(&code.const_like(1i64 << format.mantissa)).where_(&small, &normal);
    let infinite = shl(code, format.shift() as i64) | 0x7f80_0000;
    let nan = &code.const_like(0x7fc0_0000);
    let last = |from: u32, what: &UOp| code.lt(&code.const_like(from)).where_(&number, what);
    let size = match format {
        Fp8 { has_minus_zero: false, .. } => number,
        Fp8 { over, largest, .. } if over == largest => last(format.nan, nan),
        Fp8 { over, .. } => last(over, &infinite),
    };
    let signed = &(size | shl(&(bits & i64::from(SIGN)), 24));
    let is_nan = bits.eq_(&bits.const_like(SIGN));
    (if format.has_minus_zero { signed.clone() } else { is_nan.where_(nan, signed) })
        .bitcast(DType::F32)
}

/// The bits of the f32 value `x`, rounded to nearest even as [`narrow_to_bf16`] does. Adding a large number rounds what is
/// smaller than a normal number.
fn narrow_to_fp8(x: &UOp, format: Fp8) -> UOp {
    let all = &x.bitcast(DType::U32);
    let size = &(all & 0x7fff_ffff);
    let (shift, like) = (i64::from(format.shift()), |c: u32| size.const_like(c));
    let magnitude = &size.bitcast(DType::F32);
    let rounder = magnitude.const_like(f32::from_bits(format.rounder()));
    let small = (magnitude + rounder).bitcast(DType::U32) - like(format.rounder());
    let half = like((1 << (shift - 1)) - 1) + (shr(size, shift) & 1);
    let normal = shr(&(size - like(format.rebias()) + half), shift);
    let code = size.lt(&like(format.least_normal())).where_(&small, &normal);
    let code = &code.lt(&like(format.largest + 1)).where_(&code, &like(format.over));
    let signed = code | (shr(all, 24) & i64::from(SIGN));
    let signed = match format.has_minus_zero {
        true => signed,
        false => (code & 0x7f).eq_(&like(0)).where_(code, &signed),
    };
    x.ne_(x).where_(&like(format.nan), &signed)
}

/// The f64 value `x` in f32, where a last bit of 1 stands for anything that was lost: rounding it again to a narrow
/// float is then rounding once.
pub(super) fn round_to_odd(x: &UOp) -> UOp {
    let near = &x.cast(DType::F32);
    let back = &near.cast(DType::F64);
    let bits = &near.bitcast(DType::U32);
    let away = abs(x).lt(&abs(back)).cast(DType::U32);
    let lost = back.ne_(x).cast(DType::U32);
    ((bits - away) | lost).bitcast(DType::F32)
}
