//! Pass `name` of stage `optimize`: names the kernel `r` if it reduces, else `E`, then the sizes of its loops:
//! `r_64_7_16`.

use super::ranges::{ranges_among, size_of};
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};

/// The kernel with its name in the sink.
pub(super) fn named(ast: &UOp) -> UOp {
    let nodes = toposort(ast);
    let reduces = nodes.iter().any(|n| n.op() == Op::Reduce);
    let mut name = String::from(if reduces { "r" } else { "E" });
    for range in ranges_among(&nodes) {
        name.push('_');
        name.push_str(&size_of(&range).to_string());
    }
    UOp::kernel(ast.srcs().iter().cloned(), &name)
}
