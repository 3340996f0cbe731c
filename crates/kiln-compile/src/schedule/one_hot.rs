//! Part of pass `prepare`: a one-hot sum becomes a lookup. `sum over c of where(label == c, x[c], 0)` is `x[label]`,
//! and 0 if `label` is out of range.
//!
//! Only what varies along the axis is looked up: in `x[i, c] - y[i]`, `y` is still read in order.

use kiln_ir::arg::SliceAxis;
use kiln_ir::uop::{rebuild, remade_all};
use kiln_ir::{Op, UOp};

/// The sum of `x` along `axis` as a gather, if it is a one-hot sum.
pub(super) fn looked_up(x: &UOp, axis: usize) -> Option<UOp> {
    let choice = if x.op() == Op::Cast { x.src(0) } else { x };
    let (Op::Where, true) = (choice.op(), x.shape()[axis] > 1) else { return None };
    let (hit, value, zero) = (choice.src(0), choice.src(1), choice.src(2));
    if hit.op() != Op::CmpEq || !zero.is_const(0) || hit.shape() != x.shape() {
        return None;
    }
    let label = label(hit.src(0), hit.src(1), axis).or(label(hit.src(1), hit.src(0), axis))?;
    let at = Place::of(&label, x.shape(), axis);
    // -0.0 plus the other terms is 0.0
    let picked = at.inside.where_(&at.value(value), zero).cast(x.dtype()) + 0;
    let mut shape = x.shape().clone();
    shape.remove(axis);
    Some(picked.reshape(shape))
}

/// The operand that is compared with the position along `axis`, with length 1 there, if it does not vary along `axis`.
fn label(same: &UOp, number: &UOp, axis: usize) -> Option<UOp> {
    let number = if number.op() == Op::Expand { number.src(0) } else { number };
    let counter = if number.op() == Op::Reshape { number.src(0) } else { number };
    let (Op::Iota, label) = (counter.op(), constant_along(same, axis)?) else { return None };
    let n = same.shape()[axis];
    let along = number.numel() == n && number.shape().get(axis) == Some(&n);
    along.then_some(label)
}

/// The value with length 1 along `axis`, if it does not vary along it.
fn constant_along(x: &UOp, axis: usize) -> Option<UOp> {
    let narrow = x.op() == Op::Expand && x.src(0).shape()[axis] == 1;
    let mut shape = x.shape().clone();
    *shape.get_mut(axis)? = 1;
    narrow.then(|| x.src(0).expand(shape))
}

/// The positions that labels name.
struct Place {
    axis: usize,
    /// Whether a label is inside the axis.
    inside: UOp,
    /// If so, its row-major position.
    at: UOp,
}

impl Place {
    fn of(label: &UOp, shape: &[usize], axis: usize) -> Place {
        let mut first: Vec<SliceAxis> = shape.iter().map(|&n| SliceAxis::full(n)).collect();
        first[axis].len = 1;
        let first = UOp::positions(shape).slice(&first);
        let stride: usize = shape[axis + 1..].iter().product();
        let not_before = label.lt(&label.const_like(0)).not();
        let inside = not_before.and(&label.lt(&label.const_like(shape[axis])));
        let moved = &first + label.cast(first.dtype()) * first.const_like(stride);
        let at = inside.where_(&moved, &first.const_like(-1));
        Place { axis, inside, at }
    }

    /// The elements of `x` there; any value where the label is outside.
    fn value(&self, x: &UOp) -> UOp {
        let shape = x.shape();
        if shape.is_empty() {
            return x.clone();
        }
        let varies = |n: &UOp| n.shape() == shape && constant_along(n, self.axis).is_none();
        let enter = |n: &UOp| varies(n) && (n.op().is_alu() || n.op() == Op::Cast);
        let there = |node: &UOp| match () {
            _ if enter(node) => None,
            _ if varies(node) => Some(node.gather(&self.at)),
            _ => Some(constant_along(node, self.axis).unwrap_or_else(|| node.clone())),
        };
        remade_all(std::slice::from_ref(x), there, rebuild).pop().expect("one value")
    }
}
