//! Planes of other lengths: each element is made of its neighbours, along one axis after the other.

use super::Tensor;
use super::shape_args::Lengths;
use super::sizes::{Sizes, SizesArg, per_axis};
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::DType;

/// Between which elements of a tensor its new ones lie, and what they are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sampling {
    /// The element before, as PyTorch's "nearest" and most other programs of old have it.
    Nearest,
    /// The nearest element.
    NearestExact,
    /// The two nearest along each axis: PyTorch's "linear", "bilinear" and "trilinear".
    Linear,
    /// The four nearest along each axis, under Keys' cubic with a = -0.75: PyTorch's "bicubic".
    Cubic,
    /// The mean of the part of the input that it covers.
    Area,
}

/// The lengths and the method of [`interpolate`](Tensor::interpolate).
///
/// ```
/// use kiln::{Resize, Sampling, Tensor};
/// let x = Tensor::from([[[1.0f32, 3.0]]]);
/// assert_eq!(x.interpolate(&Resize::by(2.0)).to_vec::<f32>()?, [1.0, 1.0, 3.0, 3.0]);
/// let smooth = Resize::to(3).sampling(Sampling::Linear).align_corners(true);
/// assert_eq!(x.interpolate(&smooth).to_vec::<f32>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Resize {
    size: Size,
    sampling: Sampling,
    align_corners: bool,
}

/// A factor for all axes.
macro_rules! from_factor {
    ($($t:ty),*) => { $(
        impl From<$t> for Resize {
            fn from(factor: $t) -> Resize {
                Resize::by(factor as f64)
            }
        }
    )* };
}
from_factor!(i32, usize, f64);

#[derive(Clone, Debug)]
enum Size {
    Lengths(Lengths),
    Factors(Vec<f64>),
}

impl Resize {
    /// To these lengths: a number for all axes but the first two, or one for each. The nearest elements are taken.
    ///
    /// ```
    /// let x = kiln::Tensor::ones([1, 1, 2, 2]).interpolate(&kiln::Resize::to((3, 5)));
    /// assert_eq!(x.shape(), [1, 1, 3, 5]);
    /// ```
    pub fn to(lengths: impl SizesArg) -> Resize {
        Resize::new(Size::Lengths(lengths.sizes()))
    }

    /// By a factor; lengths are rounded down.
    ///
    /// ```
    /// let x = kiln::Tensor::ones([1, 1, 3, 3]).interpolate(&kiln::Resize::by(1.5));
    /// assert_eq!(x.shape(), [1, 1, 4, 4]);
    /// ```
    pub fn by(factor: f64) -> Resize {
        Resize::by_each([factor])
    }

    /// By a factor for each axis but the first two.
    ///
    /// ```
    /// let x = kiln::Tensor::ones([1, 1, 2, 2]).interpolate(&kiln::Resize::by_each([1.0, 2.0]));
    /// assert_eq!(x.shape(), [1, 1, 2, 4]);
    /// ```
    pub fn by_each(factors: impl Into<Vec<f64>>) -> Resize {
        Resize::new(Size::Factors(factors.into()))
    }

    fn new(size: Size) -> Resize {
        Resize { size, sampling: Sampling::Nearest, align_corners: false }
    }

    /// With another method.
    ///
    /// ```
    /// let resize = kiln::Resize::by(2.0).sampling(kiln::Sampling::Cubic);
    /// ```
    pub fn sampling(self, sampling: Sampling) -> Resize {
        Resize { sampling, ..self }
    }

    /// Whether the outermost elements stay where they are, instead of the outermost borders. It matters to
    /// [`Sampling::Linear`] and [`Sampling::Cubic`].
    ///
    /// ```
    /// let resize = kiln::Resize::to(5).sampling(kiln::Sampling::Linear).align_corners(true);
    /// ```
    pub fn align_corners(self, align_corners: bool) -> Resize {
        Resize { align_corners, ..self }
    }

