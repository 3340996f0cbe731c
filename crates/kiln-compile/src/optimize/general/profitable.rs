//! Beside stage `optimize`, for general kernels: whether a launch of one takes about as long as one of a kernel for the same
//! numbers alone. The options of a general kernel are chosen for all lengths, so they may suit one length badly. Example: with
//! 48 lanes for a loop that now runs 7 times, most lanes compute nothing.

use crate::target::Costs;
use kiln_ir::observe::{self, Decision};
use kiln_ir::program::Program;

/// Whether the general program, with these launch-time scalars, executes few instructions, or about as few as the exact one.
/// Without an exact one it does.
pub fn is_profitable(
    costs: &Costs,
    (general, vars): (&Program, &[i64]),
    exact: impl FnOnce() -> Option<Program>,
) -> bool {
    let many = general.instructions(vars) as f64;
    if many <= costs.general_more {
        return true;
    }
    let Some(exact) = exact() else { return true };
    let few = exact.instructions(&[]) as f64;
    let profits = many <= few * costs.general_times + costs.general_more;
    observe::decision(|| Decision {
        about: general.name.to_string(),
        node: None,
        alternatives: vec![("general".into(), Some(many)), ("exact".into(), Some(few))],
        unit: "instructions",
        chosen: !profits as usize,
        note: "a kernel for many numbers, or one for these".to_string(),
    });
    profits
}
