//! Windows as columns, and columns added up as windows.

use super::Tensor;
use super::border::padded;
use super::conv_options::ConvOptions;
use super::conv_transpose::overlapped;
use super::sizes::{SizesArg, per_axis};
use super::window::{Frame, pad_last, slide_last};
use crate::error::{Fault, refuse};
use kiln_ir::UOp;
use kiln_ir::arg::{Axes, Shape};
use kiln_ir::dtype::Const;

/// Columns.
impl Tensor {
    /// The windows of `[batch, channels, height, width]` as columns, `[batch, channels * kernel, windows]`: PyTorch's
    /// `nn.functional.unfold`. Groups do not matter.
    ///
    /// ```
    /// use kiln::{ConvOptions, Tensor};
    /// let x = Tensor::ones([1, 2, 4, 4]);
    /// assert_eq!(x.im2col((2, 3), &ConvOptions::new()).shape(), [1, 12, 6]);
    /// ```
    ///
    /// # Errors
    /// Other than four axes, a kernel that does not fit, settings for another number of axes.
    #[must_use]
    #[track_caller]
    pub fn im2col(&self, kernel: impl SizesArg, options: &ConvOptions) -> Tensor {
        let columns = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let &[batch, channels, _, _] = &x.shape()[..] else {
                return refuse!("wants [batch, channels, height, width], not {:?}", x.shape());
            };
            let frame = framed(&kernel, options)?;
            let seen = slide_last(&pad_last(&x, &frame.sides)?, &frame.windows)?;
            let seen = seen.permute(Axes::from_slice(&[0, 1, 3, 5, 2, 4]));
            let [_, _, height, width, rows, columns] = seen.shape()[..] else {
                unreachable!("six")
            };
            Ok(seen.reshape(Shape::from_slice(&[batch, channels * height * width, rows * columns])))
        };
        self.lift("im2col", columns())
    }

    /// Columns `[batch, channels * kernel, windows]` added up where their windows lie in `[batch, channels, height, width]`
    /// of these lengths: the transpose of [`im2col`](Tensor::im2col), PyTorch's `nn.functional.fold`.
    ///
    /// ```
    /// use kiln::{ConvOptions, Tensor};
    /// let y = Tensor::ones([1, 4, 4]).fold((3, 3), 2, &ConvOptions::new());
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Other than three axes, columns that are not those of such windows.
    #[must_use]
    #[track_caller]
    pub fn fold(
        &self,
        lengths: impl SizesArg,
        kernel: impl SizesArg,
        options: &ConvOptions,
    ) -> Tensor {
        let fold = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let lengths = per_axis("length", &lengths.sizes(), 2, 1)?;
            folded(&x, &lengths, &framed(&kernel, options)?)
        };
        self.lift("fold", fold())
    }
}

fn framed(kernel: &impl SizesArg, options: &ConvOptions) -> Result<Frame, Fault> {
    match options.mode() {
        Some(mode) => refuse!("has zeros around the input, not {mode:?}"),
        None => options.frame(&per_axis("kernel", &kernel.sizes(), 2, 1)?),
    }
}

fn folded(x: &UOp, lengths: &[usize], frame: &Frame) -> Result<UOp, Fault> {
    let whole = |i: usize| lengths[i].saturating_add(frame.sides[i][0] + frame.sides[i][1]);
    let counts = [0, 1].map(|i| frame.windows[i].count(whole(i)));
    let sizes = [0, 1].map(|i| frame.windows[i].size);
    let kernel: usize = sizes.iter().product();
    let columns = match x.shape()[..] {
        [_, columns, windows] if columns % kernel == 0 && windows == counts[0] * counts[1] => {
            columns
        }
        _ => {
            let (a, b) = (kernel, counts[0] * counts[1]);
            return refuse!("wants [batch, channels * {a}, {b}], not {:?}", x.shape());
        }
    };
    let apart = [x.shape()[0], columns / kernel, sizes[0], sizes[1], counts[0], counts[1]];
    let apart = x.reshape(Shape::from_slice(&apart)).permute(Axes::from_slice(&[0, 1, 4, 2, 5, 3]));
    let sum = overlapped(&apart, &frame.windows)?;
    let pad = |i: usize| {
        let before = frame.sides[i][0] as i64;
        [-before, (lengths[i] as i64 + before) - sum.shape()[2 + i] as i64]
    };
    padded(&sum, &[[0, 0], [0, 0], pad(0), pad(1)], Const::Bool(false))
}
