//! Learning rates that go through others in turn, or around in cycles, with PyTorch's names and numbers.

use super::schedule::{Schedule, along_cosine};

/// Schedules one after the other.
///
/// ```
/// use kiln::optim::{ExponentialLR, LinearLR, Schedule, SequentialLR};
/// let warmup = LinearLR::new(1.0, 0.0, 1.0, 4);
/// let schedule = SequentialLR::new([Box::new(warmup) as Box<dyn Schedule>, Box::new(ExponentialLR::new(1.0, 0.5))], [4]);
/// assert_eq!((schedule.lr(2), schedule.lr(4), schedule.lr(5)), (0.5, 1.0, 0.5));
/// ```
pub struct SequentialLR {
    schedules: Vec<Box<dyn Schedule>>,
    milestones: Vec<u64>,
}

impl SequentialLR {
    /// The first schedule up to the first of `milestones`, which rise, and so on; each counts from its own step 0. Without
    /// schedules the rate is 0.
    ///
    /// ```
    /// use kiln::optim::{Schedule, SequentialLR, StepLR};
    /// let schedule = SequentialLR::new([Box::new(StepLR::new(0.1, 30, 0.1)) as Box<dyn Schedule>], []);
    /// ```
    pub fn new(
        schedules: impl Into<Vec<Box<dyn Schedule>>>,
        milestones: impl Into<Vec<u64>>,
    ) -> SequentialLR {
        SequentialLR { schedules: schedules.into(), milestones: milestones.into() }
    }
}

impl Schedule for SequentialLR {
    fn lr(&self, step: u64) -> f64 {
        let passed = self.milestones.iter().filter(|&&m| m <= step).count();
        let at = passed.min(self.schedules.len().saturating_sub(1));
        let start = at.checked_sub(1).map_or(0, |i| self.milestones[i]);
        self.schedules.get(at).map_or(0.0, |schedule| schedule.lr(step - start))
    }
}

/// A rate times a factor for so many steps, then the rate.
///
/// ```
/// use kiln::optim::{ConstantLR, Schedule};
/// let schedule = ConstantLR::new(1.0, 0.25, 3);
/// assert_eq!((schedule.lr(2), schedule.lr(3)), (0.25, 1.0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ConstantLR {
    base: f64,
    factor: f64,
    steps: u64,
}

impl ConstantLR {
    /// `base` times `factor` for `steps` steps, then `base`.
    ///
    /// ```
    /// let schedule = kiln::optim::ConstantLR::new(0.1, 1.0 / 3.0, 5);
    /// ```
    pub fn new(base: f64, factor: f64, steps: u64) -> ConstantLR {
        ConstantLR { base, factor, steps }
    }
}

impl Schedule for ConstantLR {
    fn lr(&self, step: u64) -> f64 {
        if step < self.steps { self.base * self.factor } else { self.base }
    }
}

/// A rate that falls to 0 as a power of what is left.
///
/// ```
/// use kiln::optim::{PolynomialLR, Schedule};
/// assert_eq!(PolynomialLR::new(1.0, 4, 2.0).lr(2), 0.25);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PolynomialLR {
    base: f64,
    steps: u64,
    power: f64,
}

impl PolynomialLR {
    /// `base` times the share of `steps` that is left, of which there is 1 at least, to the power of `power`.
    ///
    /// ```
    /// let schedule = kiln::optim::PolynomialLR::new(0.1, 100, 1.0);
    /// ```
    pub fn new(base: f64, steps: u64, power: f64) -> PolynomialLR {
        PolynomialLR { base, steps: steps.max(1), power }
    }
}

impl Schedule for PolynomialLR {
    fn lr(&self, step: u64) -> f64 {
        let left = 1.0 - step.min(self.steps) as f64 / self.steps as f64;
        self.base * left.powf(self.power)
    }
}

/// A rate that falls along a cosine, again and again (Loshchilov and Hutter, 2016, arXiv:1608.03983).
///
/// ```
/// use kiln::optim::{CosineAnnealingWarmRestarts, Schedule};
/// let schedule = CosineAnnealingWarmRestarts::new(1.0, 10, 2);
/// assert!((schedule.lr(5) - 0.5).abs() < 1e-12 && schedule.lr(10) == 1.0 && (schedule.lr(20) - 0.5).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingWarmRestarts {
    base: f64,
    first: u64,
    factor: u64,
    least: f64,
}

