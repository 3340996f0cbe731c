//! Part of pass `assign`: the cost model. Is a value recomputed in every kernel that needs it, or stored by one kernel?
//!
//! Times are in nanoseconds on one thread of an ordinary core; only their ratios matter. The estimates are coarse on
//! purpose: what must be right is the order of magnitude of recomputing a value against storing it.

use kiln_ir::observe::Decision;
use kiln_ir::{DType, Op, UOp};

/// One arithmetic operation on one element, vectorized.
const ALU: f64 = 0.02;
/// Reading or writing one byte of memory that is mostly in a cache.
const BYTE: f64 = 0.04;
/// Reading one byte again that is in the second cache, or the last.
const NEAR_BYTE: f64 = 0.01;
/// Bytes of rows that wait in a cache between two nests of a kernel, and how many rows are done at once at most.
const BLOCK: f64 = 262_144.0;
const MOST_ROWS: f64 = 32.0;
/// A write brings its line into the cache before it changes it.
const WRITE: f64 = 2.0;
/// Starting one more kernel on several threads: 2 us right after another one, 12 us after a rest (`cargo bench -p
/// kiln-runtime --bench launch`, two threads). On one thread it is half a microsecond.
const LAUNCH: f64 = 3000.0;
/// Below this many independent iterations a kernel does not fill the threads, and a large value inside it is
/// computed once by each of them.
const PARALLEL: f64 = 16.0;
/// What too little parallelism costs: the machine's other threads, at least one.
const SERIAL_PENALTY: f64 = 2.0;
/// A reduction inside another's loop cannot be tiled over registers; long ones lose by about this factor.
const NESTED_PENALTY: f64 = 4.0;
/// A sum inside a sum becomes one reduction, whose register tile reads each operand for several results.
const MERGED_DISCOUNT: f64 = 0.5;
/// Two sums of products beside each other share registers and caches. Sharing costs little, compared with the price of
/// the sums in this model: it knows nothing of tiles.
const BESIDE_PENALTY: f64 = 1.02;
/// Reductions up to this length are unrolled wherever they stand, and lose nothing by nesting.
const SHORT_REDUCE: usize = 9;
/// A value of few elements, each of which goes into many of another's, is in a register or the first cache by then.
const FEW: f64 = 1024.0;
/// How many they must be.
const MANY: f64 = 16.0;
/// What such a value costs, of what it costs elsewhere.
const AGAIN: f64 = 0.1;
/// Estimates stop growing here: a value that costs a microsecond an element is expensive, and that is all.
const CEILING: f64 = 1e6;

/// Time to compute one element of a node where it is asked for, given its distinct sources', each computed every time or
/// once into memory, whichever is less. A reduction counts as one read: a long one is likely to be in memory by then, and
/// decides for itself.
pub(super) fn work(node: &UOp, below: &[Below]) -> f64 {
    let times = (node.numel() as f64).max(1.0);
    let below: f64 = below.iter().map(|b| b.asked(times) / times).sum();
    let own = match node.op() {
        // a position is there already: the loop's own counter
        Op::Const | Op::Var | Op::Iota => 0.0,
        Op::Param | Op::Reduce | Op::Contiguous | Op::Update => return memory(node.dtype()),
        Op::Pad | Op::Unwindow | Op::Gather => ALU,
        _ if node.op().is_movement() => 0.0,
        op => arithmetic(op, node.dtype()),
    };
    (below + own).min(CEILING)
}

/// A source of a node, as far as its price goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Below {
    /// Time to compute one element where it is asked for.
    pub(super) work: f64,
    /// How many elements there are, of what is viewed if it is a view.
    pub(super) numel: f64,
    /// Time to read one element from memory.
    pub(super) read: f64,
}

impl Below {
    /// Whether each of its elements is in many of so many products.
    pub(super) fn is_in_many(&self, products: usize) -> bool {
        self.numel * MANY <= products as f64
    }

    /// What part of its price each of `times` elements pays.
    fn share(&self, times: f64) -> f64 {
        if self.numel <= FEW && self.numel * MANY <= times { AGAIN } else { 1.0 }
    }

    /// Time to have it `times` times: computed each time, or computed once into memory and read from there.
    fn asked(&self, times: f64) -> f64 {
        let stored = self.numel * (self.work + self.read) + times * self.read;
        (times * self.share(times) * self.work).min(stored)
    }
}

fn arithmetic(op: Op, dtype: DType) -> f64 {
    ALU * op.additions(dtype)
}

/// Time to read or write one element.
pub(super) fn memory(dtype: DType) -> f64 {
    dtype.size() as f64 * BYTE
}

