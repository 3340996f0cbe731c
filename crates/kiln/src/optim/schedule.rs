//! Learning rates as functions of the step, with PyTorch's names and numbers. Step 0 is the first.

use std::f64::consts::PI;

/// A learning rate for each step: a function of the step's number, or one of the values here.
///
/// ```
/// use kiln::{Tensor, optim::{SGD, Schedule, StepLR}};
/// let opt = SGD::new([Tensor::ones([1])], 0.1);
/// let schedule = StepLR::new(opt.lr(), 2, 0.5);
/// for step in 0..4 {
///     opt.set_lr(schedule.lr(step)); // then backward and the step
/// }
/// assert_eq!(opt.lr(), 0.05);
/// ```
pub trait Schedule {
    /// The learning rate of step `step`.
    fn lr(&self, step: u64) -> f64;
}

impl<F: Fn(u64) -> f64> Schedule for F {
    fn lr(&self, step: u64) -> f64 {
        self(step)
    }
}

/// A rate times a function of the step.
///
/// ```
/// use kiln::optim::{LambdaLR, Schedule};
/// assert_eq!(LambdaLR::new(0.5, |step| 1.0 / (1.0 + step as f64)).lr(1), 0.25);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LambdaLR<F> {
    base: f64,
    factor: F,
}

impl<F: Fn(u64) -> f64> LambdaLR<F> {
    /// `base` times `factor` of the step.
    ///
    /// ```
    /// let schedule = kiln::optim::LambdaLR::new(0.1, |step| 0.9f64.powi(step as i32));
    /// ```
    pub fn new(base: f64, factor: F) -> LambdaLR<F> {
        LambdaLR { base, factor }
    }
}

impl<F: Fn(u64) -> f64> Schedule for LambdaLR<F> {
    fn lr(&self, step: u64) -> f64 {
        self.base * (self.factor)(step)
    }
}

/// A power with a step as exponent.
fn power(x: f64, exponent: u64) -> f64 {
    x.powi(i32::try_from(exponent).unwrap_or(i32::MAX))
}

/// A rate that falls by a factor after so many steps, again and again.
///
/// ```
/// use kiln::optim::{Schedule, StepLR};
/// assert_eq!(StepLR::new(1.0, 10, 0.5).lr(25), 0.25);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StepLR {
    base: f64,
    every: u64,
    gamma: f64,
}

impl StepLR {
    /// `base` times `gamma` after each `every` steps, of which there is 1 at least.
    ///
    /// ```
    /// let schedule = kiln::optim::StepLR::new(0.1, 30, 0.1);
    /// ```
    pub fn new(base: f64, every: u64, gamma: f64) -> StepLR {
        StepLR { base, every: every.max(1), gamma }
    }
}

impl Schedule for StepLR {
    fn lr(&self, step: u64) -> f64 {
        self.base * power(self.gamma, step / self.every)
    }
}

/// A rate that falls by a factor at each of some steps.
///
/// ```
/// use kiln::optim::{MultiStepLR, Schedule};
/// assert_eq!(MultiStepLR::new(1.0, [3, 5], 0.5).lr(4), 0.5);
/// ```
#[derive(Clone, Debug)]
pub struct MultiStepLR {
    base: f64,
    milestones: Vec<u64>,
    gamma: f64,
}

impl MultiStepLR {
    /// `base` times `gamma` from each of `milestones` on.
    ///
    /// ```
    /// let schedule = kiln::optim::MultiStepLR::new(0.1, [30, 80], 0.1);
    /// ```
    pub fn new(base: f64, milestones: impl Into<Vec<u64>>, gamma: f64) -> MultiStepLR {
        MultiStepLR { base, milestones: milestones.into(), gamma }
    }
}

impl Schedule for MultiStepLR {
    fn lr(&self, step: u64) -> f64 {
        let passed = self.milestones.iter().filter(|&&m| m <= step).count();
        self.base * power(self.gamma, passed as u64)
    }
}

/// A rate that falls by a factor at each step.
///
/// ```
/// use kiln::optim::{ExponentialLR, Schedule};
/// assert_eq!(ExponentialLR::new(1.0, 0.5).lr(3), 0.125);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ExponentialLR {
    base: f64,
    gamma: f64,
}

impl ExponentialLR {
    /// `base` times `gamma` to the power of the step.
    ///
    /// ```
    /// let schedule = kiln::optim::ExponentialLR::new(0.1, 0.99);
    /// ```
    pub fn new(base: f64, gamma: f64) -> ExponentialLR {
        ExponentialLR { base, gamma }
    }
}

impl Schedule for ExponentialLR {
    fn lr(&self, step: u64) -> f64 {
        self.base * power(self.gamma, step)
    }
}

/// A rate that goes along a straight line, then stays.
///
/// ```
/// use kiln::optim::{LinearLR, Schedule};
/// let warmup = LinearLR::new(1.0, 0.0, 1.0, 4);
/// assert_eq!((warmup.lr(1), warmup.lr(9)), (0.25, 1.0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LinearLR {
    base: f64,
    start: f64,
    end: f64,
    steps: u64,
}

