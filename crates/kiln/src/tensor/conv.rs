//! Convolution: windows times weights, one sum.

use super::Tensor;
use super::broadcast::one_device;
use super::matmul::product_dtypes;
use super::pool::{Window, pad2, slide2, windows2};
use super::reduce::wide_sum;
use super::shape_args::{PairArg, pair};
use crate::error::{Fault, refuse};
use kiln_ir::UOp;
use kiln_ir::arg::{Axes, Shape};

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
            one_device([self, weight].into_iter().chain(bias))?;
            let sizes = Sizes::new(self, weight, bias, groups)?;
            let windows = windows2([sizes.kernel[0], sizes.kernel[1]], stride, dilation)?;
            convolution(self, weight, bias, &sizes, windows, pair("padding", padding, 0)?)
        };
        self.lift("conv2d", convolve())
    }
}

/// Checked lengths.
struct Sizes {
    batch: usize,
    groups: usize,
    /// Channels that each group reads.
    inputs: usize,
    /// Channels that each group writes.
    outputs: usize,
    kernel: [usize; 2],
}

impl Sizes {
    fn new(x: &Tensor, w: &Tensor, bias: Option<&Tensor>, groups: usize) -> Result<Sizes, Fault> {
        let (&[batch, channels, _, _], &[outputs, inputs, kh, kw]) = (x.shape(), w.shape()) else {
            return refuse!("wants four axes each, input {:?}, weight {:?}", x.shape(), w.shape());
        };
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
        Ok(Sizes { batch, groups, inputs, outputs: outputs / groups, kernel: [kh, kw] })
    }
}

fn convolution(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    s: &Sizes,
    windows: [Window; 2],
    padding: [usize; 2],
) -> Result<UOp, Fault> {
    let (dtype, wide) = product_dtypes(x, w);
    let seen = slide2(&pad2(&x.value()?.cast(wide), padding), windows)?;
    let (rows, columns) = (seen.shape()[2], seen.shape()[4]);
    let [kh, kw] = s.kernel;
    // [batch, groups, 1, inputs, rows, kh, columns, kw], then what is summed goes last
    let grouped = Shape::from_slice(&[s.batch, s.groups, 1, s.inputs, rows, kh, columns, kw]);
    let seen = seen.reshape(grouped).permute(Axes::from_slice(&[0, 1, 2, 4, 6, 3, 5, 7]));
    let all = Shape::from_slice(&[s.batch, s.groups, s.outputs, rows, columns, s.inputs, kh, kw]);
    let weights = Shape::from_slice(&[1, s.groups, s.outputs, 1, 1, s.inputs, kh, kw]);
    let weights = w.value()?.cast(wide).reshape(weights);
    let sums =
        wide_sum(&(seen.expand(all.clone()) * weights.expand(all)), &Axes::from_slice(&[5, 6, 7]));
    let channels = s.groups * s.outputs;
    let out = sums.reshape(Shape::from_slice(&[s.batch, channels, rows, columns]));
    let Some(bias) = bias else {
        return Ok(out.cast(dtype));
    };
    let bias = bias.value()?.cast(wide).reshape(Shape::from_slice(&[1, channels, 1, 1]));
    Ok((&out + bias.expand(out.shape().clone())).cast(dtype))
}
