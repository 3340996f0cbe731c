//! Simplification under assumptions: what a condition says about expressions that matter only if it holds. Such are the
//! predicates of padding, the branches of `where`, and the parts of a conjunction.

use super::compare::{as_bool, negated};
use super::{algebra, boolean, convert, fold, index, select};
use crate::affine::{Affine, Term, is_index};
use crate::dtype::DType;
use crate::op::Op;
use crate::pattern::Pat;
use crate::rewrite::graph_rewrite;
use crate::rule;
use crate::rule::{Rule, RuleSet};
use crate::uop::{Seen, UOp, reaches, substitute_within, toposort_all};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::OnceCell;

/// What needs no context: everything but simplification under a condition.
static PLAIN: RuleSet = RuleSet::new(
    "plain",
    &[fold::RULES, index::RULES, algebra::RULES, boolean::RULES, select::RULES, convert::RULES],
);

pub(super) static RULES: &[Rule] = &[
    rule!(and_conditions [n, a: Bool, b: Bool]  n.bind(a & b)                           => conjunction(n)),
    rule!(where_branches [c, a, b]              c.where_(a, b)                          => branches(c, a, b)),
    rule!(load_never     [n, m, i]              n.bind(Pat::op(Op::Load, [m, i, &false.into()])) => n.const_like(0)),
    rule!(load_always    [n, m, i]              n.bind(Pat::op(Op::Load, [m, i, &true.into()]))  => regated(n, i, None)),
    rule!(load_gate      [n, m, i, g]           n.bind(Pat::op(Op::Load, [m, i, g]))    => regated(n, &under_gate(g, i)?, Some(g))),
    rule!(store_always   [n, m, i, v]           n.bind(Pat::op(Op::Store, [m, i, v, &true.into()])) => regated(n, i, None)),
    rule!(store_gate     [n, m, i, v, g]        n.bind(Pat::op(Op::Store, [m, i, v, g])) => regated(n, &under_gate(g, i)?, Some(g))),
];

pub(super) static GATE_LOADS: &[Rule] = &[
    rule!(gate_load     [c, x, m, i]    c.where_(x.bind(Pat::op(Op::Load, [m, i])), 0)    => regated(x, i, Some(c))),
    rule!(gate_load_too [c, x, m, i, g] c.where_(x.bind(Pat::op(Op::Load, [m, i, g])), 0) => regated(x, i, Some(&g.and(c)))),
    // zero stays zero through every cast, so the gate moves on to what is cast
    rule!(grows gate_cast [n, c, x] n.bind(c.where_(x.cast_any(), 0)) => c.where_(x, &x.const_like(0)).cast(n.dtype())),
];

/// Conjunctions of more parts than this are left alone: parts are compared with each other.
const MAX_PARTS: usize = 16;

/// Expressions of more nodes than this are not simplified under conditions: each condition walks over them.
const MAX_NODES: usize = 200;

/// How many atoms of a bounded sum are tried.
const MAX_PIVOTS: usize = 2;

/// `expr` for use only where `condition` holds: a smaller expression with the same value there, or the same one. Never
/// looks into loads, whose own indices must stay inside their memory whatever the condition is.
pub fn simplify_under(condition: &UOp, expr: &UOp) -> UOp {
    let condition = graph_rewrite(condition, &PLAIN);
    let simpler = Scope::that_may_gain(expr).and_then(|s| Facts::of(&condition)?.apply(s));
    simpler.unwrap_or_else(|| expr.clone())
}

/// The index of a gated load or store, under its gate.
fn under_gate(gate: &UOp, index: &UOp) -> Option<UOp> {
    let scope = Scope::that_may_gain(index)?;
    Facts::of(gate)?.apply(scope)
}

/// The load or store with another index and gate.
fn regated(n: &UOp, index: &UOp, gate: Option<&UOp>) -> Option<UOp> {
    Some(match n.op() {
        Op::Load => UOp::load_lanes(n.src(0), index, gate, n.lanes()),
        _ => UOp::store(n.src(0), index, n.src(2), gate),
    })
}

