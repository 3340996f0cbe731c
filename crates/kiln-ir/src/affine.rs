//! Affine forms: `coefficient * atom + .. + constant`, the normal form of exact integer arithmetic.
//!
//! Every function is a function of the value alone, so that building a form back into nodes and reading it again
//! gives the same form: the index rules terminate because of that. Arithmetic is checked; `None` is "out of i64" or
//! "too many terms", and then the rule does not apply.
//!
//! An atom is a loop variable, or a node that is neither a sum nor a product with a constant: `i * 8 + j / 2 + 3` has the
//! atoms `i` and `j / 2`.

use crate::arg::Arg;
use crate::dtype::DType;
use crate::op::Op;
use crate::uop::{UOp, axis_of, toposort, toposort_all};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::slice::from_ref;

/// Sums of more terms than this stay as they are: it keeps normalizing a chain of `n` sums linear in `n`. An index
/// has a few terms per axis.
const MAX_TERMS: usize = 64;

/// An atom, and its coefficient, which is not 0.
pub type Term = (UOp, i64);

/// A sum of terms with different atoms, and a constant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Affine {
    /// Loop variables come first, those of outer loops before those of inner ones.
    pub terms: SmallVec<[Term; 8]>,
    /// The value where every atom is 0.
    pub constant: i64,
}

impl Affine {
    /// One node, not looked into.
    pub fn atom(node: UOp) -> Affine {
        Affine { terms: smallvec![(node, 1)], constant: 0 }
    }

