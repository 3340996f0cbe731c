//! How the accesses of a kernel move along its loops.

use super::ranges::axis_of;
use kiln_ir::affine::strides;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// A load or a store.
pub(super) struct Access {
    pub(super) is_store: bool,
    /// Elements moved by one step of each loop, by axis; loops that do not move it are left out, loops that move it
    /// unevenly have `None`.
    strides: FxHashMap<u32, Option<i64>>,
    /// Axes of the loops around it.
    pub(super) scope: FxHashSet<u32>,
    /// Axes that its gate depends on.
    pub(super) gate: FxHashSet<u32>,
}

impl Access {
    /// The step along a loop: `Some(0)` if it does not move.
    pub(super) fn stride(&self, axis: u32) -> Option<i64> {
        self.strides.get(&axis).copied().unwrap_or(Some(0))
    }
}

/// What a kernel does, as far as the heuristic wants to know.
pub(super) struct Kernel {
    pub(super) accesses: Vec<Access>,
    /// Sets of axes that occur together in one expression.
    pub(super) scopes: Vec<FxHashSet<u32>>,
    /// For each reduction and each store, the axes of the loops around it.
    pub(super) nests: Vec<FxHashSet<u32>>,
    /// For each arithmetic operation in the kernel's text, the axes of the loops around it.
    pub(super) operations: Vec<FxHashSet<u32>>,
}

impl Kernel {
    pub(super) fn of(ast: &UOp) -> Kernel {
        let nodes = toposort(ast);
        let mut scopes: FxHashMap<UOp, FxHashSet<u32>> = FxHashMap::default();
        for node in &nodes {
            let scope = scope_of(node, &scopes);
            scopes.insert(node.clone(), scope);
        }
        let is_access = |n: &&UOp| matches!(n.op(), Op::Load | Op::Store);
        let access = |n: &UOp| Access {
            is_store: n.op() == Op::Store,
            strides: strides(n.src(1)),
            scope: scopes[n].clone(),
            gate: n.gate().map(|g| scopes[g].clone()).unwrap_or_default(),
        };
        Kernel {
            accesses: nodes.iter().filter(is_access).map(access).collect(),
            nests: nodes
                .iter()
                .filter(|n| matches!(n.op(), Op::Store | Op::Reduce))
                .map(|n| scopes[n].clone())
                .collect(),
            operations: nodes
                .iter()
                .filter(|n| n.op().is_alu())
                .map(|n| scopes[n].clone())
                .collect(),
            scopes: distinct(nodes.iter().map(|n| inside(n, &scopes))),
        }
    }

    /// Whether some expression depends on both loops.
    pub(super) fn together(&self, a: u32, b: u32) -> bool {
        self.scopes.iter().any(|s| s.contains(&a) && s.contains(&b))
    }
}

/// The axes that meet in a node, those that it closes included: a reduction of what does not vary over one of its ranges
/// still runs over all of them.
fn inside(node: &UOp, scopes: &FxHashMap<UOp, FxHashSet<u32>>) -> FxHashSet<u32> {
    let of_srcs = node.srcs().iter().flat_map(|s| scopes[s].iter().copied());
    of_srcs.chain(node.arg().range().map(|(axis, _)| axis)).collect()
}

fn distinct(scopes: impl Iterator<Item = FxHashSet<u32>>) -> Vec<FxHashSet<u32>> {
    let mut seen = FxHashSet::default();
    let mut out = Vec::new();
    for scope in scopes {
        let mut key: Vec<u32> = scope.iter().copied().collect();
        key.sort_unstable();
        if seen.insert(key) {
            out.push(scope);
        }
    }
    out
}

/// The axes that a node depends on and that are still open after it.
fn scope_of(node: &UOp, scopes: &FxHashMap<UOp, FxHashSet<u32>>) -> FxHashSet<u32> {
    let mut scope: FxHashSet<u32> =
        node.srcs().iter().flat_map(|s| scopes[s].iter().copied()).collect();
    match node.op() {
        Op::Range => {
            scope.insert(axis_of(node));
        }
        Op::End | Op::Reduce => {
            node.srcs()[1..].iter().for_each(|r| _ = scope.remove(&axis_of(r)));
        }
        _ => {}
    }
    scope
}
