//! Part of pass `assign`: the cost model. Is a value recomputed in every kernel that needs it, or stored by one kernel?
//!
//! Times are in nanoseconds on one thread of an ordinary core; only their ratios matter. The estimates are coarse on
//! purpose: what must be right is the order of magnitude of recomputing a value against storing it.

use crate::target::{Costs, NS_PER_US, Target};
use kiln_ir::observe::Decision;
use kiln_ir::{DType, Op, UOp};

/// The time of one element of a node itself, inline. A reduction counts as one read: a long one is probably stored, and its
/// own price decides that.
pub(super) fn own(costs: &Costs, node: &UOp) -> f64 {
    match node.op() {
        // a position is there already: the loop's own counter
        Op::Const | Op::Var | Op::Iota => 0.0,
        _ if is_read(node) => memory(costs, node.dtype()),
        Op::Pad | Op::Unwindow | Op::Gather => costs.operation_ns,
        _ if node.op().is_movement() => 0.0,
        op => arithmetic(costs, op, node.dtype()),
    }
}

/// Whether an element of it is read, not computed.
pub(super) fn is_read(node: &UOp) -> bool {
    matches!(node.op(), Op::Param | Op::Reduce | Op::Contiguous | Op::Update | Op::Remat)
}

/// Whether an element of it is computed from the same element of each of its sources.
pub(super) fn is_elementwise(node: &UOp) -> bool {
    let is_placed = matches!(node.op(), Op::Pad | Op::Unwindow | Op::Gather);
    !is_read(node) && !is_placed && !node.op().is_movement()
}

/// The time of sources for one element of a node that needs other elements of them. Each is recomputed every time, or
/// computed once and read from memory, whichever takes less.
pub(super) fn elsewhere(costs: &Costs, node: &UOp, below: &[Below]) -> f64 {
    if is_read(node) {
        return 0.0;
    }
    let times = (node.numel() as f64).max(1.0);
    below.iter().map(|b| b.demanded(costs, times) / times).sum()
}

/// Divides the price of all sources together among them, in proportion to their prices alone. A source that is read keeps
/// its price: of `x` and `x < 0`, the second costs the comparison alone.
pub(super) fn divide(below: &mut [Below], together: f64) {
    let alone = |below: &[Below], of: fn(&Below) -> bool| -> f64 {
        below.iter().filter(|b| of(b)).map(|b| b.work).sum()
    };
    let (read, computed) = (alone(below, Below::is_read), alone(below, |b| !b.is_read()));
    let left = (together - read).max(0.0);
    if computed > left {
        below.iter_mut().filter(|b| !b.is_read()).for_each(|b| b.work *= left / computed);
    }
}

/// A source of a node, as far as its price goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Below {
    /// The time to compute one element inline.
    pub(super) work: f64,
    /// How many elements there are, of what is viewed if it is a view.
    pub(super) numel: f64,
    /// Time to read one element from memory.
    pub(super) read: f64,
}

impl Below {
    /// Whether to have an element is to read it.
    fn is_read(&self) -> bool {
        self.work <= self.read
    }

    /// Whether each of its elements is in many of so many products.
    pub(super) fn is_in_many(&self, costs: &Costs, products: usize) -> bool {
        are_in_many(costs, self.numel, products)
    }

    /// Time to have it `times` times: computed each time, or computed once into memory and read from there.
    pub(super) fn demanded(&self, costs: &Costs, times: f64) -> f64 {
        let priced = priced(costs, self.numel, times);
        let stored = self.numel * (self.work + self.read) + priced * self.read + costs.launch_ns;
        (priced * self.work).min(stored)
    }
}

/// How many uses of `times` pay the whole price, computed or read, of a value with so many elements. If they are few, each
/// is still in a register or the first cache when it is used again.
fn priced(costs: &Costs, numel: f64, times: f64) -> f64 {
    let is_near = numel <= costs.few_elements && numel * costs.many_uses <= times;
    if is_near { costs.use_again * times } else { times }
}

/// Whether each of so many elements is in many of so many products.
pub(super) fn are_in_many(costs: &Costs, elements: f64, products: usize) -> bool {
    elements * costs.many_uses <= products as f64
}

fn arithmetic(costs: &Costs, op: Op, dtype: DType) -> f64 {
    costs.operation_ns * op.additions(dtype)
}

/// Time to read or write one element.
pub(super) fn memory(costs: &Costs, dtype: DType) -> f64 {
    dtype.size() as f64 * costs.byte_ns
}

