//! Part of stage `optimize`: what a kernel takes from its loops.

use super::size::is_fixed;
use kiln_ir::affine::Affine;
use kiln_ir::program::at_launch;
use kiln_ir::{DType, Op, UOp};

/// All that nodes take from loops, as sums: the indices of loads and stores, the differences that comparisons look at, and so on.
/// While all of these stay the same, the nodes' values do. None if a sum has too many terms.
pub(super) fn index_forms(nodes: &[UOp]) -> Option<Vec<Affine>> {
    let mut forms = Vec::new();
    for user in nodes.iter().filter(|n| !is_sum(n) && !matches!(n.op(), Op::Range | Op::End)) {
        let own = match user.op() {
            Op::Reduce => &user.srcs()[..1],
            _ => user.srcs(),
        };
        let mut used = own.iter().filter(|s| is_index(s)).map(Affine::multiplied_out);
        match user.op() {
            Op::CmpLt | Op::CmpEq | Op::CmpNe if is_index(user.src(0)) => {
                forms.push(used.next()??.plus(&used.next()??, -1)?);
            }
            _ => used.try_for_each(|form| form.map(|form| forms.push(form)))?,
        }
    }
    Some(forms)
}

fn is_index(node: &UOp) -> bool {
    node.dtype() == DType::Index
}

/// Whether an index is a part of its users' forms.
fn is_sum(node: &UOp) -> bool {
    match node.op() {
        Op::Add | Op::Sub | Op::Neg => is_index(node),
        Op::Mul => is_index(node) && node.srcs().iter().any(is_fixed),
        _ => false,
    }
}

/// Whether a predicate only ends a loop: `i < n`, where a launch may decide `n`.
pub(super) fn is_end_of_loop(predicate: &UOp) -> bool {
    let is_below = predicate.op() == Op::CmpLt && predicate.src(0).op() == Op::Range;
    is_below && at_launch(predicate.src(1))
}

/// Whether it does so where a launch says.
pub(super) fn is_end_at_launch(predicate: &UOp) -> bool {
    is_end_of_loop(predicate) && predicate.src(1).as_int().is_none()
}
