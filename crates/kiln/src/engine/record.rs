//! Records what a function makes this thread compute, so that it can be computed again from other memory.
//!
//! A recording is complete or it is spoiled: whatever the function does that a [`Plan`] cannot do
//! again, spoils it, with the reason. A value is known by the number of its leaf: leaves from before the recording are
//! arguments, those that runs made are results, and data of this thread is the function's own. Data of another thread may be
//! computed from arguments, so it spoils the recording. So does a thread that the function may have started, if it reads what is
//! computed from arguments: see [`watch`].

use super::capture::Closed;
use super::leaf::{self, number_of};
use super::plan::{Check, Guard, Plan, Run};
use super::watch::{self, Watch};
use crate::device::Device;
use kiln_ir::UOp;
use kiln_ir::arg::Arg;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

thread_local! {
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

/// What was seen so far.
pub(crate) struct Recording {
    /// Leaves with lower numbers were there before.
    first: u64,
    runs: Vec<Seen>,
    /// The numbers of data that the function has made.
    made: FxHashSet<u64>,
    /// Such data, by number: it must outlive the first call.
    own: FxHashMap<u64, UOp>,
    guards: Vec<(u64, Range<i64>, bool)>,
    spoiled: Option<&'static str>,
}

/// One realize.
struct Seen {
    device: Device,
    key: u128,
    inputs: Vec<u64>,
    constants: Vec<kiln_ir::Const>,
    numbers: Vec<usize>,
    results: Vec<u64>,
    checks: Vec<Check>,
}

/// Runs `f`, which is given the leaves `arguments`, and records what it computes on this thread.
pub(crate) fn recorded<R>(arguments: &[UOp], f: impl FnOnce() -> R) -> (R, Recording) {
    /// Ends the recording, also after a panic.
    struct Recorder(Option<Recording>);
    impl Drop for Recorder {
        fn drop(&mut self) {
            RECORDING.set(self.0.take());
        }
    }
    let (first, watch) = (leaf::next_number(), Watch::begin(arguments));
    let (own, spoiled) = (FxHashMap::default(), None);
    let (made, guards) = Default::default();
    let new = Recording { first, runs: Vec::new(), made, own, guards, spoiled };
    let recorder = Recorder(RECORDING.replace(Some(new)));
    let result = f();
    let mut recording = RECORDING.take().expect("put there above");
    drop(recorder);
    if watch.saw_a_read() {
        recording.spoiled.get_or_insert("a thread that it may have started reads a value");
    }
    (result, recording)
}

/// The recording cannot be computed again, if there is one.
pub(crate) fn spoil(why: &'static str) {
    RECORDING.with_borrow_mut(|recording| {
        if let Some(recording) = recording {
            recording.spoiled.get_or_insert(why);
        }
    });
}

/// Runs `f`, which only looks at what a [`guard`] will look at again.
pub(crate) fn unrecorded<R>(f: impl FnOnce() -> R) -> R {
    let recording = RECORDING.take();
    let result = f();
    RECORDING.set(recording);
    result
}

/// The function has found that the integers of `leaf` are in the range, and whether one is negative.
pub(crate) fn guard(leaf: &UOp, range: Range<i64>, is_negative: bool) {
    RECORDING.with_borrow_mut(|recording| {
        if let Some(recording) = recording {
            recording.guards.push((number_of(leaf), range, is_negative));
        }
    });
}

/// This thread has made a leaf from data of the program.
pub(crate) fn made(leaf: &UOp) {
    RECORDING.with_borrow_mut(|recording| {
        if let Some(recording) = recording {
            recording.made.insert(number_of(leaf));
        }
    });
}

/// A graph will be computed: holds those of its leaves that the function made itself.
pub(super) fn begins(closed: &Closed) {
    RECORDING.with_borrow_mut(|recording| {
        let Some(recording) = recording else { return };
        let leaves = closed.leaves.iter().map(|&at| closed.node(at));
        let is_own = |leaf: &&UOp| {
            let number = number_of(leaf);
            let is_result = || recording.runs.iter().any(|run| run.results.contains(&number));
            number >= recording.first && !is_result()
        };
        let own: Vec<UOp> = leaves.filter(is_own).cloned().collect();
        if !own.iter().all(|leaf| recording.made.contains(&number_of(leaf))) {
            recording.spoiled.get_or_insert("it takes a value that another thread has made");
        }
        recording.own.extend(own.into_iter().map(|leaf| (number_of(&leaf), leaf)));
    });
}

/// A graph was computed.
pub(super) fn computed(closed: &Closed, leaves: &[UOp], device: &Device) {
    RECORDING.with_borrow_mut(|recording| {
        let inputs = closed.leaves.iter().map(|&at| closed.node(at));
        watch::computes(recording.is_some(), inputs, leaves);
        if let Some(recording) = recording {
            recording.runs.push(Seen {
                device: device.clone(),
                key: closed.key,
                inputs: closed.leaves.iter().map(|&at| number_of(closed.node(at))).collect(),
                constants: closed.constants().collect(),
                numbers: closed.numbers().map(|n| n.arg().slot().expect("a scalar")).collect(),
                results: leaves.iter().map(number_of).collect(),
                checks: Check::all(closed),
            });
        }
    });
}

/// The numbers of a plan's values, by those of leaves.
#[derive(Default)]
struct Values(FxHashMap<u64, usize>);

impl Values {
    fn add(&mut self, leaf: u64) -> usize {
        let next = self.0.len();
        *self.0.entry(leaf).or_insert(next)
    }
}

impl Recording {
    /// Why it cannot be computed again, if that is so.
    pub(crate) fn spoiled(&self) -> Option<&'static str> {
        self.spoiled
    }

    /// The plan that computes `ends` from `arguments`, both leaves. `numbers` says the places of launch-time scalars in
    /// the list that each replay is given.
    pub(crate) fn plan(
        self,
        arguments: &[UOp],
        ends: &[UOp],
        numbers: &FxHashMap<usize, usize>,
    ) -> Result<Plan, &'static str> {
        let mut values = Values::default();
        arguments.iter().for_each(|leaf| _ = values.add(number_of(leaf)));
        let (mut runs, mut owned) = (Vec::new(), Vec::new());
        for seen in self.runs {
            let mut inputs = Vec::with_capacity(seen.inputs.len());
            for number in seen.inputs {
                if let Some(leaf) =
                    self.own.get(&number).filter(|_| !values.0.contains_key(&number))
                {
                    owned.push((values.add(number), leaf.clone()));
                }
                inputs.push(*values.0.get(&number).ok_or("it reads a tensor that is no argument")?);
            }
            let results = seen.results.iter().map(|&leaf| values.add(leaf)).collect();
            let place = |slot: &usize| numbers.get(slot).copied().ok_or("a number is no one's");
            let numbers = seen.numbers.iter().map(place).collect::<Result<_, _>>()?;
            let Seen { device, key, constants, checks, .. } = seen;
            runs.push(Run { device, key, inputs, constants, numbers, results, checks });
        }
        let end = |leaf: &UOp| {
            let value = values.0.get(&number_of(leaf)).copied();
            value.ok_or("it gives a value that it did not compute")
        };
        let ends = ends.iter().map(end).collect::<Result<Vec<_>, _>>()?;
        let mut guards = Vec::new();
        for (number, range, is_negative) in self.guards {
            match values.0.get(&number) {
                Some(&argument) if argument < arguments.len() => {
                    guards.push(Guard { argument, range, is_negative });
                }
                // the function's own data is the same each time
                Some(_) if self.own.contains_key(&number) => {}
                None if number >= self.first => {}
                _ => return Err("it looks at indices that it computes"),
            }
        }
        let count = values.0.len();
        let described = |leaf: &UOp| {
            let device = leaf::device_of(leaf).expect("a leaf has a device");
            (leaf.dtype(), leaf.shape().clone(), device)
        };
        let arguments = arguments.iter().map(described).collect();
        Ok(Plan::new(runs, owned, ends, guards, count, arguments))
    }
}

impl Check {
    /// The conditions that a graph computes, each with the roots that depend on it.
    fn all(closed: &Closed) -> Vec<Check> {
        let roots = || closed.roots.iter().enumerate();
        let check = |(condition, text): &(UOp, Arc<str>)| {
            let mut depends = vec![false; closed.nodes().len()];
            for (at, node) in closed.nodes().enumerate() {
                let own = matches!(node.arg(), Arg::Check(_)) && node.src(1) == condition;
                depends[at] = own || closed.sources(at).iter().any(|&s| depends[s]);
            }
            Check {
                condition: roots().find(|(_, at)| closed.node(**at) == condition).map(|(r, _)| r),
                text: text.clone(),
                blamed: roots().filter(|(_, at)| depends[**at]).map(|(root, _)| root).collect(),
            }
        };
        closed.checks.iter().map(check).collect()
    }
}
