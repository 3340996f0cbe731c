//! How one parameter is updated: what the optimizers of this folder differ in.

use crate::engine;
use crate::error::Error;
use crate::{Device, Tensor};
use kiln_ir::{Const, DType, UOp};
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// What a rule takes besides tensors: numbers that change from step to step, or are a group's own.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Now {
    pub(super) lr: f64,
    pub(super) weight_decay: f64,
    /// The number of this step of the parameter, from 1.
    pub(super) step: u64,
    pub(super) device: Device,
}

impl Now {
    /// The number of the step as an exponent.
    pub(super) fn exponent(&self) -> i32 {
        i32::try_from(self.step).unwrap_or(i32::MAX)
    }

    /// A node as a tensor: for rules with sums or products of matrices, which tensors have methods for.
    pub(super) fn tensor(&self, node: &UOp) -> Tensor {
        Tensor::from_node(node.clone(), &self.device)
    }
}

/// How one parameter is updated. In nodes, not tensors: a step builds thousands, which would all be checked and kept
/// somewhere as what users write is.
#[doc(hidden)]
pub trait Rule {
    /// Names of the tensors that are kept of each parameter, zeros at first.
    fn kept(&self) -> Vec<&'static str>;
    /// The weight decay of groups that have none of their own.
    fn weight_decay(&self) -> f64;
    /// Why its numbers are no rule, if they are not.
    fn fault(&self) -> Option<String>;
    /// Why a parameter cannot be updated, if it cannot.
    fn refuses(&self, _parameter: &Tensor) -> Option<String> {
        None
    }
    /// The parameter's new value, from its value and gradient, of one float dtype all; updates `state`.
    fn updated(&self, now: &Now, value: &UOp, grad: &UOp, state: &mut [UOp]) -> Result<UOp, Error>;
}

/// The fault of the first number that is negative, infinite or NaN, by its name.
pub(super) fn unsigned<'a>(numbers: impl IntoIterator<Item = (&'a str, f64)>) -> Option<String> {
    let is_wrong = |&(_, x): &(&str, f64)| !(0.0..f64::INFINITY).contains(&x);
    let (name, x) = numbers.into_iter().find(is_wrong)?;
    Some(format!("{name} is {x}, wants a number that is 0 or more"))
}

/// What is wrong with weights of the past, which are from 0 to below 1.
pub(super) fn below_one<'a>(
    numbers: impl IntoIterator<Item = (&'a str, f64)> + Clone,
) -> Option<String> {
    let large = || {
        let (name, x) = numbers.clone().into_iter().find(|&(_, x)| x >= 1.0)?;
        Some(format!("{name} is {x}, wants less than 1"))
    };
    unsigned(numbers.clone()).or_else(large)
}

/// What is wrong with the two betas of a rule.
pub(super) fn betas_fault((first, second): (f64, f64)) -> Option<String> {
    below_one([("the first beta", first), ("the second beta", second)])
}

thread_local! {
    static NUMBERS: RefCell<Mode> = const { RefCell::new(Mode::New) };
}

/// What a rule's numbers become on this thread.
enum Mode {
    /// New scalars of the launch.
    New,
    /// Scalars that stand for them; their values are listed.
    Listed(Vec<(Const, DType)>),
    /// These scalars, in order, the next one first.
    Scalars(Vec<UOp>, usize),
    /// As new ones, but each is made once for all parameters of a step that ask for it.
    Shared(Scalars, usize),
}

/// The scalars of a step: by the place among a parameter's numbers, and by value.
pub(super) type Scalars = FxHashMap<(usize, u64, DType), UOp>;

/// A number that a rate or the count of steps decides: a scalar of the launch. The first step's kernels fit all steps.
pub(super) fn number(value: f64, dtype: DType) -> UOp {
    let new = || engine::number(Const::from(value), dtype);
    NUMBERS.with_borrow_mut(|mode| match mode {
        Mode::New => new(),
        Mode::Listed(values) => {
            let (min, max) = dtype.int_bounds();
            values.push((Const::from(value).cast(dtype), dtype));
            UOp::var(values.len() - 1, dtype, min, max)
        }
        Mode::Scalars(scalars, next) => {
            *next += 1;
            scalars[*next - 1].clone()
        }
        Mode::Shared(scalars, next) => {
            *next += 1;
            scalars.entry((*next, value.to_bits(), dtype)).or_insert_with(new).clone()
        }
    })
}

/// Runs `f` in another mode; also gives the mode at the end.
fn within<T>(mode: Mode, f: impl FnOnce() -> T) -> (T, Mode) {
    /// Goes back to new scalars, also after a panic.
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            NUMBERS.replace(Mode::New);
        }
    }
    let back = Back;
    NUMBERS.replace(mode);
    let result = f();
    let mode = NUMBERS.replace(Mode::New);
    drop(back);
    (result, mode)
}

/// Runs a rule and lists its numbers.
pub(super) fn counted<T>(f: impl FnOnce() -> T) -> (T, Vec<(Const, DType)>) {
    match within(Mode::Listed(Vec::new()), f) {
        (result, Mode::Listed(values)) => (result, values),
        (result, _) => (result, Vec::new()),
    }
}

/// Runs a rule, with these scalars for its numbers.
pub(super) fn with_scalars<T>(scalars: &[UOp], f: impl FnOnce() -> T) -> T {
    within(Mode::Scalars(scalars.to_vec(), 0), f).0
}

/// Runs a rule, with scalars for its numbers that other parameters of the step may have, too.
pub(super) fn with_shared<T>(scalars: &mut Scalars, f: impl FnOnce() -> T) -> T {
    let (result, mode) = within(Mode::Shared(std::mem::take(scalars), 0), f);
    if let Mode::Shared(all, _) = mode {
        *scalars = all;
    }
    result
}

/// A node times a number that a rate or the count of steps decides.
pub(super) fn scaled(x: &UOp, factor: f64) -> UOp {
    x * number(factor, x.dtype())
}

/// A node times a number of the rule, the same in each step.
pub(super) fn times(x: &UOp, factor: f64) -> UOp {
    x * UOp::constant(factor, x.dtype())
}

/// A node plus a number of the rule.
pub(super) fn plus(x: &UOp, by: f64) -> UOp {
    x + UOp::constant(by, x.dtype())
}

/// The mean that weighs the past by `beta`, with one more value.
pub(super) fn mean(past: &UOp, new: &UOp, beta: f64) -> UOp {
    times(past, beta) + times(new, 1.0 - beta)
}

/// The gradient with weight decay added to it.
pub(super) fn with_decay(now: &Now, value: &UOp, grad: &UOp) -> UOp {
    match now.weight_decay {
        0.0 => grad.clone(),
        decay => grad + times(value, decay),
    }
}

/// The value after weight decay that stays out of the gradient.
pub(super) fn shrunk(now: &Now, value: &UOp) -> UOp {
    match now.weight_decay {
        0.0 => value.clone(),
        decay => scaled(value, 1.0 - now.lr * decay),
    }
}

/// Methods that set one number of the rule, each with an example.
macro_rules! setters {
    ($optimizer:ident: $($(#[$doc:meta])+ $name:ident: $type:ty = $example:expr;)*) => { $(
        $(#[$doc])+
        ///
        /// ```
        #[doc = concat!("let opt = kiln::optim::", stringify!($optimizer),
            "::new([kiln::Tensor::ones([1])], 0.1).", stringify!($name), "(", stringify!($example), ");")]
        /// ```
        pub fn $name(mut self, $name: $type) -> Self {
            self.rule.$name = $name;
            self
        }
    )* };
}
pub(super) use setters;
