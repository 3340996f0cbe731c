//! What passes of `lower` need of arithmetic on indices: constants fold, and constant factors are known.

use kiln_ir::uop::{Srcs, mapped, rebuild};
use kiln_ir::{DType, Op, UOp};
use rustc_hash::FxHashMap;

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

/// Whether an index expression is known to be a multiple of `m`. Looks into remainders, which [`factor`] does not: what
/// they leave out is a multiple, too.
pub(super) fn is_multiple(x: &UOp, m: i64) -> bool {
    let mut terms: FxHashMap<UOp, i64> = FxHashMap::default();
    let (mut constant, mut stack, mut fuel) = (0i64, vec![(x.clone(), 1i64)], 100);
    while let Some((x, times)) = stack.pop() {
        let times = times.rem_euclid(m);
        fuel -= 1;
        if times == 0 || factor(&x).checked_mul(times as u64).is_some_and(|f| f % m as u64 == 0) {
            continue;
        }
        let divisor = match x.op() {
            Op::And => x.src(1).as_int().map(|c| c + 1).filter(|d| d.count_ones() == 1),
            Op::FloorMod => x.src(1).as_int(),
            _ => None,
        };
        let of = |i: usize, times: i64| (x.src(i).clone(), times);
        match (x.op(), x.srcs()) {
            _ if fuel < 0 => return false,
            (Op::Const, _) => constant += x.as_int().unwrap_or(1).rem_euclid(m) * times,
            (Op::Add, _) => stack.extend([of(0, times), of(1, times)]),
            (Op::Sub, _) => stack.extend([of(0, times), of(1, -times)]),
            (Op::Neg, _) => stack.push(of(0, -times)),
            (Op::Mul, [_, c]) if c.as_int().is_some() => {
                stack.push(of(0, times * c.as_int().unwrap_or(0).rem_euclid(m)));
            }
            _ if divisor.is_some_and(|d| times * d.rem_euclid(m) % m == 0) => {
                stack.push(of(0, times));
            }
            _ => *terms.entry(x).or_default() += times,
        }
    }
    constant % m == 0 && terms.values().all(|times| times % m == 0)
}

/// The greatest common divisor; of 0 and `b`, `b`.
pub(super) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
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
    let mut done: rustc_hash::FxHashMap<UOp, UOp> = Default::default();
    for node in kiln_ir::uop::toposort_all(std::slice::from_ref(x), through) {
        let new = match through(&node) {
            true => scalar_op(&node, mapped(&node, &done)),
            false => node.lane(lane),
        };
        done.insert(node, new);
    }
    done[x].clone()
}
