//! Part of pass `choose`: the facts about a reduction that plans are made and priced from: its loops and operands.

use super::super::access::Kernel;
use super::super::ranges::{axis_of, kind_of, size_of};
use super::super::stage::operands;
use super::chooser::Chooser;
use super::operand::{Extent, Operand};
use crate::target::{Costs, Target};
use kiln_ir::arg::RangeKind;
use kiln_ir::scope::AxisSet;
use kiln_ir::uop::toposort;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;

/// A register tile: `across` vectors of `lanes` along loop `lane_loop`, `rows` iterations of loop `row_loop`.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) lane_loop: usize,
    pub(super) lanes: usize,
    pub(super) across: usize,
    pub(super) row_loop: usize,
    pub(super) rows: usize,
}

/// What the plan is made for.
pub(super) struct Planner<'a> {
    pub(super) chooser: &'a mut Chooser,
    pub(super) target: &'a Target,
    pub(super) operands: Vec<Operand>,
    /// How many reductions there are: each has accumulators of its own.
    pub(super) sums: usize,
    /// Positions of the loops over outputs and of those of reductions.
    pub(super) outputs: Vec<usize>,
    pub(super) reduces: Vec<usize>,
    /// The latter for each reduction by itself; those over the same loops are one.
    pub(super) reductions: Vec<Vec<usize>>,
    /// The loops of the predicates on reduced values, without those of operands.
    pub(super) gate: AxisSet,
    /// Iterations of the reduction in a block of it.
    pub(super) block_depth: f64,
    /// The loads and stores of results, by number, and what is computed outside of reductions, in additions.
    pub(super) results: Vec<usize>,
    pub(super) operations_outside: f64,
    /// By loop, its axis and its usual size.
    loops: Vec<(u32, usize)>,
    /// Of kernels for many lengths: the same for shorter and for longer ones.
    pub(super) unusual: Vec<Planner<'a>>,
}

impl<'a> Planner<'a> {
    pub(super) fn of(
        chooser: &'a mut Chooser,
        ast: &UOp,
        target: &'a Target,
    ) -> Option<Planner<'a>> {
        let of_kind = |kind| {
            let ranges = chooser.left.iter().enumerate();
            ranges.filter(|(_, (_, r))| kind_of(r) == kind).map(|(i, _)| i).collect::<Vec<_>>()
        };
        let (outputs, reduces) = (of_kind(RangeKind::Loop), of_kind(RangeKind::Reduce));
        let axes = |loops: &[usize]| loops.iter().map(|&i| axis_of(&chooser.left[i].1)).collect();
        let one_nest = chooser.kernel.is_one_nest(&axes(&outputs), &axes(&reduces));
        let has_registers = target.vector_registers >= target.costs.registers_for_tiles;
        if !has_registers || reduces.is_empty() || !one_nest {
            return None;
        }
        let values = operands(ast);
        if values.len() < 2 {
            return None;
        }
        let operands: Vec<Operand> = values.iter().map(|value| Operand::of(ast, value)).collect();
        let reduced: Vec<UOp> =
            toposort(ast).into_iter().filter(|n| n.op() == Op::Reduce).collect();
        let position = |r: &UOp| chooser.left.iter().position(|(_, known)| known == r);
        let loops = |n: &UOp| n.srcs()[1..].iter().filter_map(position).collect::<BTreeSet<_>>();
        let reductions: BTreeSet<_> = reduced.iter().map(loops).collect();
        let reductions = reductions.into_iter().map(|loops| loops.into_iter().collect()).collect();
        let sums = reduced.len();
        let block_depth = 0.0;
        let gate = gate_of_products(&reduced, &values);
        let loops = chooser.left.iter().map(|(_, r)| (axis_of(r), chooser.trips(r))).collect();
        let (results, operations_outside) = Default::default();
        let mut planner = Planner {
            chooser,
            target,
            operands,
            sums,
            outputs,
            reduces,
            reductions,
            gate,
            block_depth,
            results,
            operations_outside,
            loops,
            unusual: Vec::new(),
        };
        planner.measure();
        Some(planner)
    }

    /// What does not depend on the tile.
    fn measure(&mut self) {
        self.block_depth = self.depth();
        let extents: Vec<Extent> = self.operands.iter().map(|o| self.extent(o)).collect();
        self.operands.iter_mut().zip(extents).for_each(|(operand, extent)| operand.extent = extent);
        let Kernel { accesses, work, .. } = &*self.chooser.kernel;
        let is_result = |&i: &usize| !self.is_inside(&accesses[i].scope);
        self.results = (0..accesses.len()).filter(is_result).collect();
        let outside = work.iter().filter(|(scope, _)| !self.is_inside(scope));
        self.operations_outside = outside.map(|(_, additions)| additions).sum();
    }

    /// What things cost on the target.
    pub(super) fn costs(&self) -> &Costs {
        &self.target.costs
    }

    pub(super) fn axis(&self, i: usize) -> u32 {
        self.loops[i].0
    }

    pub(super) fn size(&self, i: usize) -> usize {
        self.loops[i].1
    }

    /// How many iterations a loop may have.
    pub(super) fn longest(&self, i: usize) -> usize {
        size_of(&self.chooser.left[i].1)
    }

    /// By how much rounding up to whole blocks of `by` iterations multiplies those of a loop.
    pub(super) fn rounded(&self, i: usize, by: usize) -> f64 {
        let n = self.size(i);
        n.next_multiple_of(by) as f64 / n as f64
    }

    /// The mean of a price for launches of all lengths: the geometric one, so that no length counts more than another.
    pub(super) fn mean(&self, price: impl Fn(&Planner<'_>) -> f64) -> f64 {
        let logs = self.unusual.iter().map(|other| price(other).ln()).sum::<f64>();
        match self.unusual.len() {
            0 => price(self),
            n => ((price(self).ln() + logs) / (n + 1) as f64).exp(),
        }
    }

    /// Iterations of the reductions, which follow each other.
    pub(super) fn depth(&self) -> f64 {
        let iterations = |loops: &Vec<usize>| loops.iter().map(|&i| self.size(i) as f64).product();
        self.reductions.iter().map(iterations).fold(0.0, |sum, n: f64| sum + n)
    }
}

/// The loops of the predicates on reduced values, without the predicates inside of operands.
fn gate_of_products(reduced: &[UOp], operands: &[UOp]) -> AxisSet {
    let chosen = |root: &UOp| toposort(root).into_iter().filter(|n| n.op() == Op::Where);
    let inside: FxHashSet<UOp> = operands.iter().flat_map(chosen).collect();
    let mut gate = AxisSet::default();
    for node in reduced.iter().flat_map(|r| chosen(r.src(0))).filter(|n| !inside.contains(n)) {
        gate.union_with(node.src(0).scope());
    }
    gate
}
