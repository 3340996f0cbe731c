//! Pass `reduce` of stage `lower`: each `Reduce` becomes an accumulator. Post-condition: no `Reduce` is left.
//!
//! The accumulator is set before the loops, updated inside and read after them. Reductions over the same ranges share
//! their loops, since a range is one loop. If the target has multiply-add, a sum of products is contracted, provided
//! that the product is computed in the accumulator's dtype. It is contracted whoever else uses the product, so the sum
//! always rounds the same.

use super::nest::Nest;
use crate::target::Target;
use kiln_ir::arg::{ReduceOp, Space};
use kiln_ir::scope::closed_ranges;
use kiln_ir::uop::{Srcs, free_local, rebuild, toposort};
use kiln_ir::{Arg, DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

struct Reduce<'a> {
    target: &'a Target,
    nest: Nest,
    next_id: u32,
    done: FxHashMap<UOp, UOp>,
}

/// Replaces every `Reduce` of the kernel by loops over an accumulator.
pub(super) fn lower_reduces(kernel: &UOp, target: &Target) -> UOp {
    let topo = toposort(kernel);
    if !topo.iter().any(|n| n.op() == Op::Reduce) {
        return kernel.clone();
    }
    let mut pass = Reduce {
        target,
        nest: Nest::new(&topo),
        next_id: free_local(&topo),
        done: FxHashMap::default(),
    };
    // a loop around another reduction may be around this one too, though the value of this one does not depend on it
    let ranges = topo.iter().filter(|n| n.op() == Op::Range);
    pass.done.extend(ranges.map(|r| (r.clone(), r.clone())));
    for node in &topo {
        let new = match node.op() {
            Op::Reduce => pass.accumulate(node),
            _ => rebuild(node, pass.sources(node.srcs())),
        };
        pass.done.insert(node.clone(), new);
    }
    pass.done[kernel].clone()
}

/// A value and its predicates, the outermost first. If one of them is false, the value is 0.
fn under_conditions(value: &UOp) -> (&UOp, Vec<&UOp>) {
    let (mut value, mut conditions) = (value, Vec::new());
    while value.op() == Op::Where && value.src(2).uniform().is_const(0) {
        conditions.push(value.src(0));
        value = value.src(1);
    }
    (value, conditions)
}

/// The sum so far plus a product. If its predicates are false, the sum is left alone, so it rounds as in a loop in
/// which they are always true.
fn add_product(value: &UOp, running: &UOp) -> Option<UOp> {
    let (product, conditions) = under_conditions(value);
    if product.op() != Op::Mul {
        return None;
    }
    let srcs = smallvec![product.src(0).clone(), product.src(1).clone(), running.clone()];
    let sum = UOp::new(Op::MulAdd, product.dtype(), product.lanes(), srcs, Arg::None);
    Some(conditions.into_iter().rev().fold(sum, |sum, c| c.where_(&sum, running)))
}

impl Reduce<'_> {
    fn sources(&self, srcs: &[UOp]) -> Srcs {
        srcs.iter().map(|s| self.done[s].clone()).collect()
    }

    fn accumulate(&mut self, node: &UOp) -> UOp {
        let op = node.arg().reduce_op().expect("a reduce");
        let ranges: Vec<UOp> = closed_ranges(node).cloned().collect();
        let others = ranges.len() + usize::from(node.initial().is_some());
        let values = &node.srcs()[..node.srcs().len() - others];
        if ranges.is_empty() {
            let first = self.done[&values[0]].clone();
            return self.combine(op, first, &values[1..]);
        }
        let outer = self.outer_loops(node, &ranges);
        let ranges = self.sources(&ranges);
        let accumulator = self.new_accumulator(node);
        let zero = UOp::index(0);
        let identity =
            || UOp::constant(op.identity(node.dtype()), node.dtype()).splat(node.lanes());
        let initial = node.initial().map_or_else(identity, |value| self.done[value].clone());
        let init = UOp::store(&accumulator.after(outer.clone()), &zero, &initial, None);
        let inside = outer.into_iter().chain(ranges.iter().cloned());
        let running = accumulator.after([init].into_iter().chain(inside));
        let updated = self.combine(op, UOp::load(&running, &zero), values);
        let update = UOp::store(&running, &zero, &updated, None);
        UOp::load(&accumulator.after([update.end(ranges)]), &zero)
    }

    fn new_accumulator(&mut self, node: &UOp) -> UOp {
        let id = self.next_id;
        self.next_id += 1;
        UOp::local(Space::Register, id, 1, node.dtype(), node.lanes())
    }

    /// The loops around the reduction's own; the accumulator is set inside them.
    fn outer_loops(&self, node: &UOp, closed: &[UOp]) -> Vec<UOp> {
        let innermost = node.srcs().iter().filter_map(|s| self.nest.block(s)).max();
        let path: Vec<&UOp> = self.nest.path(innermost).map(|r| self.nest.range(r)).collect();
        let own = path.iter().take_while(|r| closed.contains(r)).count();
        assert_eq!(own, closed.len(), "the ranges of a reduce are its innermost loops: {node:?}");
        path[own..].iter().rev().map(|r| self.done[*r].clone()).collect()
    }

    /// The values joined to `running`, from left to right.
    fn combine(&self, op: ReduceOp, running: UOp, values: &[UOp]) -> UOp {
        values.iter().fold(running, |running, value| {
            let new = &self.done[value];
            let (dtype, lanes) = (new.dtype(), new.lanes());
            if op == ReduceOp::Add && new.op() == Op::Dot && new.src(2).uniform().is_const(0) {
                let parts = new.arg().parts().expect("a dot's parts");
                return UOp::dot(parts, new.src(0), new.src(1), &running);
            }
            let contracted = || self.contracts(op, value).then(|| add_product(new, &running));
            if let Some(contracted) = contracted().flatten() {
                return contracted;
            }
            UOp::new(op.alu(), dtype, lanes, smallvec![running, new.clone()], Arg::None)
        })
    }

    /// Whether a product, perhaps under conditions, is added by one multiply-add.
    fn contracts(&self, op: ReduceOp, value: &UOp) -> bool {
        let exact = matches!(value.dtype(), DType::F32 | DType::F64);
        let (product, _) = under_conditions(value);
        self.target.fma && exact && op == ReduceOp::Add && product.op() == Op::Mul
    }
}
