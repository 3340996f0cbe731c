//! Part of pass `options`: packs narrow factors into 32-bit words for dot-product instructions. A sum over 64 products
//! of bf16 becomes a sum over 32 `Dot`s of two. The packed words are then staged like any operand.

use super::ranges::{axis_of, replace_ranges, size_of, substitute};
use kiln_ir::arg::{RangeKind, ReduceOp};
use kiln_ir::uop::{Srcs, rebuild, remade, toposort};
use kiln_ir::{DType, Op, UOp};
use rustc_hash::FxHashMap;

/// How many parts of this type are packed.
pub(super) fn count(part: DType) -> usize {
    DType::U32.size() / part.size()
}

/// The loop to pack along, if the kernel has one reduction and it is a sum of type `sum` of products of what was widened
/// from `parts`: the innermost that is whole packs, else the longest.
pub(super) fn axis(ast: &UOp, parts: [DType; 2], sum: DType) -> Option<u32> {
    let reduce = only_reduction(ast)?;
    factors(&reduce, parts).filter(|_| reduce.dtype() == sum)?;
    let count = count(parts[0]);
    let ranges = reduce.srcs()[1..].iter().filter(|r| size_of(r) >= count);
    let whole = |r: &UOp| size_of(r).is_multiple_of(count);
    ranges
        .max_by_key(|r| match whole(r) {
            true => (1, axis_of(r) as usize),
            false => (0, size_of(r)),
        })
        .map(axis_of)
}

fn only_reduction(ast: &UOp) -> Option<UOp> {
    let mut reduces = toposort(ast).into_iter().filter(|n| n.op() == Op::Reduce);
    reduces.next().filter(|_| reduces.next().is_none())
}

/// The narrow factors of the products that are added up, in the order of `parts`.
fn factors(reduce: &UOp, parts: [DType; 2]) -> Option<[UOp; 2]> {
    let product = reduce.src(0);
    if reduce.arg().reduce_op() != Some(ReduceOp::Add) || product.op() != Op::Mul {
        return None;
    }
    let (a, b) = (narrow(product.src(0))?, narrow(product.src(1))?);
    let fit = |x: &UOp, y: &UOp| [x.dtype(), y.dtype()] == parts;
    match (fit(&a, &b), fit(&b, &a)) {
        (true, _) => Some([a, b]),
        (false, true) => Some([b, a]),
        (false, false) => None,
    }
}

/// What was widened, zeros put around it included.
fn narrow(x: &UOp) -> Option<UOp> {
    match x.op() {
        Op::Cast => Some(x.src(0).clone()),
        Op::Where if x.src(1).op() == Op::Cast && x.src(2).is_const(0) => {
            let inside = x.src(1).src(0);
            Some(x.src(0).where_(inside, &inside.const_like(0)))
        }
        _ => None,
    }
}

/// The kernel with the products of its reduction packed along a loop of it.
///
/// # Errors
/// There are no such products, or no such loop.
pub(super) fn pack(ast: &UOp, axis: u32, parts: [DType; 2]) -> Result<UOp, String> {
    if parts[0].size() != parts[1].size() || parts[0].size() > 2 {
        return Err("both factors must have 8 or 16 bits".to_owned());
    }
    let found = only_reduction(ast).and_then(|r| factors(&r, parts).map(|of| (r, of)));
    let (reduce, [x, y]) =
        found.ok_or("the kernel has no single sum of products of such factors")?;
    let range = reduce.srcs()[1..].iter().find(|r| axis_of(r) == axis);
    let range = range.ok_or("the reduction has no loop of this axis")?;
    let steps = size_of(range).div_ceil(count(parts[0]));
    let packs = UOp::range(axis, RangeKind::Reduce, steps);
    let zero = UOp::constant(0, reduce.dtype());
    let dot = UOp::dot(parts, &packed(&x, range, &packs), &packed(&y, range, &packs), &zero);
    let others =
        reduce.srcs()[1..].iter().map(|r| if r == range { packs.clone() } else { r.clone() });
    let sum = dot.reduce_ranges(ReduceOp::Add, others);
    Ok(kiln_ir::rules::simplify(&substitute(ast, &reduce, &sum)))
}

/// The values of `x` at a step of `packs`, the first in the low bits; past the end of `range` they are 0.
fn packed(x: &UOp, range: &UOp, packs: &UOp) -> UOp {
    let count = count(x.dtype());
    let part = |i: usize| {
        let at = packs * count as i64 + i as i64;
        let value = if size_of(range).is_multiple_of(count) { x.clone() } else { within(x, range) };
        let value =
            replace_ranges(&value, &FxHashMap::from_iter([(range.clone(), (at, Srcs::new()))]));
        let bits = if x.dtype().size() == 2 { DType::U16 } else { DType::U8 };
        let word = value.bitcast(bits).cast(DType::U32);
        if i == 0 {
            word
        } else {
            UOp::binary(Op::Shl, &word, &word.const_like((32 / count * i) as i64))
        }
    };
    (0..count).map(part).reduce(|low, high| &low | &high).expect("there are parts")
}

/// `x` where `range` is below its bound, else 0, without touching memory.
fn within(x: &UOp, range: &UOp) -> UOp {
    let valid = range.lt(range.src(0));
    let gated = remade(x, |node, mut srcs| {
        if node.op() == Op::Load {
            match srcs.get(2).cloned() {
                Some(gate) => srcs[2] = gate.and(&valid),
                None => srcs.push(valid.clone()),
            }
        }
        rebuild(node, srcs)
    });
    if x.op() == Op::Load { gated } else { valid.where_(&gated, &x.const_like(0)) }
}

/// How far apart the elements of memory are that neighbours of the value read: 1, or what is packed.
pub(super) fn parts_of(ast: &UOp, value: &UOp) -> i64 {
    let nodes = toposort(ast);
    let dot = nodes.iter().find(|n| n.op() == Op::Dot && n.srcs()[..2].contains(value));
    dot.and_then(|n| n.arg().parts()).map_or(1, |parts| count(parts[0]) as i64)
}