/// One distinct demand for a value: a kernel and an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// How often the index is evaluated: the iterations of the loops down to the deepest that it depends on.
    pub(super) evaluations: f64,
    /// Iterations of the kernel that needs it that may run at once.
    pub(super) parallel: f64,
    /// The time for what the kernel computes that threads can no longer share if it computes this too. Example: a product
    /// of one row, after the sums of a norm. The sums are outside of all loops of the product.
    pub(super) serialized: f64,
    /// Whether it is needed inside the loop of a reduction.
    pub(super) in_reduce: bool,
    /// Whether the kernel's loops run in order, as two iterations may store one element.
    pub(super) in_order: bool,
    /// Whether that reduction is a sum, and a sum that is inlined here becomes part of it.
    pub(super) in_sum: bool,
    /// If this is a sum of products, and its kernel has others: what those cost.
    pub(super) beside: Option<f64>,
    /// Whether the kernel stores several values of such a sum, whose vectors are no neighbours in memory: see
    /// [`Costs::sums_apart`].
    pub(super) apart: bool,
    /// Whether this is a sum of products that will be tiled, and its index divides loops into short rows: see
    /// [`Costs::sums_divided`].
    pub(super) divided: bool,
}

/// The two prices of a value, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    inline: f64,
    stored: f64,
    uses: usize,
    /// What of `stored` is the launch of the kernel that stores it.
    launch: f64,
}

impl Price {
    /// The choice, as a value.
    pub(super) fn decision(&self, about: String, node: &UOp) -> Decision {
        let us = |ns: f64| Some(ns / NS_PER_US);
        let alternatives =
            vec![("inline".into(), us(self.inline)), ("memory".into(), us(self.stored))];
        let chosen = !self.inline_wins() as usize;
        let note = format!("{} use{}", self.uses, if self.uses == 1 { "" } else { "s" });
        let node = Some(node.clone());
        Decision { about, node, alternatives, unit: "us", chosen, note }
    }

    /// Whether recomputing costs no more than storing.
    pub(super) fn inline_wins(&self) -> bool {
        self.inline <= self.stored
    }

    /// The price if a kernel that runs anyway stores the value.
    pub(super) fn along(self) -> Price {
        Price { stored: self.stored - self.launch, launch: 0.0, ..self }
    }
}

/// A sum of which a node is the epilogue: times for all of its elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    /// To compute them once.
    pub(super) computed: f64,
    /// To read them once.
    pub(super) read: f64,
}

impl Sum {
    /// What it costs more if the node is computed so many times where it is needed: the sum is computed again, or a kernel
    /// stores it.
    fn again(&self, costs: &Costs, times: f64) -> f64 {
        let stored = costs.write * self.read + costs.launch_ns;
        ((times - 1.0).max(0.0) * self.computed).min(stored)
    }
}

/// How many elements of its source make one element of a node: 1 for everything but reductions.
fn reduced(node: &UOp) -> usize {
    match node.op() {
        Op::Reduce => node.src(0).numel() / node.numel().max(1),
        _ => 1,
    }
}

/// The time of one element of a node itself, or of one term of a sum, in nanoseconds.
pub fn own_time(costs: &Costs, node: &UOp) -> f64 {
    if node.op() == Op::Reduce { costs.operation_ns } else { own(costs, node) }
}

/// The time to compute `times` elements of a node; `below` are its distinct sources.
pub(super) fn compute(costs: &Costs, node: &UOp, below: &[Below], times: f64) -> f64 {
    let own = own_time(costs, node);
    let times = times * reduced(node) as f64;
    times * own + below.iter().map(|b| b.demanded(costs, times)).sum::<f64>()
}

/// Prices a node; `below` are its distinct sources, `sums` those of which it is the epilogue.
pub(super) fn price(
    costs: &Costs,
    node: &UOp,
    below: &[Below],
    sums: &[Sum],
    uses: &[Use],
) -> Price {
    let numel = node.numel() as f64;
    let compute = |times: f64| compute(costs, node, below, times);
    let all: f64 = uses.iter().map(|u| u.evaluations).sum();
    // whoever needs it, its sources may be stored once for all
    let shared = compute(all) / all.max(1.0);
    let inline = |u: &Use| {
        shared * u.evaluations * factor(costs, node, u, compute(u.evaluations))
            + u.beside.map_or(0.0, |others| (costs.sums_beside - 1.0) * others)
            + (1.0 - 1.0 / costs.serial) * u.serialized
    };
    let again: f64 = sums.iter().map(|s| s.again(costs, all / numel.max(1.0))).sum();
    let inline = uses.iter().map(inline).sum::<f64>() + again;
    let element = memory(costs, node.dtype());
    let reads: f64 = uses.iter().map(|u| priced(costs, numel, u.evaluations) * element).sum();
    let in_registers: f64 = sums.iter().map(|s| s.read).sum();
    let stored =
        compute(numel) - in_registers + numel * costs.write * element + reads + costs.launch_ns;
    Price { inline, stored, uses: uses.len(), launch: costs.launch_ns }
}