impl CosineAnnealingWarmRestarts {
    /// From `base` to 0 in `first` steps, then in `factor` times as many, and so on; both are 1 at least.
    ///
    /// ```
    /// let schedule = kiln::optim::CosineAnnealingWarmRestarts::new(0.1, 10, 2);
    /// ```
    pub fn new(base: f64, first: u64, factor: u64) -> CosineAnnealingWarmRestarts {
        CosineAnnealingWarmRestarts { base, first: first.max(1), factor: factor.max(1), least: 0.0 }
    }

    /// The schedule with another least rate.
    ///
    /// ```
    /// let schedule = kiln::optim::CosineAnnealingWarmRestarts::new(0.1, 10, 1).eta_min(0.01);
    /// ```
    pub fn eta_min(self, least: f64) -> CosineAnnealingWarmRestarts {
        CosineAnnealingWarmRestarts { least, ..self }
    }
}

impl Schedule for CosineAnnealingWarmRestarts {
    fn lr(&self, step: u64) -> f64 {
        let (mut at, mut length) = (step, self.first);
        if self.factor == 1 {
            at %= length;
        }
        while at >= length {
            at -= length;
            length = length.saturating_mul(self.factor);
        }
        along_cosine(self.base, self.least, at as f64 / length as f64)
    }
}

/// A rate that rises and falls along straight lines (Smith, 2015, arXiv:1506.01186).
///
/// ```
/// use kiln::optim::{CyclicLR, Schedule};
/// let schedule = CyclicLR::new(0.0, 1.0, 4);
/// assert_eq!((schedule.lr(3), schedule.lr(4), schedule.lr(6), schedule.lr(8)), (0.75, 1.0, 0.5, 0.0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CyclicLR {
    least: f64,
    most: f64,
    up: u64,
    down: u64,
    mode: Cycle,
}

/// How high later cycles of [`CyclicLR`] are.
#[derive(Clone, Copy, Debug)]
enum Cycle {
    Same,
    Halved,
    Falling(f64),
}

impl CyclicLR {
    /// From `least` to `most` in `up` steps, of which there is 1 at least, back in as many, and again.
    ///
    /// ```
    /// let schedule = kiln::optim::CyclicLR::new(0.01, 0.1, 2000);
    /// ```
    pub fn new(least: f64, most: f64, up: u64) -> CyclicLR {
        CyclicLR { least, most, up: up.max(1), down: up.max(1), mode: Cycle::Same }
    }

    /// The schedule that goes back in another number of steps, 1 at least.
    ///
    /// ```
    /// let schedule = kiln::optim::CyclicLR::new(0.01, 0.1, 2000).down(4000);
    /// ```
    pub fn down(self, down: u64) -> CyclicLR {
        CyclicLR { down: down.max(1), ..self }
    }

    /// The schedule whose cycles each rise half as high (PyTorch's `triangular2`).
    ///
    /// ```
    /// let schedule = kiln::optim::CyclicLR::new(0.01, 0.1, 2000).halved();
    /// ```
    pub fn halved(self) -> CyclicLR {
        CyclicLR { mode: Cycle::Halved, ..self }
    }

    /// The schedule whose height is multiplied by `gamma` at each step (PyTorch's `exp_range`).
    ///
    /// ```
    /// let schedule = kiln::optim::CyclicLR::new(0.01, 0.1, 2000).falling(0.999);
    /// ```
    pub fn falling(self, gamma: f64) -> CyclicLR {
        CyclicLR { mode: Cycle::Falling(gamma), ..self }
    }
}

impl Schedule for CyclicLR {
    fn lr(&self, step: u64) -> f64 {
        let length = self.up.saturating_add(self.down);
        let (cycle, at) = (step / length, step % length);
        let way = match at.checked_sub(self.up) {
            None => at as f64 / self.up as f64,
            Some(back) => 1.0 - back as f64 / self.down as f64,
        };
        let scale = match self.mode {
            Cycle::Same => 1.0,
            Cycle::Halved => 0.5f64.powf(cycle as f64),
            Cycle::Falling(gamma) => gamma.powf(step as f64),
        };
        self.least + (self.most - self.least) * way * scale
    }
}
