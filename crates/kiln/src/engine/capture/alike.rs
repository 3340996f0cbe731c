//! Finds constants at one place of many equal expressions.
//!
//! `x + 1`, `x + 2`, ... up to 20 000 are one expression over different numbers. With constants compiled in, every few
//! of them would be another kernel. As launch-time scalars they share one.

use super::Closed;
use kiln_ir::arg::Arg;
use kiln_ir::uop::{Mixer, UOp};
use kiln_ir::{Const, Op};
use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::Hash;

/// In a place with more numbers than this, they become scalars. A network has fewer: its numbers stay where the compiler
/// sees them.
const MOST_INSIDE: usize = 64;

/// Identifies the place of a constant: a hash of the expression around it, and its position among the sources or
/// starts.
type Place = u128;

impl Closed {
    /// For every constant, whether it is a number, or stands in a place that has many.
    pub(in super::super) fn differing(&self) -> Vec<bool> {
        let mut differing = self.in_places();
        differing.resize(differing.len() + self.numbers.len(), true);
        differing
    }

    /// For every constant that is no number, whether it stands in a place that has many.
    fn in_places(&self) -> Vec<bool> {
        let mut all: Vec<Const> = self.constants().collect();
        all.truncate(all.len() - self.numbers.len());
        if all.len() <= MOST_INSIDE {
            return vec![false; all.len()];
        }
        let places = self.places();
        let mut numbers: FxHashMap<Place, FxHashSet<(u8, u64)>> = FxHashMap::default();
        for (place, constant) in places.iter().zip(all) {
            numbers.entry(*place).or_default().insert(constant.key());
        }
        places.iter().map(|place| numbers[place].len() > MOST_INSIDE).collect()
    }

    /// The place of every constant, in order.
    fn places(&self) -> Vec<Place> {
        let mut uses = Vec::with_capacity(self.constants.len());
        let mut starts = vec![0; self.starts.constants().count()];
        let mut hashes: Vec<u128> = Vec::with_capacity(self.nodes.len());
        for (at, node) in self.nodes().enumerate() {
            if !self.is_active(at) || self.is_computed(at) {
                hashes.push(of_memory(node));
                continue;
            }
            let hash = self.expression(at, &hashes);
            if !self.nodes[at].is_inner {
                uses.extend(self.constants_of(self.sources(at)).map(|nth| of((hash, nth))));
            }
            for (axis, number) in self.starts.numbers(at) {
                starts[number] = of((hash, "start", axis));
            }
            // kernels read what is stored as they read any memory
            hashes.push(if self.is_root(at) { of_memory(node) } else { hash });
        }
        uses.extend(self.constants_of(self.targets()).map(|_| of("root")));
        uses.extend(starts);
        uses
    }

    /// Which of these nodes are constants.
    fn constants_of<'a>(&'a self, nodes: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
        (0..nodes.len()).filter(|&nth| self.node(nodes[nth]).op() == Op::Const)
    }

    /// A hash of what a node computes, without the identity of its memory and the values of its constants.
    fn expression(&self, at: usize, hashes: &[u128]) -> u128 {
        let node = self.node(at);
        let mut h = Mixer::default();
        (node.op(), node.dtype()).hash(&mut h);
        match node.arg() {
            Arg::Buffer { shape, .. } => shape.hash(&mut h),
            Arg::Slice(axes) => axes.iter().for_each(|a| (a.step, a.len).hash(&mut h)),
            Arg::Const(_) | Arg::Mark { .. } | Arg::Check(_) | Arg::Var { .. } => {}
            arg => arg.hash(&mut h),
        }
        self.sources(at).iter().for_each(|&s| h.add(hashes[s]));
        h.finish128()
    }
}

/// Memory of this type and shape, whichever it is.
fn of_memory(node: &UOp) -> u128 {
    of((node.dtype(), node.shape()))
}

fn of(what: impl Hash) -> u128 {
    let mut h = Mixer::default();
    what.hash(&mut h);
    h.finish128()
}
