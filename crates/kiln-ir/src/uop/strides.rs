//! Ranges, and how an index moves along them.

use super::{UOp, toposort};
use crate::arg::RangeKind;
use crate::op::Op;
use rustc_hash::FxHashMap;

/// The coefficient of each range in an index, as a sum of terms; a range inside anything else moves it unevenly.
pub fn strides(index: &UOp) -> FxHashMap<u32, Option<i64>> {
    let mut strides: FxHashMap<u32, Option<i64>> = FxHashMap::default();
    let mut stack = vec![(index.clone(), 1i64)];
    while let Some((x, factor)) = stack.pop() {
        match (x.op(), x.srcs()) {
            (Op::Range, _) => {
                let stride = strides.entry(axis_of(&x)).or_insert(Some(0));
                *stride = stride.map(|s| s + factor);
            }
            (Op::Add, [a, b]) => stack.extend([(a.clone(), factor), (b.clone(), factor)]),
            (Op::Mul, [a, c]) if c.as_int().is_some() => {
                let c = c.as_int().expect("just checked");
                stack.push((a.clone(), factor.saturating_mul(c)));
            }
            _ => {
                let ranges = toposort(&x).into_iter().filter(|n| n.op() == Op::Range);
                ranges.for_each(|r| _ = strides.insert(axis_of(&r), None));
            }
        }
    }
    strides
}

/// A range's axis number.
pub fn axis_of(range: &UOp) -> u32 {
    range.arg().range().expect("a range has a range argument").0
}

/// A range's kind.
pub fn kind_of(range: &UOp) -> RangeKind {
    range.arg().range().expect("a range has a range argument").1
}