    /// What happens along each of the last axes, which have these lengths.
    fn steps(&self, lengths: &[usize]) -> Result<Vec<Step>, Fault> {
        if lengths.contains(&0) {
            return refuse!("an axis of {lengths:?} is empty");
        }
        let (to, factors) = self.lengths(lengths)?;
        let step = |i: usize| {
            let (n, m) = (lengths[i], to[i]);
            let ratio = factors.as_ref().map_or(n as f64 / m as f64, |f| 1.0 / f[i]);
            Step { axis: i + 2, n, m, ratio, align_corners: self.align_corners }
        };
        Ok((0..lengths.len()).map(step).collect())
    }

    /// The new lengths, and the factors if they were given.
    fn lengths(&self, lengths: &[usize]) -> Result<(Sizes, Option<Vec<f64>>), Fault> {
        let count = lengths.len();
        match &self.size {
            Size::Lengths(to) => Ok((per_axis("length", to, count, 1)?, None)),
            Size::Factors(factors) => {
                let factors =
                    if factors.len() == 1 { vec![factors[0]; count] } else { factors.clone() };
                let long = |(&n, f): (&usize, f64)| (n as f64 * f).floor();
                let to: Vec<f64> = lengths.iter().zip(factors.iter().copied()).map(long).collect();
                if factors.len() != count || to.iter().any(|m| !(1.0..9e15).contains(m)) {
                    return refuse!("factors {factors:?} do not give {lengths:?} other lengths");
                }
                Ok((to.iter().map(|&m| m as usize).collect(), Some(factors)))
            }
        }
    }
}

/// `m` elements of an axis of `n`.
#[derive(Clone, Copy)]
struct Step {
    axis: usize,
    n: usize,
    m: usize,
    /// How far apart they are in the input.
    ratio: f64,
    align_corners: bool,
}

impl Step {
    /// 0, 1, 2, .. in f64.
    fn counter(self, x: &Tensor) -> Tensor {
        Tensor::arange_with(self.m, (DType::F64, x.device()))
    }

    /// Where the new elements lie in the input.
    fn places(self, x: &Tensor) -> Tensor {
        let i = self.counter(x);
        match (self.align_corners, self.m) {
            (true, 1) => i.mul(0.0),
            (true, m) => i.mul((self.n - 1) as f64 / (m - 1) as f64),
            (false, _) => i.add(0.5).mul(self.ratio).sub(0.5),
        }
    }

    /// The elements at these whole positions, or at the border's.
    fn at(self, x: &Tensor, places: &Tensor) -> Tensor {
        // a value from memory has no known bounds, so it is clamped after it was stored
        let places = places.cast(DType::I32).contiguous().clamp(0, self.n as i64 - 1);
        x.index_select(self.axis, &places)
    }

    /// Weights of `x`'s dtype along the axis.
    fn weights(self, x: &Tensor, weights: &Tensor) -> Tensor {
        let mut shape = vec![1; x.ndim()];
        shape[self.axis] = self.m;
        weights.cast(x.dtype()).contiguous().reshape(shape)
    }

    fn nearest(self, x: &Tensor, shift: f64) -> Tensor {
        let times = self.m / self.n;
        if self.m.is_multiple_of(self.n) && self.ratio == 1.0 / times as f64 {
            return if times == 1 { x.clone() } else { x.repeat_interleave(times, self.axis) };
        }
        self.at(x, &self.counter(x).add(shift).mul(self.ratio).floor())
    }

    fn linear(self, x: &Tensor) -> Tensor {
        let places = self.places(x).clamp_min(0.0);
        let first = places.floor();
        let share = self.weights(x, &places.sub(&first));
        let [a, b] = [&first, &first.add(1.0)].map(|p| self.at(x, p));
        a.mul(share.neg().add(1.0)).add(b.mul(share))
    }

