//! A workload: what it computes, how much that is, and how far off it may be.

use kiln::nn::train;
use kiln::optim::Optimizer;
use kiln::{Error, Tensor};

/// Computes, once: what it returns is in memory.
pub(crate) type Run = Box<dyn FnMut() -> Result<Option<Tensor>, Error>>;

/// A workload.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) what: &'static str,
    pub(crate) work: Work,
    pub(crate) tolerance: Tolerance,
    /// PyTorch's time over kiln's that it should reach; 0 for none.
    pub(crate) goal: f64,
    /// How many pieces a call's time is divided by, such as launches.
    pub(crate) pieces: u32,
    pub(crate) build: Build,
}

/// How the inputs are made.
#[derive(Clone, Copy)]
pub(crate) enum Build {
    /// By a function.
    By(fn() -> Result<Run, Error>),
    /// By a function that knows the shapes.
    With(&'static (dyn Fn() -> Result<Run, Error> + Sync)),
}

impl Build {
    /// Makes the inputs.
    pub(crate) fn run(self) -> Result<Run, Error> {
        match self {
            Build::By(make) => make(),
            Build::With(make) => make(),
        }
    }
}

/// What any implementation has to do at least.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    /// Multiplications and additions.
    pub(crate) flops: f64,
    pub(crate) unit: Unit,
    /// Bytes of inputs.
    pub(crate) read: f64,
    /// Bytes of results.
    pub(crate) written: f64,
}

/// Where multiplications happen, for their peak.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    F32,
    /// Half as many lanes.
    F64,
    /// Pairs of products, if the processor has them.
    Bf16,
}

impl Work {
    /// Too little of anything to say.
    pub(super) const NONE: Work = Work::new(0.0, Unit::F32, 0.0, 0.0);

    pub(super) const fn new(flops: f64, unit: Unit, read: f64, written: f64) -> Work {
        Work { flops, unit, read, written }
    }

    /// A product of `m x k` and `k x n`, of elements of so many bytes.
    pub(super) const fn product([m, k, n]: [usize; 3], unit: Unit, size: usize) -> Work {
        let (m, k, n, size) = (m as f64, k as f64, n as f64, size as f64);
        Work::new(2.0 * m * k * n, unit, (m * k + k * n) * size, m * n * size)
    }

    /// So many f32 read, and so many written.
    pub(super) const fn streaming(read: usize, written: usize) -> Work {
        Work::new(0.0, Unit::F32, 4.0 * read as f64, 4.0 * written as f64)
    }
}

/// How far results may be apart: rounding errors of a sum of `terms` grow like a random walk, so by the root of how
/// many there are; 8 covers its tails. Relative to the largest of the elements compared.
#[derive(Clone, Copy)]
pub(crate) struct Tolerance {
    pub(crate) epsilon: f64,
    pub(crate) terms: usize,
}

impl Tolerance {
    pub(super) const fn f32(terms: usize) -> Tolerance {
        Tolerance { epsilon: f32::EPSILON as f64, terms }
    }

    pub(crate) fn limit(self) -> f64 {
        8.0 * self.epsilon * (self.terms as f64).sqrt()
    }
}

/// A run of a function of inputs.
pub(super) fn run(mut f: impl FnMut() -> Tensor + 'static) -> Result<Run, Error> {
    Ok(Box::new(move || {
        let result = f();
        result.realize()?;
        Ok(Some(result))
    }))
}

/// Training steps: forward, backward, and new weights. The result is the loss.
pub(super) fn training(
    mut loss: impl FnMut() -> Tensor + 'static,
    optimizer: impl Optimizer + 'static,
) -> Result<Run, Error> {
    Ok(Box::new(move || {
        train(|| {
            let loss = loss();
            optimizer.zero_grad();
            loss.backward()?;
            optimizer.step()?;
            loss.realize()?;
            Ok(Some(loss))
        })
    }))
}
