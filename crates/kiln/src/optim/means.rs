//! Adam and its relatives keep two running means of each parameter: of the gradients, and of their squares.

use super::rule::{Now, betas_fault, mean, unsigned};
use kiln_ir::UOp;

/// Their names, as PyTorch has them.
pub(super) const NAMES: [&str; 2] = ["exp_avg", "exp_avg_sq"];

/// The two means after a step.
pub(super) struct Means {
    pub(super) first: UOp,
    pub(super) second: UOp,
    /// Both start at 0. These are the sums of their weights so far, which come to be 1.
    pub(super) fill: [f64; 2],
}

impl Means {
    /// With one more gradient; `state` holds both means.
    pub(super) fn after(state: &mut [UOp], grad: &UOp, betas: (f64, f64), now: &Now) -> Means {
        let [first, second] = state else { unreachable!("two tensors are kept") };
        *first = mean(first, grad, betas.0);
        *second = mean(second, &(grad * grad), betas.1);
        let fill = [betas.0, betas.1].map(|beta| 1.0 - beta.powi(now.exponent()));
        Means { first: first.clone(), second: second.clone(), fill }
    }
}

/// What is wrong with the numbers of such a rule.
pub(super) fn fault(betas: (f64, f64), eps: f64, weight_decay: f64) -> Option<String> {
    betas_fault(betas).or_else(|| unsigned([("eps", eps), ("the weight decay", weight_decay)]))
}
