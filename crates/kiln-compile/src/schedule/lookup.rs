//! Part of passes `assign` and `build`: an index that is data, as in `x[label]`.
//!
//! Demands go from the roots to the leaves, and expressions are built in the other direction. So when `x` is needed at
//! `label`, the expression of `label` does not exist yet. A placeholder, with the bounds of the axis, stands for it,
//! and is replaced when all expressions are built.

use super::index::{self, Index};
use kiln_ir::uop::{Srcs, substitute, toposort};
use kiln_ir::{Arg, DType, Op, UOp};
use rustc_hash::FxHashMap;

/// Launch-time scalars from this number on are placeholders.
const FIRST: usize = 1 << 40;

/// The placeholders of one schedule.
#[derive(Default)]
pub(super) struct Lookups {
    /// By number: the node and the demand whose value it stands for.
    of: Vec<(usize, usize)>,
    known: FxHashMap<(usize, usize), usize>,
}

/// A position that is looked up.
pub(super) struct Position {
    /// The position; where it is valid, it is inside its bounds.
    pub(super) at: UOp,
    /// Whether there is such an element.
    pub(super) valid: UOp,
}

impl Lookups {
    /// A placeholder for the value of demand `of`, made at `index`: a position among `len`.
    pub(super) fn stand_in(&mut self, of: (usize, usize), index: &Index, len: usize) -> Position {
        let next = self.of.len();
        let number = *self.known.entry(of).or_insert(next);
        if number == next {
            self.of.push(of);
        }
        let bounded = |min: i64, max: i64| {
            let srcs: Srcs = index.iter().cloned().collect();
            UOp::new(Op::Var, DType::Index, 1, srcs, Arg::Var { slot: FIRST + number, min, max })
        };
        let any = bounded(-(1 << 60), 1 << 60);
        let inside = any.lt(&UOp::index(0)).not().and(&any.lt(&UOp::index(len as i64)));
        Position { at: bounded(0, len as i64 - 1), valid: inside }
    }

    /// Whether an expression contains a placeholder. If its predicate is false, a placeholder may exceed its bounds.
    pub(super) fn occur_in(&self, x: &UOp) -> bool {
        !self.of.is_empty() && x.as_const().is_none() && toposort(x).iter().any(is_stand_in)
    }

    /// The expressions with every placeholder replaced by its value, also inside such values.
    pub(super) fn resolve(&self, roots: &[UOp], value: impl Fn(usize, usize) -> UOp) -> Vec<UOp> {
        let mut roots = roots.to_vec();
        if self.of.is_empty() {
            return roots;
        }
        let mut changed = false;
        loop {
            let nodes = toposort(&UOp::sink(roots.iter().cloned()));
            let map: FxHashMap<UOp, UOp> = nodes
                .into_iter()
                .filter(is_stand_in)
                .map(|n| {
                    let (node, request) = self.of[slot(&n) - FIRST];
                    (n, value(node, request).cast(DType::Index))
                })
                .collect();
            if map.is_empty() {
                let simple = |r: &UOp| if changed { index::simplify(r) } else { r.clone() };
                return roots.iter().map(simple).collect();
            }
            roots = substitute(&roots, &map);
            changed = true;
        }
    }
}

fn slot(var: &UOp) -> usize {
    var.arg().slot().expect("a var has a slot")
}

fn is_stand_in(node: &UOp) -> bool {
    node.op() == Op::Var && slot(node) >= FIRST
}
