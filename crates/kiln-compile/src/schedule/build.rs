//! Pass `build` of stage `schedule`: from the leaves to the roots, builds the expression of every demand, and the
//! stores that make each kernel.

use super::assign::{Placement, Plan, Request};
use super::index::{self, Index};
use super::layout::{self, Layouts};
use super::scheduled::BufferRef;
use super::writes::same_memory;
use kiln_ir::arg::{ReduceOp, Shape};
use kiln_ir::uop::{Srcs, axis_of, rebuild};
use kiln_ir::{Arg, Const, DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::smallvec;
use std::collections::BTreeSet;

/// A kernel with its expressions. Its arguments are named by their contents: a stored node, or a parameter.
#[derive(Clone, Debug)]
pub(super) struct Built {
    /// One `End(Store)` per output.
    pub(super) stores: Vec<UOp>,
    /// Graph positions of the outputs, one per store.
    pub(super) outputs: Vec<usize>,
    /// What slot `i` stands for: `Stored(position)` or a parameter of the closed graph.
    pub(super) args: Vec<Source>,
    pub(super) loops: Vec<UOp>,
    pub(super) origins: Vec<&'static str>,
    /// What its first output's memory must hold before it runs.
    pub(super) starts_from: Option<Source>,
    /// Positions of stored nodes that it waits for and does not read.
    pub(super) after: BTreeSet<usize>,
    /// How many of its loops are around several nests, if there are several.
    pub(super) shared: Option<usize>,
}

impl Built {
    /// Whether an output has elements.
    pub(super) fn has_work(&self, plan: &Plan) -> bool {
        self.outputs.iter().any(|&o| plan.nodes[o].numel() > 0)
    }
}

/// Memory, before it is known which stored node is an output and which a temporary.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Source {
    /// The value that a kernel stores for the node of this position.
    Stored(usize),
    /// A parameter of the closed graph.
    Param(usize),
}

impl Source {
    pub(super) fn resolve(self, stored: impl Fn(usize) -> BufferRef) -> BufferRef {
        match self {
            Source::Stored(i) => stored(i),
            Source::Param(slot) => BufferRef::Param(slot),
        }
    }
}

/// Builds every kernel of the plan.
pub(super) fn build(plan: &Plan) -> Vec<Built> {
    let mut builder = Builder {
        plan,
        layouts: layout::choose(plan),
        values: vec![Vec::new(); plan.nodes.len()],
        kernels: Vec::new(),
    };
    builder.kernels =
        plan.drafts.iter().map(|d| new_kernel(&d.outputs, d.loops.to_vec())).collect();
    for i in 0..plan.nodes.len() {
        builder.build_node(i);
    }
    let Builder { values, mut kernels, .. } = builder;
    for (kernel, draft) in kernels.iter_mut().zip(&plan.drafts) {
        kernel.wait_for(draft.after.iter().copied());
        let value = |node: usize, request: usize| values[node][request].clone();
        kernel.stores = plan.lookups.resolve(&kernel.stores, value);
    }
    kernels
}

/// Outputs take the first slots.
fn new_kernel(outputs: &[usize], loops: Vec<UOp>) -> Built {
    let args = outputs.iter().map(|&o| Source::Stored(o)).collect();
    let (stores, origins) = (Vec::new(), Vec::new());
    Built {
        stores,
        outputs: outputs.to_vec(),
        args,
        loops,
        origins,
        starts_from: None,
        after: BTreeSet::new(),
        shared: None,
    }
}

struct Builder<'a> {
    plan: &'a Plan,
    layouts: Layouts,
    /// The expression of each request, by node position and request number.
    values: Vec<Vec<UOp>>,
    kernels: Vec<Built>,
}