/// Prices a view whose addresses divide, and of which so many elements are read.
pub(super) fn price_of_view(costs: &Costs, node: &UOp, reads: f64, uses: usize) -> Price {
    let (numel, element) = (node.numel() as f64, memory(costs, node.dtype()));
    let inline = reads * costs.divided_ns;
    let stored = numel * (costs.divided_ns + costs.write * element) + costs.launch_ns;
    Price { inline, stored: stored + reads * element, uses, launch: costs.launch_ns }
}

/// The factor on the price of a reduction that is inlined.
fn factor(costs: &Costs, node: &UOp, u: &Use, total: f64) -> f64 {
    if node.op() == Op::Reduce && u.in_sum {
        return costs.merged_sums;
    }
    if node.op() != Op::Reduce {
        return 1.0;
    }
    let times = |holds: bool, factor: f64| if holds { factor } else { 1.0 };
    let untiled = u.in_reduce || u.in_order;
    let nested = times(untiled && reduced(node) > costs.short_reduction, costs.nested);
    let is_small = total < costs.launch_ns;
    let serial = times(u.parallel < costs.parallel && !is_small, costs.serial);
    let beside = times(u.beside.is_some(), costs.sums_beside);
    let apart = times(u.apart, costs.sums_apart);
    let divided = times(u.divided, costs.sums_divided);
    nested * serial * beside * apart * divided
}

/// Whether so many wasted products cost more than so many kernels that store their results.
pub(super) fn pays_kernels(
    costs: &Costs,
    in_vain: f64,
    results: f64,
    dtype: DType,
    kernels: usize,
) -> bool {
    let traffic = results * memory(costs, dtype) * (costs.write + 1.0);
    in_vain * costs.operation_ns > traffic + kernels as f64 * costs.launch_ns
}

/// Whether sums of products, `sums` nanoseconds together, lose more in one kernel than a second kernel costs: a launch, and a
/// read of the stored `sum`.
pub(super) fn pays_own_kernel(costs: &Costs, sum: &UOp, sums: f64) -> bool {
    let read = sum.numel() as f64 * memory(costs, sum.dtype());
    (costs.sums_beside - 1.0) * sums > read + costs.launch_ns
}

/// Two kernels of which one reads, row by row, what the other stores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Between {
    /// Bytes of a row between them.
    pub(super) row: f64,
    /// Rows one after the other, and how many times over.
    pub(super) rows: f64,
    pub(super) times: f64,
    /// Bytes of arguments that are read again for each block of rows.
    pub(super) again: f64,
    /// Bytes of all other memory that both touch.
    pub(super) others: f64,
}

impl Between {
    /// Whether a row fits a cache, and there are enough of them for threads.
    pub(super) fn fits(&self, target: &Target) -> bool {
        self.block(target) >= 1.0 && self.rows * self.times >= target.costs.parallel
    }

    /// Rows that are kept at once.
    fn block(&self, target: &Target) -> f64 {
        let room = target.cache_bytes[1] as f64 / 2.0;
        (room / self.row).floor().min(target.costs.chained_rows)
    }

    /// What storing the rows costs, and what keeping them in a cache costs, in nanoseconds. If most of the traffic is other
    /// memory, two kernels lose more by giving up plans of their own.
    pub(super) fn prices(&self, target: &Target) -> [f64; 2] {
        let costs = &target.costs;
        let blocks = (self.rows / self.block(target)).ceil() * self.times;
        let memory = self.row * self.rows * self.times * costs.byte_ns * (costs.write + 1.0);
        let again = blocks * self.again * costs.near_byte_ns;
        [memory, self.others * costs.byte_ns + again + costs.launch_ns]
    }
}

/// Whether a kernel of these nodes, each run so often, takes less time than starting another kernel.
pub(super) fn is_small(costs: &Costs, nodes: &[UOp], iterations: f64) -> bool {
    let time = |n: &UOp| match n.op() {
        Op::Load => memory(costs, n.dtype()),
        Op::Store => costs.write * memory(costs, n.src(2).dtype()),
        op if op.is_alu() && n.dtype() != DType::Index => arithmetic(costs, op, n.dtype()),
        _ => 0.0,
    };
    iterations * nodes.iter().map(time).sum::<f64>() <= costs.launch_ns
}
