//! Windows that slide along axes, and what pools them. A window is an index map; nothing is copied.

use super::Tensor;
use super::elementwise::{like, quotient};
use super::reduce::wide_sum;
use super::shape_args::{PairArg, pair};
use crate::defaults::OrFloat;
use crate::error::{Fault, refuse};
use kiln_ir::UOp;
use kiln_ir::arg::{Axes, PadAxis, ReduceOp, Shape, SliceAxis, WindowArg};
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
    /// How many fit into `n` elements.
    pub(super) fn count(self, n: usize) -> usize {
        let reach = self.dilation * (self.size - 1) + 1;
        if n < reach { 0 } else { (n - reach) / self.stride + 1 }
    }
}

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

/// The last two axes, `[.., h, w]`, as `[.., rows, kernel rows, columns, kernel columns]`.
pub(super) fn slide2(x: &UOp, windows: [Window; 2]) -> Result<UOp, Fault> {
    let rank = x.shape().len();
    for (w, &n) in windows.iter().zip(&x.shape()[rank - 2..]) {
        if w.count(n) == 0 {
            return refuse!("no window fits, a padded axis of {n} under a kernel of {}", w.size);
        }
    }
    Ok(slide(&slide(x, rank - 1, windows[1]), rank - 2, windows[0]))
}

/// Zeros around the last two axes.
pub(super) fn pad2(x: &UOp, [h, w]: [usize; 2]) -> UOp {
    let rank = x.shape().len();
    let mut pads: SmallVec<[PadAxis; 2]> = x.shape().iter().map(|_| PadAxis::default()).collect();
    pads[rank - 2] = PadAxis { before: h, between: 0, after: h };
    pads[rank - 1] = PadAxis { before: w, between: 0, after: w };
    x.pad(&pads)
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

/// The positions inside windows that [`slide2`] made, of a tensor of `rank` axes before.
fn inside_axes(rank: usize) -> Axes {
    Axes::from_slice(&[rank - 1, rank + 1])
}

/// Pooling over the last two axes.
impl Tensor {
    /// The largest of each window, windows side by side; `kernel` is a number or a pair.
    ///
    /// ```
    /// let t = kiln::Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(t.max_pool2d(2).to_vec::<i32>()?, [4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes, a kernel that does not fit.
    #[must_use]
    #[track_caller]
    pub fn max_pool2d(&self, kernel: impl PairArg) -> Tensor {
        let kernel = kernel.pair();
        self.max_pool2d_with(kernel, kernel, 1, 0)
    }

    /// The largest of each window; padding is less than anything. Each argument is a number or a pair.
    ///
    /// ```
    /// let t = kiln::Tensor::arange(16).reshape([4, 4]);
    /// assert_eq!(t.max_pool2d_with(3, 1, 1, 0).to_vec::<i32>()?, [10, 11, 14, 15]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes, a kernel that does not fit.
    #[must_use]
    #[track_caller]
    pub fn max_pool2d_with(
        &self,
        kernel: impl PairArg,
        stride: impl PairArg,
        dilation: impl PairArg,
        padding: impl PairArg,
    ) -> Tensor {
        let pool = || -> Result<UOp, Fault> {
            let x = self.planes()?;
            let (windows, padding) =
                (windows2(kernel, stride, dilation)?, pair("padding", padding, 0)?);
            let least = ReduceOp::Max.identity(x.dtype());
            let x = padded_with(&x, least, |x| pad2(x, padding));
            Ok(slide2(&x, windows)?.reduce(ReduceOp::Max, inside_axes(x.shape().len())))
        };
        self.lift("max_pool2d", pool())
    }

    /// The mean of each window, windows side by side; `kernel` is a number or a pair.
    ///
    /// ```
    /// let t = kiln::Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(t.avg_pool2d(2).to_vec::<f32>()?, [2.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes, a kernel that does not fit.
    #[must_use]
    #[track_caller]
    pub fn avg_pool2d(&self, kernel: impl PairArg) -> Tensor {
        let kernel = kernel.pair();
        self.avg_pool2d_with(kernel, kernel, 0)
    }

    /// The mean of each window; padding counts as zeros. Each argument is a number or a pair.
    ///
    /// ```
    /// let t = kiln::Tensor::ones([2, 2]);
    /// assert_eq!(t.avg_pool2d_with(2, 2, 1).to_vec::<f32>()?, [0.25; 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes, a kernel that does not fit.
    #[must_use]
    #[track_caller]
    pub fn avg_pool2d_with(
        &self,
        kernel: impl PairArg,
        stride: impl PairArg,
        padding: impl PairArg,
    ) -> Tensor {
        let pool = || -> Result<UOp, Fault> {
            let x = self.planes()?;
            let (windows, padding) = (windows2(kernel, stride, 1)?, pair("padding", padding, 0)?);
            let wide = x.cast(x.dtype().or_float().accumulator());
            let sum =
                wide_sum(&slide2(&pad2(&wide, padding), windows)?, &inside_axes(x.shape().len()));
            let count = windows[0].size * windows[1].size;
            Ok(quotient(&sum, &like(&sum, count)).cast(x.dtype().or_float()))
        };
        self.lift("avg_pool2d", pool())
    }

    /// The value, which has at least two axes.
    pub(super) fn planes(&self) -> Result<UOp, Fault> {
        let x = self.value()?;
        match x.shape().len() {
            0 | 1 => refuse!("wants at least two axes, not {:?}", x.shape()),
            _ => Ok(x),
        }
    }
}
