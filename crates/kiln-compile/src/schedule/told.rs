//! Part of passes `merge`, `chain` and `batch` of stage `schedule`: why kernels stay apart, or become one, as observers see
//! it.

use super::assign::about;
use kiln_ir::UOp;
use kiln_ir::observe::{self, Decision};

/// A choice that was taken over from a graph of other lengths.
pub(super) const AT_ANOTHER_LENGTH: &str = "so it was chosen for these lengths together";

/// Tells observers the choice of a pass for the kernel of a node, and the reason. Prices, if any, are in microseconds.
pub(super) fn kernel(
    node: &UOp,
    pass: &'static str,
    ways: [(&'static str, Option<f64>); 2],
    chosen: usize,
    why: impl FnOnce() -> String,
) {
    observe::decision(|| Decision {
        about: format!("{pass}: {}", about(node)),
        node: Some(node.clone()),
        alternatives: ways.map(|(name, price)| (name.into(), price)).to_vec(),
        unit: "us",
        chosen,
        note: why(),
    });
}
