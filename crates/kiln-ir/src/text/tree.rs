//! Graphs as trees for people: what is computed first, and under it what it is computed from.

use super::{label, literal};
use crate::op::Op;
use crate::uop::{UOp, toposort_all};
use rustc_hash::FxHashMap;
use std::fmt::Write;

/// Deeper lines are not indented further, so that the text of a long chain is not quadratic in its length.
const MOST_INDENT: usize = 30;

/// The graphs, a node a line: the depth, the node, its shape, and the method that made it. A node with several users is
/// written once, with a number by which the others name it. What is deeper than `depth` is left out, as `..`.
pub fn tree(roots: &[UOp], depth: usize) -> String {
    let mut uses: FxHashMap<usize, usize> = FxHashMap::default();
    for node in toposort_all(roots, |_| true) {
        node.srcs().iter().for_each(|source| *uses.entry(source.id()).or_default() += 1);
    }
    let mut numbers: FxHashMap<usize, usize> = FxHashMap::default();
    let mut out = String::new();
    let mut stack: Vec<(&UOp, usize)> = roots.iter().rev().map(|root| (root, 0)).collect();
    while let Some((node, level)) = stack.pop() {
        let indent = "  ".repeat(level.min(MOST_INDENT));
        write!(out, "{level:>3} {indent}").expect("write to a string");
        if let Some(number) = numbers.get(&node.id()) {
            writeln!(out, "%{number}").expect("write to a string");
            continue;
        }
        let is_shared = uses.get(&node.id()).is_some_and(|n| *n > 1) && !node.srcs().is_empty();
        if is_shared {
            let number = numbers.len();
            numbers.insert(node.id(), number);
            write!(out, "%{number} = ").expect("write to a string");
        }
        let is_cut = level == depth && !node.srcs().is_empty() && literal(node).is_none();
        out += &line(node);
        out += if is_cut { " ..\n" } else { "\n" };
        if !is_cut && literal(node).is_none() {
            stack.extend(node.srcs().iter().rev().map(|source| (source, level + 1)));
        }
    }
    out
}

/// A node with its shape and its maker.
fn line(node: &UOp) -> String {
    let shape = match node.op() {
        // these say it themselves
        Op::Const | Op::Param | Op::Buffer => String::new(),
        _ if node.shape().is_empty() => String::new(),
        _ => format!(" {:?}", node.shape().as_slice()),
    };
    let maker = node.origin().map_or_else(String::new, |origin| format!("  # {origin}"));
    format!("{}{shape}{maker}", label(node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arg::Shape;
    use crate::dtype::DType;

    fn param(slot: usize) -> UOp {
        UOp::param(slot, DType::F32, Shape::from_slice(&[3]))
    }

    #[test]
    fn shared_nodes_are_written_once_and_deep_ones_not_at_all() {
        let x = param(0);
        let y = &x * &x;
        let z = &y + &y;
        let whole = "  0 add f32 [3]\n  1   %0 = mul f32 [3]\n  2     param f32 slot=0 [3]\n  \
                     2     param f32 slot=0 [3]\n  1   %0\n";
        assert_eq!(tree(std::slice::from_ref(&z), 9), whole);
        let cut = "  0 add f32 [3]\n  1   %0 = mul f32 [3] ..\n  1   %0\n";
        assert_eq!(tree(&[z], 1), cut);
    }

    #[test]
    fn a_long_chain_is_linear() {
        let (mut x, y) = (param(0), param(1));
        for _ in 0..20_000 {
            x = &x + &y;
        }
        let text = tree(&[x], usize::MAX);
        assert_eq!(text.lines().count(), 40_001);
        assert!(text.len() < 40_001 * 200);
    }
}
