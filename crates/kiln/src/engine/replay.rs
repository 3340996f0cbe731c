//! Computes a recorded plan again: from other memory, with other numbers, without building a graph.
//!
//! Every schedule is looked up before the first launch. If one is not remembered any more, nothing has happened, and the
//! function itself has to run.

use super::bind;
use super::cache::{self, Ready};
use super::capture::Closed;
use super::device::{self, Opened};
use super::plan::{Plan, Run};
use super::planning::planning;
use super::realize::Computing;
use super::{Failure, Few, hot, leaf};
use crate::device::Device;
use kiln_ir::arg::Shape;
use kiln_ir::{Const, DType, UOp};
use std::sync::Arc;

/// A plan with all that it needs to run.
pub(crate) struct Prepared<'a> {
    plan: &'a Plan,
    /// By run.
    ready: Vec<(Arc<Ready>, Opened)>,
}

impl Plan {
    /// Finds the schedules; none if one is not remembered.
    pub(crate) fn prepare(&self) -> Result<Option<Prepared<'_>>, Failure> {
        let mut ready = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            // numbers are scalars, of any value
            let Some(found) = cache::known(run.key, &run.device, &run.constants) else {
                return Ok(None);
            };
            let found = hot::counted(found, run.key, &run.device);
            ready.push((found, device::open(&run.device)?));
        }
        Ok(Some(Prepared { plan: self, ready }))
    }
}

impl Prepared<'_> {
    /// Runs the plan. `arguments` are taken: one that nobody else has may be overwritten by a result. After a failure they
    /// are there again; the values of those that were being overwritten are lost. One that no run reads may be missing.
    pub(crate) fn run(
        &self,
        arguments: &mut Vec<Option<UOp>>,
        numbers: &[Const],
    ) -> Result<Vec<UOp>, Failure> {
        let mut values: Vec<Option<UOp>> = std::mem::take(arguments);
        values.resize(self.plan.count, None);
        for (value, leaf) in &self.plan.owned {
            values[*value] = Some(leaf.clone());
        }
        let steps = self.plan.runs.iter().zip(&self.ready).enumerate();
        for (at, (run, ready)) in steps {
            if let Err(why) = self.step(at, run, ready, numbers, &mut values) {
                let lost = |(dtype, shape, device): &(DType, Shape, Device)| {
                    leaf::missing(&why, *dtype, shape.clone(), device)
                };
                let back = values.into_iter().zip(&self.plan.arguments);
                arguments.extend(back.map(|(value, of)| Some(value.unwrap_or_else(|| lost(of)))));
                return Err(why);
            }
        }
        let end = |&value: &usize| values[value].clone().expect("computed");
        Ok(self.plan.ends.iter().map(end).collect())
    }

    fn step(
        &self,
        at: usize,
        run: &Run,
        (ready, opened): &(Arc<Ready>, Opened),
        numbers: &[Const],
        values: &mut [Option<UOp>],
    ) -> Result<(), Failure> {
        // a value that is read for the last time is held by this run alone
        let is_last = |value: usize| self.plan.last_read[value] == Some(at);
        let moved: Vec<Option<UOp>> =
            run.inputs.iter().map(|&v| is_last(v).then(|| values[v].take()).flatten()).collect();
        let input = |(moved, &value): (Option<UOp>, &usize)| {
            moved.or_else(|| values[value].clone()).expect("computed")
        };
        let inputs: Vec<UOp> = moved.into_iter().zip(&run.inputs).map(input).collect();
        let faults = inputs.iter().find_map(leaf::fault);
        let closed = Closed::over(inputs, ready.roots.len());
        let result = match faults {
            Some(fault) => Err(fault),
            None => run.compute(&closed, ready, opened, &run.scalars(ready, numbers)),
        };
        match result {
            Ok(leaves) => {
                run.results.iter().zip(leaves).for_each(|(&v, leaf)| values[v] = Some(leaf));
                Ok(())
            }
            Err(why) => {
                let back = run.inputs.iter().zip(closed.leaves.iter());
                back.for_each(|(&v, &at)| values[v] = Some(closed.node(at).clone()));
                Err(why)
            }
        }
    }
}

impl Run {
    /// The launch-time scalars.
    fn scalars(&self, ready: &Ready, numbers: &[Const]) -> Vec<i64> {
        let mut constants = self.constants.clone();
        let fixed = constants.len() - self.numbers.len();
        let places = constants[fixed..].iter_mut().zip(&self.numbers);
        places.for_each(|(constant, &place)| *constant = numbers[place]);
        ready.scalars(constants.into_iter())
    }

    fn compute(
        &self,
        closed: &Closed,
        ready: &Ready,
        opened: &Opened,
        scalars: &[i64],
    ) -> Result<Few<UOp>, Failure> {
        let bound = {
            let _planning = planning();
            bind::bind(closed, ready, opened, &[], None)?
        };
        let computing = Computing { closed, ready, opened, device: &self.device };
        let leaves = computing.leaves(&bound);
        computing.launch(bound, scalars)?;
        self.check(&leaves)?;
        Ok(leaves)
    }

    /// Reads the conditions that were computed. The results that depend on one that holds carry its error.
    fn check(&self, leaves: &[UOp]) -> Result<(), Failure> {
        let mut first = Ok(());
        for check in &self.checks {
            let Some(condition) = check.condition else { continue };
            if super::checks::holds(&leaves[condition])? {
                let text = check.text.to_string();
                let blamed = check.blamed.iter().map(|&root| &leaves[root]);
                blamed.for_each(|leaf| leaf::set_fault(leaf, Some(text.clone())));
                first = first.and(Err(text));
            }
        }
        first
    }
}