/// Each branch under what it knows of the condition. If a predicate chooses data, what both branches have stays as it is: the
/// other branch would still need it, and both forms would be computed.
fn branches(c: &UOp, a: &UOp, b: &UOp) -> Option<UOp> {
    if c.lanes() != 1 {
        return None;
    }
    let (of_a, of_b) = (Scope::of(a), Scope::of(b));
    let is_data = !matches!(a.dtype(), DType::Index | DType::Bool);
    let keeps_shared = is_data && is_predicate(c);
    let gains = |own: &Scope, other: Option<&Scope>| match keeps_shared {
        true => own.may_gain_beside(other),
        false => !own.gainers.is_empty(),
    };
    let first = of_a.as_ref().is_some_and(|own| gains(own, of_b.as_ref()));
    let second = of_b.as_ref().is_some_and(|own| gains(own, of_a.as_ref()));
    let then = of_a.filter(|_| first).and_then(|s| Facts::of(c)?.apply(s));
    let other = of_b.filter(|_| second).and_then(|s| Facts::of(&c.not())?.apply(s));
    if then.is_none() && other.is_none() {
        return None;
    }
    Some(c.where_(then.as_ref().unwrap_or(a), other.as_ref().unwrap_or(b)))
}

/// Whether a condition is about indices alone. Unrolled sums over windows are long chains of selects by such conditions, and
/// each link has the rest of the chain in both branches.
fn is_predicate(condition: &UOp) -> bool {
    let is_of_indices = |part: &UOp| {
        let condition = negated(part).unwrap_or(part);
        condition.op().is_comparison() && is_index(condition.src(0))
    };
    parts_of(condition).is_some_and(|parts| parts.iter().all(is_of_indices))
}

/// A conjunction as a list: each part once, under all others, without those that follow from the others.
fn conjunction(n: &UOp) -> Option<UOp> {
    let mut facts: Vec<Fact> = parts_of(n)?.into_iter().map(Fact::of).collect();
    let mut i = 0;
    while i < facts.len() {
        let others = facts.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, fact)| fact);
        let scope = Scope::that_may_gain(&facts[i].part);
        let part = scope.and_then(|s| Facts::all(others).apply(s));
        match part.as_ref().and_then(as_bool) {
            Some(true) => drop(facts.remove(i)),
            Some(false) => return Some(UOp::bool(false)),
            None => {
                part.into_iter().for_each(|part| facts[i] = Fact::of(part));
                i += 1;
            }
        }
    }
    let parts = facts.into_iter().map(|fact| fact.part);
    let all = parts.reduce(|a, b| UOp::binary(Op::And, &a, &b));
    Some(all.unwrap_or_else(|| UOp::bool(true)))
}

/// The different parts of a conjunction, in order.
fn parts_of(condition: &UOp) -> Option<SmallVec<[UOp; 8]>> {
    let mut parts: SmallVec<[UOp; 8]> = SmallVec::new();
    let mut todo: SmallVec<[&UOp; 8]> = SmallVec::from_slice(&[condition]);
    while let Some(node) = todo.pop() {
        if node.op() == Op::And {
            todo.extend([node.src(1), node.src(0)]);
        } else if !parts.contains(node) {
            parts.push(node.clone());
        }
        if parts.len() + todo.len() > MAX_PARTS {
            return None;
        }
    }
    Some(parts)
}

/// Bounds of a sum.
#[derive(Clone)]
struct Bound {
    terms: Affine,
    lo: i64,
    hi: i64,
}

/// A part of a conjunction, and what it says: that a condition is true or false, and perhaps bounds.
struct Fact {
    part: UOp,
    known: (UOp, bool),
    bound: Option<Bound>,
}

impl Fact {
    fn of(part: UOp) -> Fact {
        let (condition, holds) = negated(&part).map_or((&part, true), |c| (c, false));
        let bound = Bound::of(condition, holds);
        Fact { known: (condition.clone(), holds), bound, part }
    }
}

