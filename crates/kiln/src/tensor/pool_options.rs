//! How the windows of a pooling lie.

use super::conv_options::Padding;
use super::shape_args::Lengths;
use super::sizes::{SizesArg, per_axis};
use super::window::{Frame, Window};
use crate::error::{Fault, refuse};

/// How the windows of a pooling lie: a kernel alone is windows side by side. Settings are numbers for all axes, or one for
/// each.
///
/// ```
/// use kiln::{PoolOptions, Tensor};
/// let x = Tensor::ones([1, 1, 7, 7]);
/// assert_eq!(x.max_pool2d(2).shape(), [1, 1, 3, 3]);
/// assert_eq!(x.max_pool2d(PoolOptions::new((2, 3)).stride(2).ceil_mode(true)).shape(), [1, 1, 4, 3]);
/// ```
#[derive(Clone, Debug)]
pub struct PoolOptions {
    kernel: Lengths,
    stride: Option<Lengths>,
    dilation: Lengths,
    padding: Padding,
    ceil: bool,
    counts_padding: bool,
    divisor: Option<usize>,
}

impl<S: SizesArg> From<S> for PoolOptions {
    fn from(kernel: S) -> PoolOptions {
        PoolOptions::new(kernel)
    }
}
impl From<&PoolOptions> for PoolOptions {
    fn from(options: &PoolOptions) -> PoolOptions {
        options.clone()
    }
}

/// Settings.
impl PoolOptions {
    /// Windows of `kernel`, side by side, with nothing around the input.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::ones([4]).max_pool1d(kiln::PoolOptions::new(2)).shape(), [2]);
    /// ```
    pub fn new(kernel: impl SizesArg) -> PoolOptions {
        PoolOptions {
            kernel: kernel.sizes(),
            stride: None,
            dilation: Lengths::from_slice(&[1]),
            padding: Padding::from(0),
            ceil: false,
            counts_padding: true,
            divisor: None,
        }
    }

    /// How far apart windows start.
    ///
    /// ```
    /// let options = kiln::PoolOptions::new(3).stride((2, 1));
    /// ```
    pub fn stride(self, stride: impl SizesArg) -> PoolOptions {
        PoolOptions { stride: Some(stride.sizes()), ..self }
    }

    /// How far apart the elements of a window are.
    ///
    /// ```
    /// let options = kiln::PoolOptions::new(3).dilation(2);
    /// ```
    pub fn dilation(self, dilation: impl SizesArg) -> PoolOptions {
        PoolOptions { dilation: dilation.sizes(), ..self }
    }

    /// What is added around the input: to a mean zeros, to a maximum what is less than anything.
    ///
    /// ```
    /// let options = kiln::PoolOptions::new(3).padding([(1, 0)]);
    /// ```
    pub fn padding(self, padding: impl Into<Padding>) -> PoolOptions {
        PoolOptions { padding: padding.into(), ..self }
    }

    /// Whether windows that reach past the end count too, if they start inside.
    ///
    /// ```
    /// let options = kiln::PoolOptions::new(2).ceil_mode(true);
    /// assert_eq!(kiln::Tensor::ones([5]).max_pool1d(options).shape(), [3]);
    /// ```
    pub fn ceil_mode(self, ceil: bool) -> PoolOptions {
        PoolOptions { ceil, ..self }
    }

    /// Whether a mean counts the zeros around the input, as it does at first.
    ///
    /// ```
    /// let options = kiln::PoolOptions::new(2).padding(1).count_include_pad(false);
    /// assert_eq!(kiln::Tensor::ones([2]).avg_pool1d(options).to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn count_include_pad(self, counts: bool) -> PoolOptions {
        PoolOptions { counts_padding: counts, ..self }
    }

    /// What a mean divides by, instead of the number of elements.
    ///
    /// ```
    /// let options = kiln::PoolOptions::new(2).divisor(1);
    /// assert_eq!(kiln::Tensor::ones([2]).avg_pool1d(options).to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn divisor(self, divisor: usize) -> PoolOptions {
        PoolOptions { divisor: Some(divisor), ..self }
    }
}

/// Windows over the last axes of a tensor.
pub(super) struct Pool {
    /// With what [`PoolOptions::ceil_mode`] adds at the ends.
    pub(super) frame: Frame,
    /// How much that is along each axis.
    pub(super) past: Vec<usize>,
    pub(super) counts_padding: bool,
    pub(super) divisor: Option<usize>,
}

impl PoolOptions {
    /// Over `n` axes, whatever their lengths.
    pub(super) fn frame(&self, n: usize) -> Result<Frame, Fault> {
        let kernel = per_axis("kernel", &self.kernel, n, 1)?;
        let stride = self.stride.as_ref().unwrap_or(&self.kernel);
        self.padding.frame(&kernel, stride, &self.dilation)
    }

    /// Over the last `n` axes of `shape`.
    pub(super) fn pool(&self, shape: &[usize], n: usize) -> Result<Pool, Fault> {
        let Some(first) = shape.len().checked_sub(n) else {
            let least = ["one axis", "two axes", "three axes"][n - 1];
            return refuse!("wants at least {least}, not {shape:?}");
        };
        let mut frame = self.frame(n)?;
        let mut past = vec![0; n];
        for (i, &n) in shape[first..].iter().enumerate().filter(|_| self.ceil) {
            past[i] = reached_past(frame.windows[i], n, frame.sides[i]);
            frame.sides[i][1] += past[i];
        }
        Ok(Pool { frame, past, counts_padding: self.counts_padding, divisor: self.divisor })
    }
}

/// How far past the end of a padded axis of `n` the last window reaches that starts before the padding at the end.
fn reached_past(w: Window, n: usize, [before, after]: [usize; 2]) -> usize {
    let all = n.saturating_add(before).saturating_add(after);
    let most = all.saturating_sub(w.reach()).div_ceil(w.stride) + 1;
    // the start of the last window: inside, or in the padding before it
    let count = if (most - 1) * w.stride >= n + before { most - 1 } else { most };
    match count {
        0 => 0,
        count => ((count - 1) * w.stride + w.reach()).saturating_sub(all),
    }
}