impl Builder<'_> {
    fn build_node(&mut self, i: usize) {
        for r in 0..self.plan.requests[i].len() {
            let value = match self.plan.placement[i] {
                Placement::Stored { kernel, request } if request == r => self.store(i, r, kernel),
                Placement::Stored { .. } => self.load(i, r, Source::Stored(i)),
                Placement::Inline => self.value(i, r),
            };
            self.values[i].push(value);
        }
    }

    fn store(&mut self, i: usize, r: usize, kernel: usize) -> UOp {
        if self.plan.nodes[i].op() == Op::Update {
            return self.store_update(i, r, kernel);
        }
        let value = self.value(i, r);
        let node = &self.plan.nodes[i];
        let at = self.layouts.flatten(i, &self.plan.requests[i][r].index, node.shape());
        let memory = self.memory(kernel, Source::Stored(i), node);
        let store = UOp::store(&memory, &at, &value, None);
        let loops = self.plan.drafts[kernel].loops.to_vec();
        self.kernels[kernel].stores.push(store.end(loops));
        value
    }

    /// Stores at the positions of the update; the rest of the memory stays. Nothing reads the stored expression: only
    /// its own kernel could, and an update has other loops than its readers.
    fn store_update(&mut self, i: usize, r: usize, kernel: usize) -> UOp {
        let node = self.plan.nodes[i].clone();
        let made = &self.plan.requests[i][r].made;
        let (value, at) = (self.made(made[0]).clone(), self.made(made[1]).cast(DType::Index));
        let at = index::simplify(&at);
        let gate = inside(&at, node.numel());
        // the kernel's output is the last of the versions that it makes
        let output = self.plan.drafts[kernel].outputs[0];
        let memory = self.memory(kernel, Source::Stored(output), &self.plan.nodes[output]);
        let memory = memory.after(self.kernels[kernel].stores.last().cloned());
        let value = match node.arg().reduce_op() {
            None => value,
            Some(op) => {
                // loaded again in every iteration: an earlier one may have written it
                let now = memory.after(self.plan.requests[i][r].nest.iter().cloned());
                let old = UOp::load_lanes(&now, &at, Some(&gate), 1);
                UOp::binary(op.alu(), &old, &value)
            }
        };
        let store = UOp::store(&memory, &at, &value, Some(&gate));
        let loops = self.plan.requests[i][r].nest.to_vec();
        let kernel = &mut self.kernels[kernel];
        kernel.stores.push(store.end(loops));
        kernel.starts_from.get_or_insert(self.plan.memory_of(node.src(0)));
        value
    }

    fn made(&self, (node, request): (usize, usize)) -> &UOp {
        &self.values[node][request]
    }

    /// The kernel's parameter for some memory; a new one if it had none.
    fn memory(&mut self, kernel: usize, source: Source, node: &UOp) -> UOp {
        let args = &mut self.kernels[kernel].args;
        let slot = args.iter().position(|a| *a == source).unwrap_or_else(|| {
            args.push(source);
            args.len() - 1
        });
        let shape: Shape = smallvec![node.numel()];
        UOp::param(slot, node.dtype(), shape)
    }

    fn load(&mut self, i: usize, r: usize, source: Source) -> UOp {
        let (node, request) = (&self.plan.nodes[i], &self.plan.requests[i][r]);
        let at = self.layouts.flatten(i, &request.index, node.shape());
        let memory = self.memory(request.kernel, source, node);
        UOp::load_lanes(&memory, &at, Some(&request.gate), 1)
    }

    fn value(&mut self, i: usize, r: usize) -> UOp {
        let (node, request) = (&self.plan.nodes[i], &self.plan.requests[i][r]);
        let origins = &mut self.kernels[request.kernel].origins;
        origins.extend(node.origin().filter(|o| !origins.contains(o)));
        let srcs: Srcs = request.made.iter().map(|&(s, n)| self.values[s][n].clone()).collect();
        match node.op() {
            Op::Const | Op::Var => node.clone(),
            Op::Iota => index::simplify(&request.index[0].cast(node.dtype())),
            Op::Param => {
                let slot = node.arg().slot().expect("a param has a slot");
                self.load(i, r, Source::Param(slot))
            }
            Op::Pad | Op::Unwindow => pad(request, &srcs[0]),
            Op::Gather => pad(request, &srcs[1]),
            Op::Reduce => {
                let op = node.arg().reduce_op().expect("a reduce has an op");
                reduce(op, &srcs[0], &request.ranges)
            }
            Op::Contiguous | Op::Remat => srcs[0].clone(),
            op if op.is_movement() => srcs[0].clone(),
            Op::Bitcast if node.dtype().size() != node.src(0).dtype().size() => {
                bits(node, request, &srcs)
            }
            _ => elementwise(node, srcs),
        }
    }
}

/// Whether `0 <= at < n`, as an expression; a constant if the bounds of `at` decide it.
fn inside(at: &UOp, n: usize) -> UOp {
    let (low, high) = (at.lt(&UOp::index(0)).not(), at.lt(&UOp::index(n as i64)));
    index::simplify(&low.and(&high))
}

/// Elementwise nodes keep their op; their shape was the tensor's and is now a scalar's.
fn elementwise(node: &UOp, srcs: Srcs) -> UOp {
    match node.op() {
        Op::Cast => srcs[0].cast(node.dtype()),
        _ => rebuild(node, srcs),
    }
}

