//! Pass `adjacent` of stage `lower`: stores of scalars to neighbouring elements become one vector store.
//! Post-condition: no group of effects has four stores of lanes, or two of sums of lanes, each next to the one before.
//!
//! This is how small squares are transposed: a vector is loaded from each of some rows, and vectors across them are
//! stored. And so the results of inner products are stored together (`slp`).

use super::fold::{add_constant, constant_of};
use super::{slp, transposed};
use kiln_ir::uop::{Srcs, reaches, rebuild, remade};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// How many lanes are stored at once: processors have instructions for this many in vectors of any width.
const LANES: usize = 4;

/// How many scalars may become one vector, from the most to the least.
const WIDTHS: [usize; 4] = [16, 8, 4, 2];

/// The kernel, whose indices are in normal form, with neighbouring stores joined.
pub(super) fn join_stores(kernel: &UOp) -> UOp {
    // lanes are stored, or added up: without any there is nothing to join
    if !reaches(kernel, |_| true, |node| node.op() == Op::Lane) {
        return kernel.clone();
    }
    remade(kernel, |node, srcs| match node.op() {
        Op::Sink => rebuild(node, joined(flat(srcs))),
        _ => rebuild(node, srcs),
    })
}

/// Effects, of which some are groups, one by one.
fn flat(effects: Srcs) -> Srcs {
    let parts = |effect: UOp| match effect.op() {
        Op::Sink => effect.srcs().iter().cloned().collect(),
        _ => Srcs::from_iter([effect]),
    };
    effects.into_iter().flat_map(parts).collect()
}

/// Neighbouring stores: the memory, the index without its constant, and the predicate that they have.
type Row = (UOp, UOp, Option<UOp>);

/// The effects of a group, in their order; a joined store stands where its first was.
fn joined(effects: Srcs) -> Srcs {
    let mut rows: FxHashMap<Row, Vec<(i64, usize)>> = FxHashMap::default();
    for (i, effect) in effects.iter().enumerate() {
        if let Some((row, place)) = place_of(effect) {
            rows.entry(row).or_default().push((place, i));
        }
    }
    let mut new: Vec<Option<UOp>> = effects.iter().cloned().map(Some).collect();
    for mut stores in rows.into_values() {
        stores.sort_unstable();
        for run in stores.chunk_by(|a, b| a.0 + 1 == b.0) {
            for (whole, store) in vectors_of(&effects, run) {
                let first = whole.iter().map(|(_, i)| *i).min().expect("not empty");
                whole.iter().for_each(|(_, i)| new[*i] = None);
                new[first] = Some(store);
            }
        }
    }
    new.into_iter().flatten().collect()
}

/// Where a scalar is stored to addressable memory: its row, and the constant of the index.
fn place_of(store: &UOp) -> Option<(Row, i64)> {
    if store.op() != Op::Store || store.src(2).lanes() > 1 {
        return None;
    }
    let (memory, index) = (store.src(0), store.src(1));
    if memory.is_in_registers() || memory.lanes() > 1 {
        return None;
    }
    let constant = constant_of(index);
    let base = add_constant(index, -constant);
    Some(((memory.clone(), base, store.gate().cloned()), constant))
}

/// The stores of a run that are joined, and the vector store that each group becomes.
fn vectors_of<'a>(effects: &[UOp], run: &'a [(i64, usize)]) -> Vec<(&'a [(i64, usize)], UOp)> {
    let value = |(_, i): &(i64, usize)| effects[*i].src(2).clone();
    let (mut found, mut left) = (Vec::new(), run);
    while left.len() > 1 {
        let widths = WIDTHS.into_iter().filter(|width| *width <= left.len());
        let vector = |width| Some((width, vector(left[..width].iter().map(value).collect())?));
        let Some((width, vector)) = widths.filter_map(vector).next() else {
            left = &left[1..];
            continue;
        };
        let (whole, rest) = left.split_at(width);
        let first = &effects[whole[0].1];
        found.push((whole, UOp::store(first.src(0), first.src(1), &vector, first.gate())));
        left = rest;
    }
    found
}

/// Scalars as one vector, if they are lanes, or sums of lanes and what is computed from them.
fn vector(scalars: Srcs) -> Option<UOp> {
    match scalars.iter().all(|s| s.op() == Op::Lane) {
        true => transposed::column(&scalars)
            .or_else(|| (scalars.len() == LANES).then(|| UOp::stack(scalars))),
        false => slp::packed(scalars),
    }
}
