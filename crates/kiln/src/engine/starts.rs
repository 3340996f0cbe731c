//! The starts of slices, as constants of a closed graph: a loop over the rows of a table has one key.
//!
//! Only a start that could be another number is one. If an axis has no room to move the slice, its start is part of the
//! graph's shape.

use kiln_ir::arg::SliceAxis;
use kiln_ir::uop::Srcs;
use kiln_ir::{Const, DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::hash::Hash;

/// The starts of a closed graph's slices, numbered by first visit.
#[derive(Default)]
pub(super) struct Starts {
    values: Vec<usize>,
    /// For a slice (by position) and each axis, the number of its start if it has one.
    of: FxHashMap<usize, SmallVec<[Option<usize>; 4]>>,
    /// By length of the axis and what is sliced from it, the first that did.
    first: FxHashMap<(usize, SliceAxis), usize>,
    /// Which nodes (by position) are views of row-major positions.
    positions: Vec<bool>,
}

impl Starts {
    /// Visits the node at the next position, where its sources are at `edges`; of a slice, hashes all but its starts.
    ///
    /// The written region starts where the read region does, if the program says so (`t[i] += 1`): one number for both
    /// shows that no element is read after it was written. Other starts that happen to be equal are two numbers.
    pub(super) fn visit(&mut self, node: &UOp, edges: &[usize], h: &mut impl std::hash::Hasher) {
        let at = self.positions.len();
        let on_positions = || node.op().is_movement() && self.positions[edges[0]];
        self.positions.push(node.op() == Op::Iota || on_positions());
        let Some(slices) = node.arg().slice() else { return };
        let axes = slices.iter().zip(node.src(0).shape());
        let numbers = axes.map(|(slice, &n)| self.number(at, *slice, n, h)).collect();
        self.of.insert(at, numbers);
    }

    /// Skips a node that stands for its leaf.
    pub(super) fn skip(&mut self) {
        self.positions.push(false);
    }

    fn number(
        &mut self,
        at: usize,
        slice: SliceAxis,
        n: usize,
        h: &mut impl std::hash::Hasher,
    ) -> Option<usize> {
        (slice.step, slice.len).hash(h);
        let (least, most) = slice.starts(n);
        if least == most {
            slice.start.hash(h);
            return None;
        }
        let next = self.values.len();
        let first = *self.first.entry((n, slice)).or_insert(next);
        let number = if self.positions[at] { first } else { next };
        (number == next).hash(h);
        if number == next {
            self.values.push(slice.start);
        } else {
            number.hash(h);
        }
        Some(number)
    }

    /// All starts, in order.
    pub(super) fn constants(&self) -> impl Iterator<Item = Const> + '_ {
        self.values.iter().map(|&start| Const::Int(start as i64))
    }

    /// The axes of the slice at a position whose start is a constant, and the constant's number.
    pub(super) fn numbers(&self, at: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let axes = self.of.get(&at).into_iter().flatten().enumerate();
        axes.filter_map(|(axis, number)| Some((axis, (*number)?)))
    }

    /// The slice at a position over new sources, if it has a start that is a launch-time scalar: `slots` says which, by
    /// number.
    pub(super) fn build(
        &self,
        at: usize,
        slice: &UOp,
        srcs: &Srcs,
        slots: &[Option<usize>],
    ) -> Option<UOp> {
        let numbers = self.of.get(&at)?;
        let slot_of = |number: &Option<usize>| number.and_then(|k| slots[k]);
        if numbers.iter().all(|k| slot_of(k).is_none()) {
            return None;
        }
        let slices = slice.arg().slice()?;
        let start = |((s, k), &n): ((&SliceAxis, &Option<usize>), &usize)| {
            let (least, most) = s.starts(n);
            match slot_of(k) {
                Some(slot) => UOp::var(slot, DType::Index, least as i64, most as i64),
                None => UOp::index(s.start as i64),
            }
        };
        let shape = slice.src(0).shape();
        Some(srcs[0].slice_from(slices, slices.iter().zip(numbers).zip(shape).map(start)))
    }
}
