//! Comparisons of indices in normal form: terms with positive coefficients on the left, those with negative ones on
//! the right with the constant, no common factor. `-x < c` becomes `!(x < 1 - c)`, so that every bound of one
//! expression has the same left side.

use crate::affine::{Affine, common_factor, is_index};
use crate::dtype::Const;
use crate::op::Op;
use crate::uop::UOp;

/// `a < b` in normal form.
pub(super) fn less(node: &UOp) -> Option<UOp> {
    if !is_index(node.src(0)) {
        return None;
    }
    let sum = Affine::of(node.src(0))?.plus(&Affine::of(node.src(1))?, -1)?;
    below_zero(&sum)
}

/// `sum < 0`.
fn below_zero(sum: &Affine) -> Option<UOp> {
    if let Some(known) = decided(sum) {
        return Some(UOp::bool(known));
    }
    // integers: sum < 0 is !(-sum < 1)
    if sum.terms.iter().all(|(_, k)| *k < 0) {
        return Some(below_zero(&sum.scaled(-1)?.shifted(-1)?)?.not());
    }
    let sum = undivided(without_factor(sum)?)?;
    let (left, right) = sum.partition(|k| k > 0);
    Some(left.to_uop().lt(&right.scaled(-1)?.to_uop()))
}

/// What bounds say of `sum < 0`.
fn decided(sum: &Affine) -> Option<bool> {
    let (lo, hi) = sum.bounds()?;
    if hi < 0 {
        return Some(true);
    }
    (lo >= 0).then_some(false)
}

/// With `sum = g*s + r`, where `r` stays on one side of what the constant leaves over: `g*s + r < k` is `s < q`.
fn without_factor(sum: &Affine) -> Option<Affine> {
    let terms = Affine { constant: 0, ..sum.clone() };
    let k = sum.constant.checked_neg()?;
    let mut factors: Vec<i64> = sum.terms.iter().map(|(_, k)| common_factor(*k, 0)).collect();
    factors.push(factors.iter().fold(0, |g, f| common_factor(g, *f)));
    factors.retain(|g| *g > 1);
    factors.sort_unstable_by(|a, b| b.cmp(a));
    for g in factors {
        let Some((s, r)) = terms.split_by(g) else { continue };
        let (lo, hi) = r.bounds()?;
        let (q, over) = (k.div_euclid(g), k.rem_euclid(g));
        let bound = match () {
            () if over <= lo => q,
            () if hi < over => q + 1,
            () => continue,
        };
        return without_factor(&s.shifted(bound.checked_neg()?)?);
    }
    Some(sum.clone())
}

/// `x // c < k` is `x < k * c`.
fn undivided(sum: Affine) -> Option<Affine> {
    let Some(atom) = sum.as_single().filter(|a| a.op() == Op::FloorDiv) else { return Some(sum) };
    let Some(c) = atom.src(1).as_int().filter(|&c| c > 0) else { return Some(sum) };
    Affine::of(atom.src(0))?.shifted(sum.constant.checked_mul(c)?)
}

/// `a == b` and `a != b` in normal form: terms on the left, the first of them positive.
pub(super) fn equal(node: &UOp) -> Option<UOp> {
    if !is_index(node.src(0)) {
        return None;
    }
    let sum = Affine::of(node.src(0))?.plus(&Affine::of(node.src(1))?, -1)?;
    let factor = sum.terms.iter().fold(0, |g, (_, k)| common_factor(g, *k));
    let Some((_, first)) = sum.terms.first() else {
        return Some(UOp::bool((sum.constant == 0) == (node.op() == Op::CmpEq)));
    };
    if sum.constant % factor != 0 || sum.bounds().is_some_and(|(lo, hi)| lo > 0 || hi < 0) {
        return Some(UOp::bool(node.op() == Op::CmpNe));
    }
    let sum = sum.scaled(first.signum())?.divided(factor);
    let (left, right) = sum.partition(|k| k > 0);
    let (left, right) = (left.to_uop(), right.scaled(-1)?.to_uop());
    Some(UOp::binary(node.op(), &left, &right))
}

/// The operand, where the node is a negation.
pub(super) fn negated(node: &UOp) -> Option<&UOp> {
    (node.op() == Op::Not).then(|| node.src(0))
}

/// The value of a bool constant.
pub(super) fn as_bool(node: &UOp) -> Option<bool> {
    match node.as_const() {
        Some(Const::Bool(b)) => Some(b),
        _ => None,
    }
}
