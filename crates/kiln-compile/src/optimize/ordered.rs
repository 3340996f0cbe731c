//! Which loops must run in order: those of which two iterations may write the same element. Several passes of stage
//! `optimize` share it.

use super::ranges::axis_of;
use kiln_ir::affine::{Affine, gcd};
use kiln_ir::scope::AxisSet;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashSet;

/// The axes of all such loops of a kernel.
pub(super) fn ordered(ast: &UOp) -> AxisSet {
    let nodes = toposort(ast);
    let ends = nodes.iter().filter(|n| n.op() == Op::End && n.src(0).op() == Op::Store);
    ends.flat_map(|end| colliding(end.src(0).src(1), &end.srcs()[1..])).collect()
}

/// Of the loops around a store at `index`, those of which two iterations may write one element. If each stride is
/// larger than the sum of what the smaller ones reach, no two do.
fn colliding(index: &UOp, loops: &[UOp]) -> Vec<u32> {
    let sum = Affine::of(index).unwrap_or_else(|| Affine::atom(index.clone()));
    let (mut steps, mut loose): (Vec<_>, Vec<_>) =
        sum.terms.into_iter().partition(|(x, _)| x.op() == Op::Range);
    loose.retain(|(x, _)| x.op() != Op::Var);
    let scope = |x: &UOp| toposort(x).into_iter().filter(|n| n.op() == Op::Range);
    let entangled: FxHashSet<UOp> = loose.iter().flat_map(|(x, _)| scope(x)).collect();
    steps.retain(|(range, _)| !entangled.contains(range));
    steps.sort_by_key(|(_, stride)| stride.abs());
    // an index that is no sum of strides moves in multiples of the least of its factors
    let least = loose.iter().map(|(_, factor)| factor.unsigned_abs()).reduce(gcd);
    let least = least.and_then(|g| i64::try_from(g).ok()).unwrap_or(i64::MAX);
    let mut reach = 0i64;
    let mut free = FxHashSet::default();
    for (range, stride) in &steps {
        let after = reach.saturating_add(stride.abs().saturating_mul(range.max()));
        if stride.abs() <= reach || after >= least {
            continue;
        }
        reach = after;
        free.insert(axis_of(range));
    }
    loops.iter().map(axis_of).filter(|axis| !free.contains(axis)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::DType;
    use kiln_ir::arg::RangeKind;

    fn axes(index: &UOp, loops: &[UOp]) -> Vec<u32> {
        colliding(index, loops)
    }

    #[test]
    fn rows_at_places_that_are_data_are_free_inside() {
        let range = |axis, n| UOp::range(axis, RangeKind::Loop, n);
        let (i, j) = (range(0, 5), range(1, 8));
        let rows = UOp::param(1, DType::Index, [5].as_slice());
        let row = UOp::load(&rows, &i);
        let loops = [i.clone(), j.clone()];
        assert_eq!(axes(&(&i * 8 + &j), &loops), [0u32; 0]);
        assert_eq!(axes(&(&i * 7 + &j), &loops), [0]);
        assert_eq!(axes(&(&row * 8 + &j), &loops), [0]);
        assert_eq!(axes(&(&row * 4 + &j), &loops), [0, 1]);
        assert_eq!(axes(&(&row + &j), &loops), [0, 1]);
        assert_eq!(axes(&j, &loops), [0]);
        assert_eq!(axes(&(&i * 8 + &j + &UOp::var(0, DType::Index, 0, 9)), &loops), [0u32; 0]);
    }
}
