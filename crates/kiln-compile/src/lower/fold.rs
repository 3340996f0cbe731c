//! Index arithmetic that several passes of stage `lower` share: constants fold, and constant factors are known.

use kiln_ir::affine::{Affine, Term, gcd};
use kiln_ir::uop::{Srcs, rebuild, remade_all};
use kiln_ir::{DType, Op, UOp};

/// The node with other sources; index arithmetic on constants is done.
pub(super) fn rebuild_folded(node: &UOp, srcs: Srcs) -> UOp {
    if node.dtype() == DType::Index && node.op().is_alu() && srcs.len() == 2 && srcs[0].lanes() == 1
    {
        return binary(node.op(), &srcs[0], &srcs[1]);
    }
    rebuild(node, srcs)
}

/// `a op b` for scalar indices.
pub(super) fn binary(op: Op, a: &UOp, b: &UOp) -> UOp {
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int())
        && let Some(z) = evaluate(op, x, y)
    {
        return UOp::index(z);
    }
    match (op, a.as_int(), b.as_int()) {
        (Op::Add | Op::Sub, _, Some(0)) | (Op::Mul | Op::FloorDiv, _, Some(1)) => a.clone(),
        (Op::Add, Some(0), _) | (Op::Mul, Some(1), _) => b.clone(),
        (Op::Mul, _, Some(0)) | (Op::Mul, Some(0), _) => UOp::index(0),
        (Op::Add, None, Some(y)) => add_constant(a, y),
        _ => UOp::binary(op, a, b),
    }
}

/// The constant of a sum, gathered as [`add_constant`] does.
pub(super) fn constant_of(index: &UOp) -> i64 {
    let constant = if index.op() == Op::Add { index.src(1) } else { index };
    constant.as_int().unwrap_or(0)
}

/// `a + y`, with constants gathered in one place.
pub(super) fn add_constant(a: &UOp, y: i64) -> UOp {
    match a.as_int() {
        Some(x) => UOp::index(x + y),
        None if y == 0 => a.clone(),
        None => match (a.op(), a.srcs().get(1).and_then(UOp::as_int)) {
            (Op::Add, Some(x)) => add_constant(a.src(0), x + y),
            _ => a + y,
        },
    }
}

fn evaluate(op: Op, x: i64, y: i64) -> Option<i64> {
    match op {
        Op::Add => x.checked_add(y),
        Op::Sub => x.checked_sub(y),
        Op::Mul => x.checked_mul(y),
        Op::FloorDiv if y > 0 => Some(x.div_euclid(y)),
        Op::FloorMod if y > 0 => Some(x.rem_euclid(y)),
        Op::Max => Some(x.max(y)),
        Op::Min => Some(x.min(y)),
        _ => None,
    }
}

/// Remainders that [`is_multiple`] looks into, at most.
const MOST_REMAINDERS: usize = 16;

/// The largest number that is known to divide the index expression; 0 for the constant 0, which everything divides.
pub(super) fn factor(x: &UOp) -> u64 {
    factor_within(x, 12)
}

fn factor_within(x: &UOp, fuel: u32) -> u64 {
    if let Some(c) = x.as_int() {
        return c.unsigned_abs();
    }
    if fuel == 0 || x.dtype() != DType::Index {
        return 1;
    }
    let of = |i: usize| factor_within(x.src(i), fuel - 1);
    match x.op() {
        Op::Neg => of(0),
        Op::Mul => of(0).checked_mul(of(1)).unwrap_or(1),
        Op::Add | Op::Sub | Op::FloorMod | Op::Max | Op::Min => gcd(of(0), of(1)),
        Op::Where => gcd(of(1), of(2)),
        _ => 1,
    }
}

/// Whether an index expression is known to be a multiple of `m`. Looks into remainders, which [`factor`] does not: `x % 8`
/// and `x` differ by a multiple of 8.
pub(super) fn is_multiple(x: &UOp, m: i64) -> bool {
    let Some(mut sum) = Affine::of(x) else { return false };
    for _ in 0..MOST_REMAINDERS {
        let Some((atom, k)) = sum.terms.iter().find(|term| is_remainder(term, m)).cloned() else {
            break;
        };
        let whole = Affine::of(atom.src(0)).and_then(|inner| sum.plus(&inner, k));
        match whole.and_then(|sum| sum.plus(&Affine::atom(atom), -k)) {
            Some(next) => sum = next,
            None => return false,
        }
    }
    let is_known = |(atom, k): &Term| factor(atom).wrapping_mul(k.unsigned_abs());
    sum.constant % m == 0 && sum.terms.iter().all(|term| is_known(term).is_multiple_of(m as u64))
}

/// Whether a term differs from a multiple of `atom.src(0)` by a multiple of `m`.
fn is_remainder((atom, k): &Term, m: i64) -> bool {
    let divisor = match atom.op() {
        Op::And => atom.src(1).as_int().map(|c| c + 1).filter(|d| d.count_ones() == 1),
        Op::FloorMod => atom.src(1).as_int(),
        _ => None,
    };
    divisor.is_some_and(|d| (k % m) * (d % m) % m == 0)
}

/// Effects held together; of one, itself.
pub(super) fn group(effects: Vec<UOp>) -> UOp {
    match <[UOp; 1]>::try_from(effects) {
        Ok([only]) => only,
        Err(effects) => UOp::sink(effects),
    }
}

/// `End` of the effects, of which there may be several; without ranges, just the effects.
pub(super) fn end_all(effects: Vec<UOp>, ranges: Vec<UOp>) -> UOp {
    if ranges.is_empty() {
        return group(effects);
    }
    group(effects).end(ranges)
}

/// `srcs` of an `After` put together again.
pub(super) fn after_all(srcs: Srcs) -> UOp {
    let mut srcs = srcs.into_iter();
    let memory = srcs.next().expect("After has a first source");
    memory.after(srcs)
}

/// The vector op `node` on scalars.
fn scalar_op(node: &UOp, srcs: Srcs) -> UOp {
    if node.dtype() == DType::Index && srcs.len() == 2 {
        return binary(node.op(), &srcs[0], &srcs[1]);
    }
    UOp::new(node.op(), node.dtype(), 1, srcs, node.arg().clone())
}

/// One scalar lane of an index or condition: taken by computing it for that lane alone.
pub(super) fn scalar_lane(x: &UOp, lane: u16) -> UOp {
    let through = |n: &UOp| n.lanes() > 1 && n.op().is_elementwise();
    let end = |n: &UOp| (!through(n)).then(|| n.lane(lane));
    remade_all(std::slice::from_ref(x), end, scalar_op).pop().expect("one lane")
}
