//! Part of stage `optimize`: where a value counts. A row past the last one is computed with the others, and not stored. Its
//! value may be anything.

use super::ranges::axis_of;
use kiln_ir::scope::closed_ranges;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// By node, predicates: where one of them is false, the node's value does not count. They are those of all stores that the value
/// goes to.
pub(super) fn counting(nodes: &[UOp]) -> FxHashMap<UOp, Vec<UOp>> {
    let mut all: FxHashMap<UOp, Vec<UOp>> = FxHashMap::default();
    for user in nodes.iter().rev() {
        let mut of_user = match user.op() {
            Op::Store => user.gate().map_or(Vec::new(), UOp::conjuncts),
            _ => all.get(user).cloned().unwrap_or_default(),
        };
        // an iteration of a sum counts by itself
        let summed = closed_ranges(user).map(axis_of).collect::<Vec<u32>>();
        of_user.retain(|predicate| !summed.iter().any(|&axis| predicate.scope().contains(axis)));
        for (nth, source) in user.srcs().iter().enumerate() {
            // an index and a predicate always count
            let own = match (user.op(), nth) {
                (Op::Load, _) | (Op::Store, 0 | 1 | 3) => Vec::new(),
                // a value that is chosen counts where it is chosen
                (Op::Where, 1) => of_user.iter().cloned().chain(user.src(0).conjuncts()).collect(),
                _ => of_user.clone(),
            };
            let known = all.entry(source.clone()).or_insert_with(|| own.clone());
            known.retain(|predicate| own.contains(predicate));
        }
    }
    all
}
