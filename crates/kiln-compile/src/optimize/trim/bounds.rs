//! Part of pass `trim`: computes from a predicate which iterations of a loop can make it true. `i + j < 8` gives `j < 8
//! - i`.

use super::super::ranges::{axis_of, is_outer, kind_of};
use kiln_ir::affine::Affine;
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// What predicates of a value say about a loop.
#[derive(Default)]
pub(super) struct Bounds {
    pub(super) limits: Vec<Limit>,
    /// Comparisons that do not depend on the loop.
    pub(super) outside: Vec<Outside>,
    /// Whether an iteration counts if it does for any iteration of a loop inside.
    any_inside: bool,
}

/// A comparison that does not depend on a loop.
pub(super) struct Outside {
    pub(super) comparison: UOp,
    /// The result that it must have.
    pub(super) holds: bool,
    /// Whether it has that for any lane or unrolled copy; without such, the comparison itself.
    pub(super) any: UOp,
    pub(super) is_exact: bool,
}

/// What a comparison says about a loop.
pub(super) struct Limit {
    pub(super) comparison: UOp,
    /// The result that it must have.
    pub(super) holds: bool,
    /// Whether it bounds the start of the loop, or its end.
    pub(super) is_low: bool,
    /// The bound beyond which no lane or unrolled copy counts, and the bound up to which all of them do.
    pub(super) some: UOp,
    pub(super) all: UOp,
    /// How many iterations are between the two, at most.
    pub(super) between: i64,
}

impl Bounds {
    /// The predicates that must be true for `value` not to be `nothing`.
    pub(super) fn of(value: &UOp, nothing: &UOp, range: &UOp) -> Bounds {
        let mut bounds = Bounds::default();
        bounds.learn(conditions(value, nothing), range);
        bounds
    }

    /// Of a predicate that may be true in any iteration of the loops inside: of blocks of rows, and rows in them.
    pub(super) fn of_any_inside(predicate: &UOp, range: &UOp) -> Bounds {
        let mut bounds = Bounds { any_inside: true, ..Bounds::default() };
        bounds.learn(vec![predicate.clone()], range);
        bounds
    }

    /// Adds predicates that must all be true.
    pub(super) fn learn(&mut self, mut conditions: Vec<UOp>, range: &UOp) {
        while let Some(condition) = conditions.pop() {
            match condition.op() {
                Op::And => conditions.extend(condition.srcs().iter().cloned()),
                Op::CmpLt => self.add(&condition, true, range),
                Op::Not if condition.src(0).op() == Op::CmpLt => {
                    self.add(condition.src(0), false, range);
                }
                _ => {}
            }
        }
    }

    /// The start of the loop that includes all iterations that count.
    pub(super) fn low(&self) -> UOp {
        let lows = self.limits.iter().filter(|l| l.is_low);
        lows.fold(UOp::index(0), |a, l| a.maximum(&l.some))
    }

    /// The same for its end, at most the end of `range`.
    pub(super) fn high(&self, range: &UOp) -> UOp {
        let highs = self.limits.iter().filter(|l| !l.is_low);
        highs.fold(range.src(0).clone(), |a, l| a.minimum(&l.some))
    }

    /// The known results of comparisons that are equal for all lanes and unrolled copies, between low and high.
    pub(super) fn known(&self) -> FxHashMap<UOp, UOp> {
        let exact = self.limits.iter().filter(|l| l.between == 0);
        exact.map(|l| (l.comparison.clone(), UOp::bool(l.holds))).collect()
    }

    /// Learns from `a < b` having to be true, or false: that `step * range + rest < 0`, or not.
    fn add(&mut self, comparison: &UOp, holds: bool, range: &UOp) {
        let Some(difference) = Difference::of(comparison, range, self.any_inside) else { return };
        let (some, all) = (difference.rest(holds), difference.rest(!holds));
        let step = difference.step;
        if step == 0 {
            let less = some.lt(&UOp::index(0));
            let any = if holds { less } else { less.not() };
            let (comparison, is_exact) = (comparison.clone(), difference.inside.is_empty());
            self.outside.push(Outside { comparison, holds, any, is_exact });
            return;
        }
        let is_low = (step > 0) != holds;
        // the last iteration before the bound is the last in which the difference is still on one side of zero
        let bound = |rest: UOp| match step > 0 {
            true => (rest * -1 + (step - 1)).floordiv(&UOp::index(step)),
            false => rest.floordiv(&UOp::index(-step)) + 1,
        };
        let between = difference.spread() / step.abs() + 1;
        let between = if difference.inside.is_empty() { 0 } else { between };
        let (comparison, some, all) = (comparison.clone(), bound(some), bound(all));
        self.limits.push(Limit { comparison, holds, is_low, some, all, between });
    }
}