/// A sum of sums is one sum over both their loops, also with zeros between (`where(c, sum, 0)`), if the inner one is
/// computed again in every iteration of the outer. The order of a sum is free (docs/rules.md). Others may use the inner sum,
/// too. So nothing goes into it that varies over more loops than it does.
fn reduce(op: ReduceOp, value: &UOp, ranges: &Index) -> UOp {
    if let Some((inner, condition)) = inner_sum(op, value)
        && !ranges.is_empty()
    {
        let scope = inner.src(0).scope();
        let varies = |r: &UOp| scope.contains(axis_of(r));
        if ranges.iter().all(varies) && condition.is_none_or(|c| c.scope().is_subset(scope)) {
            let summand = match condition {
                Some(c) => c.where_(inner.src(0), &inner.const_like(0)),
                None => inner.src(0).clone(),
            };
            let all = ranges.iter().chain(&inner.srcs()[1..]).cloned();
            return summand.reduce_ranges(op, all);
        }
    }
    value.reduce_ranges(op, ranges.iter().cloned())
}

fn inner_sum(op: ReduceOp, value: &UOp) -> Option<(&UOp, Option<&UOp>)> {
    let is_sum = |x: &UOp| op == ReduceOp::Add && x.arg().reduce_op() == Some(ReduceOp::Add);
    match value.op() {
        Op::Reduce if is_sum(value) => Some((value, None)),
        Op::Where if is_sum(value.src(1)) && value.src(2).is_const(0) => {
            Some((value.src(1), Some(value.src(0))))
        }
        _ => None,
    }
}

fn pad(request: &Request, inside: &UOp) -> UOp {
    let valid = request.valid.as_ref().expect("a padding knows where it has elements");
    match valid.as_const() {
        Some(Const::Bool(true)) => inside.clone(),
        _ => valid.where_(inside, &inside.const_like(0)),
    }
}

/// A bitcast between sizes, in integer arithmetic; the lowest bits are the first element (little endian).
fn bits(node: &UOp, request: &Request, srcs: &[UOp]) -> UOp {
    let (to, from) = (node.dtype(), node.src(0).dtype());
    let (wide, narrow) =
        (unsigned(to.size().max(from.size())), unsigned(to.size().min(from.size())));
    let width = narrow.bits() as i64;
    if to.size() > from.size() {
        let part = |(k, s): (usize, &UOp)| {
            let bits = s.bitcast(narrow).cast(wide);
            UOp::binary(Op::Shl, &bits, &bits.const_like(k as i64 * width))
        };
        let all =
            srcs.iter().enumerate().map(part).reduce(|a, b| a | b).expect("at least two parts");
        return all.bitcast(to);
    }
    let parts = (from.size() / to.size()) as i64;
    let last = request.index.last().expect("a bitcast between sizes has an axis");
    let which = index::simplify(&last.floormod(&UOp::index(parts))).cast(wide);
    let bits = srcs[0].bitcast(wide);
    UOp::binary(Op::Shr, &bits, &(which.clone() * width)).cast(narrow).bitcast(to)
}

fn unsigned(size: usize) -> DType {
    match size {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

impl Plan {
    /// The memory of a node that is stored, or a parameter.
    fn memory_of(&self, node: &UOp) -> Source {
        let node = same_memory(node);
        match node.arg().slot() {
            Some(slot) if node.op() == Op::Param => Source::Param(slot),
            _ => Source::Stored(self.position[node]),
        }
    }
}

impl Built {
    /// Adds methods to those whose nodes the kernel computes.
    pub(super) fn add_origins(&mut self, origins: Vec<&'static str>) {
        for origin in origins {
            if !self.origins.contains(&origin) {
                self.origins.push(origin);
            }
        }
    }

    /// Everything that must have its value before the kernel runs, in order.
    pub(super) fn sources(&self) -> impl Iterator<Item = Source> + '_ {
        let read = self.args[self.outputs.len()..].iter().copied().chain(self.starts_from);
        read.chain(self.after.iter().map(|&node| Source::Stored(node)))
    }

    /// Makes it wait for more stored nodes than those that it reads. It does not wait for its own.
    pub(super) fn wait_for(&mut self, nodes: impl IntoIterator<Item = usize>) {
        self.after.extend(nodes);
        self.after.retain(|node| !self.outputs.contains(node));
    }

    /// The same kernel with its parameters renumbered.
    pub(super) fn remap(&mut self, slots: &[usize]) {
        let sink = UOp::sink(self.stores.iter().cloned());
        let params = kiln_ir::uop::toposort(&sink).into_iter().filter(|n| n.op() == Op::Param);
        let map: FxHashMap<UOp, UOp> = params
            .map(|p| {
                let Arg::Param { slot, shape } = p.arg() else {
                    unreachable!("a param has a param argument")
                };
                (p.clone(), UOp::param(slots[*slot], p.dtype(), shape.clone()))
            })
            .collect();
        self.stores = kiln_ir::uop::substitute(&self.stores, &map);
    }
}