impl Bound {
    /// `terms < k`, `!(terms < k)` and `terms == k` as bounds of the terms.
    fn of(condition: &UOp, holds: bool) -> Option<Bound> {
        if !condition.op().is_comparison() || !is_index(condition.src(0)) {
            return None;
        }
        let sum = Affine::of(condition.src(0))?.plus(&Affine::of(condition.src(1))?, -1)?;
        let (terms, k) = (Affine { constant: 0, ..sum.clone() }, sum.constant.checked_neg()?);
        let (lo, hi) = match (condition.op(), holds) {
            (Op::CmpLt, true) => (i64::MIN, k.checked_sub(1)?),
            (Op::CmpLt, false) => (k, i64::MAX),
            (Op::CmpEq, true) | (Op::CmpNe, false) => (k, k),
            _ => return None,
        };
        if terms.terms.first()?.1 < 0 {
            let flip = |x: i64| x.checked_neg().unwrap_or(if x < 0 { i64::MAX } else { i64::MIN });
            return Some(Bound { terms: terms.scaled(-1)?, lo: flip(hi), hi: flip(lo) });
        }
        Some(Bound { terms, lo, hi })
    }
}

/// What is known where a condition holds.
#[derive(Default)]
struct Facts {
    /// Conditions of known value.
    known: Vec<(UOp, bool)>,
    bounds: Vec<Bound>,
}

impl Facts {
    fn of(condition: &UOp) -> Option<Facts> {
        if condition.lanes() != 1 {
            return None;
        }
        let facts: Vec<Fact> = parts_of(condition)?.into_iter().map(Fact::of).collect();
        Some(Facts::all(facts.iter()))
    }

    fn all<'a>(all: impl Iterator<Item = &'a Fact>) -> Facts {
        let mut facts = Facts::default();
        for fact in all {
            facts.known.push(fact.known.clone());
            fact.bound.iter().for_each(|bound| facts.intersect(bound));
        }
        facts
    }

    fn intersect(&mut self, bound: &Bound) {
        match self.bounds.iter_mut().find(|b| b.terms == bound.terms) {
            Some(b) => (b.lo, b.hi) = (b.lo.max(bound.lo), b.hi.min(bound.hi)),
            None => self.bounds.push(bound.clone()),
        }
    }

    /// A smaller expression with the same value wherever the facts hold.
    fn apply(&self, scope: Scope) -> Option<UOp> {
        let (expr, mut best) = (scope.expr.clone(), scope);
        if let Some(better) = best.replace_known(&self.known) {
            best = better;
        }
        for bound in &self.bounds {
            if let Some(better) = best.with_bound(bound) {
                best = better;
            }
        }
        (best.expr != expr).then_some(best.expr)
    }
}

/// What bounds could simplify.
fn gains(op: Op) -> bool {
    use Op::{CmpEq, CmpLt, CmpNe, FloorDiv, FloorMod, Max, Min, Where};
    matches!(op, CmpEq | CmpLt | CmpNe | FloorDiv | FloorMod | Max | Min | Where)
}

/// An expression, and where it ends: everything that is not elementwise stays as it is.
struct Scope {
    expr: UOp,
    /// The nodes that replacing looks at, by id; `expr` keeps them alive.
    nodes: Vec<usize>,
    /// Those that bounds could simplify.
    gainers: Vec<Gainer>,
}

impl Scope {
    /// `None` where the expression is too large, which its depth alone tells of the largest.
    fn of(expr: &UOp) -> Option<Scope> {
        if expr.depth() as usize > MAX_NODES {
            return None;
        }
        let (mut seen, mut nodes, mut gainers) = (Seen::new(), Vec::new(), Vec::new());
        let mut todo: SmallVec<[&UOp; 32]> = SmallVec::from_slice(&[expr]);
        while let Some(node) = todo.pop() {
            if !seen.insert(node.id()) {
                continue;
            }
            nodes.push(node.id());
            if nodes.len() > MAX_NODES {
                return None;
            }
            if node.op().is_elementwise() {
                gainers.extend(gains(node.op()).then(|| Gainer::of(node)));
                todo.extend(node.srcs());
            }
        }
        Some(Scope { expr: expr.clone(), nodes, gainers })
    }

    fn that_may_gain(expr: &UOp) -> Option<Scope> {
        Scope::of(expr).filter(|s| !s.gainers.is_empty())
    }

    /// Whether there is something to simplify that is not part of the other expression, which may have anything if it is too
    /// large.
    fn may_gain_beside(&self, other: Option<&Scope>) -> bool {
        let is_shared = |gainer: &Gainer| other.is_none_or(|other| other.has(&gainer.node));
        self.gainers.iter().any(|gainer| !is_shared(gainer))
    }

    fn has(&self, node: &UOp) -> bool {
        self.nodes.contains(&node.id())
    }

