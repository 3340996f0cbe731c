//! Part of stage `optimize`: sizes that a launch decides, a number times launch-time scalars, such as the length `3 * n` of a
//! row.

use kiln_ir::affine::Affine;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use smallvec::SmallVec;

/// A product of a number and of factors that are at least 1 and that no loop changes.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Size {
    pub(super) times: i64,
    pub(super) factors: SmallVec<[UOp; 2]>,
}

impl Size {
    pub(super) fn of(times: i64) -> Size {
        Size { times, factors: SmallVec::new() }
    }

    /// The size as a product; none if it varies over a loop, or may be 0.
    pub(super) fn from(node: &UOp) -> Option<Size> {
        let mut size = Size::of(1);
        let mut todo: SmallVec<[&UOp; 4]> = SmallVec::from_slice(&[node]);
        while let Some(node) = todo.pop() {
            match (node.op(), node.as_int()) {
                (Op::Mul, _) => todo.extend(node.srcs()),
                (_, Some(n)) => size.times = size.times.checked_mul(n)?,
                _ if node.min() >= 1 && is_fixed(node) => size.factors.push(node.clone()),
                _ => return None,
            }
        }
        Some(size)
    }

    /// The product of both.
    pub(super) fn times(&self, other: &Size) -> Option<Size> {
        let factors = self.factors.iter().chain(&other.factors).cloned().collect();
        Some(Size { times: self.times.checked_mul(other.times)?, factors })
    }

    /// Whether it is at least the other, whatever the launch decides. False if that is not known.
    pub(super) fn is_at_least(&self, other: &Size) -> bool {
        let mut left = self.factors.clone();
        let shared = other.factors.iter().all(|factor| {
            let at = left.iter().position(|own| own == factor);
            at.map(|at| left.remove(at)).is_some()
        });
        let least = |factors: &[UOp], times: i64| {
            factors.iter().try_fold(times, |product, f| product.checked_mul(f.min()))
        };
        let known = shared.then(|| least(&left, self.times)).flatten();
        let bounds = || Some(least(&self.factors, self.times)? >= other.most()?);
        known.is_some_and(|least| least >= other.times) || bounds() == Some(true)
    }

    /// The largest value.
    pub(super) fn most(&self) -> Option<i64> {
        self.factors.iter().try_fold(self.times, |product, f| product.checked_mul(f.max()))
    }
}

/// Whether a value is the same for the whole launch.
pub(super) fn is_fixed(node: &UOp) -> bool {
    node.scope().is_empty()
        && toposort(node).iter().all(|n| n.op().is_alu() || matches!(n.op(), Op::Const | Op::Var))
}

/// The strides of loops in a term of an index: of `(2 * i + j) * n`, `2 * n` for `i` and `n` for `j`. None if it is no sum
/// of strides.
pub(super) fn strides(term: &UOp, factor: i64) -> Option<Vec<(UOp, Size)>> {
    let (mut varying, mut stride) = (None, Size::of(factor.checked_abs()?));
    let mut todo = vec![term];
    while let Some(node) = todo.pop() {
        match node.op() {
            Op::Mul => todo.extend(node.srcs()),
            _ if is_fixed(node) => stride = stride.times(&Size::from(node)?)?,
            _ if varying.is_none() => varying = Some(node),
            _ => return None,
        }
    }
    let sum = Affine::of(varying?)?;
    let of = |(range, k): &(UOp, i64)| {
        let stride = stride.times(&Size::of(k.checked_abs()?))?;
        (range.op() == Op::Range).then(|| (range.clone(), stride))
    };
    let loops = sum.terms.iter().filter(|(x, _)| !is_fixed(x));
    loops.map(of).collect()
}
