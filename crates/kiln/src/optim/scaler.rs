//! Losses that are scaled up, so that small gradients of half precision do not vanish (Micikevicius et al., 2017,
//! arXiv:1710.03740).

use super::Optimizer;
use crate::Tensor;
use crate::error::{Error, at_caller, refuse};
use crate::nn::{Module, StateDict};
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
    /// Whether gradients that were scaled down before their step are finite.
    unscaled: Option<bool>,
}

impl Now {
    fn new(scale: f64, good: u64) -> Now {
        Now { scale, good, unscaled: None }
    }
}

impl Default for GradScaler {
    fn default() -> GradScaler {
        let now = Mutex::new(Now::new(65536.0, 0));
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
        GradScaler { now: Mutex::new(Now::new(scale, 0)), ..self }
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

    /// Scales the gradients down before their [`step`](GradScaler::step), which then leaves them as they are: for
    /// [`clip_grad_norm`](crate::optim::clip_grad_norm) and whoever else wants to see them. Whether all are finite.
    ///
    /// ```
    /// use kiln::{Tensor, optim::{GradScaler, SGD, clip_grad_norm}};
    /// let w = Tensor::from([3.0f32]).set_requires_grad(true);
    /// let (opt, scaler) = (SGD::new([&w], 1.0), GradScaler::new().init_scale(8.0));
    /// scaler.scale(&w.square().sum(..)).backward()?;
    /// assert!(scaler.unscale(&opt)?);
    /// assert_eq!(w.grad().expect("reached").item::<f32>()?, 6.0);
    /// clip_grad_norm([&w], 1.0)?;
    /// scaler.step(&opt)?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A scale that is not a number above 0; gradients that were scaled down since the last step.
    #[track_caller]
    pub fn unscale(&self, optimizer: &(impl Optimizer + ?Sized)) -> Result<bool, Error> {
        if self.now().unscaled.is_some() {
            at_caller("GradScaler", refuse!("the gradients are scaled down already: step first"))?;
        }
        let is_good = unscale(optimizer.parameters(), self.checked_scale()?)?;
        self.now().unscaled = Some(is_good);
        Ok(is_good)
    }

    /// The scale and the number of good steps since it changed, under PyTorch's names.
    ///
    /// ```
    /// let state = kiln::optim::GradScaler::new().init_scale(8.0).state_dict();
    /// assert_eq!(state["scale"].item::<f64>()?, 8.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn state_dict(&self) -> StateDict {
        let Now { scale, good, .. } = *self.now();
        let (scale, good) = (Tensor::from(scale), Tensor::from(good as i64));
        [("scale".to_owned(), scale), ("_growth_tracker".to_owned(), good)].into()
    }

    /// Takes on what [`state_dict`](GradScaler::state_dict) gave. On an error nothing has changed.
    ///
    /// ```
    /// use kiln::optim::GradScaler;
    /// let scaler = GradScaler::new();
    /// scaler.load_state_dict(&GradScaler::new().init_scale(8.0).state_dict())?;
    /// assert_eq!(scaler.get_scale(), 8.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A name that is missing or unknown; what is no number; a negative number of steps.
    #[track_caller]
    pub fn load_state_dict(&self, state: &StateDict) -> Result<(), Error> {
        let into = self.state_dict();
        into.load_state_dict(state, true)?;
        let scale: f64 = into["scale"].item()?;
        let Ok(good) = u64::try_from(into["_growth_tracker"].item::<i64>()?) else {
            return at_caller("GradScaler", refuse!("the number of good steps is negative"));
        };
        *self.now() = Now::new(scale, good);
        Ok(())
    }

    #[track_caller]
    fn checked_scale(&self) -> Result<f64, Error> {
        let scale = self.get_scale();
        match scale > 0.0 {
            true => Ok(scale),
            false => {
                at_caller("GradScaler", refuse!("the scale is {scale}, wants a number above 0"))
            }
        }
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
        let unscaled = self.now().unscaled;
        let is_good = match unscaled {
            Some(is_good) => is_good,
            None => unscale(optimizer.parameters(), self.checked_scale()?)?,
        };
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
            false => Now::new(now.scale * self.backoff, 0),
            true if good >= self.interval => Now::new(now.scale * self.growth, 0),
            true => Now::new(now.scale, good),
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
