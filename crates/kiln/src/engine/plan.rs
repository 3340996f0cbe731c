//! Plans: what a recorded function computes, as data.

use crate::device::Device;
use kiln_ir::arg::Shape;
use kiln_ir::{Const, DType, UOp};
use std::ops::Range;
use std::sync::Arc;

/// What a function computes: runs in order, over values that have numbers.
pub(crate) struct Plan {
    pub(super) runs: Vec<Run>,
    /// Data of the function's own.
    pub(super) owned: Vec<(usize, UOp)>,
    /// The values that it gives.
    pub(super) ends: Vec<usize>,
    guards: Vec<Guard>,
    /// How many values there are.
    pub(super) count: usize,
    /// By value: the last run that reads it, if nothing needs it afterwards.
    pub(super) last_read: Vec<Option<usize>>,
    /// Type, shape and device of each argument.
    pub(super) arguments: Vec<(DType, Shape, Device)>,
}

/// One graph that is computed.
pub(super) struct Run {
    pub(super) device: Device,
    /// The key of its schedule.
    pub(super) key: u128,
    /// Values, by parameter.
    pub(super) inputs: Vec<usize>,
    pub(super) constants: Vec<Const>,
    /// Places of the last constants in the list that a replay is given.
    pub(super) numbers: Vec<usize>,
    /// Values, by root.
    pub(super) results: Vec<usize>,
    pub(super) checks: Vec<Check>,
}

/// A condition that must be false.
pub(super) struct Check {
    /// The root that has it.
    pub(super) condition: Option<usize>,
    pub(super) text: Arc<str>,
    /// The roots that are meaningless if it holds.
    pub(super) blamed: Vec<usize>,
}

/// What must hold of the integers of an argument.
pub(crate) struct Guard {
    pub(crate) argument: usize,
    /// They are inside of it.
    pub(crate) range: Range<i64>,
    /// Whether one is negative.
    pub(crate) is_negative: bool,
}

impl Plan {
    pub(super) fn new(
        runs: Vec<Run>,
        owned: Vec<(usize, UOp)>,
        ends: Vec<usize>,
        guards: Vec<Guard>,
        count: usize,
        arguments: Vec<(DType, Shape, Device)>,
    ) -> Plan {
        let mut last_read = vec![None; count];
        for (at, run) in runs.iter().enumerate() {
            run.inputs.iter().for_each(|&value| last_read[value] = Some(at));
        }
        let kept = ends.iter().chain(owned.iter().map(|(value, _)| value));
        kept.for_each(|&value| last_read[value] = None);
        // after a condition that holds, the function itself has to run: it needs its arguments
        if runs.iter().any(|run| !run.checks.is_empty()) {
            last_read[..arguments.len()].fill(None);
        }
        Plan { runs, owned, ends, guards, count, last_read, arguments }
    }

    /// Whether an argument is read, or given again.
    pub(crate) fn needs(&self, argument: usize) -> bool {
        let read = self.runs.iter().any(|run| run.inputs.contains(&argument));
        read || self.ends.contains(&argument)
    }

    /// What the integers of arguments must be like.
    pub(crate) fn guards(&self) -> &[Guard] {
        &self.guards
    }
}
