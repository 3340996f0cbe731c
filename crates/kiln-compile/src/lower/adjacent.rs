//! Pass `adjacent` of stage `lower`: stores of single lanes to neighbouring elements become one vector store.
//! Post-condition: no group of effects has four such stores without predicates, each next to the one before.
//!
//! This is how small squares are transposed: a vector is loaded from each of some rows, and vectors across them are
//! stored.

use super::fold::{add_constant, constant_of};
use kiln_ir::arg::Space;
use kiln_ir::uop::{Srcs, reaches, rebuild, remade};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// How many lanes are stored at once: processors have instructions for this many in vectors of any width.
const LANES: usize = 4;

/// The kernel, whose indices are in normal form, with neighbouring stores joined.
pub(super) fn join_stores(kernel: &UOp) -> UOp {
    if !reaches(kernel, |_| true, |node| place_of(node).is_some()) {
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

/// The effects of a group, in their order; a joined store stands where its first was.
fn joined(effects: Srcs) -> Srcs {
    let mut rows: FxHashMap<(UOp, UOp), Vec<(i64, usize)>> = FxHashMap::default();
    for (i, effect) in effects.iter().enumerate() {
        if let Some((row, place)) = place_of(effect) {
            rows.entry(row).or_default().push((place, i));
        }
    }
    let mut new: Vec<Option<UOp>> = effects.iter().cloned().map(Some).collect();
    for mut stores in rows.into_values() {
        stores.sort_unstable();
        for run in stores.chunk_by(|a, b| a.0 + 1 == b.0) {
            for whole in run.chunks_exact(LANES) {
                let first = whole.iter().map(|(_, i)| *i).min().expect("not empty");
                let together = together(&effects, whole);
                whole.iter().for_each(|(_, i)| new[*i] = None);
                new[first] = Some(together);
            }
        }
    }
    new.into_iter().flatten().collect()
}

/// Of a lane that is stored to addressable memory: the memory, the index without its constant, and the constant.
fn place_of(store: &UOp) -> Option<((UOp, UOp), i64)> {
    let [memory, index, value] = store.srcs() else { return None };
    let is_register = memory.memory().arg().memory().is_some_and(|m| m.0 == Space::Register);
    if store.op() != Op::Store || is_register || memory.lanes() > 1 || value.op() != Op::Lane {
        return None;
    }
    let constant = constant_of(index);
    Some(((memory.clone(), add_constant(index, -constant)), constant))
}

fn together(effects: &[UOp], stores: &[(i64, usize)]) -> UOp {
    let values = stores.iter().map(|(_, i)| effects[*i].src(2).clone()).collect();
    let first = &effects[stores[0].1];
    UOp::store(first.src(0), first.src(1), &UOp::stack(values), None)
}
