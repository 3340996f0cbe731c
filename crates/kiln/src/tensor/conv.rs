//! Convolution: windows times weights, one sum.

use super::broadcast::one_device;
use super::conv_options::ConvOptions;
use super::matmul::product_dtypes;
use super::reduce::wide_sum;
use super::shape_args::{PairArg, pair};
use super::sizes::SizesArg;
use super::window::{Frame, pad_last, slide_last, windows2};
use super::{PadMode, Padding, Tensor, winograd};
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::UOp;
use kiln_ir::arg::{Axes, Shape};
use smallvec::{SmallVec, smallvec};

impl Tensor {
    /// Convolves `[batch, channels, height, width]` with `[outputs, channels / groups, kernel height, kernel width]`.
    /// Stride, dilation and padding are each a number or a pair. Dtypes as in [`matmul`](Tensor::matmul).
    ///
    /// ```
    /// use kiln::Tensor;
    /// let (x, w) = (Tensor::ones([1, 1, 3, 3]), Tensor::ones([1, 1, 2, 2]));
    /// assert_eq!(x.conv2d(&w, None, 1, 1, 1, 0).to_vec::<f32>()?, [4.0; 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not belong together, a kernel that does not fit, other devices.
    #[must_use]
    #[track_caller]
    pub fn conv2d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        groups: usize,
        stride: impl PairArg,
        dilation: impl PairArg,
        padding: impl PairArg,
    ) -> Tensor {
        let convolve = || -> Result<UOp, Fault> {
            Tensor::all_valid([self, weight].into_iter().chain(bias))?;
            let sizes = Lengths::new(2, self, weight, bias, groups)?;
            let windows = windows2([sizes.kernel[0], sizes.kernel[1]], stride, dilation)?;
            let sides = pair("padding", padding, 0)?.map(|p| [p, p]);
            let frame = Frame {
                windows: windows.into_iter().collect(),
                sides: sides.into_iter().collect(),
            };
            convolution(self, weight, bias, &sizes, &frame)
        };
        self.lift("conv2d", convolve())
    }

    /// A convolution over `n` axes.
    #[track_caller]
    fn convolved(
        &self,
        op: &'static str,
        n: usize,
        (weight, bias): (&Tensor, Option<&Tensor>),
        options: &ConvOptions,
    ) -> Tensor {
        let _method = outermost(op);
        let prepare = || -> Result<(Lengths, Frame), Fault> {
            Tensor::all_valid([self, weight].into_iter().chain(bias))?;
            let sizes = Lengths::new(n, self, weight, bias, options.group_count())?;
            let frame = options.frame(&sizes.kernel)?;
            Ok((sizes, frame))
        };
        let (sizes, mut frame) = match prepare() {
            Ok(prepared) => prepared,
            Err(fault) => return Tensor::broken(fault.at(op)),
        };
        let x = match options.mode() {
            Some(mode) => self.bordered(mode, &mut frame),
            None => self.clone(),
        };
        x.lift(op, convolution(&x, weight, bias, &sizes, &frame))
    }

    /// With its own elements around it; nothing is left to add then.
    #[track_caller]
    fn bordered(&self, mode: PadMode, frame: &mut Frame) -> Tensor {
        let mut pads = vec![(0, 0); self.ndim() - frame.sides.len()];
        pads.extend(frame.sides.iter().map(|s| (s[0] as i64, s[1] as i64)));
        frame.sides.iter_mut().for_each(|s| *s = [0, 0]);
        self.pad_mode(pads, mode)
    }
}

/// Methods over so many axes.
macro_rules! convolutions {
    ($($n:literal $axes:literal $image:literal $kernel:literal $with:ident;)*) => {
        /// Convolutions over one to three axes.
        impl Tensor { $(
            #[doc = concat!("Convolves `[batch, channels, ", $axes, "]` with `[outputs, channels / groups, ", $axes, "]`, as `options` say.")]
            /// The bias is `[outputs]`. Dtypes as in [`matmul`](Tensor::matmul).
            ///
            /// ```
            /// use kiln::{ConvOptions, Padding, Tensor};
            #[doc = concat!("let (x, w) = (Tensor::ones(", $image, "), Tensor::ones(", $kernel, "));")]
            #[doc = concat!("let y = x.", stringify!($with), "(&w, None, &ConvOptions::new().padding(Padding::Same));")]
            /// assert_eq!(y.shape(), x.shape());
            /// ```
            ///
            /// # Errors
            /// Shapes that do not belong together, a kernel that does not fit, settings for another number of axes, other
            /// devices.
            #[must_use]
            #[track_caller]
            pub fn $with(
                &self,
                weight: &Tensor,
                bias: Option<&Tensor>,
                options: &ConvOptions,
            ) -> Tensor {
                self.convolved(stringify!($with), $n, (weight, bias), options)
            }
        )* }
    };
}

convolutions! {
    1 "length" "[1, 1, 4]" "[1, 1, 2]" conv1d_with;
    2 "height, width" "[1, 1, 4, 4]" "[1, 1, 2, 2]" conv2d_with;
    3 "depth, height, width" "[1, 1, 4, 4, 4]" "[1, 1, 2, 2, 2]" conv3d_with;
}

