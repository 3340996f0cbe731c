//! Transposed convolution: what the gradient of a convolution is. Each input spreads a window of products over the output,
//! and where windows overlap they add up.

use super::Tensor;
use super::border::{cropped, padded};
use super::broadcast::one_device;
use super::conv::with_bias;
use super::conv_options::ConvOptions;
use super::matmul::product_dtypes;
use super::reduce::wide_sum;
use super::shape_args::holdable;
use super::window::{Frame, Window};
use crate::error::{Fault, refuse};
use kiln_ir::UOp;
use kiln_ir::arg::{Axes, ReduceOp, Shape, WindowArg};
use kiln_ir::dtype::Const;
use smallvec::smallvec;

/// Methods over so many axes.
macro_rules! transposed {
    ($($n:literal $axes:literal $small:literal $kernel:literal $large:literal $name:ident;)*) => {
        /// Transposed convolutions.
        impl Tensor { $(
            #[doc = concat!("Transposed convolution of `[batch, channels, ", $axes, "]` with `[channels, outputs / groups, ", $axes, "]`: the")]
            /// transpose of the convolution with that weight and these options, whose padding is taken off the output. The
            /// bias is `[outputs]`. Dtypes as in [`matmul`](Tensor::matmul).
            ///
            /// ```
            /// use kiln::{ConvOptions, Tensor};
            #[doc = concat!("let (x, w) = (Tensor::ones(", $small, "), Tensor::ones(", $kernel, "));")]
            #[doc = concat!("assert_eq!(x.", stringify!($name), "(&w, None, &ConvOptions::new().stride(2)).shape(), ", $large, ");")]
            /// ```
            ///
            /// # Errors
            /// Shapes that do not belong together, padding by which no output is left, a padding mode, settings for another
            /// number of axes, other devices.
            #[must_use]
            #[track_caller]
            pub fn $name(
                &self,
                weight: &Tensor,
                bias: Option<&Tensor>,
                options: &ConvOptions,
            ) -> Tensor {
                self.lift(stringify!($name), transposed(self, weight, bias, $n, options))
            }
        )* }
    };
}

transposed! {
    1 "length" "[1, 2, 3]" "[2, 4, 2]" "[1, 4, 6]" conv_transpose1d;
    2 "height, width" "[1, 2, 3, 3]" "[2, 4, 2, 2]" "[1, 4, 6, 6]" conv_transpose2d;
    3 "depth, height, width" "[1, 2, 3, 3, 3]" "[2, 4, 2, 2, 2]" "[1, 4, 6, 6, 6]" conv_transpose3d;
}

/// What fits together: the channels that each group writes.
fn outputs(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    n: usize,
    groups: usize,
) -> Result<usize, Fault> {
    Tensor::all_valid([x, w].into_iter().chain(bias))?;
    one_device([x, w].into_iter().chain(bias))?;
    if [x, w].iter().any(|t| t.ndim() != n + 2) {
        let each = ["three", "four", "five"][n - 1];
        return refuse!("wants {each} axes each, input {:?}, weight {:?}", x.shape(), w.shape());
    }
    let (channels, outputs) = (x.shape()[1], w.shape()[1]);
    if groups == 0 || w.shape()[0] != channels || channels % groups != 0 {
        return refuse!(
            "channels differ, input {:?}, weight {:?}, groups {groups}",
            x.shape(),
            w.shape()
        );
    }
    match bias.filter(|b| b.shape() != [outputs * groups]) {
        Some(bias) => refuse!("bias {:?} is not [{}]", bias.shape(), outputs * groups),
        None => Ok(outputs),
    }
}

fn transposed(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    n: usize,
    options: &ConvOptions,
) -> Result<UOp, Fault> {
    let groups = options.group_count();
    let outputs = outputs(x, w, bias, n, groups)?;
    if options.mode().is_some() {
        return refuse!("a transposed convolution takes its padding off: it has no mode");
    }
    let frame = options.frame(&w.shape()[2..])?;
    let added = options.added(&frame.windows)?;
    let (x, w) = (&x.factor()?, &w.factor()?);
    let (dtype, wide) = product_dtypes(x, w);
    let products = products(&x.value()?.cast(wide), &w.value()?.cast(wide), groups, n);
    let mut shape: Shape = smallvec![x.shape()[0], groups * outputs];
    shape.extend_from_slice(&products.shape()[3..]);
    let whole = overlapped(&products.reshape(shape), &frame.windows)?;
    with_bias(&trimmed(&whole, &frame, &added)?, bias, dtype)
}

/// What each input adds to each element of its window: `[batch, groups, outputs, rows, kernel rows, ..]`.
fn products(x: &UOp, w: &UOp, groups: usize, n: usize) -> UOp {
    let (batch, inputs, outputs) = (x.shape()[0], x.shape()[1] / groups, w.shape()[1]);
    let spread = |lead: [usize; 4], rows: &[usize], kernel: &[usize]| -> Shape {
        let pairs = rows.iter().zip(kernel).flat_map(|(&r, &k)| [r, k]);
        lead.into_iter().chain(pairs).collect()
    };
    let ones = vec![1; n];
    let (rows, kernel) = (&x.shape()[2..], &w.shape()[2..]);
    let x_shape = spread([batch, groups, 1, inputs], rows, &ones);
    let w_shape = spread([1, groups, outputs, inputs], &ones, kernel);
    let all = spread([batch, groups, outputs, inputs], rows, kernel);
    // [groups, inputs, outputs, ..] to [groups, outputs, inputs, ..]
    let grouped: Shape = [groups, inputs, outputs].iter().chain(kernel).copied().collect();
    let order: Axes = [0, 2, 1].into_iter().chain(3..3 + n).collect();
    let w = w.reshape(grouped).permute(order).reshape(w_shape);
    wide_sum(&(x.reshape(x_shape).expand(all.clone()) * w.expand(all)), &Axes::from_slice(&[3]))
}

/// Windows `[lead, lead, rows, kernel rows, columns, kernel columns]` added up where they lie over each other.
pub(super) fn overlapped(x: &UOp, windows: &[Window]) -> Result<UOp, Fault> {
    let mut x = x.clone();
    for (i, w) in windows.iter().enumerate() {
        let axis = 2 + i;
        let count = x.shape()[axis];
        if count == 0 {
            return refuse!("wants at least one window along each axis");
        }
        let len = (count - 1).saturating_mul(w.stride).saturating_add(w.reach());
        holdable(Shape::from_slice(&[len, w.size]))?;
        let Window { size, stride, dilation } = *w;
        let apart = x.unwindow(WindowArg { axis, len, size, stride, dilation });
        x = apart.reduce(ReduceOp::Add, Axes::from_slice(&[axis + 1]));
    }
    Ok(x)
}

/// Without the padding, and with what is added at the ends.
fn trimmed(x: &UOp, frame: &Frame, added: &[usize]) -> Result<UOp, Fault> {
    let sides = frame.sides.iter().zip(added);
    let sides = sides.map(|(&[before, after], &end)| [-(before as i64), end as i64 - after as i64]);
    let pads: Vec<[i64; 2]> = [[0, 0]; 2].into_iter().chain(sides).collect();
    let left = padded(x, &pads, Const::Bool(false))?;
    match left.shape().contains(&0) && cropped(x, &pads).is_ok() && !x.shape().contains(&0) {
        true => refuse!("padding leaves nothing of {:?}", &x.shape()[2..]),
        false => Ok(left),
    }
}
