//! Where new layers take their tensors from: random numbers, dtype and device, as a scope of the calling thread.

use crate::args::ShapeArg;
use crate::{Options, Rng, Tensor};
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static CURRENT: RefCell<Build> = RefCell::default();
}

/// What the layers that are made in a scope are made of: their dtype and device, and the random numbers of their weights.
/// Without one they are f32 on the default device, and draw from the sequence of [`manual_seed`](crate::manual_seed).
///
/// ```
/// use kiln::{DType, Rng, nn::{Build, Linear}};
/// let layer = || Build::new((DType::F64, "INTERP")).rng(Rng::new(7)).run(|| Linear::new(2, 3));
/// let (a, b) = (layer(), layer());
/// assert_eq!((a.weight.dtype(), a.weight.device().name()), (DType::F64, "INTERP"));
/// assert_eq!(a.weight.to_vec::<f64>()?, b.weight.to_vec::<f64>()?);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Build {
    options: Options,
    rng: Option<Arc<Rng>>,
}

impl Build {
    /// With a float dtype, a device or both; `()` is neither.
    ///
    /// ```
    /// use kiln::{DType, nn::{BatchNorm, Build}};
    /// let norm = Build::new(DType::F64).run(|| BatchNorm::new(2));
    /// assert_eq!(norm.running_mean.dtype(), DType::F64);
    /// ```
    pub fn new(options: impl Into<Options>) -> Build {
        Build { options: options.into(), rng: None }
    }

    /// With random numbers of one's own. Each scope goes on where the last one ended.
    ///
    /// ```
    /// use kiln::{Rng, nn::{Build, Linear}};
    /// let build = Build::new(()).rng(Rng::new(7));
    /// let [a, b] = [(); 2].map(|()| build.run(|| Linear::new(2, 3)));
    /// assert_ne!(a.weight.to_vec::<f32>()?, b.weight.to_vec::<f32>()?);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn rng(self, rng: Rng) -> Build {
        Build { rng: Some(Arc::new(rng)), ..self }
    }

    /// Runs `f`, whose layers are made so.
    ///
    /// ```
    /// use kiln::{DType, nn::{Build, Linear}};
    /// assert_eq!(Build::new(DType::BF16).run(|| Linear::new(1, 1)).weight.dtype(), DType::BF16);
    /// ```
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        let _scope = Scope { before: CURRENT.replace(self.clone()) };
        f()
    }
}

/// Restores what was at the end of a scope, however it ends.
struct Scope {
    before: Build,
}

impl Drop for Scope {
    fn drop(&mut self) {
        CURRENT.replace(std::mem::take(&mut self.before));
    }
}

fn current() -> Build {
    CURRENT.with_borrow(Build::clone)
}

/// A parameter drawn evenly from `-bound..bound`.
#[track_caller]
pub(super) fn uniform(shape: &[usize], bound: f64) -> Tensor {
    let Build { options, rng } = current();
    let drawn = match rng {
        Some(rng) => rng.rand_with(shape, options),
        None => Tensor::rand_with(shape, options),
    };
    parameter((drawn * (2.0 * bound)).sub(bound))
}

/// A parameter drawn from the normal distribution.
#[track_caller]
pub(super) fn normal(shape: &[usize]) -> Tensor {
    let Build { options, rng } = current();
    parameter(match rng {
        Some(rng) => rng.randn_with(shape, options),
        None => Tensor::randn_with(shape, options),
    })
}

/// A parameter of one number.
#[track_caller]
pub(super) fn filled(shape: impl ShapeArg, value: f64) -> Tensor {
    let ones = Tensor::ones_with(shape, current().options);
    parameter(ones.full_like(value))
}

/// What is no parameter, of one number, in memory from the start.
#[track_caller]
pub(super) fn buffer(length: usize, value: f32) -> Tensor {
    Tensor::from_vec(vec![value; length], [length]).to(current().options)
}

/// The bound of PyTorch's default initialisation, Kaiming's with a = sqrt(5): of weights, and of their bias.
pub(super) fn kaiming_bound(fan_in: usize) -> f64 {
    1.0 / (fan_in.max(1) as f64).sqrt()
}

/// A tensor that training changes.
fn parameter(value: Tensor) -> Tensor {
    value.set_requires_grad(true)
}
