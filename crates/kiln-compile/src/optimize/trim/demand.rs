//! Part of pass `trim`: how far a loop that fills scratch is read.
//!
//! A general kernel stages up to 100 blocks of rows, of which a launch needs `n`. The loop that reads the panel has been
//! trimmed to `n`. The panel is row-major: block `b` is what is written for `b` and nothing else. So the loop that fills it
//! needs as many iterations as it takes to come to the last position that is read. The reader may go in other steps: where 16
//! lanes fill and single elements are read, up to element `n`, the loop that fills runs `(n + 15) / 16` times.
//!
//! A panel may have two blocks of rows, and a launch may need one and a half of them. Then the end of the reader's loop over rows
//! depends on its loop over blocks. The loop that fills has the same end, with its own loop over blocks.

use super::super::ranges::{axis_of, is_outer, kind_of};
use super::ends::Ends;
use kiln_ir::affine::{Affine, Term};
use kiln_ir::arg::RangeKind;
use kiln_ir::rules::simplify;
use kiln_ir::scope::inside;
use kiln_ir::uop::{find_all, substitute, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// How many iterations of `range` store something to scratch, at `end`, for a later read. None if the loop cannot know that number
/// when it starts.
pub(super) fn read_of(ast: &UOp, end: &UOp, range: &UOp, ends: &Ends) -> Option<UOp> {
    let store = end.src(0);
    let own = Affine::of(store.src(1))?;
    let digit = Digit { unit: own.coefficient(range), count: range.max().checked_add(1)? };
    if digit.unit < 1 || digit.of(&own)? != *range {
        return None;
    }
    let memory = store.memory();
    let reads = find_all(ast, |n| n.op() == Op::Load && n.memory() == memory);
    let positions = reads.iter().map(|read| Affine::of(read.src(1)));
    let mut positions: Vec<Affine> = positions.collect::<Option<_>>()?;
    // a sum that is carried in scratch reads there what the same iteration stores
    positions.retain(|position| *position != own);
    // the remainder of a loop begins where its whole vectors end, which no loop counts
    let is_known = |number: &UOp| is_known_at(number, end, range);
    let counts = positions.iter().map(|position| {
        let same = digit.same_above(position, &own);
        digit.reached(position, |atom| match atom.op() {
            Op::Range if !ends.ranges.contains(atom) => None,
            Op::Range => Some(at_most(&renamed(atom.src(0), &same), &is_known)? - 1),
            _ => is_known(atom).then(|| atom.clone()),
        })
    });
    let counts: Vec<UOp> = counts.collect::<Option<_>>()?;
    counts.into_iter().reduce(|a, b| if a == b { a } else { a.maximum(&b) })
}

/// A known upper bound of a number. Example: a loop reads `max(where(row < n, m, 0), 0)` elements, and `row` is not known yet. The
/// bound is `max(m, 0)`.
fn at_most(number: &UOp, is_known: &impl Fn(&UOp) -> bool) -> Option<UOp> {
    if is_known(number) {
        return Some(number.clone());
    }
    let either = match number.op() {
        Op::Where => &number.srcs()[1..],
        Op::Max => number.srcs(),
        _ => return None,
    };
    let [a, b] = [&either[0], &either[1]].map(|n| at_most(n, is_known));
    Some(a?.maximum(&b?))
}

/// A number with other loops in it.
fn renamed(number: &UOp, loops: &FxHashMap<UOp, UOp>) -> UOp {
    substitute(std::slice::from_ref(number), loops).remove(0)
}

/// A digit of a position that is written with several bases: its unit, and how many values it has.
struct Digit {
    unit: i64,
    count: i64,
}

impl Digit {
    /// The range that is this digit of a position. None if anything else may change it.
    fn of(&self, position: &Affine) -> Option<UOp> {
        let all = self.unit.checked_mul(self.count)?;
        let mut lower = position.constant;
        let mut own = None;
        for (atom, factor) in &position.terms {
            if atom.min() < 0 || *factor < 0 {
                return None;
            }
            match *factor {
                f if f % all == 0 => {}
                f if f == self.unit && own.is_none() && atom.max() < self.count => own = Some(atom),
                f if f < self.unit => lower = lower.checked_add(f.checked_mul(atom.max())?)?,
                _ => return None,
            }
        }
        let own = own.filter(|own| own.op() == Op::Range && (0..self.unit).contains(&lower))?;
        let varies = |atom: &UOp| atom.op() != Op::Range && atom.scope().contains(axis_of(own));
        (!position.terms.iter().any(|(atom, _)| varies(atom))).then(|| own.clone())
    }

    /// Pairs of loops: one around the read, and one around the store with the same digit above this one. An element is read where it was
    /// stored, so both have the same value there. Example: the loops over blocks of rows of a panel.
    fn same_above(&self, read: &Affine, store: &Affine) -> FxHashMap<UOp, UOp> {
        let both = self.above(read).zip(self.above(store));
        let units = |digits: &[Term]| digits.iter().map(|(_, unit)| *unit).collect::<Vec<_>>();
        let (read, store) = both.filter(|(a, b)| units(a) == units(b)).unwrap_or_default();
        read.into_iter().zip(store).map(|((read, _), (store, _))| (read, store)).collect()
    }

    /// The digits above this one, lowest first, with their units. None if another term may reach them, or they each other.
    fn above(&self, position: &Affine) -> Option<Vec<Term>> {
        let all = self.unit.checked_mul(self.count)?;
        let (mut above, below): (Vec<Term>, Vec<Term>) =
            position.terms.iter().cloned().partition(|(_, unit)| unit % all == 0);
        above.sort_by_key(|(_, unit)| *unit);
        let mut reach = most(&below, position.constant)?;
        for digit in &above {
            if digit.0.op() != Op::Range || reach >= digit.1 {
                return None;
            }
            reach = most([digit], reach)?;
        }
        Some(above)
    }

    /// How many values of this digit come before that of the last position, and that: all of them if the position may reach
    /// beyond the digit. None if `last` does not know the last value of a loop, or of what else the position depends on.
    fn reached(&self, position: &Affine, last: impl Fn(&UOp) -> Option<UOp>) -> Option<UOp> {
        let all = self.unit.checked_mul(self.count)?;
        let below =
            |limit: i64| position.terms.iter().filter(move |(_, f)| f % all != 0 && *f < limit);
        let furthest = most(below(i64::MAX), position.constant)?;
        // digits that carry nothing do not count
        let carries = most(below(self.unit), position.constant % self.unit)? >= self.unit;
        let mut reach = UOp::index(position.constant);
        for (atom, factor) in below(i64::MAX).filter(|(_, f)| carries || *f >= self.unit) {
            reach = reach + last(atom)? * *factor;
        }
        let values = (reach + self.unit).floordiv(&UOp::index(self.unit)).maximum(&UOp::index(0));
        match furthest {
            most if most < all => Some(simplify(&values)),
            most if most < i32::MAX.into() => {
                Some(simplify(&values.minimum(&UOp::index(self.count))))
            }
            _ => None,
        }
    }
}

/// The largest sum of a constant and terms. None if one of them may be negative.
fn most<'a>(terms: impl IntoIterator<Item = &'a Term>, constant: i64) -> Option<i64> {
    let mut most = Some(constant).filter(|&constant| constant >= 0)?;
    for (atom, factor) in terms {
        if *factor < 0 || atom.min() < 0 {
            return None;
        }
        most = most.checked_add(factor.checked_mul(atom.max())?)?;
    }
    Some(most)
}

/// Whether a number is known where the loop of `range` starts: it depends on loops around that, and reads no memory. It is the
/// same for all work-items of a group, which read what others have stored.
fn is_known_at(number: &UOp, end: &UOp, range: &UOp) -> bool {
    let around = inside(end.src(0));
    toposort(number).iter().all(|n| match n.op() {
        Op::Range => {
            is_outer(n)
                && kind_of(n) != RangeKind::Local
                && axis_of(n) < axis_of(range)
                && around.contains(axis_of(n))
        }
        op => op.is_alu() || matches!(op, Op::Const | Op::Var),
    })
}
