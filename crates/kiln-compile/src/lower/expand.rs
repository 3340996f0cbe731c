//! Pass `expand` of stage `lower`: `Upcast` and `Unroll` ranges are written out, with a copy of a value for each
//! iteration. Post-condition: no such range is left.
//!
//! A `Reduce` may then have several values before its ranges, which each iteration combines from left to right.
//! `Unroll` ranges that a reduction closes give such values. `Upcast` ranges give reductions of their own, which do not
//! wait for each other.
//!
//! The copies of a node are a table indexed by the ranges that it varies over, and by no others. So a kernel grows only
//! where values really differ; equal copies are one node.

use super::fold;
use kiln_ir::arg::RangeKind;
use kiln_ir::scope::closed_ranges;
use kiln_ir::uop::{Srcs, axis_of, toposort};
use kiln_ir::{Arg, DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Numbers of expanded ranges, ascending (smaller axis first).
type Axes = SmallVec<[usize; 4]>;

/// The replicas of a node, row-major over `axes`.
struct Table {
    axes: Axes,
    values: Vec<UOp>,
}

/// One value for each of some expanded ranges.
#[derive(Clone)]
struct Point {
    digits: SmallVec<[usize; 8]>,
}

struct Expand {
    sizes: Vec<usize>,
    /// Whether a range's iterations stay apart in a reduction that closes it.
    apart: Vec<bool>,
    /// Expanded ranges by axis.
    numbers: FxHashMap<u32, usize>,
    done: FxHashMap<UOp, Table>,
}

/// Replicates the body of every `Upcast` and `Unroll` range of the kernel.
pub(super) fn expand(kernel: &UOp) -> UOp {
    let topo = toposort(kernel);
    let mut ranges: Vec<UOp> = topo.iter().filter(|n| is_expanded(n)).cloned().collect();
    if ranges.is_empty() {
        return kernel.clone();
    }
    ranges.sort_by_key(|r| r.arg().range().expect("a range").0);
    let size =
        |r: &UOp| r.src(0).as_int().expect("an expanded range has a constant bound") as usize;
    let mut pass = Expand {
        sizes: ranges.iter().map(size).collect(),
        apart: ranges.iter().map(is_upcast).collect(),
        numbers: ranges.iter().map(axis_of).zip(0..).collect(),
        done: FxHashMap::default(),
    };
    for node in &topo {
        let table = pass.replicate(node);
        pass.done.insert(node.clone(), table);
    }
    pass.done[kernel].values[0].clone()
}

fn is_upcast(range: &UOp) -> bool {
    range.arg().range().is_some_and(|(_, kind)| kind == RangeKind::Upcast)
}

fn is_expanded(node: &UOp) -> bool {
    node.op() == Op::Range && node.arg().range().is_some_and(|(_, kind)| kind.is_expanded())
}

impl Expand {
    /// The number of an expanded range.
    fn number(&self, node: &UOp) -> Option<usize> {
        self.numbers.get(&node.arg().range()?.0).copied()
    }

    fn replicate(&self, node: &UOp) -> Table {
        if let Some(number) = self.number(node) {
            let values = (0..self.sizes[number] as i64).map(UOp::index).collect();
            return Table { axes: Axes::from_slice(&[number]), values };
        }
        let closed: Axes = closed_ranges(node).filter_map(|r| self.number(r)).collect();
        let axes = match node.arg() {
            Arg::Kernel { .. } => Axes::new(),
            _ => node.scope().iter().filter_map(|axis| self.numbers.get(&axis).copied()).collect(),
        };
        let origin = Point { digits: SmallVec::from_elem(0, self.sizes.len()) };
        let values = self.points(&axes, &origin).map(|p| self.replica(node, &p, &closed)).collect();
        Table { axes, values }
    }

    /// Every assignment of `axes`, in row-major order, with the others as in `from`.
    fn points<'a>(
        &'a self,
        axes: &'a [usize],
        from: &Point,
    ) -> impl Iterator<Item = Point> + use<'a> {
        let count: usize = axes.iter().map(|&a| self.sizes[a]).product();
        let from = from.clone();
        (0..count).map(move |mut flat| {
            let mut point = from.clone();
            for &a in axes.iter().rev() {
                point.digits[a] = flat % self.sizes[a];
                flat /= self.sizes[a];
            }
            point
        })
    }

    fn at(&self, node: &UOp, point: &Point) -> UOp {
        let table = &self.done[node];
        let flat = table.axes.iter().fold(0, |flat, &a| flat * self.sizes[a] + point.digits[a]);
        table.values[flat].clone()
    }

    fn replica(&self, node: &UOp, point: &Point, closed: &Axes) -> UOp {
        let kept = node.srcs().iter().filter(|s| self.number(s).is_none());
        match node.op() {
            Op::Reduce => self.reduce(node, point, closed),
            Op::End | Op::Sink => self.effects(node, point, closed),
            Op::After => fold::after_all(kept.map(|s| self.at(s, point)).collect()),
            _ => {
                let mut srcs = Srcs::new();
                node.srcs().iter().for_each(|s| srcs.push(self.at(s, point)));
                fold::rebuild_folded(node, srcs)
            }
        }
    }

    /// An accumulator for each iteration of `Upcast` ranges, combined at the end.
    fn reduce(&self, node: &UOp, point: &Point, closed: &Axes) -> UOp {
        assert_ne!(node.dtype(), DType::Index, "a reduce has a storage dtype");
        let (apart, joined): (Axes, Axes) = closed.iter().copied().partition(|&a| self.apart[a]);
        let op = node.arg().reduce_op().expect("a reduce");
        let mut parts: Vec<UOp> =
            self.points(&apart, point).map(|p| self.accumulator(node, &p, &joined)).collect();
        while parts.len() > 1 {
            let upper = parts.split_off(parts.len().div_ceil(2));
            for (low, high) in parts.iter_mut().zip(&upper) {
                *low = UOp::binary(op.alu(), low, high);
            }
        }
        parts.swap_remove(0)
    }

    /// All values of one iteration, in order of index. A value that does not vary is repeated as often as it is
    /// reduced.
    fn accumulator(&self, node: &UOp, point: &Point, joined: &Axes) -> UOp {
        let mut srcs: Srcs = self.points(joined, point).map(|p| self.at(node.src(0), &p)).collect();
        srcs.extend(node.srcs()[1..].iter().filter(|s| !is_expanded(s)).map(|s| self.at(s, point)));
        UOp::new(Op::Reduce, node.dtype(), node.lanes(), srcs, node.arg().clone())
    }

    /// Every replica of every effect, closed by the ranges that are left. The iterations of expanded ranges that
    /// are closed here must not depend on each other through memory.
    fn effects(&self, node: &UOp, point: &Point, closed: &Axes) -> UOp {
        let is_kernel = matches!(node.arg(), Arg::Kernel { .. });
        let mut effects = Vec::new();
        let mut ranges = Vec::new();
        for src in node.srcs() {
            match src.op() {
                Op::Range if is_expanded(src) => {}
                Op::Range => ranges.push(self.at(src, point)),
                _ => {
                    let mut axes = self.done[src].axes.clone();
                    axes.retain(|a| is_kernel || closed.contains(a));
                    effects.extend(self.points(&axes, point).map(|p| self.at(src, &p)));
                }
            }
        }
        match node.op() {
            Op::End => fold::end_all(effects, ranges),
            _ => UOp::new(Op::Sink, DType::Void, 1, effects.into(), node.arg().clone()),
        }
    }
}
