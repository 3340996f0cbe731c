//! Sums of index terms: `coefficient * atom + .. + constant`, the normal form of exact integer arithmetic.
//!
//! Every function is a function of the value alone, so that building a form back into nodes and reading it again
//! gives the same form: the index rules terminate because of that. Arithmetic is checked; `None` is "out of i64" or
//! "too many terms", and then the rule does not apply.

use crate::arg::Arg;
use crate::dtype::DType;
use crate::op::Op;
use crate::uop::UOp;
use smallvec::{SmallVec, smallvec};

/// Sums of more terms than this stay as they are: it keeps normalizing a chain of `n` sums linear in `n`. An index
/// has a few terms per axis.
const MAX_TERMS: usize = 64;

/// A term: an index node that is neither a sum nor a product with a constant, and its coefficient, which is not 0.
pub(super) type Term = (UOp, i64);

/// A sum of terms with different atoms, and a constant.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Linear {
    pub(super) terms: SmallVec<[Term; 8]>,
    pub(super) constant: i64,
}

impl Linear {
    /// One node, not looked into.
    pub(super) fn atom(node: UOp) -> Linear {
        Linear { terms: smallvec![(node, 1)], constant: 0 }
    }

    /// Flattens sums, differences and products with constants.
    pub(super) fn of(node: &UOp) -> Option<Linear> {
        let mut sum = Linear::default();
        let mut todo: SmallVec<[(&UOp, i64); 16]> = smallvec![(node, 1)];
        let mut visits = 0;
        while let Some((node, k)) = todo.pop() {
            visits += 1;
            if visits > 4 * MAX_TERMS {
                return None;
            }
            match (node.op(), scale_of(node)) {
                (Op::Add, _) => todo.extend([(node.src(0), k), (node.src(1), k)]),
                (Op::Sub, _) => {
                    todo.extend([(node.src(0), k), (node.src(1), k.checked_neg()?)]);
                }
                (Op::Neg, _) => todo.push((node.src(0), k.checked_neg()?)),
                (Op::Mul, Some(c)) => todo.push((node.src(0), k.checked_mul(c)?)),
                _ if node.min() == node.max() => sum.shift(k.checked_mul(node.min())?)?,
                _ => sum.push(node, k)?,
            }
        }
        sum.terms.sort_by_key(|(atom, _)| place(atom));
        Some(sum)
    }

    fn shift(&mut self, by: i64) -> Option<()> {
        self.constant = self.constant.checked_add(by)?;
        Some(())
    }

    fn push(&mut self, atom: &UOp, k: i64) -> Option<()> {
        match self.terms.iter().position(|(a, _)| a == atom) {
            Some(i) => {
                self.terms[i].1 = self.terms[i].1.checked_add(k)?;
                if self.terms[i].1 == 0 {
                    self.terms.remove(i);
                }
            }
            None if k == 0 => {}
            None if self.terms.len() == MAX_TERMS => return None,
            None => self.terms.push((atom.clone(), k)),
        }
        Some(())
    }

    /// `self + k * other`.
    pub(super) fn plus(&self, other: &Linear, k: i64) -> Option<Linear> {
        let mut sum = self.clone();
        sum.shift(other.constant.checked_mul(k)?)?;
        for (atom, c) in &other.terms {
            sum.push(atom, c.checked_mul(k)?)?;
        }
        sum.terms.sort_by_key(|(atom, _)| place(atom));
        Some(sum)
    }

    /// `self + by`.
    pub(super) fn shifted(mut self, by: i64) -> Option<Linear> {
        self.shift(by)?;
        Some(self)
    }

    /// `self * k`.
    pub(super) fn scaled(&self, k: i64) -> Option<Linear> {
        Linear::default().plus(self, k)
    }

    /// The sum as nodes: outer ranges first, the constant last.
    pub(super) fn to_uop(&self) -> UOp {
        let term = |(atom, k): &Term| if *k == 1 { atom.clone() } else { atom * *k };
        match self.terms.iter().map(term).reduce(|a, b| a + b) {
            None => UOp::index(self.constant),
            Some(sum) if self.constant == 0 => sum,
            Some(sum) => sum + self.constant,
        }
    }

