//! The outcome of a search: as a value for programs, and as a note on disk.

use kiln_compile::optimize::Opt;
use kiln_compile::schedule::ScheduledKernel;
use std::time::Duration;

/// How much faster than the heuristic's options others must be.
const MARGIN: u128 = 3;

/// What a search for a kernel's options has come to.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Found {
    /// The kernel's name under the heuristic's options.
    pub kernel: String,
    /// The methods that made the kernel.
    pub methods: Vec<&'static str>,
    /// The heuristic's options.
    pub heuristic: Vec<String>,
    /// What a launch takes with them.
    pub heuristic_time: Duration,
    /// The best other options.
    pub candidate: Vec<String>,
    /// What a launch takes with those.
    pub candidate_time: Duration,
    /// Whether they are faster by so much that they are used.
    pub is_taken: bool,
    /// How many lists of options were timed.
    pub tried: usize,
    /// Whether an earlier process has searched.
    pub is_noted: bool,
}

impl Found {
    /// What a search for a kernel's options comes to; `about` are its name and options by the heuristic.
    pub(super) fn of(
        kernel: &ScheduledKernel,
        about: (String, Vec<String>),
        outcome: Outcome,
        is_noted: bool,
    ) -> (Found, Vec<Opt>) {
        let (name, heuristic) = about;
        let found = Found {
            kernel: name,
            methods: kernel.origins.clone(),
            heuristic,
            heuristic_time: outcome.heuristic,
            candidate: text(&outcome.options),
            candidate_time: outcome.candidate,
            is_taken: outcome.is_taken(),
            tried: outcome.tried,
            is_noted,
        };
        (found, outcome.options)
    }

    /// How many times as fast as the heuristic's the other options are.
    pub fn ratio(&self) -> f64 {
        self.heuristic_time.as_secs_f64() / self.candidate_time.as_secs_f64()
    }
}

pub(super) fn text(options: &[Opt]) -> Vec<String> {
    options.iter().map(ToString::to_string).collect()
}

/// The end of a search: what a launch takes under the heuristic's and under the best other options.
pub(super) struct Outcome {
    pub(super) heuristic: Duration,
    pub(super) candidate: Duration,
    pub(super) tried: usize,
    pub(super) options: Vec<Opt>,
}

impl Outcome {
    pub(super) fn is_taken(&self) -> bool {
        100 * self.heuristic.as_nanos() > (100 + MARGIN) * self.candidate.as_nanos()
    }

    pub(super) fn written(&self) -> String {
        let (heuristic, candidate) = (self.heuristic.as_nanos(), self.candidate.as_nanos());
        format!("{heuristic} {candidate} {} {}", self.tried, text(&self.options).join(";"))
    }

    pub(super) fn read(note: &str) -> Option<Outcome> {
        let mut parts = note.splitn(4, ' ');
        let mut number = || parts.next()?.parse::<u64>().ok();
        let (heuristic, candidate, tried) = (number()?, number()?, number()?);
        let options = parts.next()?.split(';').filter(|o| !o.is_empty());
        Some(Outcome {
            heuristic: Duration::from_nanos(heuristic),
            candidate: Duration::from_nanos(candidate),
            tried: tried as usize,
            options: options.map(|o| o.parse().ok()).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_as_it_was_written() {
        let options: Vec<Opt> = ["VECTOR(axis 1, 16)", "STAGE(operand 0, depth 2, 8)"]
            .iter()
            .map(|o| o.parse().expect("an option"))
            .collect();
        for options in [options, Vec::new()] {
            let [heuristic, candidate] = [1_030, 1_000].map(Duration::from_nanos);
            let outcome = Outcome { heuristic, candidate, tried: 3, options };
            let read = Outcome::read(&outcome.written()).expect("reads");
            assert_eq!((read.heuristic, read.candidate, read.tried), (heuristic, candidate, 3));
            assert_eq!(read.options, outcome.options);
            assert!(!read.is_taken(), "3 % is not more than 3 %");
        }
        assert!(Outcome::read("1 2").is_none() && Outcome::read("1 2 3 JUMP(4)").is_none());
    }
}
