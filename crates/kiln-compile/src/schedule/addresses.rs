//! Part of pass `assign`: arithmetic of addresses, which stays in the kernels that read or write there.
//!
//! Row `i` of a table of 128 columns is at `128 * i + column`. A kernel that computes this sees that neighbours along the
//! columns are neighbours in memory, and uses vectors. If it read the sum from memory, or `128 * i`, it would see numbers. Where `i`
//! was made to fit, `min(max(i, 0), rows - 1)`, no address is outside. The index `i` itself may be stored.

use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// By position, whether a node is a sum, a product or a bound that addresses are computed from.
pub(super) fn addresses(nodes: &[UOp], position: &FxHashMap<UOp, usize>) -> Vec<bool> {
    let mut is_address = vec![false; nodes.len()];
    for (i, node) in nodes.iter().enumerate().rev() {
        match node.op() {
            Op::Gather => is_address[position[node.src(1)]] = true,
            Op::Update => is_address[position[node.src(2)]] = true,
            op if is_address[i] && (is_kept(node) || op.is_movement() || op == Op::Cast) => {
                node.srcs().iter().for_each(|src| is_address[position[src]] = true);
            }
            _ => {}
        }
    }
    nodes.iter().zip(is_address).map(|(node, is_address)| is_address && is_kept(node)).collect()
}

/// Whether it says something of an address that a number in memory does not.
fn is_kept(node: &UOp) -> bool {
    matches!(node.op(), Op::Add | Op::Mul | Op::Max | Op::Min) && !node.dtype().is_float()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::DType;
    use kiln_ir::uop::toposort;

    #[test]
    fn rows_of_a_table_are_found_in_the_kernel_that_reads_them() {
        let table = UOp::param(0, DType::F32, [1000 * 128].as_slice());
        let asked = UOp::param(1, DType::I64, [50, 1].as_slice());
        let bound = |n: i64| UOp::constant(n, DType::I64).broadcast_to(asked.shape());
        let row = asked.maximum(&bound(0)).minimum(&bound(999)) * 128;
        let column = UOp::iota(128, DType::I64).reshape([1, 128].as_slice());
        let at = row.expand([50, 128].as_slice()) + column.expand([50, 128].as_slice());
        let nodes = toposort(&table.gather(&at));
        let position = nodes.iter().cloned().enumerate().map(|(i, n)| (n, i)).collect();
        let found = addresses(&nodes, &position);
        let kept = nodes.iter().zip(found).filter(|(_, is)| *is).map(|(node, _)| node.op());
        assert_eq!(kept.collect::<Vec<_>>(), [Op::Max, Op::Min, Op::Mul, Op::Add]);
    }
}