    /// Whether `node` is what [`Linear::to_uop`] builds, found out without building it.
    pub(super) fn is_built(&self, mut node: &UOp) -> bool {
        let Some((first, others)) = self.terms.split_first() else {
            return node.as_int() == Some(self.constant);
        };
        if self.constant != 0 {
            if node.op() != Op::Add || node.src(1).as_int() != Some(self.constant) {
                return false;
            }
            node = node.src(0);
        }
        for term in others.iter().rev() {
            if node.op() != Op::Add || !node.is_in_order() {
                return false;
            }
            node = match (node.src(0), node.src(1)) {
                (rest, last) if is_term(last, term) => rest,
                (last, rest) if is_term(last, term) => rest,
                _ => return false,
            };
        }
        is_term(node, first)
    }

    /// The smallest and largest value; `None` where an atom is unbounded.
    pub(super) fn bounds(&self) -> Option<(i64, i64)> {
        let (mut lo, mut hi) = (self.constant, self.constant);
        for (atom, k) in &self.terms {
            if atom.min() == i64::MIN || atom.max() == i64::MAX {
                return None;
            }
            let (a, b) = (atom.min().checked_mul(*k)?, atom.max().checked_mul(*k)?);
            lo = lo.checked_add(a.min(b))?;
            hi = hi.checked_add(a.max(b))?;
        }
        Some((lo, hi))
    }

    /// The parts whose coefficient does and does not satisfy `first`; the constant goes to the second.
    pub(super) fn partition(&self, first: impl Fn(i64) -> bool) -> (Linear, Linear) {
        let (terms, rest) = self.terms.iter().cloned().partition(|(_, k)| first(*k));
        (Linear { terms, constant: 0 }, Linear { terms: rest, constant: self.constant })
    }

    /// Every coefficient and the constant divided by `c`, which divides them.
    pub(super) fn divided(&self, c: i64) -> Linear {
        let terms = self.terms.iter().map(|(atom, k)| (atom.clone(), k / c)).collect();
        Linear { terms, constant: self.constant / c }
    }

    /// `g * quotient + rest` with `0 <= rest < g`, where that can be shown from bounds: the terms whose coefficients
    /// `g` divides, and the rest moved into place by a multiple of `g`.
    pub(super) fn split_by(&self, g: i64) -> Option<(Linear, Linear)> {
        let (multiples, rest) = self.partition(|k| k % g == 0);
        let (lo, hi) = rest.bounds()?;
        let t = lo.div_euclid(g);
        if hi.div_euclid(g) != t {
            return None;
        }
        Some((multiples.divided(g).shifted(t)?, rest.shifted(t.checked_mul(-g)?)?))
    }

    /// The only atom, where the sum is nothing else but a constant.
    pub(super) fn as_single(&self) -> Option<&UOp> {
        match self.terms.as_slice() {
            [(atom, 1)] => Some(atom),
            _ => None,
        }
    }
}

/// Whether `node` is what [`Linear::to_uop`] makes of a term.
fn is_term(node: &UOp, (atom, k): &Term) -> bool {
    match k {
        1 => node == atom,
        _ => node.op() == Op::Mul && node.src(0) == atom && node.src(1).as_int() == Some(*k),
    }
}

/// `c` of a product `x * c`, where it is not folded already.
fn scale_of(node: &UOp) -> Option<i64> {
    if node.op() == Op::Mul { node.src(1).as_int() } else { None }
}

/// The order of terms: ranges from the outermost on, then everything else by content.
fn place(atom: &UOp) -> (u8, u32, u128) {
    match (atom.op(), atom.arg()) {
        (Op::Range, Arg::Range { axis, .. }) => (0, *axis, atom.hash()),
        _ => (1, 0, atom.hash()),
    }
}

/// Whether the index rules apply: scalars of exact arithmetic.
pub(super) fn is_index(node: &UOp) -> bool {
    node.dtype() == DType::Index && node.lanes() == 1
}

/// The greatest common divisor of magnitudes.
pub(super) fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}
