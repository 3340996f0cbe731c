//! The starts of slices, as constants of a closed graph: a loop over the rows of a table has one key.
//!
//! Only a start that could be another number is one. If an axis has no room to move the slice, its start is part of the
//! graph's shape.

use kiln_ir::arg::{Arg, SliceAxis};
use kiln_ir::spec::form;
use kiln_ir::uop::{Mixer, Srcs, rebuild};
use kiln_ir::{Const, DType, UOp};
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
}

/// What a slice is of.
#[derive(Clone, Copy)]
pub(super) enum Sliced {
    /// A view of row-major positions: it says where a write goes.
    Positions,
    /// A filler that is not in memory. No write changes what is read of it.
    Filler,
    Value,
}

impl Starts {
    /// Visits the slice at a position, axis by axis with the length of what it slices: hashes all but its numbers, and gives
    /// its lengths to `length`.
    ///
    /// The written region starts where the read region does, if the program says so (`t[i] += 1`): one number for both
    /// shows that no element is read after it was written. Other starts that happen to be equal are two numbers.
    pub(super) fn visit<'a>(
        &mut self,
        axes: impl Iterator<Item = (&'a SliceAxis, &'a usize)>,
        at: usize,
        of: Sliced,
        h: &mut Mixer,
        length: &mut impl FnMut(usize, &mut Mixer),
    ) {
        let numbers = axes.map(|(slice, &n)| {
            let (least, most) = slice.starts(n);
            let has_choice = least != most;
            // how far apart the elements are is no length: a slice of every third is another program
            (slice.step, has_choice).hash(h);
            slice.lengths(has_choice, |n| length(n, h));
            has_choice.then(|| self.number(of, *slice, n, h))
        });
        let numbers = numbers.collect();
        self.of.insert(at, numbers);
    }

    fn number(&mut self, of: Sliced, slice: SliceAxis, n: usize, h: &mut Mixer) -> usize {
        let next = self.values.len();
        let mut first = || *self.first.entry((n, slice)).or_insert(next);
        let number = match of {
            Sliced::Positions => first(),
            Sliced::Value => {
                first();
                next
            }
            Sliced::Filler => next,
        };
        (number == next).hash(h);
        if number == next {
            self.values.push(slice.start);
        } else {
            number.hash(h);
        }
        number
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

    /// The slice at a position over new sources: `slots` says which starts are launch-time scalars, by number. With `changed`
    /// it has those starts, by number, and those lengths. None if that is no slice.
    pub(super) fn build(
        &self,
        at: usize,
        slice: &UOp,
        srcs: Srcs,
        slots: &[Option<usize>],
        changed: Option<(&[usize], &mut dyn FnMut() -> usize)>,
    ) -> Option<UOp> {
        let numbers = &self.of[&at];
        let is_changed = changed.is_some();
        let mut slices: SmallVec<[SliceAxis; 2]> = slice.arg().slice()?.into();
        if let Some((starts, next)) = changed {
            for (slice, number) in slices.iter_mut().zip(numbers) {
                *slice = slice.with_lengths(number.is_some(), &mut *next);
                number.iter().for_each(|&k| slice.start = starts[k]);
            }
        }
        let slot_of = |number: &Option<usize>| number.and_then(|k| slots[k]);
        let shape = srcs[0].shape();
        match numbers.iter().all(|k| slot_of(k).is_none()) {
            true if is_changed => return well_formed(slice, srcs, Arg::Slice(slices)),
            true => return Some(rebuild(slice, srcs)),
            false if is_changed && !fit(&slices, shape) => return None,
            false => {}
        }
        let start = |((s, k), &n): ((&SliceAxis, &Option<usize>), &usize)| {
            let (least, most) = s.starts(n);
            match slot_of(k) {
                Some(slot) => UOp::var(slot, DType::Index, least as i64, most as i64),
                None => UOp::index(s.start as i64),
            }
        };
        Some(srcs[0].slice_from(&slices, slices.iter().zip(numbers).zip(shape).map(start)))
    }
}

/// Whether slices of these lengths, and those starts that are known, are inside of a shape.
fn fit(slices: &[SliceAxis], shape: &[usize]) -> bool {
    let reach = |s: &SliceAxis| s.step.unsigned_abs().checked_mul(s.len.saturating_sub(1));
    slices.iter().zip(shape).all(|(s, &n)| reach(s).is_some_and(|reach| reach < n))
}

/// The node over other sources with another argument, if that is one.
pub(super) fn well_formed(node: &UOp, srcs: Srcs, arg: Arg) -> Option<UOp> {
    let (op, dtype, lanes) = (node.op(), node.dtype(), node.lanes());
    form::check(op, dtype, lanes, &srcs, &arg).ok()?;
    match arg == *node.arg() {
        true => Some(rebuild(node, srcs)),
        false => Some(UOp::new(op, dtype, lanes, srcs, arg)),
    }
}
