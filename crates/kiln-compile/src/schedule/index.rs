//! Part of pass `assign`: the index map of each movement op. Given an index into the view, it computes the index into
//! the source, and whether there is such an element: `pad` by 2 maps `i` to `i - 2`, which exists if `i >= 2`.

use kiln_ir::affine::Affine;
use kiln_ir::arg::{Arg, PadAxis, SliceAxis, WindowArg};
use kiln_ir::{Op, UOp};
use smallvec::SmallVec;

/// One index expression per axis.
pub(super) type Index = SmallVec<[UOp; 4]>;

/// The source's index, and the condition under which the element comes from the source (else it is 0).
pub(super) fn through(node: &UOp, index: &Index) -> (Index, UOp) {
    let src = node.src(0).shape();
    let always = UOp::bool(true);
    match (node.op(), node.arg()) {
        (Op::Reshape, _) => (reshape(index, node.shape(), src), always),
        (Op::Permute, Arg::Axes(axes)) => {
            let mut out: Index = index.clone();
            axes.iter().zip(index).for_each(|(&a, i)| out[a] = i.clone());
            (out, always)
        }
        (Op::Expand, _) => {
            let axis = |(&n, i): (&usize, &UOp)| if n == 1 { UOp::index(0) } else { i.clone() };
            (src.iter().zip(index).map(axis).collect(), always)
        }
        (Op::Slice, Arg::Slice(slices)) => {
            let axis = |a: usize| slice_axis(&slices[a], &index[a], node.srcs().get(1 + a));
            ((0..slices.len()).map(axis).collect(), always)
        }
        (Op::Window, Arg::Window(w)) => {
            let mut out = index.clone();
            let inside = out.remove(w.axis + 1) * (w.dilation as i64);
            out[w.axis] = simplify(&(&out[w.axis] * (w.stride as i64) + inside));
            (out, always)
        }
        (Op::Unwindow, Arg::Window(w)) => unwindow(*w, index),
        (Op::Pad, Arg::Pad(pads)) => pad(pads, index, src),
        (op, arg) => unreachable!("{op} {arg:?} is not a movement op"),
    }
}

/// Window `(h - p * dilation) / stride` has position `h` of the axis at its position `p`, if that is a whole number and
/// there is such a window.
fn unwindow(w: WindowArg, index: &Index) -> (Index, UOp) {
    let mut out = index.clone();
    let from_start = &index[w.axis] - &index[w.axis + 1] * (w.dilation as i64);
    let stride = UOp::index(w.stride as i64);
    let window = simplify(&from_start.floordiv(&stride));
    let whole = simplify(&from_start.floormod(&stride).eq_(&UOp::index(0)));
    let inside = window.lt(&UOp::index(0)).not().and(&window.lt(&UOp::index(w.count() as i64)));
    out[w.axis] = window;
    (out, simplify(&whole.and(&inside)))
}

fn slice_axis(s: &SliceAxis, i: &UOp, start: Option<&UOp>) -> UOp {
    let from_start = i * (s.step as i64);
    simplify(&match start {
        Some(start) => from_start + start,
        None => from_start + s.start as i64,
    })
}

fn pad(pads: &[PadAxis], index: &Index, src: &[usize]) -> (Index, UOp) {
    let mut valid = UOp::bool(true);
    let axis = |((p, i), &n): ((&PadAxis, &UOp), &usize)| {
        if p.is_empty() {
            return i.clone();
        }
        let at = simplify(&(i - p.before as i64));
        let step = p.between as i64 + 1;
        let (at, rest) = match step {
            1 => (at, UOp::index(0)),
            _ => (at.floordiv(&UOp::index(step)), at.floormod(&UOp::index(step))),
        };
        let at = simplify(&at);
        let inside = at.lt(&UOp::index(0)).not().and(&at.lt(&UOp::index(n as i64)));
        valid = simplify(&valid.and(&inside).and(&simplify(&rest.eq_(&UOp::index(0)))));
        at
    };
    let index = pads.iter().zip(index).zip(src).map(axis).collect();
    (index, valid)
}

/// The index in shape `from` of the element at `index` in shape `to`. Axes are matched up from the outside in: where a
/// run of axes on both sides has equally many elements, it is a reshape of its own, so that an axis that stays is left
/// alone (also where a padding has sent its index out of bounds).
fn reshape(index: &Index, to: &[usize], from: &[usize]) -> Index {
    let mut out = Index::new();
    let (mut t, mut f) = (0, 0);
    while f < from.len() {
        let (t0, f0) = (t, f);
        let (mut many, mut few) = (1, from[f]);
        f += 1;
        while many != few && (t < to.len() || f < from.len()) {
            if many < few && t < to.len() || f == from.len() {
                many *= to[t];
                t += 1;
            } else {
                few *= from[f];
                f += 1;
            }
        }
        let group: Index = index[t0..t].iter().cloned().collect();
        out.extend(reshape_group(&group, &to[t0..t], &from[f0..f]));
    }
    out
}

fn reshape_group(index: &Index, to: &[usize], from: &[usize]) -> Index {
    let long = |shape: &[usize]| shape.iter().filter(|&&n| n != 1).count();
    if long(to) != 1 || long(from) != 1 {
        return unflatten(&flatten(index, to), from);
    }
    let (moving, _) = index.iter().zip(to).find(|(_, n)| **n != 1).expect("one long axis");
    from.iter().map(|&n| if n == 1 { UOp::index(0) } else { moving.clone() }).collect()
}

/// The row-major position of an index in a shape.
pub(super) fn flatten(index: &Index, shape: &[usize]) -> UOp {
    let mut stride = 1;
    let mut terms: SmallVec<[(&UOp, i64); 4]> = SmallVec::new();
    for (i, &n) in index.iter().zip(shape).rev() {
        terms.push((i, stride));
        stride *= n as i64;
    }
    let sum = |sum: Affine, (i, stride): &(&UOp, i64)| sum.plus(&Affine::of(i)?, *stride);
    let affine = terms.iter().rev().try_fold(Affine::default(), sum);
    let terms = || terms.iter().rev().map(|(i, stride)| *i * *stride);
    simplify(&affine.map_or_else(|| UOp::sum_of(terms()), |sum| sum.to_uop()))
}

/// The index in a shape of a row-major position.
pub(super) fn unflatten(flat: &UOp, shape: &[usize]) -> Index {
    let mut stride: i64 = shape.iter().map(|&n| n as i64).product();
    let axis = |&n: &usize| {
        stride /= (n as i64).max(1);
        if n == 1 {
            return UOp::index(0);
        }
        simplify(&flat.floordiv(&UOp::index(stride)).floormod(&UOp::index(n as i64)))
    };
    shape.iter().map(axis).collect()
}

/// Whether every index is known to be inside the shape.
pub(super) fn in_bounds(index: &Index, shape: &[usize]) -> bool {
    index.iter().zip(shape).all(|(i, &n)| i.min() >= 0 && i.max() < n as i64)
}

/// An expression that is equal wherever `gate` is true.
pub(super) fn simplify_under(gate: &UOp, x: &UOp) -> UOp {
    simplify(&kiln_ir::rules::simplify_under(gate, x))
}

/// The exact symbolic rules, to a fixed point.
pub(super) fn simplify(x: &UOp) -> UOp {
    kiln_ir::rules::simplify(x)
}
