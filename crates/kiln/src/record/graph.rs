//! Nodes of a record as a graph again, by way of their text.

use super::parts::{Node, Record};
use kiln_ir::{Op, UOp, text};
use std::collections::HashSet;
use std::fmt::Write;

impl Record {
    /// The nodes of a graph, the roots and all below them, sources first.
    pub fn nodes_of(&self, roots: &[u32]) -> Vec<&Node> {
        below(&self.nodes, roots).into_iter().map(|id| &self.nodes[id as usize]).collect()
    }

    /// A node as an expression, such as `p1[r0*4 + r1]`; its label, where it is not in a form that can be read back.
    pub fn expression(&self, node: u32) -> String {
        let label = || self.nodes.get(node as usize).map_or_else(String::new, |n| n.label.clone());
        graph(&self.nodes, node).map_or_else(label, |graph| text::expr(&graph))
    }
}

/// The graph below a node; none if it is damaged.
pub(super) fn graph(nodes: &[Node], root: u32) -> Option<UOp> {
    let mut lines = String::new();
    for id in below(nodes, &[root]) {
        writeln!(lines, "%{id} = {}", line(&nodes[id as usize])).expect("write to a string");
    }
    text::parse(&lines).ok()
}

/// The numbers of the nodes below these roots, sources first, which have smaller numbers.
pub(super) fn below(nodes: &[Node], roots: &[u32]) -> Vec<u32> {
    let (mut seen, mut stack) = (HashSet::new(), roots.to_vec());
    while let Some(id) = stack.pop() {
        if (id as usize) < nodes.len() && seen.insert(id) {
            stack.extend(&nodes[id as usize].sources);
        }
    }
    let mut all: Vec<u32> = seen.into_iter().collect();
    all.sort_unstable();
    all
}

/// What follows the name of a node in its line.
fn line(node: &Node) -> String {
    let (op, label, sources) = (node.op(), &node.label[..], &node.sources[..]);
    let is_constant = Op::parse(op).is_none();
    let mut line = match (is_constant, sources) {
        (false, _) => label.to_owned(),
        (true, []) => format!("const {label}"),
        // the same constant in every lane
        (true, _) => format!("splat {}", label.rsplit_once(':').map_or("index", |(_, kind)| kind)),
    };
    let ungated = match op {
        "load" => 2,
        "store" => 3,
        // a lookup that stands for a number, for the scheduler alone: no other stage may have such a node
        "var" => 0,
        _ => usize::MAX,
    };
    for (at, source) in sources.iter().enumerate().filter(|_| op != "var") {
        let gate = if at < ungated { "" } else { "gate=" };
        write!(line, " {gate}%{source}").expect("write to a string");
    }
    line
}
