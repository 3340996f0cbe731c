//! Windows that slide along axes. A window is an index map; nothing is copied.

use super::elementwise::like;
use super::shape_args::{PairArg, holdable, pair};
use crate::error::{Fault, refuse};
use kiln_ir::UOp;
use kiln_ir::arg::{Axes, PadAxis, Shape, SliceAxis, WindowArg};
use kiln_ir::dtype::Const;
use smallvec::SmallVec;

/// How windows lie along one axis.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) size: usize,
    pub(super) stride: usize,
    pub(super) dilation: usize,
}

impl Window {
    /// How many elements lie between the first and the last one, and they.
    pub(super) fn reach(self) -> usize {
        self.dilation.saturating_mul(self.size - 1).saturating_add(1)
    }

    /// How many fit into `n` elements.
    pub(super) fn count(self, n: usize) -> usize {
        if n < self.reach() { 0 } else { (n - self.reach()) / self.stride + 1 }
    }
}

/// Windows along the last axes, and what is added around these.
#[derive(Clone)]
pub(super) struct Frame {
    pub(super) windows: SmallVec<[Window; 3]>,
    /// Before and after the elements of each axis.
    pub(super) sides: Sides,
}

/// How many elements are added before and after those of each of the last axes.
pub(super) type Sides = SmallVec<[[usize; 2]; 3]>;

/// Both axes' windows.
pub(super) fn windows2(
    size: impl PairArg,
    stride: impl PairArg,
    dilation: impl PairArg,
) -> Result<[Window; 2], Fault> {
    let size = pair("kernel", size, 1)?;
    let stride = pair("stride", stride, 1)?;
    let dilation = pair("dilation", dilation, 1)?;
    let window = |i: usize| Window { size: size[i], stride: stride[i], dilation: dilation[i] };
    Ok([window(0), window(1)])
}

/// `axis` split into the windows' number and, after it, the position inside.
pub(super) fn slide(x: &UOp, axis: usize, w: Window) -> UOp {
    let n = x.shape()[axis];
    let count = w.count(n);
    let apart = w.dilation == 1 && w.size <= w.stride && count * w.stride <= n;
    if apart {
        // windows do not meet: cut the axis into strides, and each stride short
        let whole = section(x, axis, 1, count * w.stride);
        let cut = split(&whole, axis, &[count, w.stride]);
        return section(&cut, axis + 1, 1, w.size);
    }
    let Window { size, stride, dilation } = w;
    x.window(WindowArg { axis, len: n, size, stride, dilation })
}

/// Every `step`-th of `axis`, `len` of them.
fn section(x: &UOp, axis: usize, step: isize, len: usize) -> UOp {
    let mut slices: SmallVec<[SliceAxis; 2]> =
        x.shape().iter().map(|&n| SliceAxis::full(n)).collect();
    slices[axis] = SliceAxis { start: 0, step: if len > 1 { step } else { 1 }, len };
    x.slice(&slices)
}

fn split(x: &UOp, axis: usize, lengths: &[usize]) -> UOp {
    let (before, after) = (&x.shape()[..axis], &x.shape()[axis + 1..]);
    x.reshape(Shape::from([before, lengths, after].concat()))
}

/// The last axes, `[.., h, w]`, as `[.., rows, kernel rows, columns, kernel columns]`.
pub(super) fn slide_last(x: &UOp, windows: &[Window]) -> Result<UOp, Fault> {
    let first = x.shape().len() - windows.len();
    for (w, &n) in windows.iter().zip(&x.shape()[first..]) {
        if w.count(n) == 0 {
            return refuse!("no window fits, a padded axis of {n} under a kernel of {}", w.size);
        }
    }
    let along = windows.iter().enumerate().rev();
    Ok(along.fold(x.clone(), |x, (i, &w)| slide(&x, first + i, w)))
}

/// Zeros around the last axes.
pub(super) fn pad_last(x: &UOp, sides: &[[usize; 2]]) -> Result<UOp, Fault> {
    let first = x.shape().len() - sides.len();
    let mut pads: SmallVec<[PadAxis; 2]> = x.shape().iter().map(|_| PadAxis::default()).collect();
    for (pad, &[before, after]) in pads[first..].iter_mut().zip(sides) {
        *pad = PadAxis { before, between: 0, after };
    }
    let sum = |(p, &n): (&PadAxis, &usize)| p.before.saturating_add(p.after).saturating_add(n);
    holdable(pads.iter().zip(x.shape()).map(sum).collect())?;
    Ok(x.pad(&pads))
}

/// `value` around `x`, where `pad` puts zeros.
pub(super) fn padded_with(x: &UOp, value: Const, pad: impl Fn(&UOp) -> UOp) -> UOp {
    let zeros = pad(x);
    if zeros == *x {
        return zeros;
    }
    let inside = pad(&UOp::bool(true).broadcast_to(x.shape()));
    inside.where_(&zeros, &like(x, value))
}

/// The positions inside windows that [`slide_last`] made along `n` axes, of a tensor of `rank` axes before.
pub(super) fn inside_axes(rank: usize, n: usize) -> Axes {
    (0..n).map(|i| rank - n + 2 * i + 1).collect()
}
