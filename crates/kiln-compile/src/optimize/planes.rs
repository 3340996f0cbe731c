//! Part of pass `collapse`: neighbouring loops whose lengths a launch decides, as one loop. Those over the rows and columns of
//! an image, `out[h * n + w]` for `h < m` and `w < n`, become `out[p]` for `p < m * n`.

use super::forms::{index_forms, is_end_at_launch};
use super::general::LONGEST;
use super::ranges::{axis_of, kind_of, ranges_among, replace_ranges, size_of};
use kiln_ir::affine::Affine;
use kiln_ir::arg::RangeKind;
use kiln_ir::rules::simplify;
use kiln_ir::uop::{substitute, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::smallvec;
use std::slice::from_ref;

/// A simplified kernel with one loop for each two that can be one.
pub(super) fn merged(ast: &UOp) -> UOp {
    let mut ast = ast.clone();
    while let Some(next) = with_one_pair_merged(&toposort(&ast)) {
        ast = next;
    }
    ast
}

fn with_one_pair_merged(nodes: &[UOp]) -> Option<UOp> {
    let ends = ends(nodes);
    if ends.is_empty() {
        return None;
    }
    let ranges = ranges_among(nodes);
    // the predicates that end loops are replaced, not looked at
    let others: Vec<UOp> = nodes.iter().filter(|n| !ends.contains(n)).cloned().collect();
    let forms = index_forms(&others)?;
    let pairs = ranges.iter().flat_map(|outer| ranges.iter().map(move |inner| (outer, inner)));
    let mut pairs = pairs.filter(|(outer, inner)| axis_of(outer) < axis_of(inner));
    pairs.find_map(|(outer, inner)| {
        let pair = Pair::of(nodes, &ends, outer, inner)?;
        forms.iter().all(|form| pair.runs_on(form)).then(|| pair.merged(nodes))?
    })
}

/// The predicates that end loops where a launch says.
fn ends(nodes: &[UOp]) -> Vec<UOp> {
    nodes.iter().filter(|n| is_end_at_launch(n)).cloned().collect()
}

/// Two loops that may become one.
struct Pair<'a> {
    outer: &'a UOp,
    inner: &'a UOp,
    /// How many iterations they have.
    outer_count: UOp,
    inner_count: UOp,
    /// The predicates that end them; the outer one may have a known length.
    outer_end: Option<&'a UOp>,
    inner_end: &'a UOp,
}

impl<'a> Pair<'a> {
    /// None if they are not of one kind, are not closed together, or not ended together.
    fn of(nodes: &[UOp], ends: &'a [UOp], outer: &'a UOp, inner: &'a UOp) -> Option<Pair<'a>> {
        let is_plain = matches!(kind_of(outer), RangeKind::Loop | RangeKind::Reduce);
        let fits = size_of(outer).saturating_mul(size_of(inner)) <= LONGEST as usize;
        if !is_plain || kind_of(outer) != kind_of(inner) || !fits {
            return None;
        }
        let inner_end = only_end(ends, inner)?;
        let outer_end = only_end(ends, outer);
        if outer_end.is_none() && ends.iter().any(|end| end.src(0) == outer) {
            return None;
        }
        let outer_count =
            outer_end.map_or_else(|| UOp::index(size_of(outer) as i64), |end| end.src(1).clone());
        let inner_count = inner_end.src(1).clone();
        let pair = Pair { outer, inner, outer_count, inner_count, outer_end, inner_end };
        (pair.close_together(nodes) && pair.end_together(nodes)).then_some(pair)
    }

    /// Whether all that closes one of the loops closes the other, and does nothing past the inner one's end.
    fn close_together(&self, nodes: &[UOp]) -> bool {
        let closes = |n: &UOp, range: &UOp| n.srcs()[1..].contains(range);
        let is_ended = |closer: &UOp| {
            predicate_of(closer).is_some_and(|p| p.conjuncts().contains(self.inner_end))
        };
        let mut closers = nodes.iter().filter(|n| matches!(n.op(), Op::End | Op::Reduce));
        closers.all(|closer| {
            let closes_inner = closes(closer, self.inner);
            closes(closer, self.outer) == closes_inner && (!closes_inner || is_ended(closer))
        })
    }

    /// Whether all predicates that end one of the loops end the other, too.
    fn end_together(&self, nodes: &[UOp]) -> bool {
        let is_end = |n: &UOp| n == self.inner_end || Some(n) == self.outer_end;
        let has_both = |predicate: &UOp| {
            let conjuncts = predicate.conjuncts();
            let has = |end: &UOp| conjuncts.contains(end);
            self.outer_end.is_none_or(|outer| has(outer) == has(self.inner_end))
        };
        nodes.iter().filter(|n| n.op() != Op::And).all(|user| {
            let mut ending =
                user.srcs().iter().filter(|s| s.conjuncts().iter().any(is_end)).peekable();
            let is_predicate = matches!(user.op(), Op::Load | Op::Store | Op::Where);
            ending.peek().is_none() || is_predicate && ending.all(has_both)
        })
    }

    /// Whether a step of the outer loop moves a sum as far as all iterations of the inner one.
    fn runs_on(&self, form: &Affine) -> bool {
        let part = |range: &UOp| {
            let moves = |(term, _): &&(UOp, i64)| term.scope().contains(axis_of(range));
            let terms = form.terms.iter().filter(moves).cloned().collect();
            Affine { terms, constant: 0 }
        };
        let (outer, inner) = (part(self.outer), part(self.inner));
        if inner.terms.is_empty() || outer.terms.is_empty() {
            return inner == outer;
        }
        let all = FxHashMap::from_iter([(self.inner.clone(), self.outer * &self.inner_count)]);
        let all = substitute(from_ref(&inner.to_uop()), &all).swap_remove(0);
        Affine::multiplied_out(&all) == Affine::multiplied_out(&outer.to_uop())
    }

    /// The kernel with one loop instead of both.
    fn merged(&self, nodes: &[UOp]) -> Option<UOp> {
        let len = size_of(self.outer) * size_of(self.inner);
        let one = UOp::range(axis_of(self.outer), kind_of(self.outer), len);
        let count = &self.outer_count * &self.inner_count;
        let mut ends = FxHashMap::from_iter([(self.inner_end.clone(), one.lt(&count))]);
        ends.extend(self.outer_end.map(|end| (end.clone(), UOp::bool(true))));
        let ended = substitute(from_ref(nodes.last()?), &ends).swap_remove(0);
        let parts = [(self.outer, UOp::index(0)), (self.inner, one.clone())];
        let map = parts.map(|(range, value)| (range.clone(), (value, smallvec![one.clone()])));
        Some(simplify(&replace_ranges(&ended, &FxHashMap::from_iter(map))))
    }
}

/// The predicate without which an iteration stores nothing, or adds nothing to a reduction.
fn predicate_of(closer: &UOp) -> Option<&UOp> {
    let value = closer.src(0);
    match value.op() {
        Op::Store if closer.op() == Op::End => value.gate(),
        Op::Where if closer.op() == Op::Reduce => {
            let op = closer.arg().reduce_op()?;
            let is_identity = *value.src(2) == value.const_like(op.identity(closer.dtype()));
            is_identity.then(|| value.src(0))
        }
        _ => None,
    }
}

/// The predicate that ends a loop, if there is one only.
fn only_end<'a>(ends: &'a [UOp], range: &UOp) -> Option<&'a UOp> {
    let mut own = ends.iter().filter(|end| end.src(0) == range);
    own.next().filter(|_| own.next().is_none())
}
