//! Beside stage `optimize`, for general kernels: whether a launch of one takes about as long as one of a kernel for the same
//! numbers alone. The options of a general kernel are chosen for all lengths, so they may suit one length badly. Example: with
//! 48 lanes for a loop that now runs 7 times, most lanes compute nothing.

use crate::optimize::NOMINAL_THREADS;
use crate::target::{Costs, Target};
use kiln_ir::observe::{self, Decision};
use kiln_ir::program::{Program, Traffic};

/// Whether the general program, with these launch-time scalars, costs little, or about as little as the exact one. Without an
/// exact one it does.
pub fn is_profitable(
    target: &Target,
    (general, vars): (&Program, &[i64]),
    exact: impl FnOnce() -> Option<Program>,
) -> bool {
    let costs = &target.costs;
    let many = price(target, general, vars);
    if many <= costs.general_more {
        return true;
    }
    let Some(exact) = exact() else { return true };
    let few = price(target, &exact, &[]);
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

/// The time of the thread that has most to do, as a number of instructions. It executes instructions while lines come from the
/// second cache, and others from further away. So the longest of these three times counts.
fn price(target: &Target, program: &Program, vars: &[i64]) -> f64 {
    let traffic = Traffic::of(program, vars, NOMINAL_THREADS);
    let Costs { second_line, far_line, instructions_at_once, cache_used, .. } = target.costs;
    let used = |bytes: usize| (bytes as f64 * cache_used) as usize;
    let [first, second, _] = target.cache_bytes.map(|bytes| traffic.lines_into(used(bytes)));
    let lines = (first * second_line).max(second * far_line) * instructions_at_once;
    lines.max(program.instructions(vars, NOMINAL_THREADS) as f64)
}
