//! Pass `prefetch` of stage `lower`: asks for what a later iteration reads.
//!
//! `panels` finds panels: parts of an argument that are copied, and then computed with. `across` does so for copies that
//! transpose. `rows` finds rows that several loops read, `streams` arguments that are read once. A prefetch is a hint: it
//! may name memory past the end of the argument.

mod across;
mod panels;
mod reads;
mod rounds;
mod rows;
mod streams;

use crate::target::Target;
use kiln_ir::UOp;
use kiln_ir::uop::toposort;
use reads::Marks;
use rustc_hash::FxHashMap;
use std::cell::LazyCell;

/// The list of a program with prefetches, each before the load that has time for it.
pub(super) fn prefetch(ops: Vec<UOp>, target: &Target) -> Vec<UOp> {
    // threads of a GPU wait for memory in turn, while others compute
    if target.groups {
        return ops;
    }
    let mut marks = Marks::default();
    let mut copies = panels::marks(&ops, target, &mut marks);
    copies.extend(across::marks(&ops, target, &mut marks));
    rows::marks(&ops, target, &mut marks);
    streams::marks(&ops, target, &copies, &mut marks);
    if marks.is_empty() {
        return ops;
    }
    let hoisted = Hoisted::of(&ops, &marks);
    let mut list = Vec::with_capacity(ops.len());
    for (place, op) in ops.into_iter().enumerate() {
        list.extend(marks.get(&op).into_iter().flatten().cloned());
        if !hoisted.places.contains_key(&op) {
            list.push(op);
        }
        list.extend(hoisted.after.get(&place).into_iter().flatten().cloned());
    }
    list
}

/// The values of an index that no load has. Each stands right after the last of its sources: every loop that sees these
/// sees it there, so also what used it before. Example: with `i * 256` in the address of a prefetch in a loop `k`, and in
/// that of a store after the loop, `i * 256` is computed where loop `i` begins.
#[derive(Default)]
struct Hoisted {
    /// Where each value stands: after this entry of the list.
    places: FxHashMap<UOp, usize>,
    /// The same by entry, sources first.
    after: FxHashMap<usize, Vec<UOp>>,
}

impl Hoisted {
    fn of(ops: &[UOp], marks: &Marks) -> Hoisted {
        let listed: LazyCell<FxHashMap<&UOp, usize>, _> =
            LazyCell::new(|| ops.iter().enumerate().map(|(i, op)| (op, i)).collect());
        let mut hoisted = Hoisted::default();
        let marked = ops.iter().filter_map(|op| Some((op, marks.get(op)?)));
        for (load, prefetch) in marked.flat_map(|(op, all)| all.iter().map(move |p| (op, p))) {
            if load.srcs().get(1) != Some(prefetch.src(1)) {
                hoisted.hoist(prefetch.src(1), &listed);
            }
        }
        hoisted
    }

    fn hoist(&mut self, index: &UOp, listed: &FxHashMap<&UOp, usize>) {
        for value in toposort(index).into_iter().filter(|n| n.op().is_alu()) {
            if self.places.contains_key(&value) {
                continue;
            }
            let place = |n: &UOp| self.places.get(n).or_else(|| listed.get(n)).copied();
            let last = value.srcs().iter().filter_map(place).max().unwrap_or(0);
            self.after.entry(last).or_default().push(value.clone());
            self.places.insert(value, last);
        }
    }
}
