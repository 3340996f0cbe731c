//! Part of pass `trim`: how far a loop that fills scratch is read.
//!
//! A general kernel stages up to 100 blocks of rows, of which a launch needs `n`. The loop that reads the panel has been
//! trimmed to `n`. The panel is row-major: block `b` is what is written for `b` and nothing else. So the loop that fills it
//! needs as many iterations as it takes to come to the last position that is read. The reader may go in other steps: where 16
//! lanes fill and single elements are read, up to element `n`, the loop that fills runs `(n + 15) / 16` times.

use super::super::ranges::{axis_of, is_outer, kind_of};
use super::ends::Ends;
use kiln_ir::affine::Affine;
use kiln_ir::arg::RangeKind;
use kiln_ir::rules::simplify;
use kiln_ir::scope::inside;
use kiln_ir::uop::{find_all, toposort};
use kiln_ir::{Op, UOp};

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
    let last = |atom: &UOp| match atom.op() {
        Op::Range if !ends.ranges.contains(atom) => None,
        Op::Range => Some(at_most(atom.src(0), is_known)? - 1),
        _ => is_known(atom).then(|| atom.clone()),
    };
    let counts = positions.iter().map(|position| digit.reached(position, last));
    let counts: Vec<UOp> = counts.collect::<Option<_>>()?;
    counts.into_iter().reduce(|a, b| if a == b { a } else { a.maximum(&b) })
}

/// A known upper bound of a number. Example: a loop reads `where(row < n, m, 0)` elements, and `row` is not known yet. The bound
/// is `max(m, 0)`.
fn at_most(number: &UOp, is_known: impl Fn(&UOp) -> bool) -> Option<UOp> {
    if is_known(number) {
        return Some(number.clone());
    }
    let either = (number.op() == Op::Where).then(|| &number.srcs()[1..])?;
    either.iter().all(&is_known).then(|| either[0].maximum(&either[1]))
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
            if atom.op() != Op::Range || *factor < 0 {
                return None;
            }
            match *factor {
                f if f % all == 0 => {}
                f if f == self.unit && own.is_none() && atom.max() < self.count => own = Some(atom),
                f if f < self.unit => lower = lower.checked_add(f.checked_mul(atom.max())?)?,
                _ => return None,
            }
        }
        own.filter(|_| (0..self.unit).contains(&lower)).cloned()
    }

    /// How many values of this digit come before that of the last position, and that: all of them if the position may reach
    /// beyond the digit. None if `last` does not know the last value of a loop, or of what else the position depends on.
    fn reached(&self, position: &Affine, last: impl Fn(&UOp) -> Option<UOp>) -> Option<UOp> {
        let all = self.unit.checked_mul(self.count)?;
        let (mut most, mut reach) = (position.constant, UOp::index(position.constant));
        for (atom, factor) in &position.terms {
            if *factor < 0 || most < 0 || atom.min() < 0 {
                return None;
            }
            if factor % all != 0 {
                most = most.checked_add(factor.checked_mul(atom.max())?)?;
                reach = reach + last(atom)? * *factor;
            }
        }
        let values = (reach + self.unit).floordiv(&UOp::index(self.unit)).maximum(&UOp::index(0));
        match most {
            ..0 => None,
            most if most < all => Some(simplify(&values)),
            most if most < i32::MAX.into() => {
                Some(simplify(&values.minimum(&UOp::index(self.count))))
            }
            _ => None,
        }
    }
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
                && !end.srcs()[1..].contains(n)
        }
        op => op.is_alu() || matches!(op, Op::Const | Op::Var),
    })
}
