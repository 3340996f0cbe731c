//! Part of pass `trim`: how far a loop that fills scratch is read.
//!
//! A general kernel stages up to 100 blocks of rows, of which a launch needs `n`. The loop that reads the panel has been
//! trimmed to `n`. The panel is row-major: block `b` is what is written for `b` and nothing else, and what is read for
//! `b` and nothing else. So the loop that fills it needs the iterations of the loop that reads.

use super::super::ranges::{axis_of, is_outer};
use super::ends::Ends;
use kiln_ir::affine::Affine;
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
    let counts = |read: &UOp| {
        let reader = digit.of(&Affine::of(read.src(1))?)?;
        let count = reader.src(0).clone();
        (ends.ranges.contains(&reader) && is_known_at(&count, end, range)).then_some(count)
    };
    let counts: Vec<UOp> = reads.iter().map(counts).collect::<Option<_>>()?;
    counts.into_iter().reduce(|a, b| if a == b { a } else { a.maximum(&b) })
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
}

/// Whether a count is known where the loop of `range` starts: it depends on loops around that, and reads no memory.
fn is_known_at(count: &UOp, end: &UOp, range: &UOp) -> bool {
    let around = inside(end.src(0));
    toposort(count).iter().all(|n| match n.op() {
        Op::Range => {
            is_outer(n)
                && axis_of(n) < axis_of(range)
                && around.contains(axis_of(n))
                && !end.srcs()[1..].contains(n)
        }
        op => op.is_alu() || matches!(op, Op::Const | Op::Var),
    })
}
