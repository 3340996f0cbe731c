//! Losses that are scaled up, so that small gradients of half precision do not vanish (Micikevicius et al., 2017,
//! arXiv:1710.03740).

use super::Optimizer;
use crate::Tensor;
use crate::error::{Error, at_caller, refuse};
use std::sync::Mutex;

/// Scales losses up and gradients down again, and leaves out the steps whose gradients are not finite; the scale follows.
/// PyTorch's `GradScaler`.
///
/// ```
/// use kiln::{DType, Tensor, optim::{GradScaler, SGD}};
/// let w = Tensor::from([3.0f32]).set_requires_grad(true);
/// let (opt, scaler) = (SGD::new([&w], 0.25), GradScaler::new().init_scale(1024.0));
/// let loss = w.cast(DType::F16).cast(DType::F32).square().sum(..);
/// scaler.scale(&loss).backward()?;
/// assert!(scaler.step(&opt)?);
/// assert_eq!(w.item::<f32>()?, 1.5);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct GradScaler {
    now: Mutex<Now>,
    growth: f64,
    backoff: f64,
    interval: u64,
}

/// What steps change.
#[derive(Clone, Copy, Debug)]
struct Now {
    scale: f64,
    /// Steps since the scale changed.
    good: u64,
}

impl Default for GradScaler {
    fn default() -> GradScaler {
        let now = Mutex::new(Now { scale: 65536.0, good: 0 });
        GradScaler { now, growth: 2.0, backoff: 0.5, interval: 2000 }
    }
}

impl GradScaler {
    /// With a scale of 65536, which doubles after 2000 steps and halves where gradients are not finite.
    ///
    /// ```
    /// assert_eq!(kiln::optim::GradScaler::new().get_scale(), 65536.0);
    /// ```
    pub fn new() -> GradScaler {
        GradScaler::default()
    }

    /// With another first scale.
    ///
    /// ```
    /// assert_eq!(kiln::optim::GradScaler::new().init_scale(8.0).get_scale(), 8.0);
    /// ```
    pub fn init_scale(self, scale: f64) -> GradScaler {
        GradScaler { now: Mutex::new(Now { scale, good: 0 }), ..self }
    }

    /// With another number of good steps until the scale doubles.
    ///
    /// ```
    /// let scaler = kiln::optim::GradScaler::new().growth_interval(100);
    /// ```
    pub fn growth_interval(self, interval: u64) -> GradScaler {
        GradScaler { interval, ..self }
    }

    /// The scale.
    ///
    /// ```
    /// assert_eq!(kiln::optim::GradScaler::new().get_scale(), 65536.0);
    /// ```
    pub fn get_scale(&self) -> f64 {
        self.now().scale
    }

    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        self.now.lock().expect("nothing panics under the lock")
    }

    /// The loss, scaled: what `backward` starts from.
    ///
    /// ```
    /// let scaler = kiln::optim::GradScaler::new().init_scale(8.0);
    /// assert_eq!(scaler.scale(&kiln::Tensor::from(2.0f32)).item::<f32>()?, 16.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn scale(&self, loss: &Tensor) -> Tensor {
        loss.mul(self.get_scale())
    }

    /// Scales the gradients down and, if all are finite, lets the optimizer step; then the scale follows. Whether there
    /// was a step. It computes the gradients to know.
    ///
    /// ```
    /// use kiln::{Tensor, optim::{GradScaler, SGD}};
    /// let w = Tensor::from([1.0f32]).set_requires_grad(true);
    /// let (opt, scaler) = (SGD::new([&w], 0.25), GradScaler::new().init_scale(8.0));
    /// (&w * f32::INFINITY).sum(..).backward()?;
    /// assert!(!scaler.step(&opt)?);
    /// assert_eq!((w.item::<f32>()?, scaler.get_scale()), (1.0, 4.0));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the optimizer's step; a scale that is not a number above 0.
    #[track_caller]
    pub fn step(&self, optimizer: &(impl Optimizer + ?Sized)) -> Result<bool, Error> {
        let scale = self.get_scale();
        if scale.is_nan() || scale <= 0.0 {
            at_caller("GradScaler", refuse!("the scale is {scale}, wants a number above 0"))?;
        }
        let is_good = unscale(optimizer.parameters(), scale)?;
        if is_good {
            optimizer.step()?;
        }
        self.follow(is_good);
        Ok(is_good)
    }

    fn follow(&self, is_good: bool) {
        let mut now = self.now();
        let good = now.good + 1;
        *now = match is_good {
            false => Now { scale: now.scale * self.backoff, good: 0 },
            true if good >= self.interval => Now { scale: now.scale * self.growth, good: 0 },
            true => Now { good, ..*now },
        };
    }
}

/// Divides the gradients; whether all are finite.
#[track_caller]
fn unscale(parameters: &[Tensor], scale: f64) -> Result<bool, Error> {
    let grads: Vec<Tensor> = parameters.iter().filter_map(Tensor::grad).collect();
    let mut finite = Vec::new();
    for grad in &grads {
        grad.try_assign(grad.mul(1.0 / scale))?;
        finite.push(grad.isfinite().all(..));
    }
    // without gradients the step says what is missing
    if finite.is_empty() {
        return Ok(true);
    }
    Tensor::stack(finite, 0).all(..).item::<bool>()
}
