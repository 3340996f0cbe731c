//! Beside stage `optimize`, for general kernels: what a kernel does, counted before it is optimized.

use super::Skeleton;
use kiln_ir::scope::{AxisSet, inside};
use kiln_ir::uop::toposort;
use kiln_ir::{Const, DType, Op, UOp};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What one launch of a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// How often the innermost loops run, added up.
    pub iterations: u64,
    /// Arithmetic on data.
    pub flops: u64,
    /// Distinct bytes of arguments that are read, plus those that are written.
    pub bytes: u64,
}

/// What the kernels of a skeleton do, as a function of their numbers.
#[derive(Clone, Debug)]
pub struct Counting {
    /// The trip counts around each end of loops.
    ends: Vec<Trips>,
    /// Those around each arithmetic operation.
    arithmetic: Vec<Trips>,
    /// What is read and written of arguments.
    touched: Vec<Touched>,
}

/// Nested loops, and how many things are inside of just these.
#[derive(Clone, Debug)]
struct Trips {
    counts: Vec<Count>,
    things: u64,
}

#[derive(Clone, Copy, Debug)]
enum Count {
    Fixed(u64),
    /// A number of the kernel, by position.
    Number(usize),
}

/// An argument is touched at most once per value of the ranges that its index varies over, and at most in full.
#[derive(Clone, Debug)]
struct Touched {
    places: Vec<Trips>,
    len: Count,
    size: u64,
}

impl Skeleton {
    /// What the kernel does.
    pub fn work(&self) -> Work {
        self.counting().at(&self.numbers)
    }

    /// What kernels of this skeleton do.
    pub fn counting(&self) -> Counting {
        let nodes = toposort(&self.ast);
        let counter = Counter::of(self, &nodes);
        let scopes = |which: fn(&UOp) -> bool| {
            let scopes = nodes.iter().filter(|n| which(n)).map(inside);
            counter.trips(&mut scopes.collect::<Vec<_>>().iter())
        };
        Counting {
            ends: scopes(|n| matches!(n.op(), Op::Store | Op::Reduce)),
            arithmetic: scopes(computes),
            touched: counter.touched(&nodes),
        }
    }
}

impl Counting {
    /// What the kernel with these numbers does.
    pub fn at(&self, numbers: &[Const]) -> Work {
        let touched = |t: &Touched| all(&t.places, numbers).min(t.len.at(numbers)) * t.size;
        Work {
            iterations: all(&self.ends, numbers),
            flops: all(&self.arithmetic, numbers),
            bytes: self.touched.iter().map(touched).fold(0, u64::saturating_add),
        }
    }
}

fn all(trips: &[Trips], numbers: &[Const]) -> u64 {
    let one = |trips: &Trips| {
        let counts = trips.counts.iter().map(|count| count.at(numbers));
        counts.fold(trips.things, u64::saturating_mul)
    };
    trips.iter().map(one).fold(0, u64::saturating_add)
}

impl Count {
    fn at(self, numbers: &[Const]) -> u64 {
        match self {
            Count::Fixed(n) => n,
            Count::Number(at) => {
                numbers[at].as_i128().and_then(|n| n.max(0).try_into().ok()).unwrap_or(u64::MAX)
            }
        }
    }
}

/// Where a kernel's trip counts and lengths of memory stand among its numbers.
struct Counter {
    loops: FxHashMap<u32, Count>,
    lengths: FxHashMap<usize, Count>,
}

impl Counter {
    fn of(skeleton: &Skeleton, nodes: &[UOp]) -> Counter {
        let fixed =
            |n: &UOp| Some((n.arg().range()?.0, Count::Fixed(n.src(0).max().max(0) as u64)));
        let mut counter = Counter {
            loops: nodes.iter().filter_map(fixed).collect(),
            lengths: FxHashMap::default(),
        };
        for (at, number) in skeleton.uses.iter().enumerate() {
            match number.node.arg().range() {
                Some((axis, _)) if number.is_trip_count() => {
                    counter.loops.insert(axis, Count::Number(at));
                }
                _ if number.source.is_none() => {
                    counter.lengths.insert(number.node.id(), Count::Number(at));
                }
                _ => {}
            }
        }
        counter
    }

    /// The trip counts of each set of loops.
    fn trips(&self, scopes: &mut dyn Iterator<Item = &AxisSet>) -> Vec<Trips> {
        let mut things: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
        scopes.for_each(|axes| *things.entry(axes.iter().collect()).or_default() += 1);
        let trips = |(axes, things): (Vec<u32>, u64)| Trips {
            counts: axes.iter().map(|axis| self.loops[axis]).collect(),
            things,
        };
        things.into_iter().map(trips).collect()
    }

    fn touched(&self, nodes: &[UOp]) -> Vec<Touched> {
        let mut touched: BTreeMap<(usize, bool), (Vec<&AxisSet>, &UOp)> = BTreeMap::new();
        for node in nodes.iter().filter(|n| matches!(n.op(), Op::Load | Op::Store)) {
            let memory = node.memory();
            let Some(slot) = memory.arg().slot() else { continue };
            let entry = touched.entry((slot, node.op() == Op::Store));
            entry.or_insert((Vec::new(), memory)).0.push(node.src(1).scope());
        }
        let touched = touched.into_values();
        touched
            .map(|(scopes, memory)| Touched {
                places: self.trips(&mut scopes.into_iter()),
                len: self
                    .lengths
                    .get(&memory.id())
                    .copied()
                    .unwrap_or(Count::Fixed(memory.numel() as u64)),
                size: memory.dtype().size() as u64,
            })
            .collect()
    }
}

/// Whether a node is arithmetic on data: not on indices, and no selection.
fn computes(node: &UOp) -> bool {
    let is_data = |d: DType| d.is_float() || (d.is_int() && d != DType::Index);
    match node.op() {
        Op::Where => false,
        op if op.is_comparison() => is_data(node.src(0).dtype()),
        op => (op.is_alu() || op == Op::Reduce) && is_data(node.dtype()),
    }
}
