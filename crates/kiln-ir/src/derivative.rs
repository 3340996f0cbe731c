//! Derivatives as arguments: how a `Vjp` node comes by its gradients.

use crate::arg::{Arg, Derivative};
use crate::uop::UOp;

pub use crate::uop::{GradientRule, Gradients};

/// The gradients of a function of one input: this one.
pub fn of_one(grad: UOp) -> Gradients {
    [None, Some(grad)].into_iter().collect()
}

/// See the macro [`derivative`](crate::derivative!).
pub const fn named(name: &'static str, rule: &'static GradientRule) -> Derivative {
    Derivative { name, rule }
}

/// The derivative of a name that no other one has. Its rule, a function or a closure that captures nothing, is given the `Vjp`
/// node and its gradient. It gives `None` for the first source, which is the value.
///
/// ```
/// use kiln_ir::{Op, UOp, arg::Derivative, derivative, derivative::of_one};
/// const SINE: Derivative = derivative!("sine", |y, g| of_one(g * UOp::unary(Op::Cos, y.src(1))));
/// assert_eq!(SINE.name, "sine");
/// ```
#[macro_export]
macro_rules! derivative {
    ($name:literal, $rule:expr) => {{
        const RULE: $crate::derivative::GradientRule = $rule;
        $crate::derivative::named($name, &RULE)
    }};
}

/// The gradients of a `Vjp` with a derivative.
pub fn derived(y: &UOp, g: &UOp) -> Option<Gradients> {
    match y.arg() {
        Arg::Derivative(of) => of.rule.downcast_ref::<GradientRule>().map(|rule| rule(y, g)),
        _ => None,
    }
}
