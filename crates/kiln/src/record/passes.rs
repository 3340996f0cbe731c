//! The steps of a stage as its passes, each with what led to it.

use super::parts::Step;

/// A run of a pass, with its rewrites and decisions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PassRun<'a> {
    /// The number of its step.
    pub step: usize,
    /// Such as `lower`.
    pub stage: &'a str,
    /// Such as `expand`.
    pub pass: &'a str,
    /// The graph that it was given: numbers of nodes.
    pub before: &'a [u32],
    /// The graph that it left.
    pub after: &'a [u32],
    /// The numbers of the rewrites and decisions, in order.
    pub inner: Vec<usize>,
}

impl PassRun<'_> {
    /// Whether it left another graph than it was given.
    pub fn changes(&self) -> bool {
        self.before != self.after
    }
}

/// The passes among the steps of a schedule or a kernel, in order. A record has a pass after its rewrites.
pub fn passes(steps: &[Step]) -> Vec<PassRun<'_>> {
    let (mut runs, mut inner) = (Vec::new(), Vec::new());
    for (step, each) in steps.iter().enumerate() {
        match each {
            Step::Pass { stage, pass, before, after } => {
                let inner = std::mem::take(&mut inner);
                runs.push(PassRun { step, stage, pass, before, after, inner });
            }
            Step::Rewrite { .. } | Step::Decision { .. } => inner.push(step),
            Step::Rules { .. } | Step::Done { .. } => {}
        }
    }
    runs
}