/// One distinct place (kernel and index) where a value is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// How often the index is evaluated: the iterations of the loops down to the deepest that it depends on.
    pub(super) evaluations: f64,
    /// Iterations of the asking kernel that may run at once.
    pub(super) parallel: f64,
    /// Whether it is needed inside the loop of a reduction.
    pub(super) in_reduce: bool,
    /// Whether that reduction is a sum, and a sum that is inlined here becomes part of it.
    pub(super) in_sum: bool,
    /// Whether the kernel that needs it has another sum of products already, and this is one too.
    pub(super) beside: bool,
}

/// The two prices of a value, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    inline: f64,
    stored: f64,
    uses: usize,
}

impl Price {
    /// The choice, as a value.
    pub(super) fn decision(&self, about: String) -> Decision {
        let us = |ns: f64| Some(ns / 1000.0);
        let alternatives = vec![("inline", us(self.inline)), ("memory", us(self.stored))];
        let chosen = !self.inline_wins() as usize;
        let note = format!("{} use{}", self.uses, if self.uses == 1 { "" } else { "s" });
        Decision { about, alternatives, unit: "us", chosen, note }
    }

    /// Whether recomputing costs no more than storing.
    pub(super) fn inline_wins(&self) -> bool {
        self.inline <= self.stored
    }
}

/// Prices a node; `below` are its distinct sources, `reduced` how many source elements make one of it (1 for
/// everything but reductions).
pub(super) fn price(node: &UOp, below: &[Below], reduced: usize, uses: &[Use]) -> Price {
    let numel = node.numel() as f64;
    let own = if node.op() == Op::Reduce { ALU } else { work(node, &[]) };
    let compute = |times: f64| {
        let times = times * reduced as f64;
        times * own + below.iter().map(|b| b.asked(times)).sum::<f64>()
    };
    let all: f64 = uses.iter().map(|u| u.evaluations).sum();
    // whoever needs it, its sources may be stored once for all
    let shared = compute(all) / all.max(1.0);
    let inline = uses
        .iter()
        .map(|u| shared * u.evaluations * factor(node, reduced, u, compute(u.evaluations)))
        .sum();
    let reads: f64 = uses.iter().map(|u| u.evaluations * memory(node.dtype())).sum();
    let stored = compute(numel) + numel * WRITE * memory(node.dtype()) + reads + LAUNCH;
    Price { inline, stored, uses: uses.len() }
}

/// The factor on the price of a reduction that is inlined.
fn factor(node: &UOp, reduced: usize, u: &Use, total: f64) -> f64 {
    if node.op() == Op::Reduce && u.in_sum {
        return MERGED_DISCOUNT;
    }
    if node.op() != Op::Reduce {
        return 1.0;
    }
    let nested = if u.in_reduce && reduced > SHORT_REDUCE { NESTED_PENALTY } else { 1.0 };
    let is_small = total < LAUNCH;
    let serial = if u.parallel < PARALLEL && !is_small { SERIAL_PENALTY } else { 1.0 };
    let beside = if u.beside { BESIDE_PENALTY } else { 1.0 };
    nested * serial * beside
}

/// Whether so many wasted products cost more than so many kernels that store their results.
pub(super) fn pays_kernels(in_vain: f64, results: f64, dtype: DType, kernels: usize) -> bool {
    let traffic = results * memory(dtype) * (WRITE + 1.0);
    in_vain * ALU > traffic + kernels as f64 * LAUNCH
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
    /// Whether keeping the rows in a cache costs less than storing them. If most of the traffic is other memory, two
    /// kernels lose more by giving up plans of their own.
    pub(super) fn pays(&self) -> bool {
        let block = (BLOCK / self.row).floor().min(MOST_ROWS);
        let blocks = (self.rows / block).ceil() * self.times;
        let memory = self.row * self.rows * self.times * BYTE * (WRITE + 1.0);
        block >= 1.0
            && self.rows * self.times >= PARALLEL
            && memory > self.others * BYTE + blocks * self.again * NEAR_BYTE + LAUNCH
    }
}

/// Whether a kernel of these nodes, each run so often, takes less time than starting another kernel.
pub(super) fn is_small(nodes: &[UOp], iterations: f64) -> bool {
    let time = |n: &UOp| match n.op() {
        Op::Load => memory(n.dtype()),
        Op::Store => WRITE * memory(n.src(2).dtype()),
        op if op.is_alu() && n.dtype() != DType::Index => arithmetic(op, n.dtype()),
        _ => 0.0,
    };
    iterations * nodes.iter().map(time).sum::<f64>() <= LAUNCH
}