    /// The normal form of the expression with the nodes in `map` replaced.
    fn replaced(&self, map: impl IntoIterator<Item = (UOp, UOp)>) -> UOp {
        let (roots, map) = (std::slice::from_ref(&self.expr), map.into_iter().collect());
        let map: &FxHashMap<UOp, UOp> = &map;
        let enter = |n: &UOp| n.op().is_elementwise() && map.keys().any(|old| may_have(n, old));
        let new = substitute_within(roots, map, enter);
        graph_rewrite(&new[0], &PLAIN)
    }

    /// The other expression, if it is smaller by itself and wherever it stands. Of two that share nodes with their
    /// surroundings, each can be the smaller one in one place, and rules would replace them by each other forever.
    fn if_smaller(&self, expr: &UOp) -> Option<Scope> {
        let scope = Scope::of(expr)?;
        let is_smaller = scope.nodes.len() < self.nodes.len();
        (is_smaller && written_out(expr) < written_out(&self.expr)).then_some(scope)
    }

    fn replace_known(&self, known: &[(UOp, bool)]) -> Option<Scope> {
        let here = known.iter().filter(|(c, _)| self.has(c));
        let map: Vec<_> = here.map(|(c, holds)| (c.clone(), UOp::bool(*holds))).collect();
        if map.is_empty() { None } else { self.if_smaller(&self.replaced(map)) }
    }

    /// The expression where one atom of a bounded sum is written by the sum, and the sum is a variable that has those
    /// bounds: so the ordinary rules see them.
    fn with_bound(&self, bound: &Bound) -> Option<Scope> {
        if !bound.terms.terms.iter().any(|(atom, _)| self.has(atom)) {
            return None;
        }
        let (lo, hi) = bound.terms.bounds().unwrap_or((i64::MIN, i64::MAX));
        let narrowed = (lo.max(bound.lo), hi.min(bound.hi));
        if narrowed == (lo, hi) || narrowed.0 > narrowed.1 {
            return None;
        }
        let pivots = bound.terms.terms.iter().rev();
        let pivots = pivots.filter(|(atom, k)| k.abs() == 1 && self.has(atom));
        let promising =
            |pivot: &&Term| self.gainers.iter().any(|g| g.may_gain(&bound.terms, pivot, narrowed));
        let mut pivots = pivots.take(MAX_PIVOTS).filter(promising).peekable();
        pivots.peek()?;
        let sum = bound.terms.to_uop();
        let value = stand_in(&sum, narrowed);
        let sum = if value.op() == Op::Const { value.clone() } else { sum };
        pivots.find_map(|(atom, k)| {
            // sum = k*atom + rest, so atom = k*(sum - rest), as k is 1 or -1
            let rest = bound.terms.plus(&Affine::atom(atom.clone()), -k)?;
            let atom_by_sum = Affine::of(&value)?.plus(&rest, -1)?.scaled(*k)?.to_uop();
            let new = self.replaced([(atom.clone(), atom_by_sum)]);
            self.if_smaller(&Scope::of(&new)?.replaced([(value.clone(), sum.clone())]))
        })
    }
}

/// Whether another node can be below this one, as far as is known without looking.
fn may_have(node: &UOp, other: &UOp) -> bool {
    other.depth() < node.depth() && other.scope().is_subset(node.scope())
}

/// The size of an expression as a tree: each node counts wherever it is used.
fn written_out(expr: &UOp) -> usize {
    let inside = |n: &UOp| n.op().is_elementwise();
    let mut sizes: FxHashMap<UOp, usize> = FxHashMap::default();
    for node in toposort_all(std::slice::from_ref(expr), inside) {
        let srcs = if inside(&node) { node.srcs() } else { &[] };
        let size = srcs.iter().fold(1, |sum: usize, src| sum.saturating_add(sizes[src]));
        sizes.insert(node, size);
    }
    sizes[expr]
}

/// A node that bounds could simplify.
struct Gainer {
    node: UOp,
    /// See [`Gainer::difference`].
    difference: OnceCell<Option<Affine>>,
}

impl Gainer {
    fn of(node: &UOp) -> Gainer {
        Gainer { node: node.clone(), difference: OnceCell::new() }
    }

