//! Which loops must run in order: those of which two iterations may write the same element. Several passes of stage
//! `optimize` share it.

use super::ranges::axis_of;
use super::size::{Size, is_fixed, strides};
use kiln_ir::affine::{Affine, gcd};
use kiln_ir::scope::AxisSet;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashSet;

/// The axes of all such loops of a kernel.
pub(super) fn ordered(ast: &UOp) -> AxisSet {
    ordered_among(&toposort(ast))
}

/// The same, of all nodes of a kernel.
pub(super) fn ordered_among(nodes: &[UOp]) -> AxisSet {
    let ends = nodes.iter().filter(|n| n.op() == Op::End && n.src(0).op() == Op::Store);
    ends.flat_map(|end| colliding(end.src(0), &end.srcs()[1..])).collect()
}

/// How far one iteration of a loop moves a store, and how many iterations store.
struct Step {
    range: UOp,
    stride: Size,
    extent: Size,
}

/// Of the loops around a store, those of which two iterations may write one element. If each stride is larger than the
/// sum of what the smaller ones reach, no two do.
fn colliding(store: &UOp, loops: &[UOp]) -> Vec<u32> {
    let index = store.src(1);
    let sum = Affine::of(index).unwrap_or_else(|| Affine::atom(index.clone()));
    let (mut steps, mut loose) = (Vec::new(), Vec::new());
    for (x, factor) in sum.terms {
        match strides(&x, factor) {
            _ if is_fixed(&x) => {}
            Some(found) => steps.extend(found),
            None => loose.push((x, factor)),
        }
    }
    let scope = |x: &UOp| toposort(x).into_iter().filter(|n| n.op() == Op::Range);
    let entangled: FxHashSet<UOp> = loose.iter().flat_map(|(x, _)| scope(x)).collect();
    steps.retain(|(range, _)| !entangled.contains(range));
    let is_alone = |range: &UOp| steps.iter().filter(|(other, _)| other == range).count() == 1;
    let extents = extents(store);
    let steps = steps.iter().filter(|(range, _)| is_alone(range));
    let steps = steps.map(|(range, stride)| {
        let extent = extents(range);
        Step { range: range.clone(), stride: stride.clone(), extent }
    });
    // an index that is no sum of strides moves in multiples of the least of its factors
    let least = loose.iter().map(|(_, factor)| factor.unsigned_abs()).reduce(gcd);
    let least = least.and_then(|g| i64::try_from(g).ok()).unwrap_or(i64::MAX);
    let free = apart(steps.collect(), least);
    loops.iter().map(axis_of).filter(|axis| !free.contains(axis)).collect()
}

/// How many iterations of a loop store: up to a bound that the store's predicate gives, else all.
fn extents(store: &UOp) -> impl Fn(&UOp) -> Size {
    let mut bounds: Vec<(UOp, Size)> = Vec::new();
    let mut todo: Vec<UOp> = store.gate().cloned().into_iter().collect();
    while let Some(condition) = todo.pop() {
        match condition.op() {
            Op::And => todo.extend(condition.srcs().iter().cloned()),
            Op::CmpLt if condition.src(0).op() == Op::Range => {
                let bound = Size::from(condition.src(1));
                bounds.extend(bound.map(|bound| (condition.src(0).clone(), bound)));
            }
            _ => {}
        }
    }
    move |range| {
        let bound = bounds.iter().find(|(bounded, _)| bounded == range);
        bound.map_or(Size::of(range.max().saturating_add(1)), |(_, bound)| bound.clone())
    }
}

/// The loops that write other elements in each iteration, if all else moves a store by multiples of `least`.
fn apart(mut steps: Vec<Step>, least: i64) -> FxHashSet<u32> {
    steps.sort_by_key(|s| (s.stride.factors.len(), s.stride.times));
    // that many elements from the first are written by the loops so far
    let mut reach = Size::of(1);
    let mut free = FxHashSet::default();
    for Step { range, stride, extent } in &steps {
        let Some(after) = reached(&reach, stride, extent) else { continue };
        if !stride.is_at_least(&reach) || after.most().is_none_or(|most| most > least) {
            continue;
        }
        reach = after;
        free.insert(axis_of(range));
    }
    free
}

/// How many elements from the first are written with one more loop. With scalars this is a bound: all of the loop's steps.
fn reached(before: &Size, stride: &Size, extent: &Size) -> Option<Size> {
    let are_numbers = [before, stride, extent].iter().all(|size| size.factors.is_empty());
    match are_numbers {
        true => {
            let last = stride.times.saturating_mul(extent.times - 1);
            Some(Size::of(before.times.saturating_add(last)))
        }
        false => stride.times(extent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::DType;
    use kiln_ir::arg::RangeKind;

    fn range(axis: u32, n: usize) -> UOp {
        UOp::range(axis, RangeKind::Loop, n)
    }

    fn store(index: &UOp, gate: Option<&UOp>) -> UOp {
        let out = UOp::param(0, DType::I32, [1 << 20].as_slice());
        UOp::store(&out, index, &UOp::constant(1, DType::I32), gate)
    }

    fn axes(index: &UOp, loops: &[UOp]) -> Vec<u32> {
        colliding(&store(index, None), loops)
    }

    #[test]
    fn rows_at_places_that_are_data_are_free_inside() {
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

    #[test]
    fn rows_of_a_length_that_a_launch_decides_are_free() {
        let loops = [range(0, 256), range(1, 256), range(2, 256)];
        let [i, j, k] = &loops;
        let [n, m, l] = [0, 1, 2].map(|slot| UOp::var(slot, DType::Index, 2, 256));
        let bounded = i.lt(&l).and(&j.lt(&m)).and(&k.lt(&n));
        let of = |index: &UOp, gate: &UOp| colliding(&store(index, Some(gate)), &loops);
        let row_major = i * &(&n * &m) + j * &n + k;
        assert_eq!(of(&row_major, &bounded), [0u32; 0]);
        assert_eq!(of(&(i * &(&n * &m * 2) + j * &(&n * 2) + k * 2), &bounded), [0u32; 0]);
        // without the bounds a row reaches into the next
        assert_eq!(colliding(&store(&row_major, None), &loops), [0, 1]);
        assert_eq!(of(&row_major, &i.lt(&l).and(&j.lt(&m))), [0, 1]);
        // rows of another length than their distance
        assert_eq!(of(&(i * &(&n * &m) + j * &l + k), &bounded), [1]);
        assert_eq!(of(&(j * &n + k), &bounded), [0]);
        assert_eq!(of(&(i * &n + j * &n + k), &bounded).len(), 1);
    }
}
