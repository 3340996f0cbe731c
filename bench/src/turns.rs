//! Turns of all, round after round: in each round everybody computes for a few hundredths of a second, and the
//! hardware's floor is measured beside them.

use crate::failure::Failure;
use crate::options::Options;
use crate::subject::{Loaded, Subject};
use crate::workloads::{Case, Unit, Work};
use kiln_runtime::peak::Peak;
use std::time::Duration;

/// Seconds that a turn takes at least, unless it would need very many calls.
const TURN: f64 = 0.03;
const MOST_CALLS: f64 = 2000.0;

/// Whoever needs this long for a call has fewer rounds.
const SLOW: f64 = 0.5;
const SLOW_ROUNDS: usize = 3;

/// Between two turns: until the threads of the last one have gone to sleep.
const PAUSE: Duration = Duration::from_millis(5);

/// Everybody that takes turns.
pub(crate) struct Turns {
    pub(crate) subjects: Vec<Subject>,
    rounds: usize,
    memory: bool,
    peak: Peak,
}

/// What a workload took.
pub(crate) struct Measured {
    /// Of each subject, or why there is nothing.
    pub(crate) times: Vec<Result<Times, Failure>>,
    /// Seconds that the hardware would take, a number for each round.
    pub(crate) floors: Vec<f64>,
    /// Bytes that a call of each takes at most, if that was asked for.
    pub(crate) peaks: Vec<Result<f64, Failure>>,
}

/// Of one subject.
pub(crate) struct Times {
    /// Seconds of the first call.
    pub(crate) first: f64,
    /// Seconds of a call, a number for each round.
    pub(crate) calls: Vec<f64>,
    /// How far its results are from kiln's, relative to what is allowed.
    pub(crate) apart: f64,
}

impl Times {
    pub(crate) fn median(&self) -> f64 {
        median(&self.calls)
    }

    pub(crate) fn least(&self) -> f64 {
        self.calls.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn most(&self) -> f64 {
        self.calls.iter().copied().fold(0.0, f64::max)
    }
}

pub(crate) fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

impl Turns {
    pub(crate) fn new(subjects: Vec<Subject>, options: &Options) -> Result<Turns, Failure> {
        let peak = Peak::new(options.threads).map_err(|e| e.to_string())?;
        Ok(Turns { subjects, rounds: options.rounds.max(1), memory: options.memory, peak })
    }

    /// Loads the workload everywhere, compares what was computed, takes turns.
    pub(crate) fn measure(&mut self, case: &Case) -> Measured {
        let loaded: Vec<Result<Loaded, Failure>> =
            self.subjects.iter_mut().map(|s| s.load(case.name)).collect();
        let ours = loaded[0].as_ref().map(|l| l.samples.clone()).unwrap_or_default();
        let times = |l: &Loaded| Times {
            first: l.first,
            calls: Vec::new(),
            apart: apart(&ours, &l.samples) / case.tolerance.limit(),
        };
        let times = loaded.iter().map(|l| l.as_ref().map(times).map_err(Clone::clone)).collect();
        let mut measured = Measured { times, floors: Vec::new(), peaks: Vec::new() };
        for round in 0..self.rounds {
            self.round(round, &loaded, &mut measured);
            std::thread::sleep(PAUSE);
            measured.floors.push(floor(&mut self.peak, case.work));
        }
        self.subjects.iter_mut().for_each(Subject::drop_workload);
        if self.memory {
            measured.peaks = self.subjects.iter_mut().map(|s| s.peak(case.name)).collect();
        }
        measured
    }

    fn round(&mut self, round: usize, loaded: &[Result<Loaded, Failure>], to: &mut Measured) {
        for ((subject, loaded), times) in self.subjects.iter_mut().zip(loaded).zip(&mut to.times) {
            let (Ok(loaded), Ok(so_far)) = (loaded, &mut *times) else { continue };
            if loaded.later >= SLOW && round >= SLOW_ROUNDS {
                continue;
            }
            std::thread::sleep(PAUSE);
            match subject.turn((TURN / loaded.later).ceil().clamp(1.0, MOST_CALLS) as u32) {
                Ok(seconds) => so_far.calls.push(seconds),
                Err(why) => *times = Err(why),
            }
        }
    }
}

/// The largest difference, relative to the largest magnitude; infinite where one has what the other lacks.
fn apart(ours: &[f64], theirs: &[f64]) -> f64 {
    if ours.len() != theirs.len() {
        return f64::INFINITY;
    }
    let largest = theirs.iter().fold(f64::MIN_POSITIVE, |m, x| m.max(x.abs()));
    let differences = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs() / largest);
    // a NaN is as far as anything can be
    differences.map(|d| if d.is_nan() { f64::INFINITY } else { d }).fold(0.0, f64::max)
}

/// Seconds that the work takes if nothing but arithmetic, or nothing but memory, counts.
fn floor(peak: &mut Peak, work: Work) -> f64 {
    let flops = match work.unit {
        Unit::F32 => peak.f32_flops(),
        Unit::F64 => peak.f32_flops() / 2.0,
        Unit::Bf16 => peak.bf16_flops().unwrap_or_else(|| peak.f32_flops()),
    };
    // what is written little is read at the speed of reading
    let bytes = if work.written * 8.0 < work.read { peak.read_bytes() } else { peak.copy_bytes() };
    (work.flops / flops).max((work.read + work.written) / bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_compared_by_their_largest() {
        assert_eq!(apart(&[1.0, 4.0], &[2.0, 4.0]), 0.25);
        assert_eq!(apart(&[f64::NAN], &[1.0]), f64::INFINITY);
        assert_eq!(apart(&[], &[1.0]), f64::INFINITY);
        assert_eq!(apart(&[], &[]), 0.0);
    }

    #[test]
    fn the_median_of_an_even_number_is_between_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
    }
}