    fn cubic(self, x: &Tensor) -> Tensor {
        let places = self.places(x);
        let first = places.floor();
        let weights = keys(&places.sub(&first));
        let tap =
            |(w, offset): (&Tensor, f64)| self.at(x, &first.add(offset)).mul(self.weights(x, w));
        let taps = weights.iter().zip([-1.0, 0.0, 1.0, 2.0]).map(tap);
        taps.reduce(|a, b| a.add(b)).expect("four")
    }
}

/// The weights of four neighbours, of which the second is `share` before the place: Keys, "Cubic convolution interpolation for
/// digital image processing", 1981.
pub(super) fn keys(share: &Tensor) -> [Tensor; 4] {
    const A: f64 = -0.75;
    // factored, so that no large terms cancel
    let near = |t: &Tensor, rest: &Tensor| t.mul(-(A + 2.0)).add(1.0).mul(t).add(1.0).mul(rest);
    let far = |t: &Tensor, rest: &Tensor| t.mul(rest).mul(rest).mul(A);
    let rest = share.neg().add(1.0);
    [far(share, &rest), near(share, &rest), near(&rest, share), far(&rest, share)]
}

/// Other lengths.
impl Tensor {
    /// `[batch, channels, ..]` of one to three more axes, with other lengths along these, as PyTorch's `interpolate`. The dtype
    /// stays.
    ///
    /// ```
    /// use kiln::{Resize, Sampling, Tensor};
    /// let x = Tensor::ones([1, 3, 4, 4]);
    /// let y = x.interpolate(&Resize::to((8, 6)).sampling(Sampling::Linear));
    /// assert_eq!(y.shape(), [1, 3, 8, 6]);
    /// ```
    ///
    /// # Errors
    /// Another number of axes, or settings for one; an empty axis or length; a dtype other than floats, where elements are
    /// not only taken.
    #[must_use]
    #[track_caller]
    pub fn interpolate(&self, to: &Resize) -> Tensor {
        let _method = outermost("interpolate");
        let steps = match self.resizable(to) {
            Ok(steps) => steps,
            Err(fault) => return Tensor::broken(fault.at("interpolate")),
        };
        let one_by_one = |f: fn(Step, &Tensor) -> Tensor| {
            let wide = self.cast(self.dtype().accumulator());
            let moved = steps.iter().filter(|s| s.n != s.m || s.ratio != 1.0);
            moved.fold(wide, |x, &s| f(s, &x)).cast(self.dtype())
        };
        match to.sampling {
            Sampling::Nearest => steps.iter().fold(self.clone(), |x, s| s.nearest(&x, 0.0)),
            Sampling::NearestExact => steps.iter().fold(self.clone(), |x, s| s.nearest(&x, 0.5)),
            Sampling::Linear => one_by_one(Step::linear),
            Sampling::Cubic => one_by_one(Step::cubic),
            Sampling::Area => {
                let lengths: Vec<usize> = steps.iter().map(|s| s.m).collect();
                match lengths.len() {
                    1 => self.adaptive_avg_pool1d(lengths),
                    2 => self.adaptive_avg_pool2d(lengths),
                    _ => self.adaptive_avg_pool3d(lengths),
                }
            }
        }
    }

    fn resizable(&self, to: &Resize) -> Result<Vec<Step>, Fault> {
        Tensor::all_valid([self])?;
        if !(3..=5).contains(&self.ndim()) {
            return refuse!(
                "wants [batch, channels, ..] of three to five axes, not {:?}",
                self.shape()
            );
        }
        let takes = matches!(to.sampling, Sampling::Nearest | Sampling::NearestExact);
        if !takes && !self.dtype().is_float() {
            return refuse!("wants floats, not {}", self.dtype());
        }
        if to.sampling == Sampling::Cubic && self.ndim() != 4 {
            return refuse!("cubic wants [batch, channels, height, width], not {:?}", self.shape());
        }
        to.steps(&self.shape()[2..])
    }
}
