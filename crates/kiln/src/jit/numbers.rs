//! Numbers that differ from call to call: where draws start, the rates and counts of an optimizer's step.
//!
//! While a function is recorded they are launch-time scalars, and each is noted with where it came from. A replay asks
//! there again.

use super::step::{Stepped, Stepper};
use crate::engine;
use crate::engine::record::spoil;
use kiln_ir::{Const, DType, UOp};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static NUMBERS: RefCell<Option<Numbers>> = const { RefCell::new(None) };
}

/// The numbers of a recording.
#[derive(Default)]
pub(crate) struct Numbers {
    pub(super) sources: Vec<Source>,
    /// By the slot of a scalar: its place among all numbers.
    pub(super) places: FxHashMap<usize, usize>,
    /// Where the optimizers are that are arguments.
    steppers: Vec<usize>,
}

/// Where numbers come from, in the order in which the function asked.
pub(crate) enum Source {
    /// So many random numbers of the shared sequence.
    Draw(usize),
    /// A step of an optimizer: which, and what its numbers were for.
    Step(usize, Arc<Stepped>),
}

/// Runs `f` and notes the numbers that it asks for. `steppers` are the optimizers among the arguments.
pub(super) fn noted<R>(steppers: &[&dyn Stepper], f: impl FnOnce() -> R) -> (R, Numbers) {
    /// Ends the noting, also after a panic.
    struct Noting;
    impl Drop for Noting {
        fn drop(&mut self) {
            NUMBERS.set(None);
        }
    }
    let steppers = steppers.iter().map(|s| s.address()).collect();
    NUMBERS.set(Some(Numbers { steppers, ..Numbers::default() }));
    let noting = Noting;
    let result = f();
    let numbers = NUMBERS.take().expect("set above");
    drop(noting);
    (result, numbers)
}

/// Whether a function is being recorded on this thread.
pub(crate) fn is_recording() -> bool {
    NUMBERS.with_borrow(Option::is_some)
}

/// Scalars for numbers of a source, if a function is being recorded.
fn scalars(source: Source, values: &[(Const, DType)]) -> Option<Vec<UOp>> {
    NUMBERS.with_borrow_mut(|numbers| {
        let numbers = numbers.as_mut()?;
        numbers.sources.push(source);
        let scalar = |&(value, dtype): &(Const, DType)| {
            let node = engine::number(value, dtype);
            let place = numbers.places.len();
            numbers.places.insert(node.arg().slot().expect("a scalar"), place);
            node
        };
        Some(values.iter().map(scalar).collect())
    })
}

/// The words that a draw of `n` numbers is made of, as nodes.
pub(crate) fn drawn<const N: usize>(
    n: usize,
    is_shared: bool,
    words: [u32; N],
    constant: impl Fn(u32) -> UOp,
) -> [UOp; N] {
    if !is_shared && is_recording() {
        spoil("it draws from a sequence that is no argument");
    }
    let values = words.map(|word| (Const::from(word), DType::U32));
    match scalars(Source::Draw(n), &values).and_then(|nodes| nodes.try_into().ok()) {
        Some(nodes) => nodes,
        // A thread that another thread's function has started may draw for it. A number that the recording has not
        // given spoils it, if it gets into it.
        None if engine::is_recorded_somewhere() => {
            values.map(|(value, dtype)| engine::number(value, dtype))
        }
        None => words.map(constant),
    }
}

/// The form of a step, and its numbers as nodes, if a function is being recorded.
pub(crate) fn stepped(
    stepper: &dyn Stepper,
    stepped: impl FnOnce() -> Stepped,
) -> Option<(Arc<Stepped>, Vec<UOp>)> {
    let steppers = NUMBERS.with_borrow(|numbers| Some(numbers.as_ref()?.steppers.clone()))?;
    let Some(which) = steppers.iter().position(|&at| at == stepper.address()) else {
        spoil("it steps an optimizer that is no argument");
        return None;
    };
    let stepped = Arc::new(stepped());
    let nodes = scalars(Source::Step(which, stepped.clone()), &stepped.numbers())?;
    Some((stepped, nodes))
}
