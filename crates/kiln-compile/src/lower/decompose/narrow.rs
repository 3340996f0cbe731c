//! Part of pass `decompose`: f16 and bf16. Values are stored in them; arithmetic is f32 with a rounding after every op.
//!
//! f16 is converted by `Cast`. bf16 needs no hardware: it is the upper half of an f32, rounded in integers.

use super::pieces::{Sums, abs, constant, shl, shr};
use kiln_ir::uop::Srcs;
use kiln_ir::{DType, Op, UOp};
use rustc_hash::FxHashMap;

/// f16 or bf16.
pub(super) fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
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
    if matches!(node.op(), Op::Where | Op::Max | Op::Min | Op::Neg | Op::Trunc) {
        wide.known.insert(rounded.clone(), value);
    }
    rounded
}

fn widen(x: &UOp) -> UOp {
    match (x.dtype(), constant(x)) {
        (_, Some(c)) => UOp::constant(c, DType::F32).splat(x.lanes()),
        (DType::BF16, _) => shl(&x.bitcast(DType::U16).cast(DType::U32), 16).bitcast(DType::F32),
        _ => x.cast(DType::F32),
    }
}

/// The f32 value `x` rounded to nearest even.
pub(super) fn narrow(x: &UOp, dtype: DType) -> UOp {
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
