//! Pass `vector` of stage `lower`: `Vector` ranges become lanes. Post-condition: no range of kind `Vector` is left.
//!
//! An index that advances by one per lane makes a vector load or store. An index that is the same in every lane makes a
//! scalar one. Any other index makes one scalar access per lane. A sum over a vector range has a vector accumulator in
//! its loops; its lanes are combined after them, as a balanced tree over halves.

use super::fold::{self, factor};
use crate::target::Target;
use kiln_ir::affine::gcd;
use kiln_ir::arg::{RangeKind, ReduceOp};
use kiln_ir::uop::{Srcs, rebuild, toposort};
use kiln_ir::{Arg, DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// A value over the lanes of a vector range.
#[derive(Clone)]
enum Wide {
    /// The same in every lane (or a vector that was written by hand).
    Uniform(UOp),
    /// The index `base + stride * lane`.
    Linear { base: UOp, stride: i64, lanes: u16 },
    /// Any vector.
    Vector(UOp),
}

use Wide::{Linear, Uniform, Vector};

/// Replaces every `Vector` range of the kernel by lanes.
pub(super) fn vectorize(kernel: &UOp, target: &Target) -> UOp {
    let topo = toposort(kernel);
    if !topo.iter().any(is_vector_range) {
        return kernel.clone();
    }
    let mut done: FxHashMap<UOp, Wide> = FxHashMap::default();
    for node in &topo {
        let wide = widen(node, &done, target);
        done.insert(node.clone(), wide);
    }
    done[kernel].uniform().clone()
}

fn is_vector_range(node: &UOp) -> bool {
    node.op() == Op::Range && node.arg().range().is_some_and(|(_, k)| k == RangeKind::Vector)
}

fn widen(node: &UOp, done: &FxHashMap<UOp, Wide>, target: &Target) -> Wide {
    if is_vector_range(node) {
        let lanes = node.src(0).as_int().expect("a vector range has a constant bound") as u16;
        return linear(UOp::index(0), 1, lanes);
    }
    let srcs: Vec<&Wide> = node.srcs().iter().map(|s| &done[s]).collect();
    match node.op() {
        Op::Reduce => widen_reduce(node, &srcs),
        Op::After | Op::End | Op::Sink | Op::Barrier => Uniform(without_vector_ranges(node, &srcs)),
        _ if !srcs.iter().any(|s| s.varies()) => {
            let srcs = srcs.iter().map(|s| s.uniform().clone()).collect();
            Uniform(fold::rebuild_folded(node, srcs))
        }
        Op::Load => widen_load(node, &srcs, target),
        Op::Store => Uniform(widen_store(node, &srcs)),
        _ => widen_index(node, &srcs).unwrap_or_else(|| elementwise(node, &srcs)),
    }
}

/// Effects and order do not vary over lanes once the ranges are gone.
fn without_vector_ranges(node: &UOp, srcs: &[&Wide]) -> UOp {
    let kept = node.srcs().iter().zip(srcs).filter(|(src, _)| !is_vector_range(src));
    let srcs: Srcs = kept.map(|(_, wide)| wide.uniform().clone()).collect();
    match node.op() {
        Op::After => fold::after_all(srcs),
        Op::End if srcs.len() == 1 => srcs[0].clone(),
        _ => rebuild(node, srcs),
    }
}

/// One op on all lanes.
fn elementwise(node: &UOp, srcs: &[&Wide]) -> Wide {
    let lanes = common_lanes(srcs);
    let srcs: Srcs = srcs.iter().map(|s| s.vector(lanes)).collect();
    match node.op() {
        Op::Bitcast if srcs[0].op() == Op::Stack => Vector(bitcast_lanes(node, &srcs[0])),
        op => Vector(UOp::new(op, node.dtype(), lanes, srcs, node.arg().clone())),
    }
}

/// Lanes that were loaded one by one are reinterpreted one by one, so that each is loaded in its final type. (This also
/// keeps a vector of loaded floats away from a zero extension of its bits, which LLVM 22 fails to select for AVX-512.)
fn bitcast_lanes(node: &UOp, stack: &UOp) -> UOp {
    let lane = |x: &UOp| fold::rebuild_folded(node, smallvec![x.clone()]);
    UOp::stack(stack.srcs().iter().map(lane).collect())
}

fn common_lanes(srcs: &[&Wide]) -> u16 {
    srcs.iter().map(|s| s.lanes()).max().unwrap_or(1)
}

fn linear(base: UOp, stride: i64, lanes: u16) -> Wide {
    if stride == 0 { Uniform(base) } else { Linear { base, stride, lanes } }
}

impl Wide {
    fn lanes(&self) -> u16 {
        match self {
            Uniform(x) | Vector(x) => x.lanes(),
            Linear { lanes, .. } => *lanes,
        }
    }

    /// Whether its lanes may differ.
    fn varies(&self) -> bool {
        !matches!(self, Uniform(_))
    }

    fn uniform(&self) -> &UOp {
        match self {
            Uniform(x) => x,
            Linear { .. } | Vector(_) => {
                panic!("a value varies over a vector range that is closed")
            }
        }
    }

    /// All lanes as one vector.
    fn vector(&self, lanes: u16) -> UOp {
        match self {
            Uniform(x) | Vector(x) => x.splat(lanes),
            Linear { base, stride, .. } => {
                let steps = (0..lanes as i64).map(|i| UOp::index(i * stride)).collect();
                if base.is_const(0) { UOp::stack(steps) } else { base + &UOp::stack(steps) }
            }
        }
    }

    /// One lane of an index or a condition.
    fn scalar(&self, lane: u16) -> UOp {
        match self {
            Uniform(x) | Vector(x) => fold::scalar_lane(x, lane),
            Linear { base, stride, .. } => fold::add_constant(base, stride * lane as i64),
        }
    }

    /// `base` and `stride` of an index.
    fn affine(&self) -> Option<(&UOp, i64)> {
        match self {
            Uniform(x) if x.lanes() == 1 => Some((x, 0)),
            Linear { base, stride, .. } => Some((base, *stride)),
            _ => None,
        }
    }
}

/// Index arithmetic that stays `base + stride * lane`, and comparisons that come out the same in every lane.
fn widen_index(node: &UOp, srcs: &[&Wide]) -> Option<Wide> {
    let ([a, b], DType::Index) = (srcs, node.srcs().first()?.dtype()) else { return None };
    let lanes = common_lanes(srcs);
    let ((x, s), (y, t)) = (a.affine()?, b.affine()?);
    let line = |op, stride| Some(linear(fold::binary(op, x, y), stride, lanes));
    match node.op() {
        Op::Add => line(Op::Add, s.checked_add(t)?),
        Op::Sub => line(Op::Sub, s.checked_sub(t)?),
        Op::Mul if t == 0 && y.as_int().is_some() => line(Op::Mul, s.checked_mul(y.as_int()?)?),
        Op::Mul if s == 0 && x.as_int().is_some() => line(Op::Mul, t.checked_mul(x.as_int()?)?),
        Op::FloorDiv if same_multiple(x, s, y, t, lanes) => line(Op::FloorDiv, 0),
        Op::FloorMod if same_multiple(x, s, y, t, lanes) => line(Op::FloorMod, s),
        Op::CmpLt if same_multiple(x, s, y, t, lanes) => Some(Uniform(x.lt(y))),
        // `c < x` is `c + 1 <= x`
        Op::CmpLt if s == 0 && same_multiple(y, t, &fold::add_constant(x, 1), 0, lanes) => {
            Some(Uniform(x.lt(y)))
        }
        _ => None,
    }
}

/// Whether `x + s * lane` stays between neighbouring multiples of a number that divides both `x` and `y`.
fn same_multiple(x: &UOp, s: i64, y: &UOp, t: i64, lanes: u16) -> bool {
    let g = gcd(factor(x), factor(y)) as i128;
    let span = s as i128 * (lanes as i128 - 1);
    t == 0 && y.min() >= 0 && 0 <= span && span < g
}

fn widen_load(node: &UOp, srcs: &[&Wide], target: &Target) -> Wide {
    let (memory, index, gate) = (srcs[0].uniform(), srcs[1], srcs.get(2).copied());
    let lanes = common_lanes(&srcs[1..]);
    if consecutive(memory, index) {
        let base = index.affine().expect("consecutive").0;
        return Vector(UOp::load_lanes(memory, base, gate.map(|g| g.gate(lanes)).as_ref(), lanes));
    }
    assert_eq!(memory.lanes(), 1, "vector registers have uniform indices");
    if !memory.is_in_registers()
        && let Some(lanes) = strided(memory, index, gate, target)
    {
        return Vector(lanes);
    }
    let load = |i| {
        let gate = gate.map(|g| g.scalar(i));
        let srcs = [memory.clone(), index.scalar(i)].into_iter().chain(gate).collect();
        UOp::new(Op::Load, node.dtype(), 1, srcs, Arg::None)
    };
    Vector(UOp::stack((0..lanes).map(load).collect()))
}

/// The largest distance between lanes that are loaded together, with all that lies between.
const CLOSE: i64 = 4;

/// Lanes that lie close together are picked from one vector load of the whole range, if that is known to be inside the
/// memory. The loads of such neighbours are then one load.
fn strided(memory: &UOp, index: &Wide, gate: Option<&Wide>, target: &Target) -> Option<UOp> {
    let Linear { base, stride: stride @ 2..=CLOSE, lanes } = index else { return None };
    let gate = match gate {
        None => None,
        Some(Uniform(gate)) if gate.lanes() == 1 => Some(gate),
        Some(_) => return None,
    };
    let first = fold::constant_of(base).rem_euclid(*stride);
    let (start, all) = (fold::add_constant(base, -first), *stride * *lanes as i64);
    if !target.has_vectors_of(all) {
        return None;
    }
    let len = memory.memory().known_len()? as i64;
    // if memory consists of whole pieces, a piece is inside if any of its elements is
    let pieces = len % all == 0 && factor(&start).is_multiple_of(all as u64);
    let inside = gate.is_none() && start.min() >= 0 && start.max().checked_add(all)? <= len;
    if !pieces && !inside {
        return None;
    }
    let wide = UOp::load_lanes(memory, &start, gate, all as u16);
    Some(UOp::stack((0..*lanes).map(|i| wide.lane((first + i as i64 * stride) as u16)).collect()))
}

/// Whether the lanes are neighbours in addressable memory. Registers have no neighbours.
fn consecutive(memory: &UOp, index: &Wide) -> bool {
    !memory.is_in_registers() && matches!(index, Linear { stride: 1, .. })
}

impl Wide {
    /// A predicate stays scalar if it is the same in all lanes.
    fn gate(&self, lanes: u16) -> UOp {
        match self {
            Uniform(x) => x.clone(),
            Linear { .. } | Vector(_) => self.vector(lanes),
        }
    }
}

fn widen_store(node: &UOp, srcs: &[&Wide]) -> UOp {
    let (memory, index, value) = (srcs[0].uniform(), srcs[1], srcs[2]);
    let gate = srcs.get(3).copied();
    let lanes = common_lanes(&srcs[1..]);
    let whole = memory.lanes() > 1 && matches!(index, Uniform(_));
    if whole || consecutive(memory, index) {
        let base = index.affine().expect("uniform or consecutive").0;
        let gate = gate.map(|g| g.gate(lanes));
        return UOp::store(memory, base, &value.vector(lanes), gate.as_ref());
    }
    let value = value.vector(lanes);
    let store = |i| {
        let gate = gate.map(|g| g.scalar(i));
        UOp::store(memory, &index.scalar(i), &value.lane(i), gate.as_ref())
    };
    debug_assert_eq!(node.op(), Op::Store);
    fold::group((0..lanes).map(store).collect())
}

/// A reduction over lanes keeps them apart in its other loops and combines them once, at the end.
fn widen_reduce(node: &UOp, srcs: &[&Wide]) -> Wide {
    let op = node.arg().reduce_op().expect("a reduce");
    let closed = node.srcs()[1..].iter().find(|s| is_vector_range(s));
    let initial = node.initial().and(srcs.last());
    assert!(closed.is_none() || initial.is_none(), "lanes are combined once, at the end: {node:?}");
    let lanes = match closed {
        Some(range) => range.src(0).as_int().expect("constant bound") as u16,
        None => initial.map_or(1, |w| w.lanes()).max(srcs[0].lanes()),
    };
    let kept = node
        .srcs()
        .iter()
        .zip(srcs)
        .skip(1)
        .filter(|(s, _)| s.op() == Op::Range && !is_vector_range(s));
    let ranges = kept.map(|(_, w)| w.uniform().clone()).chain(initial.map(|w| w.vector(lanes)));
    let inner = srcs[0].vector(lanes).reduce_ranges(op, ranges);
    let varies = srcs[0].varies() || initial.is_some_and(|w| w.varies());
    match closed {
        Some(_) => Uniform(combine_lanes(op, &inner)),
        None if varies => Vector(inner),
        None => Uniform(inner),
    }
}

/// The lanes of a vector combined as a balanced tree: lane `i` with lane `i + n/2`, until one is left. As long as they are
/// even in number, all pairs are combined at once.
fn combine_lanes(op: ReduceOp, vector: &UOp) -> UOp {
    let both = |low: UOp, high: UOp| {
        UOp::new(op.alu(), low.dtype(), low.lanes(), smallvec![low, high], Arg::None)
    };
    let mut vector = vector.clone();
    while vector.lanes().is_multiple_of(2) {
        let half = vector.lanes() / 2;
        let part = |from: u16| UOp::stack((from..from + half).map(|i| vector.lane(i)).collect());
        vector = both(part(0), part(half));
    }
    let mut parts: Vec<UOp> = (0..vector.lanes()).map(|i| vector.lane(i)).collect();
    while parts.len() > 1 {
        let upper = parts.split_off(parts.len().div_ceil(2));
        for (low, high) in parts.iter_mut().zip(upper) {
            *low = both(low.clone(), high);
        }
    }
    parts.swap_remove(0)
}
