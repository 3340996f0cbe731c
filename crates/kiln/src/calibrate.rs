//! The description of this machine beside what it measures.

use crate::engine::description;
use crate::{Device, Error, Tensor};
use kiln_compile::target::{Costs, Source};
use std::time::{Duration, Instant};

/// One number of the description that the compiler's cost models read.
#[derive(Clone, PartialEq, Debug)]
pub struct Cost {
    /// The field's name.
    pub name: &'static str,
    /// What it is, and in which unit.
    pub what: &'static str,
    /// What the description says.
    pub value: f64,
    /// The origin of the value: a manual, a fit to a benchmark, or a measurement.
    pub source: String,
    /// The value measured on this machine, if it can be measured.
    pub measured: Option<f64>,
}

/// The description of the default device, each number with its source; those that are times between kernels are measured
/// on this machine, too, which takes about a second.
///
/// Measuring changes nothing: kernels are made by the description alone, so the same program is the same code everywhere.
/// A measurement that is far from the description is a reason to look at both.
///
/// ```no_run
/// for cost in kiln::calibrate()? {
///     println!("{:<20} {:>10} {:?}", cost.name, cost.value, cost.measured);
/// }
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// The default device cannot be opened, or cannot compute.
#[track_caller]
pub fn calibrate() -> Result<Vec<Cost>, Error> {
    let (costs, threads) = description(&Device::default_device())?;
    let bench = Bench { costs, threads: threads as f64 };
    let rows = costs.rows().into_iter().map(|row| {
        let measured = match row.source {
            Source::Measured => Some(bench.measure(row.name)?),
            Source::Manual(_) | Source::Fitted(_) => None,
        };
        let source = row.source.to_string();
        Ok(Cost { name: row.name, what: row.what, value: row.value, source, measured })
    });
    rows.collect()
}

/// Elements that fit the second cache with a result beside them, and the last one.
const SMALL: usize = 1 << 14;
const LARGE: usize = 1 << 20;
/// How often a program is timed; the median counts.
const TIMES: usize = 25;

struct Bench {
    costs: Costs,
    /// Threads share a kernel; the description's times are those of one.
    threads: f64,
}

impl Bench {
    fn measure(&self, name: &str) -> Result<f64, Error> {
        match name {
            "operation_ns" => self.operation(),
            "byte_ns" => self.byte(),
            "near_byte_ns" => self.near_byte(),
            "write" => Ok((self.doubled(LARGE)? - self.launch()?) / self.sum(LARGE)?),
            "launch_ns" => self.launch(),
            _ => unreachable!("{name} is said to be measured"),
        }
    }

    /// A long expression, less a short one, by operation.
    fn operation(&self) -> Result<f64, Error> {
        let (few, many) = (4, 16);
        let took = self.expression(LARGE, many)? - self.expression(LARGE, few)?;
        Ok(took * self.threads / ((many - few) * LARGE) as f64)
    }

    /// An array that is read and written: a write counts as so many reads.
    fn byte(&self) -> Result<f64, Error> {
        let bytes = bytes(LARGE) * (1.0 + self.costs.write);
        Ok((self.doubled(LARGE)? - self.launch()?) * self.threads / bytes)
    }

    /// A sum over what is in the second cache, less one over half of it: too short for threads to share.
    fn near_byte(&self) -> Result<f64, Error> {
        let n = 8 * SMALL;
        Ok((self.sum(n)? - self.sum(n / 2)?) / bytes(n / 2))
    }

    /// Small kernels of which each waits for the one before, less what their arithmetic and memory take.
    fn launch(&self) -> Result<f64, Error> {
        let (kernels, steps) = (32, 8);
        let x = Tensor::zeros([SMALL]);
        x.realize()?;
        let took = median(|| {
            let step = |x: Tensor, _| (0..steps).fold(x, |x, _| x * 0.5 + 1.0).contiguous();
            (0..kernels).fold(x.clone(), step).realize().map(drop)
        })?;
        let operations = 2 * steps * SMALL;
        let work = operations as f64 * self.costs.operation_ns
            + bytes(SMALL) * (1.0 + self.costs.write) * self.costs.near_byte_ns;
        Ok(took / kernels as f64 - work / self.threads)
    }

    /// Nanoseconds of `2 x`.
    fn doubled(&self, n: usize) -> Result<f64, Error> {
        let x = realized(n)?;
        median(|| (&x + &x).realize().map(drop))
    }

    /// Nanoseconds of a sum.
    fn sum(&self, n: usize) -> Result<f64, Error> {
        let x = realized(n)?;
        median(|| x.sum(..).realize().map(drop))
    }

    /// Nanoseconds of so many operations on each of `n` elements.
    fn expression(&self, n: usize, operations: usize) -> Result<f64, Error> {
        let x = realized(n)?;
        median(|| (0..operations / 2).fold(x.clone(), |x, _| x * 0.5 + 1.0).realize().map(drop))
    }
}

fn realized(n: usize) -> Result<Tensor, Error> {
    let x = Tensor::ones([n]).copy();
    x.realize()?;
    Ok(x)
}

fn bytes(elements: usize) -> f64 {
    (elements * size_of::<f32>()) as f64
}

/// The median time of a program in nanoseconds, after it was compiled and run once.
fn median(mut program: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    program()?;
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let start = Instant::now();
        program()?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(Duration::as_nanos(&times[TIMES / 2]) as f64)
}
