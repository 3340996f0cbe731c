//! One call: replayed if its key is known, else the function runs, and is recorded if it can be.

use super::arguments::{Arguments, Inputs, Refusal, Storages, settled};
use super::numbers::{is_recording, noted};
use super::recorded::{Outcome, Recorded};
use super::returned::Returned;
use crate::Tensor;
use crate::engine::env::JIT;
use crate::engine::{note, record};
use crate::tensor::compute;
use crate::tensor::storage::Storage;
use kiln_ir::Op;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Kinds of calls that are remembered of one function.
const MOST_KEYS: usize = 64;

/// What is known of the calls of one function.
pub(super) struct Calls<R: Returned> {
    known: Mutex<HashMap<u128, Option<Arc<Recorded<R>>>>>,
}

impl<R: Returned> Default for Calls<R> {
    fn default() -> Calls<R> {
        Calls { known: Mutex::default() }
    }
}

impl<R: Returned> Calls<R> {
    fn known(&self) -> MutexGuard<'_, HashMap<u128, Option<Arc<Recorded<R>>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the function, or does what it would do.
    pub(super) fn call(&self, arguments: &Arguments<'_>, f: impl FnOnce() -> R) -> R {
        // within another recording the function is a part of that
        if JIT.get() == 0 || is_recording() {
            return plainly(arguments, f);
        }
        let inputs = match arguments.inputs() {
            Ok(inputs) => inputs,
            Err(why) => {
                note(|| format!("jit: runs the function: {why}"));
                return plainly(arguments, f);
            }
        };
        let key = inputs.key;
        let known = self.known().get(&key).cloned();
        match known {
            Some(Some(recorded)) => match recorded.replay(arguments, inputs) {
                Some(result) => return result,
                None => self.forget(key),
            },
            // it could not be recorded before
            Some(None) => return plainly(arguments, f),
            None if self.known().len() >= MOST_KEYS => {
                note(|| {
                    format!("jit: runs the function: it was called in {MOST_KEYS} ways before")
                });
                return plainly(arguments, f);
            }
            None => {}
        }
        let Ok(inputs) = arguments.inputs() else { return plainly(arguments, f) };
        // a panic leaves it so: what panics once is not recorded
        self.known().insert(key, None);
        let (result, recorded) = recorded(arguments, inputs, f);
        match recorded {
            Ok(recorded) => _ = self.known().insert(key, Some(Arc::new(recorded))),
            Err(why) => note(|| format!("jit: will run the function each time: {why}")),
        }
        result
    }

    fn forget(&self, key: u128) {
        self.known().remove(&key);
    }
}

/// Runs the function, and computes what it wrote and what it returns.
fn plainly<R: Returned>(arguments: &Arguments<'_>, f: impl FnOnce() -> R) -> R {
    // what fails here is an error of the tensor
    let _ = settled(&Storages::of(&arguments.tensors).all);
    run(arguments, f).0
}

/// The same; also what it returned, apart.
fn run<R: Returned>(
    arguments: &Arguments<'_>,
    f: impl FnOnce() -> R,
) -> (R, Option<R::Form>, Vec<Tensor>) {
    let result = f();
    let mut tensors = Vec::new();
    let form = result.apart(&mut tensors);
    let returned = tensors.iter().map(Tensor::storage).cloned();
    let all = Storages::of(&arguments.tensors).all.into_iter().chain(returned);
    let pending = |s: &Arc<Storage>| s.version().is_ok_and(|v| v.op() != Op::Buffer);
    let pending: Vec<Arc<Storage>> = all.filter(pending).collect();
    // what fails is an error of the tensor, as it would be without `jit`
    let _ = compute::realize(&pending);
    (result, form, tensors)
}

/// Runs the function and records what it does.
fn recorded<R: Returned>(
    arguments: &Arguments<'_>,
    inputs: Inputs,
    f: impl FnOnce() -> R,
) -> (R, Result<Recorded<R>, Refusal>) {
    let wanted: Vec<bool> = inputs.storages.all.iter().map(|s| s.requires_grad()).collect();
    let both = || noted(&arguments.steppers, || run(arguments, f));
    let (((result, form, tensors), numbers), recording) = record::recorded(&inputs.leaves, both);
    let after = Storages::of(&arguments.again().tensors);
    let recorded = match (recording.spoiled(), form) {
        (Some(why), _) => Err(why),
        (None, None) => Err("it returns an error"),
        (None, Some(form)) => {
            let outcome = Outcome { recording, numbers, form, tensors };
            Recorded::new(outcome, &inputs, &wanted, &after)
        }
    };
    (result, recorded)
}
