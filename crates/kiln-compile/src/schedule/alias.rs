//! Part of pass `memory`: which outputs of a kernel may be written over which inputs.
//!
//! Within one iteration of the kernel's loops, reads come before writes and stay inside what that iteration writes. So
//! an element may be overwritten if it is read only there (`x + 1`), and a row if it is reduced as a whole before
//! anything of it is written (softmax).

use super::build::Built;
use kiln_ir::affine::Affine;
use kiln_ir::scope::AxisSet;
use kiln_ir::uop::{axis_of, toposort, toposort_all};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashSet;
use std::slice::from_ref;

impl Built {
    /// Pairs of slots `(written, read)` that may be the same memory. For an update see `starts_from`.
    pub(super) fn may_alias(&self) -> Vec<(usize, usize)> {
        // a later row may read what an earlier one has written
        let is_in_order = self.starts_from.is_some() || self.shared.is_some();
        if is_in_order || self.args.len() == self.outputs.len() {
            return Vec::new();
        }
        let nodes = toposort(&UOp::sink(self.stores.iter().cloned()));
        let stores: Vec<Store<'_>> =
            nodes.iter().filter(|n| n.op() == Op::Store).map(Store::new).collect();
        let mut readers: Vec<Vec<&Store<'_>>> = vec![Vec::new(); self.args.len()];
        for store in &stores {
            store.reads().into_iter().for_each(|slot| readers[slot].push(store));
        }
        // a reduction for one output may come after the store of another
        let several = self.outputs.len() > 1;
        let inputs = self.outputs.len()..self.args.len();
        let unreduced =
            |&input: &usize| !(several && readers[input].iter().any(|s| s.reduces(input)));
        let inputs: Vec<usize> = inputs.filter(unreduced).collect();
        let mut pairs = Vec::new();
        for store in &stores {
            let lets =
                |&&input: &&usize| readers[input].iter().all(|s| s.lets_overwrite(store, input));
            pairs.extend(inputs.iter().filter(lets).map(|&input| (slot(store.node), input)));
        }
        pairs
    }
}

fn slot(access: &UOp) -> usize {
    access.memory().arg().slot().expect("schedules touch parameters only")
}

/// A store with the loads that its value is computed from.
struct Store<'a> {
    node: &'a UOp,
    /// Loads in the loops of the store.
    direct: Vec<UOp>,
    /// Loads inside of reductions, with the loops around the outermost.
    reduced: Vec<(UOp, AxisSet)>,
}

impl<'a> Store<'a> {
    fn new(node: &'a UOp) -> Store<'a> {
        let loads = |nodes: Vec<UOp>| nodes.into_iter().filter(|n| n.op() == Op::Load);
        let nodes = toposort_all(from_ref(node), |n| n.op() != Op::Reduce);
        let of_reduce = |x: &UOp| {
            let around = x.scope().clone();
            loads(toposort(x)).map(move |load| (load, around.clone()))
        };
        let reduces = nodes.iter().filter(|n| n.op() == Op::Reduce);
        let reduced = reduces.flat_map(of_reduce).collect();
        Store { node, direct: loads(nodes).collect(), reduced }
    }

    /// The slots that its value is computed from.
    fn reads(&self) -> FxHashSet<usize> {
        self.direct.iter().chain(self.reduced.iter().map(|(l, _)| l)).map(slot).collect()
    }

    /// Whether a reduction reads the memory `input`.
    fn reduces(&self, input: usize) -> bool {
        self.reduced.iter().any(|(load, _)| slot(load) == input)
    }

    /// Whether this store's loads of the memory `input` stay correct if `over` writes there.
    fn lets_overwrite(&self, over: &Store<'_>, input: usize) -> bool {
        let reads = |l: &&UOp| slot(l) == input;
        let same = |l: &UOp| {
            let memory = over.node.memory();
            l.src(1) == over.node.src(1)
                && l.memory().numel() == memory.numel()
                && l.dtype().size() == memory.dtype().size()
        };
        self.direct.iter().filter(reads).all(same)
            && self.reduced.iter().filter(|(l, _)| reads(&l)).all(|(l, around)| {
                let alike = l.memory().numel() == over.node.memory().numel()
                    && l.dtype().size() == over.node.memory().dtype().size();
                same(l) || alike && stays_inside(l.src(1), over.node.src(1), around)
            })
    }
}

/// Whether all that is read in one iteration of the loops `around` lies in the block that this iteration writes.
fn stays_inside(read: &UOp, written: &UOp, around: &AxisSet) -> bool {
    let of_loops = |index: &UOp| Affine::of(index).filter(Affine::is_of_loops);
    let (Some(read), Some(written)) = (of_loops(read), of_loops(written)) else { return false };
    let mut block: Vec<(i64, i64)> = Vec::new();
    for (range, stride) in &written.terms {
        let wanted = if around.contains(axis_of(range)) { *stride } else { 0 };
        if read.coefficient(range) != wanted {
            return false;
        }
        if wanted == 0 {
            block.push((*stride, range.max() + 1));
        }
    }
    let start = read.constant - written.constant;
    let (mut low, mut high) = (start, start);
    for (range, stride) in read.terms.iter().filter(|(r, _)| written.coefficient(r) == 0) {
        low += (stride * range.max()).min(0);
        high += (stride * range.max()).max(0);
    }
    let size = block_size(block);
    low >= 0 && size.is_some_and(|size| high < size)
}

/// The number of elements of a block without gaps, from strides and lengths.
fn block_size(mut axes: Vec<(i64, i64)>) -> Option<i64> {
    axes.sort_unstable();
    axes.into_iter().try_fold(1, |size, (stride, len)| (stride == size).then_some(size * len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::arg::RangeKind;

    #[test]
    fn a_row_may_be_read_before_it_is_written() {
        let (i, j) = (UOp::range(0, RangeKind::Loop, 4), UOp::range(1, RangeKind::Loop, 8));
        let k = UOp::range(2, RangeKind::Reduce, 8);
        let written = &i * 8 + &j;
        let around = |ranges: &[&UOp]| ranges.iter().map(|r| axis_of(r)).collect();
        assert!(stays_inside(&(&i * 8 + &k), &written, &around(&[&i])));
        assert!(stays_inside(&(&k * 4), &written, &around(&[])));
        assert!(!stays_inside(&(&i * 8 + &k + 1), &written, &around(&[&i])));
        assert!(!stays_inside(&(&k * 8 + &j), &written, &around(&[&j])));
        assert!(!stays_inside(&(&i * 8 + &k), &written, &around(&[&i, &j])));
    }
}