/// Whether an index varies only over loops around that of `range`, and reads no memory.
fn is_known_before(index: &UOp, range: &UOp) -> bool {
    toposort(index).iter().all(|n| match n.op() {
        Op::Range => axis_of(n) < axis_of(range) && is_outer(n),
        op => op.is_alu() || matches!(op, Op::Const | Op::Var),
    })
}

/// The conditions without which `value` is `nothing`.
pub(super) fn conditions(mut value: &UOp, nothing: &UOp) -> Vec<UOp> {
    let mut conditions = Vec::new();
    while value.op() == Op::Where && value.src(2) == nothing {
        conditions.push(value.src(0).clone());
        value = value.src(1);
    }
    conditions
}

/// The difference of the sides of a comparison: `step * range`, and a rest over loops around it and over ranges inside,
/// which will be unrolled or vectorized, or are loops.
#[derive(Default)]
struct Difference {
    step: i64,
    around: Vec<UOp>,
    inside: Vec<(UOp, i64)>,
    /// How far from zero it may be, at most.
    reach: i64,
}

/// A difference that may be larger is left alone, so that arithmetic on it cannot wrap.
const FARTHEST: i64 = i64::MAX / 64;

impl Difference {
    /// None if it depends on anything else.
    fn of(less: &UOp, range: &UOp, with_loops: bool) -> Option<Difference> {
        let sum = Affine::of(less.src(0))?.plus(&Affine::of(less.src(1))?, -1)?;
        let mut difference = Difference::default();
        difference.reaches(&UOp::index(sum.constant), 1)?;
        for (x, factor) in sum.terms {
            match x.op() {
                Op::Range => difference.varies(x, factor, range, with_loops)?,
                _ if is_known_before(&x, range) => difference.around.push(&x * factor),
                _ => return None,
            }
        }
        // after the loops, as everywhere
        difference.around.push(UOp::index(sum.constant));
        Some(difference)
    }

    /// Adds the term of a loop. None if that is a loop inside of `range`, unless such loops count.
    fn varies(&mut self, x: UOp, factor: i64, range: &UOp, with_loops: bool) -> Option<()> {
        self.reaches(&x, factor)?;
        match () {
            () if x == *range => self.step += factor,
            () if kind_of(&x).is_expanded() => self.inside.push((x, factor)),
            () if axis_of(&x) < axis_of(range) && is_outer(&x) => self.around.push(&x * factor),
            () if with_loops && kind_of(&x) == RangeKind::Loop => self.inside.push((x, factor)),
            () => return None,
        }
        Some(())
    }

    /// Adds `x * factor`; none if the result may be too large.
    fn reaches(&mut self, x: &UOp, factor: i64) -> Option<()> {
        // one iteration more for a loop: its end is computed, too
        let most = x.min().checked_abs()?.max(x.max().checked_abs()?).checked_add(1)?;
        let more = most.checked_mul(factor.checked_abs()?)?;
        self.reach = self.reach.checked_add(more).filter(|reach| *reach <= FARTHEST)?;
        Some(())
    }

    /// How far the rest may vary over ranges inside.
    fn spread(&self) -> i64 {
        self.inside.iter().map(|(range, factor)| factor.abs() * range.max()).sum()
    }

    /// The least, or the largest, value of the rest over ranges inside.
    fn rest(&self, least: bool) -> UOp {
        let extreme = |(range, factor): &(UOp, i64)| {
            let at_zero = (*factor > 0) == least;
            UOp::index(if at_zero { 0 } else { factor * range.max() })
        };
        let all = self.around.iter().cloned().chain(self.inside.iter().map(extreme));
        all.fold(UOp::index(0), |a, b| a + b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::DType;

    #[test]
    fn conditions_near_the_ends_of_integers_say_nothing() {
        let range = |axis, kind, n| UOp::range(axis, kind, n);
        let around = range(0, RangeKind::Loop, 8);
        let (tile, own) = (range(1, RangeKind::Upcast, 8), range(2, RangeKind::Reduce, 8));
        let nothing = UOp::constant(0, DType::I32);
        let limits = |a: UOp, b: UOp| {
            let value = a.lt(&b).where_(&UOp::constant(1, DType::I32), &nothing);
            Bounds::of(&value, &nothing, &own).limits.len()
        };
        assert_eq!(limits(&own + &tile, &around + 5), 1);
        for far in [1 << 58, 1 << 60, 1 << 62, i64::MAX] {
            assert_eq!(limits(own.clone(), UOp::index(far)), 0, "{far}");
            assert_eq!(limits(own.clone(), UOp::index(-far)), 0, "{far}");
            assert_eq!(limits(own.clone(), &around + (far - 100)), 0, "{far}");
            for step in [&around, &tile, &own] {
                assert_eq!(limits(&own + step * (far / 8), UOp::index(5)), 0, "{far} {step:?}");
            }
        }
    }
}