/// Methods with all settings in a row.
macro_rules! plain_convolutions {
    ($($n:literal $axes:literal $image:literal $kernel:literal $result:literal $plain:ident $with:ident;)*) => {
        /// Convolutions over one and three axes, as [`conv2d`](Tensor::conv2d) is over two.
        impl Tensor { $(
        #[doc = concat!("Convolves `[batch, channels, ", $axes, "]` with `[outputs, channels / groups, ", $axes, "]`.")]
        /// Stride, dilation and padding are each a number, or one for each axis. Dtypes as in [`matmul`](Tensor::matmul).
        ///
        /// ```
        /// use kiln::Tensor;
        #[doc = concat!("let (x, w) = (Tensor::ones(", $image, "), Tensor::ones(", $kernel, "));")]
        #[doc = concat!("assert_eq!(x.", stringify!($plain), "(&w, None, 1, 1, 1, 0).shape(), ", $result, ");")]
        /// ```
        ///
        /// # Errors
        #[doc = concat!("As [`", stringify!($with), "`](Tensor::", stringify!($with), ").")]
        #[must_use]
        #[track_caller]
        pub fn $plain(
            &self,
            weight: &Tensor,
            bias: Option<&Tensor>,
            groups: usize,
            stride: impl SizesArg,
            dilation: impl SizesArg,
            padding: impl SizesArg,
        ) -> Tensor {
            let options = ConvOptions::new().stride(stride).dilation(dilation).groups(groups);
            let options = options.padding(Padding::Explicit(padding.sizes().to_vec()));
            self.convolved(stringify!($plain), $n, (weight, bias), &options)
        }
        )* }
    };
}

plain_convolutions! {
    1 "length" "[1, 1, 4]" "[1, 1, 2]" "[1, 1, 3]" conv1d conv1d_with;
    3 "depth, height, width" "[1, 1, 4, 4, 4]" "[1, 1, 2, 2, 2]" "[1, 1, 3, 3, 3]" conv3d conv3d_with;
}

/// Checked lengths.
struct Lengths {
    batch: usize,
    groups: usize,
    /// Channels that each group reads.
    inputs: usize,
    /// Channels that each group writes.
    outputs: usize,
    kernel: SmallVec<[usize; 3]>,
}

impl Lengths {
    /// Of a convolution over `n` axes.
    fn new(
        n: usize,
        x: &Tensor,
        w: &Tensor,
        bias: Option<&Tensor>,
        groups: usize,
    ) -> Result<Lengths, Fault> {
        one_device([x, w].into_iter().chain(bias))?;
        if [x, w].iter().any(|t| t.ndim() != n + 2) {
            let each = ["three", "four", "five"][n - 1];
            return refuse!(
                "wants {each} axes each, input {:?}, weight {:?}",
                x.shape(),
                w.shape()
            );
        }
        let (batch, channels) = (x.shape()[0], x.shape()[1]);
        let (outputs, inputs) = (w.shape()[0], w.shape()[1]);
        if groups == 0 || inputs * groups != channels || outputs % groups != 0 {
            return refuse!(
                "channels differ, input {:?}, weight {:?}, groups {groups}",
                x.shape(),
                w.shape()
            );
        }
        if let Some(bias) = bias.filter(|b| b.shape() != [outputs]) {
            return refuse!("bias {:?} is not [{outputs}]", bias.shape());
        }
        let kernel = w.shape()[2..].iter().copied().collect();
        Ok(Lengths { batch, groups, inputs, outputs: outputs / groups, kernel })
    }
}

fn convolution(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    s: &Lengths,
    frame: &Frame,
) -> Result<UOp, Fault> {
    let (x, w) = (&x.factor()?, &w.factor()?);
    let (dtype, wide) = product_dtypes(x, w);
    let n = s.kernel.len();
    if winograd::is_wanted(&x.value()?, &s.kernel, frame) {
        let sums = winograd::sums(&x.cast(wide), &w.cast(wide), s.groups, frame)?;
        return with_bias(&sums, bias, dtype);
    }
    let seen = slide_last(&pad_last(&x.value()?.cast(wide), &frame.sides)?, &frame.windows)?;
    let slid: Shape = seen.shape()[2..].iter().copied().collect();
    let counts: Shape = slid.iter().step_by(2).copied().collect();
    // [batch, groups, 1, inputs, rows, kh, columns, kw], then what is summed goes last
    let mut grouped: Shape = smallvec![s.batch, s.groups, 1, s.inputs];
    grouped.extend_from_slice(&slid);
    let mut order: Axes = smallvec![0, 1, 2];
    order.extend((0..n).map(|i| 4 + 2 * i));
    order.push(3);
    order.extend((0..n).map(|i| 5 + 2 * i));
    let seen = seen.reshape(grouped).permute(order);
    let of = |lead: [usize; 3], counts: &[usize]| -> Shape {
        lead.iter().chain(counts).chain(&[s.inputs]).chain(&s.kernel).copied().collect()
    };
    let all = of([s.batch, s.groups, s.outputs], &counts);
    let ones: Shape = counts.iter().map(|_| 1).collect();
    let weights = w.value()?.cast(wide).reshape(of([1, s.groups, s.outputs], &ones));
    let summed: Axes = (3 + n..4 + 2 * n).collect();
    let sums = wide_sum(&(seen.expand(all.clone()) * weights.expand(all)), &summed);
    let channels = s.groups * s.outputs;
    let mut shape: Shape = smallvec![s.batch, channels];
    shape.extend_from_slice(&counts);
    with_bias(&sums.reshape(shape), bias, dtype)
}

/// The sums of a convolution, a number added to each channel, rounded once.
pub(super) fn with_bias(
    sums: &UOp,
    bias: Option<&Tensor>,
    dtype: kiln_ir::DType,
) -> Result<UOp, Fault> {
    let Some(bias) = bias else {
        return Ok(sums.cast(dtype));
    };
    let mut shape: Shape = sums.shape().iter().map(|_| 1).collect();
    shape[1] = sums.shape()[1];
    let bias = bias.value()?.cast(sums.dtype()).reshape(shape);
    Ok((sums + bias.expand(sums.shape().clone())).cast(dtype))
}
