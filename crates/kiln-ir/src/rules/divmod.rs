//! Quotients and remainders of sums by a positive constant, rounded down. They turn the index maps of reshapes back
//! into plain ranges. All rules are exact for negative values too.

use crate::affine::{Affine, common_factor, is_index};
use crate::op::Op;
use crate::uop::UOp;
use smallvec::SmallVec;

/// `n // c` and `n % c` in normal form.
pub(super) fn divide(node: &UOp) -> Option<UOp> {
    let (n, c) = (node.src(0), node.src(1).as_int()?);
    if !is_index(node) || c == 0 || c == i64::MIN {
        return None;
    }
    let sum = Affine::of(n)?.scaled(c.signum())?;
    let result = match node.op() {
        Op::FloorDiv => quotient(&sum, c.abs())?,
        // the remainder has the divisor's sign: n % -c = -(-n % c)
        _ => remainder(&sum, c.abs())?.scaled(c.signum())?,
    };
    Some(recombine(result)?.to_uop())
}

/// `sum // c`.
fn quotient(sum: &Affine, c: i64) -> Option<Affine> {
    if let Some((whole, _)) = by_residues(sum, c) {
        return Some(whole);
    }
    let (whole, rest) = take_multiples(sum, c)?;
    if let Some(t) = same_quotient(&rest, c) {
        return whole.shifted(t);
    }
    let part = quotient_by_factor(&rest, c)
        .or_else(|| quotient_of_quotient(&rest, c))
        .or_else(|| quotient_of_remainder(&rest, c))
        .unwrap_or_else(|| Affine::atom(rest.to_uop().floordiv(&UOp::index(c))));
    whole.plus(&part, 1)
}

/// `sum % c`.
fn remainder(sum: &Affine, c: i64) -> Option<Affine> {
    if let Some((_, rest)) = by_residues(sum, c) {
        return Some(rest);
    }
    let (_, rest) = take_multiples(&without_remainders(sum, c)?, c)?;
    if let Some(t) = same_quotient(&rest, c) {
        return rest.shifted(t.checked_mul(-c)?);
    }
    let atom = || Affine::atom(rest.to_uop().floormod(&UOp::index(c)));
    Some(remainder_by_factor(&rest, c).unwrap_or_else(atom))
}

/// `sum = c * whole + rest` with every coefficient in `rest` between 0 and `c`, if `rest` is then between 0 and `c` too:
/// quotient and remainder are found. So `(3*(x - k) + k) // 3` is `x - k` for `k` in `0..3`, though the sum says `-2*k`.
fn by_residues(sum: &Affine, c: i64) -> Option<(Affine, Affine)> {
    let mut whole = Affine::default();
    for (atom, k) in &sum.terms {
        whole = whole.plus(&Affine::atom(atom.clone()), k.div_euclid(c))?;
    }
    let whole = whole.shifted(sum.constant.div_euclid(c))?;
    let rest = sum.plus(&whole, -c)?;
    let (lo, hi) = rest.bounds()?;
    (0 <= lo && hi < c).then_some((whole, rest))
}

/// The quotient, if it is the same for every value of the sum.
fn same_quotient(sum: &Affine, c: i64) -> Option<i64> {
    let (lo, hi) = sum.bounds()?;
    (lo.div_euclid(c) == hi.div_euclid(c)).then_some(lo.div_euclid(c))
}

/// `sum = c * whole + rest` where no coefficient in `rest` reaches `c`, and `rest` is not negative if it is bounded.
fn take_multiples(sum: &Affine, c: i64) -> Option<(Affine, Affine)> {
    let mut whole = Affine::default();
    for (atom, k) in &sum.terms {
        whole = whole.plus(&Affine::atom(atom.clone()), k / c)?;
    }
    let rest = sum.plus(&whole, -c)?;
    let of_constant = rest.constant.div_euclid(c);
    let t = match rest.bounds() {
        Some((lo, _)) if lo < 0 => lo.div_euclid(c),
        Some((lo, _)) => lo.div_euclid(c).min(of_constant.max(0)),
        None => of_constant,
    };
    Some((whole.shifted(t)?, rest.shifted(t.checked_mul(-c)?)?))
}

/// Numbers that divide `c` and a coefficient, the largest first.
fn common_factors(sum: &Affine, c: i64) -> SmallVec<[i64; 8]> {
    let mut factors: SmallVec<[i64; 8]> =
        sum.terms.iter().map(|(_, k)| common_factor(*k, c)).collect();
    let all = sum.terms.iter().fold(c, |g, (_, k)| common_factor(g, *k));
    factors.push(all);
    factors.retain(|g| 1 < *g && *g < c);
    factors.sort_unstable_by(|a, b| b.cmp(a));
    factors.dedup();
    factors
}

/// `(g*s + r) // (g*d) = s // d` where `0 <= r < g`.
fn quotient_by_factor(rest: &Affine, c: i64) -> Option<Affine> {
    common_factors(rest, c).into_iter().find_map(|g| quotient(&rest.split_by(g)?.0, c / g))
}

