//! Part of pass `adjacent`: scalars of the same form become the lanes of one vector (superword-level parallelism; Larsen
//! and Amarasinghe, "Exploiting superword level parallelism with multimedia instruction sets", PLDI 2000).
//!
//! It is for results of inner products. Each is the sum of a vector's lanes: `s0 = v0[0] + v0[1] + ..`. Four of them are
//! added up together, and what follows them, such as a bias, is one operation on `<s0, s1, s2, s3>`.

use super::fold::{add_constant, constant_of};
use kiln_ir::uop::Srcs;
use kiln_ir::{Arg, DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// The vector of these scalars. None if they are not all computed alike, or if none of them is the sum of a vector's
/// lanes: others gain nothing.
pub(super) fn packed(scalars: Srcs) -> Option<UOp> {
    let mut pack = Pack::default();
    let vector = pack.vector(scalars)?;
    pack.has_sums.then_some(vector)
}

#[derive(Default)]
struct Pack {
    /// By scalars, their vector.
    done: FxHashMap<Srcs, UOp>,
    has_sums: bool,
}

impl Pack {
    fn vector(&mut self, scalars: Srcs) -> Option<UOp> {
        let mut open = vec![scalars.clone()];
        while let Some(scalars) = open.pop() {
            if self.done.contains_key(&scalars) {
                continue;
            }
            if let Some(vector) = self.leaf(&scalars) {
                self.done.insert(scalars, vector);
                continue;
            }
            let sources = sources(&scalars)?;
            if sources.iter().all(|s| self.done.contains_key(s)) {
                let srcs = sources.iter().map(|s| self.done[s].clone()).collect();
                let (first, lanes) = (&scalars[0], scalars.len() as u16);
                let vector = UOp::new(first.op(), first.dtype(), lanes, srcs, first.arg().clone());
                self.done.insert(scalars, vector);
            } else {
                open.push(scalars);
                open.extend(sources);
            }
        }
        self.done.remove(&scalars)
    }

    /// The vector of scalars that do not have to be computed alike.
    fn leaf(&mut self, scalars: &Srcs) -> Option<UOp> {
        let is_const = |s: &UOp| s.op() == Op::Const;
        if scalars.iter().all(|s| *s == scalars[0] || is_const(s) && is_const(&scalars[0])) {
            return Some(UOp::stack(scalars.clone()));
        }
        if let Some(sums) = sums(scalars) {
            self.has_sums = true;
            return Some(sums);
        }
        neighbours(scalars)
    }
}

/// For each source of scalars that are computed alike, those of all of them.
fn sources(scalars: &Srcs) -> Option<Vec<Srcs>> {
    let first = &scalars[0];
    let is_alike = |s: &UOp| {
        (s.op(), s.dtype(), s.arg()) == (first.op(), first.dtype(), first.arg())
            && s.op().is_elementwise()
            && s.dtype() != DType::Index
            && s.srcs().iter().zip(first.srcs()).all(|(a, b)| a.dtype() == b.dtype())
    };
    let all = |i| scalars.iter().map(|s| s.src(i).clone()).collect();
    scalars.iter().all(is_alike).then(|| (0..first.srcs().len()).map(all).collect())
}

/// Loads of neighbours as one load.
fn neighbours(scalars: &Srcs) -> Option<UOp> {
    let (first, lanes) = (&scalars[0], scalars.len() as u16);
    if first.op() != Op::Load || first.src(0).lanes() > 1 || first.is_in_registers() {
        return None;
    }
    let place = |s: &UOp| {
        let constant = constant_of(s.src(1));
        (add_constant(s.src(1), -constant), constant)
    };
    let (base, constant) = place(first);
    let is_next = |(i, s): (usize, &UOp)| {
        s.op() == Op::Load
            && s.src(0) == first.src(0)
            && s.gate() == first.gate()
            && place(s) == (base.clone(), constant + i as i64)
    };
    let is_run = scalars.iter().enumerate().all(is_next);
    is_run.then(|| UOp::load_lanes(first.src(0), first.src(1), first.gate(), lanes))
}

/// Scalars, each of which is the sum of a vector's lanes, as one vector.
fn sums(scalars: &Srcs) -> Option<UOp> {
    let (op, first) = lanes_summed(&scalars[0])?;
    let of = |s: &UOp| {
        let (other, vector) = lanes_summed(s)?;
        (other == op && vector.lanes() == first.lanes()).then_some(vector)
    };
    let vectors: Vec<UOp> = scalars.iter().map(of).collect::<Option<_>>()?;
    (vectors.len() <= first.lanes() as usize).then(|| summed_together(op, vectors))
}

/// The vector whose lanes are combined in `sum`, as a balanced tree over halves (`vector`), and by which operation.
fn lanes_summed(sum: &UOp) -> Option<(Op, UOp)> {
    let mut from = None;
    let mut last = sum.clone();
    while let Some(vector) = halved(sum.op(), &last) {
        from = Some((sum.op(), vector.clone()));
        last = vector;
    }
    from
}

/// The vector of which `x` is the lower half combined with the upper one.
fn halved(op: Op, x: &UOp) -> Option<UOp> {
    let [low, high] = x.srcs() else { return None };
    let lane = if low.op() == Op::Stack { low.src(0) } else { low };
    let vector = Some(lane).filter(|lane| lane.op() == Op::Lane)?.src(0);
    let half = x.lanes();
    let is_half =
        |part: &UOp, from: u16| (0..half).all(|i| is_lane(&part.lane(i), vector, from + i));
    let fits = x.op() == op && op.is_alu() && vector.lanes() == 2 * half;
    (fits && is_half(low, 0) && is_half(high, half)).then(|| vector.clone())
}

fn is_lane(x: &UOp, vector: &UOp, i: u16) -> bool {
    x.op() == Op::Lane && x.src(0) == vector && x.arg().lane() == Some(i)
}

/// The sum of the lanes of each vector. Two vectors become one that has partial sums of both, half as many of each, and so on:
/// of `<a0, a1>` and `<b0, b1>` it adds `<a0, b0>` and `<a1, b1>`. Each sum is the tree that it is by itself.
fn summed_together(op: Op, mut vectors: Vec<UOp>) -> UOp {
    let sums = vectors.len() as u16;
    let mut parts = vectors[0].lanes();
    while parts > 1 {
        let both = |group: &[UOp]| {
            let half =
                |upper| UOp::stack(group.iter().flat_map(|v| half_of(v, parts, upper)).collect());
            let halves = smallvec![half(false), half(true)];
            let lanes = group.len() as u16 * group[0].lanes() / 2;
            UOp::new(op, group[0].dtype(), lanes, halves, Arg::None)
        };
        vectors = vectors.chunks(2).map(both).collect();
        parts /= 2;
    }
    debug_assert_eq!((vectors.len(), vectors[0].lanes()), (1, sums));
    vectors.swap_remove(0)
}

/// Of each run of `parts` lanes, the lower or the upper half.
fn half_of(vector: &UOp, parts: u16, upper: bool) -> impl Iterator<Item = UOp> {
    let half = parts / 2;
    let start = if upper { half } else { 0 };
    let is_in = move |i: &u16| (start..start + half).contains(&(i % parts));
    (0..vector.lanes()).filter(is_in).map(|i| vector.lane(i))
}
