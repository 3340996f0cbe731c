//! Part of pass `assign`: passes a demand on to the sources of a node. If `permute(x)` is needed at `[i, j]`, then `x`
//! is needed at `[j, i]`.

use super::assign::{Planner, Request, depth};
use super::choices::Reason;
use super::index::{self, Index};
use kiln_ir::arg::RangeKind;
use kiln_ir::{Arg, Const, Op, UOp};
use std::rc::Rc;

impl Planner<'_> {
    /// Records a request and returns its number.
    pub(super) fn demand(
        &mut self,
        i: usize,
        kernel: usize,
        index: Index,
        gate: UOp,
        nest: Rc<[UOp]>,
    ) -> usize {
        let inside = index::in_bounds(&index, self.plan.nodes[i].shape());
        let gate =
            if inside && !self.plan.lookups.occur_in(&gate) { UOp::bool(true) } else { gate };
        let number = self.plan.requests[i].len();
        let key = (i, kernel, index.clone(), gate.clone());
        let known = *self.seen.entry(key).or_insert(number);
        if known != number {
            return known;
        }
        self.plan.requests[i].push(Request::new(kernel, index, gate, nest));
        self.plan.drafts[kernel].size += 1;
        number
    }

    /// Demand `r` of node `i` is computed inline: it demands the node's sources, at their index.
    pub(super) fn demand_sources(&mut self, i: usize, r: usize) {
        let node = self.plan.nodes[i].clone();
        let request = self.plan.requests[i][r].clone();
        match node.op() {
            op if op.is_movement() => self.demand_through_view(i, r, &node, request),
            Op::Reduce => self.demand_reduced(i, r, &node, request),
            Op::Remat => {
                self.wait_for(&node, request.kernel);
                self.demand_source(i, r, &node, 0, request.index, &request.gate, &request.nest);
            }
            Op::Gather => self.demand_gathered(i, r, &node, request),
            Op::Bitcast if node.dtype().size() != node.src(0).dtype().size() => {
                self.demand_bits(i, r, &node, request);
            }
            _ => {
                for s in 0..node.srcs().len() {
                    self.demand_source(
                        i,
                        r,
                        &node,
                        s,
                        request.index.clone(),
                        &request.gate,
                        &request.nest,
                    );
                }
            }
        }
    }

    /// An update demands its values and their positions, at its own loops.
    pub(super) fn demand_written(&mut self, i: usize, r: usize) {
        let node = self.plan.nodes[i].clone();
        let request = self.plan.requests[i][r].clone();
        for s in [1, 2] {
            let index = request.index.clone();
            self.demand_source(i, r, &node, s, index, &request.gate, &request.nest);
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a request has this many parts, and nobody keeps them together"
    )]
    fn demand_source(
        &mut self,
        i: usize,
        r: usize,
        node: &UOp,
        s: usize,
        index: Index,
        gate: &UOp,
        nest: &Rc<[UOp]>,
    ) {
        let src = self.plan.position[node.src(s)];
        // rank 0 fits any shape
        let index = if node.src(s).shape().is_empty() { Index::new() } else { index };
        let kernel = self.plan.requests[i][r].kernel;
        let number = self.demand(src, kernel, index, gate.clone(), nest.clone());
        self.plan.requests[i][r].made.push((src, number));
    }

    fn demand_through_view(&mut self, i: usize, r: usize, node: &UOp, request: Request) {
        let (index, valid) = index::through(node, &request.index);
        let is_always = valid.is_const(1);
        let gate = if is_always {
            request.gate.clone()
        } else {
            index::simplify(&request.gate.and(&valid))
        };
        if matches!(node.op(), Op::Pad | Op::Unwindow) {
            self.say_why_outside(node, (&index, &valid), (&request.gate, &gate));
            self.plan.requests[i][r].valid = Some(valid);
        }
        // where the element is used the gate is true, which can undo a reshape that the padding had blurred
        let index = match gate.as_const() {
            Some(_) => index,
            None => index.iter().map(|i| index::simplify_under(&gate, i)).collect(),
        };
        self.demand_source(i, r, node, 0, index, &gate, &request.nest);
    }

    /// Notes why no element of a padding comes from its source.
    fn say_why_outside(
        &self,
        node: &UOp,
        (index, valid): (&Index, &UOp),
        (before, gate): (&UOp, &UOp),
    ) {
        for (at, &n) in index.iter().zip(node.src(0).shape()) {
            if at.max() < 0 {
                self.choices.because(Reason::Before);
            } else if at.min() >= n as i64 {
                self.choices.because(Reason::Behind);
            }
        }
        let is_never = |condition: &UOp| condition.as_const() == Some(Const::Bool(false));
        if is_never(gate) && !is_never(before) && !is_never(valid) {
            self.choices.because(Reason::Excluded(before.and(valid).hash()));
        }
    }

    /// A gather demands its position, and the element at the placeholder of that position.
    fn demand_gathered(&mut self, i: usize, r: usize, node: &UOp, request: Request) {
        let Request { index, gate, nest, .. } = &request;
        self.demand_source(i, r, node, 1, index.clone(), gate, nest);
        let looked_up = self.plan.requests[i][r].made[0];
        let len = node.src(0).numel();
        let position = self.plan.lookups.stand_in(looked_up, index, len);
        let gate = index::simplify(&gate.and(&position.valid));
        let from = index::unflatten(&position.at, node.src(0).shape());
        self.plan.requests[i][r].valid = Some(position.valid);
        self.demand_source(i, r, node, 0, from, &gate, nest);
    }

    fn demand_reduced(&mut self, i: usize, r: usize, node: &UOp, request: Request) {
        let Arg::Reduce { axes, .. } = node.arg() else {
            unreachable!("a reduce has a reduce argument")
        };
        let mut kept = request.index.iter();
        let (mut index, mut ranges) = (Index::new(), Index::new());
        for (axis, &n) in node.src(0).shape().iter().enumerate() {
            if !axes.contains(&axis) {
                index.push(kept.next().expect("an index for every kept axis").clone());
            } else if n == 1 {
                index.push(UOp::index(0));
            } else {
                let draft = &mut self.plan.drafts[request.kernel];
                let range = UOp::range(draft.next_axis, RangeKind::Reduce, n);
                draft.next_axis += 1;
                ranges.push(range.clone());
                index.push(range);
            }
        }
        // the reduction's loops stand inside those that it depends on, not inside all that surround its user
        let (_, depth) = depth(&request);
        let nest: Rc<[UOp]> = request.nest[..depth].iter().chain(&ranges).cloned().collect();
        self.plan.requests[i][r].ranges = ranges;
        self.demand_source(i, r, node, 0, index, &request.gate, &nest);
    }

    /// A bitcast between sizes: a wide element demands its narrow parts, a narrow one the wide element that it is a
    /// part of.
    fn demand_bits(&mut self, i: usize, r: usize, node: &UOp, request: Request) {
        let (to, from) = (node.dtype().size(), node.src(0).dtype().size());
        let (last, outer) =
            request.index.split_last().expect("a bitcast between sizes has an axis");
        let parts = (to / from).max(1);
        for part in 0..parts as i64 {
            let at = match to > from {
                true => last * (parts as i64) + part,
                false => last.floordiv(&UOp::index((from / to) as i64)),
            };
            let index: Index = outer.iter().cloned().chain([index::simplify(&at)]).collect();
            self.demand_source(i, r, node, 0, index, &request.gate, &request.nest);
        }
    }
}