    /// Flattens sums, differences and products with constants.
    ///
    /// ```
    /// use kiln_ir::arg::RangeKind::Loop;
    /// use kiln_ir::{UOp, affine::Affine};
    ///
    /// let (i, j) = (UOp::range(0, Loop, 4), UOp::range(1, Loop, 8));
    /// let index = Affine::of(&(&i * 8 + &j + 3)).expect("few terms");
    /// assert_eq!((index.coefficient(&i), index.constant), (8, 3));
    /// ```
    pub fn of(node: &UOp) -> Option<Affine> {
        let mut sum = Affine::default();
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

    /// Multiplies out products of sums, too. Atoms may then be products, each with its factors in one order.
    ///
    /// ```
    /// use kiln_ir::arg::RangeKind::Loop;
    /// use kiln_ir::{DType, UOp, affine::Affine};
    ///
    /// let (h, l, n) = (UOp::range(0, Loop, 12), UOp::range(1, Loop, 32), UOp::var(0, DType::Index, 1, 100));
    /// let index = (&h * 32 + &l) * &n + (&n * -1 + 1) * &l;
    /// let form = Affine::multiplied_out(&index).expect("few terms");
    /// assert_eq!((form.coefficient(&l), form.terms.len()), (1, 2));
    /// ```
    pub fn multiplied_out(node: &UOp) -> Option<Affine> {
        let enter = |n: &UOp| matches!(n.op(), Op::Add | Op::Sub | Op::Neg | Op::Mul);
        let mut forms: FxHashMap<UOp, Affine> = FxHashMap::default();
        for n in toposort_all(from_ref(node), enter) {
            let src = |i: usize| &forms[n.src(i)];
            let form = match n.op() {
                Op::Add => src(0).plus(src(1), 1)?,
                Op::Sub => src(0).plus(src(1), -1)?,
                Op::Neg => src(0).scaled(-1)?,
                Op::Mul => src(0).times(src(1))?,
                _ => Affine::of(&n)?,
            };
            forms.insert(n, form);
        }
        forms.remove(node)
    }

    /// `self * other`.
    fn times(&self, other: &Affine) -> Option<Affine> {
        let mut sum = self.scaled(other.constant)?;
        for (atom, k) in &other.terms {
            sum = sum.plus(&Affine::atom(atom.clone()), k.checked_mul(self.constant)?)?;
            for (factor, c) in &self.terms {
                let product = Affine::atom(product(factor, atom));
                sum = sum.plus(&product, k.checked_mul(*c)?)?;
            }
        }
        Some(sum)
    }

    /// The factor of an atom; 0 if it has no term.
    pub fn coefficient(&self, atom: &UOp) -> i64 {
        self.terms.iter().find(|(a, _)| a == atom).map_or(0, |(_, k)| *k)
    }

    /// Whether every atom is a loop variable.
    pub fn is_of_loops(&self) -> bool {
        self.terms.iter().all(|(atom, _)| atom.op() == Op::Range)
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
    pub fn plus(&self, other: &Affine, k: i64) -> Option<Affine> {
        let mut sum = self.clone();
        sum.shift(other.constant.checked_mul(k)?)?;
        for (atom, c) in &other.terms {
            sum.push(atom, c.checked_mul(k)?)?;
        }
        sum.terms.sort_by_key(|(atom, _)| place(atom));
        Some(sum)
    }

    /// `self + by`.
    pub(crate) fn shifted(mut self, by: i64) -> Option<Affine> {
        self.shift(by)?;
        Some(self)
    }

    /// `self * k`.
    pub(crate) fn scaled(&self, k: i64) -> Option<Affine> {
        Affine::default().plus(self, k)
    }

    /// The sum as nodes: outer ranges first, the constant last.
    pub fn to_uop(&self) -> UOp {
        let term = |(atom, k): &Term| if *k == 1 { atom.clone() } else { atom * *k };
        match self.terms.iter().map(term).reduce(|a, b| a + b) {
            None => UOp::index(self.constant),
            Some(sum) if self.constant == 0 => sum,
            Some(sum) => sum + self.constant,
        }
    }

    /// Whether `node` is what [`Affine::to_uop`] builds, found out without building it.
    pub(crate) fn is_built(&self, mut node: &UOp) -> bool {
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
    pub fn bounds(&self) -> Option<(i64, i64)> {
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
    pub(crate) fn partition(&self, first: impl Fn(i64) -> bool) -> (Affine, Affine) {
        let (terms, rest) = self.terms.iter().cloned().partition(|(_, k)| first(*k));
        (Affine { terms, constant: 0 }, Affine { terms: rest, constant: self.constant })
    }

    /// Every coefficient and the constant divided by `c`, which divides them.
    pub(crate) fn divided(&self, c: i64) -> Affine {
        let terms = self.terms.iter().map(|(atom, k)| (atom.clone(), k / c)).collect();
        Affine { terms, constant: self.constant / c }
    }

    /// `g * quotient + rest` with `0 <= rest < g`, where that can be shown from bounds: the terms whose coefficients
    /// `g` divides, and the rest moved into place by a multiple of `g`.
    pub(crate) fn split_by(&self, g: i64) -> Option<(Affine, Affine)> {
        let (multiples, rest) = self.partition(|k| k % g == 0);
        let (lo, hi) = rest.bounds()?;
        let t = lo.div_euclid(g);
        if hi.div_euclid(g) != t {
            return None;
        }
        Some((multiples.divided(g).shifted(t)?, rest.shifted(t.checked_mul(-g)?)?))
    }

    /// The only atom, where the sum is nothing else but a constant.
    pub(crate) fn as_single(&self) -> Option<&UOp> {
        match self.terms.as_slice() {
            [(atom, 1)] => Some(atom),
            _ => None,
        }
    }
}

/// The product of atoms that may be products, with all factors in the order of terms.
fn product(a: &UOp, b: &UOp) -> UOp {
    let mut all = factors(a);
    all.extend(factors(b));
    all.sort_by_key(place);
    all.into_iter().reduce(|a, b| a * b).expect("two atoms")
}

/// The factors of a product; of any other node, itself.
///
/// ```
/// use kiln_ir::{DType, UOp, affine::factors};
///
/// let [n, m] = [0, 1].map(|slot| UOp::var(slot, DType::Index, 1, 100));
/// assert_eq!(factors(&(&n * &m * &n)).len(), 3);
/// ```
pub fn factors(node: &UOp) -> SmallVec<[UOp; 4]> {
    let mut factors: SmallVec<[UOp; 4]> = SmallVec::new();
    let mut todo: SmallVec<[&UOp; 4]> = smallvec![node];
    while let Some(node) = todo.pop() {
        match node.op() {
            Op::Mul => todo.extend(node.srcs()),
            _ => factors.push(node.clone()),
        }
    }
    factors
}

/// Whether `node` is what [`Affine::to_uop`] makes of a term.
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
pub(crate) fn is_index(node: &UOp) -> bool {
    node.dtype() == DType::Index && node.lanes() == 1
}

/// How far an index moves with each iteration of each loop, by axis; loops that it does not vary over are left out. `None`
/// where a loop moves it unevenly, as in `i / 2`.
pub fn strides(index: &UOp) -> FxHashMap<u32, Option<i64>> {
    let affine = Affine::of(index).unwrap_or_else(|| Affine::atom(index.clone()));
    let (loops, others): (Vec<_>, Vec<_>) =
        affine.terms.into_iter().partition(|(atom, _)| atom.op() == Op::Range);
    let mut strides: FxHashMap<u32, Option<i64>> =
        loops.iter().map(|(range, k)| (axis_of(range), Some(*k))).collect();
    for (atom, _) in &others {
        let ranges = toposort(atom).into_iter().filter(|n| n.op() == Op::Range);
        ranges.for_each(|r| _ = strides.insert(axis_of(&r), None));
    }
    strides
}

/// The greatest common divisor; of 0 and `b`, `b`.
pub fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The greatest common divisor of magnitudes; 1 where that leaves `i64`.
pub(crate) fn common_factor(a: i64, b: i64) -> i64 {
    i64::try_from(gcd(a.unsigned_abs(), b.unsigned_abs())).unwrap_or(1)
}