    /// Of a comparison, a minimum or a maximum, the difference of its sides, if that is an affine sum.
    fn difference(&self) -> Option<&Affine> {
        let [a, b] = [self.node.src(0), self.node.src(1)];
        let difference = || Affine::of(a)?.plus(&Affine::of(b)?, -1);
        self.difference.get_or_init(difference).as_ref()
    }

    /// Whether bounds of a sum could simplify the node by way of one term. Which side of a comparison, a minimum or a maximum of
    /// indices is the larger is found out without rewriting anything.
    fn may_gain(&self, sum: &Affine, pivot: &Term, bounds: (i64, i64)) -> bool {
        match self.node.op() {
            Op::Where => false,
            op if (op.is_comparison() || matches!(op, Op::Max | Op::Min))
                && is_index(self.node.src(0)) =>
            {
                self.is_decided(sum, pivot, bounds).unwrap_or(true)
            }
            Op::FloorDiv | Op::FloorMod => self
                .has_one_quotient(sum, pivot, bounds)
                .unwrap_or_else(|| self.is_computed_from(&pivot.0)),
            _ => self.is_computed_from(&pivot.0),
        }
    }

    /// Whether the atom is below the node. A load that varies with it is an end.
    fn is_computed_from(&self, atom: &UOp) -> bool {
        let enter = |n: &UOp| n.op().is_elementwise() && may_have(n, atom);
        self.node != *atom && reaches(&self.node, enter, |n| n == atom)
    }

    /// Whether the comparison `difference < 0`, or `== 0`, has one value where the sum has these bounds, or one side is always the
    /// minimum.
    fn is_decided(&self, sum: &Affine, pivot: &Term, bounds: (i64, i64)) -> Option<bool> {
        let (low, high) = bounds_under(self.difference()?, 1, sum, pivot, bounds)?;
        Some(match self.node.op() {
            Op::CmpLt => high < 0 || low >= 0,
            Op::Max | Op::Min => high <= 0 || low >= 0,
            _ => high < 0 || low > 0 || (low, high) == (0, 0),
        })
    }

    /// Whether the quotient, but for multiples of the divisor, is one number where the sum has these bounds.
    fn has_one_quotient(&self, sum: &Affine, pivot: &Term, bounds: (i64, i64)) -> Option<bool> {
        let divisor = self.node.src(1).as_int().filter(|divisor| *divisor > 0)?;
        let number = Affine::of(self.node.src(0))?;
        let (low, high) = bounds_under(&number, divisor, sum, pivot, bounds)?;
        let is_known = low != i64::MIN && high != i64::MAX;
        Some(is_known && low.div_euclid(divisor) == high.div_euclid(divisor))
    }
}

/// Bounds of a number where a sum is from `lo` to `hi`, without the multiples of `divisor` among its other terms (if that is not
/// 1). The number is a multiple of the sum, and a rest that has bounds of its own. A number without the atom gets no bounds: the
/// ends of i64.
fn bounds_under(
    number: &Affine,
    divisor: i64,
    sum: &Affine,
    (atom, k): &Term,
    (lo, hi): (i64, i64),
) -> Option<(i64, i64)> {
    let times = number.coefficient(atom).checked_mul(*k)?;
    if times == 0 {
        return Some((i64::MIN, i64::MAX));
    }
    let mut rest = number.plus(sum, times.checked_neg()?)?;
    rest.terms.retain(|(_, k)| divisor == 1 || *k % divisor != 0);
    let rest = rest.bounds()?;
    let [first, last] = if times > 0 { [lo, hi] } else { [hi, lo] };
    let known = |bound: i64| bound != i64::MIN && bound != i64::MAX;
    let end = |bound: i64, rest: i64| bound.checked_mul(times)?.checked_add(rest);
    let low = if known(first) { end(first, rest.0)? } else { i64::MIN };
    let high = if known(last) { end(last, rest.1)? } else { i64::MAX };
    Some((low, high))
}

/// A variable that replaces `sum` while its bounds are known. Its number, 63 bits of a hash, occurs in no program.
fn stand_in(sum: &UOp, (lo, hi): (i64, i64)) -> UOp {
    if lo == hi {
        return UOp::index(lo);
    }
    UOp::var(sum.hash() as usize | 1 << (usize::BITS - 1), DType::Index, lo, hi)
}
