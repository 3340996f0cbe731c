//! Casts: casts that another cast makes unnecessary, and integer arithmetic that is index arithmetic.

use crate::dtype::DType;
use crate::op::Op;
use crate::rule;
use crate::rule::Rule;
use crate::uop::UOp;

pub(super) static RULES: &[Rule] = &[
    rule!(cast_cast     [n, x]      n.bind(x.cast_any().cast_any()), if skips(x, n) => x.cast(n.dtype())),
    rule!(bool_ne_zero  [x: Bool]   x.cast_any().ne_(0)   => x),
    rule!(bool_eq_zero  [x: Bool]   x.cast_any().eq_(0)   => x.not()),
    rule!(index_compare [n]         n.on(&[Op::CmpLt, Op::CmpEq, Op::CmpNe]) => compare_as_index(n)),
    rule!(index_arithmetic [n: Int] n.on(INDEX_OPS)       => compute_as_index(n)),
    rule!(grows index_of_arithmetic [n, x] n.bind(x.cast_any()), if n.dtype() == DType::Index => as_index_arithmetic(x)),
];

const INDEX_OPS: &[Op] = &[Op::Add, Op::Sub, Op::Mul, Op::FloorDiv, Op::FloorMod, Op::Max, Op::Min];

/// Whether `x` cast to `n`'s type directly is what the two casts give.
fn skips(x: &UOp, n: &UOp) -> bool {
    let (from, middle, to) = (x.dtype(), n.src(0).dtype(), n.dtype());
    let integers = from.is_int() && middle.is_int() && to.is_int();
    // between integers only the low bits count
    if integers && to.bits() <= middle.bits() {
        return true;
    }
    // a float saturates where an integer wraps, so the target must hold all of the source
    let same_kind = from.is_float() || !middle.is_float() || !to.is_int() || keeps(x, to);
    keeps(x, middle) && same_kind
}

/// Whether every value that `x` can have is a value of `dtype`.
fn keeps(x: &UOp, dtype: DType) -> bool {
    let from = x.dtype();
    let bits_of_integer = |d: DType| d.bits() - d.is_signed() as u32;
    match () {
        () if from == DType::Bool => dtype != DType::Void,
        () if dtype == DType::Bool => false,
        () if from.is_float() => dtype.is_float() && holds_float(from, dtype),
        () if dtype.is_float() => bits_of_integer(from) <= mantissa(dtype),
        () if from.is_unsigned() && dtype.is_unsigned() => from.bits() <= dtype.bits(),
        () if from.is_unsigned() => from.bits() < dtype.bits() || fits(x, dtype),
        () => (dtype.is_signed() && from.bits() <= dtype.bits()) || fits(x, dtype),
    }
}

fn fits(x: &UOp, dtype: DType) -> bool {
    let (lo, hi) = dtype.int_bounds();
    x.dtype() != DType::U64 && lo <= x.min() && x.max() <= hi
}

fn holds_float(from: DType, to: DType) -> bool {
    from == to
        || to == DType::F64
        || (to == DType::F32 && from != DType::F64)
        || (to == DType::F16 && from.is_fp8())
}

/// Integers of so many bits are exact. (f16 overflows past 65504, which 11 bits do not reach.)
fn mantissa(dtype: DType) -> u32 {
    match dtype {
        DType::F8E4M3 | DType::F8E4M3FNUZ => 4,
        DType::F8E5M2 | DType::F8E5M2FNUZ => 3,
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F32 => 24,
        _ => 53,
    }
}

/// The index whose exact value `x` has: what was cast to `x`'s type without loss, or a constant.
fn as_index(x: &UOp) -> Option<UOp> {
    if x.lanes() != 1 || !x.dtype().is_int() {
        return None;
    }
    if let Some(c) = x.as_int() {
        return Some(UOp::index(c));
    }
    let is_cast = x.op() == Op::Cast && x.src(0).dtype() == DType::Index;
    (is_cast && fits(x.src(0), x.dtype())).then(|| x.src(0).clone())
}

fn operands_as_index(n: &UOp) -> Option<(UOp, UOp)> {
    let casts = n.srcs().iter().any(|s| s.op() == Op::Cast);
    if !casts { None } else { Some((as_index(n.src(0))?, as_index(n.src(1))?)) }
}

/// A comparison of indices that were cast to fixed-width integers without loss.
fn compare_as_index(n: &UOp) -> Option<UOp> {
    let (a, b) = operands_as_index(n)?;
    Some(UOp::binary(n.op(), &a, &b))
}

/// Arithmetic on indices that were cast to fixed-width integers, where the result fits those too.
fn compute_as_index(n: &UOp) -> Option<UOp> {
    if n.dtype() == DType::Index {
        return None;
    }
    let (a, b) = operands_as_index(n)?;
    let exact = UOp::binary(n.op(), &a, &b);
    fits(&exact, n.dtype()).then(|| exact.cast(n.dtype()))
}

/// The index that fixed-width arithmetic is cast to, computed as an index: the same where nothing can wrap. So strides
/// are seen in positions that are computed from data.
fn as_index_arithmetic(x: &UOp) -> Option<UOp> {
    if !matches!(x.op(), Op::Add | Op::Sub | Op::Mul) || !x.dtype().is_int() || x.lanes() != 1 {
        return None;
    }
    let [a, b] = [0, 1].map(|i| x.src(i).cast(DType::Index));
    let exact = UOp::binary(x.op(), &a, &b);
    fits(&exact, x.dtype()).then_some(exact)
}
