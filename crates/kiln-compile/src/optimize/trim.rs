//! Loops of sums that skip what is zero: where conditions on the summand say that only some iterations of a loop
//! count, and which these are is known from the loops around it, the loop starts and ends with them.
//!
//! The gradient of a convolution for its input is such a sum: at the borders few windows cover an element.

use super::ranges::{axis_of, is_outer, kind_of, ranges_of, replace_ranges};
use super::stage::substitute;
use kiln_ir::arg::{RangeKind, ReduceOp};
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// The kernel with every loop trimmed that can be.
pub(super) fn trim(ast: &UOp) -> UOp {
    let mut ast = ast.clone();
    for range in ranges_of(&ast) {
        if let Some((reduce, trimmed)) = trimmed(&ast, &range) {
            ast = substitute(&ast, &reduce, &trimmed);
        }
    }
    ast
}

/// A sum over `range`, and the same with fewer iterations.
fn trimmed(ast: &UOp, range: &UOp) -> Option<(UOp, UOp)> {
    if kind_of(range) != RangeKind::Reduce {
        return None;
    }
    let closes = |n: &UOp| matches!(n.op(), Op::Reduce | Op::End) && n.srcs()[1..].contains(range);
    let mut closers = toposort(ast).into_iter().filter(closes);
    let (Some(reduce), None) = (closers.next(), closers.next()) else { return None };
    let Bounds { low, high, holds } = Bounds::of(&reduce, range);
    if low.is_empty() && high.is_empty() {
        return None;
    }
    let low = low.into_iter().fold(UOp::index(0), |a, b| UOp::binary(Op::Max, &a, &b));
    let high = high.into_iter().fold(range.src(0).clone(), |a, b| UOp::binary(Op::Min, &a, &b));
    let count = UOp::binary(Op::Max, &(high - &low), &UOp::index(0));
    let new = UOp::range_to(axis_of(range), RangeKind::Reduce, kiln_ir::rules::simplify(&count));
    let map = FxHashMap::from_iter([(range.clone(), (low + &new, smallvec![new]))]);
    let summand = kiln_ir::uop::substitute(std::slice::from_ref(&reduce), &holds);
    let trimmed = kiln_ir::rules::simplify(&replace_ranges(&summand[0], &map));
    Some((reduce, trimmed))
}

/// What conditions on a summand say about one of its loops.
#[derive(Default)]
struct Bounds {
    /// Iterations before these are zero.
    low: Vec<UOp>,
    /// Iterations from these on are zero.
    high: Vec<UOp>,
    /// What these comparisons give in all iterations between.
    holds: FxHashMap<UOp, UOp>,
}

impl Bounds {
    fn of(reduce: &UOp, range: &UOp) -> Bounds {
        let mut bounds = Bounds::default();
        if reduce.arg().reduce_op() != Some(ReduceOp::Add) {
            return bounds;
        }
        let (mut value, mut conditions) = (reduce.src(0), Vec::new());
        while value.op() == Op::Where && value.src(2).is_const(0) {
            conditions.push(value.src(0).clone());
            value = value.src(1);
        }
        while let Some(condition) = conditions.pop() {
            match condition.op() {
                Op::And => conditions.extend(condition.srcs().iter().cloned()),
                Op::CmpLt => bounds.add(&condition, true, range),
                Op::Not if condition.src(0).op() == Op::CmpLt => {
                    bounds.add(condition.src(0), false, range);
                }
                _ => {}
            }
        }
        bounds
    }

    /// Learns from `a < b` being true, or false.
    fn add(&mut self, less: &UOp, holds: bool, range: &UOp) {
        let Some(difference) = Difference::of(less, range) else { return };
        // `step * range + rest < 0`, or not: in none of what is written out, if not with the least or the most of it
        let rest = difference.rest(holds);
        match (difference.step, holds) {
            (1, true) => self.high.push(rest * -1),
            (1, false) => self.low.push(rest * -1),
            (-1, true) => self.low.push(rest + 1),
            (-1, false) => self.high.push(rest + 1),
            _ => return,
        }
        if difference.written_out.is_empty() {
            self.holds.insert(less.clone(), UOp::bool(holds));
        }
    }
}

/// The difference of the sides of a comparison: `step * range`, and a rest over loops around it and loops that will be
/// written out.
#[derive(Default)]
struct Difference {
    step: i64,
    around: Vec<UOp>,
    written_out: Vec<(UOp, i64)>,
}

impl Difference {
    /// None if it depends on anything else.
    fn of(less: &UOp, range: &UOp) -> Option<Difference> {
        let mut difference = Difference::default();
        let mut stack = vec![(less.src(0).clone(), 1i64), (less.src(1).clone(), -1i64)];
        while let Some((x, factor)) = stack.pop() {
            match (x.op(), x.srcs()) {
                (Op::Const, _) => difference.around.push(UOp::index(x.as_int()? * factor)),
                (Op::Range, _) if x == *range => difference.step += factor,
                (Op::Range, _) if kind_of(&x).is_expanded() => {
                    difference.written_out.push((x, factor));
                }
                (Op::Range, _) if axis_of(&x) < axis_of(range) && is_outer(&x) => {
                    difference.around.push(&x * factor);
                }
                (Op::Add, [a, b]) => stack.extend([(a.clone(), factor), (b.clone(), factor)]),
                (Op::Mul, [a, c]) => stack.push((a.clone(), factor.checked_mul(c.as_int()?)?)),
                _ => return None,
            }
        }
        Some(difference)
    }

    /// The least, or the most, that the rest is over what is written out.
    fn rest(&self, least: bool) -> UOp {
        let extreme = |(range, factor): &(UOp, i64)| {
            let at_zero = (*factor > 0) == least;
            UOp::index(if at_zero { 0 } else { factor * range.max() })
        };
        let all = self.around.iter().cloned().chain(self.written_out.iter().map(extreme));
        all.fold(UOp::index(0), |a, b| a + b)
    }
}