/// `(g*s + r) % (g*d) = g*(s % d) + r` where `0 <= r < g`.
fn remainder_by_factor(rest: &Affine, c: i64) -> Option<Affine> {
    common_factors(rest, c).into_iter().find_map(|g| {
        let (s, r) = rest.split_by(g)?;
        r.plus(&remainder(&s, c / g)?, g)
    })
}

/// `(x // a + k) // c = (x + k*a) // (a*c)`.
fn quotient_of_quotient(rest: &Affine, c: i64) -> Option<Affine> {
    let (x, a) = by_constant(rest.as_single()?, Op::FloorDiv)?;
    let sum = Affine::of(x)?.shifted(rest.constant.checked_mul(a)?)?;
    quotient(&sum, a.checked_mul(c)?)
}

/// `(x % a) // c = (x // c) % (a / c)` where `c` divides `a`.
fn quotient_of_remainder(rest: &Affine, c: i64) -> Option<Affine> {
    let (x, a) = by_constant(rest.as_single()?, Op::FloorMod)?;
    if rest.constant != 0 || a % c != 0 {
        return None;
    }
    remainder(&quotient(&Affine::of(x)?, c)?, a / c)
}

/// The sum with each `k * (x % a)` replaced by `k * x` where `c` divides `k * a`: equal modulo `c`.
fn without_remainders(sum: &Affine, c: i64) -> Option<Affine> {
    let mut result = sum.clone();
    while let Some(simpler) = result.terms.iter().find_map(|(atom, k)| {
        let (x, a) = by_constant(atom, Op::FloorMod)?;
        let vanishes = k.checked_mul(a)? % c == 0;
        let without = vanishes.then(|| result.plus(&Affine::atom(atom.clone()), -k))??;
        without.plus(&Affine::of(x)?, *k)
    }) {
        result = simpler;
    }
    Some(result)
}

/// The operand and the positive constant of a quotient or remainder.
fn by_constant(atom: &UOp, op: Op) -> Option<(&UOp, i64)> {
    if atom.op() != op {
        return None;
    }
    let c = atom.src(1).as_int().filter(|&c| c > 0)?;
    Some((atom.src(0), c))
}

/// Puts quotients and remainders of one number together again: `x//c*c + x%c` is `x`,
/// `(x//c)%d*c + x%c` is `x % (c*d)`, and `x - x//c*c` is `x % c`.
pub(super) fn recombine(mut sum: Affine) -> Option<Affine> {
    while let Some(better) = (0..sum.terms.len()).find_map(|i| recombine_term(&sum, i)) {
        sum = better;
    }
    Some(sum)
}

/// The sum with term `i` written differently, if that makes it simpler.
fn recombine_term(sum: &Affine, i: usize) -> Option<Affine> {
    let (atom, k) = &sum.terms[i];
    let other = match atom.op() {
        Op::FloorDiv => scaled_quotient(atom, *k)?,
        Op::FloorMod => scaled_remainder(atom, *k)?,
        _ => return None,
    };
    let better = sum.plus(&Affine::atom(atom.clone()), -k)?.plus(&other, 1)?;
    (cost(&better) < cost(sum)).then_some(better)
}

/// Divisions, then terms.
fn cost(sum: &Affine) -> (usize, usize) {
    let is_division = |a: &UOp| matches!(a.op(), Op::FloorDiv | Op::FloorMod);
    (sum.terms.iter().filter(|(a, _)| is_division(a)).count(), sum.terms.len())
}

/// `m*c * (x // c)  =  m*x - m*(x % c)`.
fn scaled_quotient(atom: &UOp, k: i64) -> Option<Affine> {
    let (x, c) = by_constant(atom, Op::FloorDiv)?;
    let m = exact_div(k, c)?;
    let x = Affine::of(x)?;
    x.scaled(m)?.plus(&remainder(&x, c)?, m.checked_neg()?)
}

/// `m*c * ((z + x // c) % d)  =  m * ((c*z + x) % (c*d)) - m * (x % c)`.
fn scaled_remainder(atom: &UOp, k: i64) -> Option<Affine> {
    let (dividend, d) = by_constant(atom, Op::FloorMod)?;
    let dividend = Affine::of(dividend)?;
    dividend.terms.iter().filter(|(_, one)| *one == 1).find_map(|(inner, _)| {
        let (x, c) = by_constant(inner, Op::FloorDiv)?;
        let m = exact_div(k, c)?;
        let (x, z) = (Affine::of(x)?, dividend.plus(&Affine::atom(inner.clone()), -1)?);
        let joined = remainder(&x.plus(&z, c)?, c.checked_mul(d)?)?;
        joined.scaled(m)?.plus(&remainder(&x, c)?, m.checked_neg()?)
    })
}

fn exact_div(k: i64, c: i64) -> Option<i64> {
    (k % c == 0).then_some(k / c)
}
