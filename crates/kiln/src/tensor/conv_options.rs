//! How the windows of a convolution lie.

use super::PadMode;
use super::shape_args::{Int, Lengths};
use super::sizes::{Sizes, SizesArg, per_axis};
use super::window::{Frame, Sides, Window};
use crate::error::{Fault, refuse};

/// What a convolution adds around its input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Padding {
    /// So many elements at both sides of each axis: one number, or one for each axis.
    Explicit(Vec<i64>),
    /// So many elements before and after those of each axis.
    Sides(Vec<(i64, i64)>),
    /// As many as give the output the lengths of the input, which a stride of 1 allows.
    Same,
}

impl<S: SizesArg> From<S> for Padding {
    fn from(sizes: S) -> Padding {
        Padding::Explicit(sizes.sizes().to_vec())
    }
}
impl<T: Int, const N: usize> From<[(T, T); N]> for Padding {
    fn from(sides: [(T, T); N]) -> Padding {
        Padding::Sides(sides.iter().map(|(a, b)| (a.as_i64(), b.as_i64())).collect())
    }
}

impl Padding {
    /// Windows of these lengths, with this padding around the input.
    pub(super) fn frame(
        &self,
        kernel: &[usize],
        stride: &[i64],
        dilation: &[i64],
    ) -> Result<Frame, Fault> {
        let stride = per_axis("stride", stride, kernel.len(), 1)?;
        let dilation = per_axis("dilation", dilation, kernel.len(), 1)?;
        let windows = (0..kernel.len())
            .map(|i| Window { size: kernel[i], stride: stride[i], dilation: dilation[i] })
            .collect::<smallvec::SmallVec<[Window; 3]>>();
        let sides = self.sides(&windows)?;
        Ok(Frame { windows, sides })
    }

    /// What is added along each axis.
    pub(super) fn sides(&self, windows: &[Window]) -> Result<Sides, Fault> {
        let n = windows.len();
        match self {
            Padding::Explicit(both) => {
                Ok(per_axis("padding", both, n, 0)?.iter().map(|&p| [p, p]).collect())
            }
            Padding::Sides(sides) if sides.len() != n || sides.iter().any(|s| s.0.min(s.1) < 0) => {
                refuse!("padding {sides:?} is not a pair of lengths for each of {n} axes")
            }
            Padding::Sides(sides) => {
                Ok(sides.iter().map(|s| [s.0 as usize, s.1 as usize]).collect())
            }
            Padding::Same if windows.iter().any(|w| w.stride != 1) => {
                refuse!("the same lengths are possible with stride 1 only")
            }
            Padding::Same => Ok(windows.iter().map(|w| halves(w.reach() - 1)).collect()),
        }
    }
}

/// `n` in two parts, of which the second may be larger by 1.
fn halves(n: usize) -> [usize; 2] {
    [n / 2, n - n / 2]
}

/// How a convolution's windows lie, and what is around its input. Settings are numbers for all axes, or one for each.
///
/// ```
/// use kiln::{ConvOptions, Tensor};
/// let (x, w) = (Tensor::ones([1, 2, 8, 8]), Tensor::ones([4, 1, 3, 3]));
/// let y = x.conv2d_with(&w, None, &ConvOptions::new().stride((2, 1)).padding(1).groups(2));
/// assert_eq!(y.shape(), [1, 4, 4, 8]);
/// ```
#[derive(Clone, Debug)]
pub struct ConvOptions {
    stride: Lengths,
    dilation: Lengths,
    output_padding: Lengths,
    padding: Padding,
    mode: Option<PadMode>,
    groups: usize,
}

impl Default for ConvOptions {
    fn default() -> ConvOptions {
        let one = Lengths::from_slice(&[1]);
        ConvOptions {
            stride: one.clone(),
            dilation: one,
            output_padding: Lengths::from_slice(&[0]),
            padding: Padding::from(0),
            mode: None,
            groups: 1,
        }
    }
}

/// Settings.
impl ConvOptions {
    /// Stride 1, dilation 1, no padding, one group.
    ///
    /// ```
    /// let (x, w) = (kiln::Tensor::ones([1, 1, 5]), kiln::Tensor::ones([1, 1, 2]));
    /// assert_eq!(x.conv1d_with(&w, None, &kiln::ConvOptions::new()).shape(), [1, 1, 4]);
    /// ```
    pub fn new() -> ConvOptions {
        ConvOptions::default()
    }

    /// How far apart windows start.
    ///
    /// ```
    /// let options = kiln::ConvOptions::new().stride((2, 1));
    /// ```
    pub fn stride(self, stride: impl SizesArg) -> ConvOptions {
        ConvOptions { stride: stride.sizes(), ..self }
    }

    /// How far apart the elements of a window are.
    ///
    /// ```
    /// let options = kiln::ConvOptions::new().dilation(2);
    /// ```
    pub fn dilation(self, dilation: impl SizesArg) -> ConvOptions {
        ConvOptions { dilation: dilation.sizes(), ..self }
    }

    /// What is added around the input; of a transposed convolution, what is taken off the output.
    ///
    /// ```
    /// use kiln::{ConvOptions, Padding};
    /// let both_sides = ConvOptions::new().padding(1);
    /// let only_before = ConvOptions::new().padding([(2, 0)]);
    /// let same_lengths = ConvOptions::new().padding(Padding::Same);
    /// ```
    pub fn padding(self, padding: impl Into<Padding>) -> ConvOptions {
        ConvOptions { padding: padding.into(), ..self }
    }

    /// Which of the input's own elements the padding is, instead of zeros.
    ///
    /// ```
    /// use kiln::{ConvOptions, PadMode};
    /// let options = ConvOptions::new().padding(1).padding_mode(PadMode::Circular);
    /// ```
    pub fn padding_mode(self, mode: PadMode) -> ConvOptions {
        ConvOptions { mode: Some(mode), ..self }
    }

    /// How many elements a transposed convolution adds at the end of each axis. Others do not look at it.
    ///
    /// ```
    /// let options = kiln::ConvOptions::new().stride(2).output_padding(1);
    /// ```
    pub fn output_padding(self, padding: impl SizesArg) -> ConvOptions {
        ConvOptions { output_padding: padding.sizes(), ..self }
    }

    /// Into how many parts the channels fall: outputs of a part see the inputs of that part.
    ///
    /// ```
    /// let options = kiln::ConvOptions::new().groups(2);
    /// ```
    pub fn groups(self, groups: usize) -> ConvOptions {
        ConvOptions { groups, ..self }
    }
}

/// What they come to.
impl ConvOptions {
    pub(crate) fn group_count(&self) -> usize {
        self.groups
    }

    pub(super) fn mode(&self) -> Option<PadMode> {
        self.mode
    }

    /// Of windows with these lengths.
    pub(super) fn frame(&self, kernel: &[usize]) -> Result<Frame, Fault> {
        if kernel.contains(&0) {
            return refuse!("kernel {kernel:?} must be at least 1");
        }
        self.padding.frame(kernel, &self.stride, &self.dilation)
    }

    /// What a transposed convolution adds at the end of each axis.
    pub(super) fn added(&self, windows: &[Window]) -> Result<Sizes, Fault> {
        let added = per_axis("output_padding", &self.output_padding, windows.len(), 0)?;
        let fits = |(w, &a): (&Window, &usize)| a < w.stride.max(w.dilation);
        if !windows.iter().zip(&added).all(fits) {
            return refuse!(
                "output_padding {added:?} must be less than the stride or the dilation"
            );
        }
        Ok(added)
    }
}