impl LinearLR {
    /// `base` times a factor from `start` at step 0 to `end` at step `steps`, of which there is 1 at least.
    ///
    /// ```
    /// let schedule = kiln::optim::LinearLR::new(0.1, 1.0 / 3.0, 1.0, 5);
    /// ```
    pub fn new(base: f64, start: f64, end: f64, steps: u64) -> LinearLR {
        LinearLR { base, start, end, steps: steps.max(1) }
    }
}

impl Schedule for LinearLR {
    fn lr(&self, step: u64) -> f64 {
        let way = step.min(self.steps) as f64 / self.steps as f64;
        self.base * (self.start + (self.end - self.start) * way)
    }
}

/// The way from one rate to another along half a cosine, of which `way` from 0 to 1 is done.
pub(super) fn along_cosine(from: f64, to: f64, way: f64) -> f64 {
    to + (from - to) * (1.0 + (PI * way).cos()) / 2.0
}

/// A rate that falls and rises along a cosine (Loshchilov and Hutter, 2016, arXiv:1608.03983).
///
/// ```
/// use kiln::optim::{CosineAnnealingLR, Schedule};
/// assert!((CosineAnnealingLR::new(1.0, 10).lr(5) - 0.5).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingLR {
    base: f64,
    steps: u64,
    least: f64,
}

impl CosineAnnealingLR {
    /// From `base` at step 0 to 0 at step `steps`, of which there is 1 at least.
    ///
    /// ```
    /// let schedule = kiln::optim::CosineAnnealingLR::new(0.1, 1000);
    /// ```
    pub fn new(base: f64, steps: u64) -> CosineAnnealingLR {
        CosineAnnealingLR { base, steps: steps.max(1), least: 0.0 }
    }

    /// The schedule with another least rate.
    ///
    /// ```
    /// use kiln::optim::{CosineAnnealingLR, Schedule};
    /// assert!((CosineAnnealingLR::new(1.0, 10).eta_min(0.5).lr(10) - 0.5).abs() < 1e-12);
    /// ```
    pub fn eta_min(self, least: f64) -> CosineAnnealingLR {
        CosineAnnealingLR { least, ..self }
    }
}

impl Schedule for CosineAnnealingLR {
    fn lr(&self, step: u64) -> f64 {
        along_cosine(self.base, self.least, step as f64 / self.steps as f64)
    }
}

/// A rate that rises to its most, then falls far below where it began (Smith and Topin, 2017, arXiv:1708.07120).
///
/// ```
/// use kiln::optim::{OneCycleLR, Schedule};
/// let schedule = OneCycleLR::new(1.0, 101);
/// assert!((schedule.lr(0) - 0.04).abs() < 1e-12 && schedule.lr(100) < 1e-5);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OneCycleLR {
    most: f64,
    steps: u64,
    rising: f64,
    div_factor: f64,
    final_div_factor: f64,
}

impl OneCycleLR {
    /// Rises from a 25th of `most` for 0.3 of the steps; the last is a 10000th of the first. The rate stays there.
    ///
    /// ```
    /// let schedule = kiln::optim::OneCycleLR::new(0.1, 1000);
    /// ```
    pub fn new(most: f64, steps: u64) -> OneCycleLR {
        OneCycleLR { most, steps, rising: 0.3, div_factor: 25.0, final_div_factor: 1e4 }
    }

    /// The schedule that rises for another share of the steps.
    ///
    /// ```
    /// let schedule = kiln::optim::OneCycleLR::new(0.1, 1000).pct_start(0.2);
    /// ```
    pub fn pct_start(self, rising: f64) -> OneCycleLR {
        OneCycleLR { rising, ..self }
    }

    /// The schedule that starts from another part of the most.
    ///
    /// ```
    /// let schedule = kiln::optim::OneCycleLR::new(0.1, 1000).div_factor(10.0);
    /// ```
    pub fn div_factor(self, div_factor: f64) -> OneCycleLR {
        OneCycleLR { div_factor, ..self }
    }

    /// The schedule that ends at another part of where it started.
    ///
    /// ```
    /// let schedule = kiln::optim::OneCycleLR::new(0.1, 1000).final_div_factor(100.0);
    /// ```
    pub fn final_div_factor(self, final_div_factor: f64) -> OneCycleLR {
        OneCycleLR { final_div_factor, ..self }
    }
}

impl Schedule for OneCycleLR {
    fn lr(&self, step: u64) -> f64 {
        let (step, last) = (step as f64, self.steps as f64 - 1.0);
        let top = self.rising * self.steps as f64 - 1.0;
        let first = self.most / self.div_factor;
        match step {
            _ if step >= last => first / self.final_div_factor,
            _ if step <= top => along_cosine(first, self.most, step / top),
            _ => {
                along_cosine(self.most, first / self.final_div_factor, (step - top) / (last - top))
            }
        }
    }
}
