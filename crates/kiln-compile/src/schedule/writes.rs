//! Part of pass `prepare`: chooses how each update is computed.
//!
//! Either every element selects between the value and the base: this costs as much as the whole storage, and is for
//! readers that need the new version only on the way to something else. Or the value is stored into the memory of the
//! base: this costs as much as the written region, and a copy of the base if the old version is still needed.

use kiln_ir::{Op, UOp, region};
use rustc_hash::{FxHashMap, FxHashSet};

/// At most this many updates are nested selects.
const MAX_CHOICES: usize = 4;

/// The updates among `nodes` (sources first) that are stored.
pub(super) fn stored(nodes: &[UOp], roots: &[UOp]) -> FxHashSet<UOp> {
    let on_memory = on_memory(nodes);
    let mut wanted: FxHashSet<&UOp> = roots.iter().map(same_memory).collect();
    let mut stored = FxHashSet::default();
    for node in nodes.iter().rev().filter(|n| n.op() == Op::Update) {
        let in_memory = on_memory.contains(node) && wanted.contains(node);
        if in_memory || !is_view(node) {
            stored.insert(node.clone());
            wanted.insert(same_memory(node.src(0)));
        }
    }
    store_deep(nodes, &mut stored);
    stored
}

/// Whether the region is a view, known before anything runs. Then a select can test whether an element is inside.
fn is_view(update: &UOp) -> bool {
    update.arg().reduce_op().is_none() && region::is_one_to_one(update.src(2), update.numel())
}

/// Updates whose storage is in memory already.
fn on_memory(nodes: &[UOp]) -> FxHashSet<&UOp> {
    let mut found = FxHashSet::default();
    for node in nodes.iter().filter(|n| n.op() == Op::Update) {
        let base = same_memory(node.src(0));
        if base.op() == Op::Param || found.contains(base) {
            found.insert(node);
        }
    }
    found
}

/// Stores runs of updates that would be more nested selects than the limit.
fn store_deep(nodes: &[UOp], stored: &mut FxHashSet<UOp>) {
    let mut depths: FxHashMap<&UOp, usize> = FxHashMap::default();
    for node in nodes.iter().filter(|n| n.op() == Op::Update && !stored.contains(*n)) {
        let depth = 1 + depths.get(same_memory(node.src(0))).copied().unwrap_or(0);
        depths.insert(node, depth);
    }
    let mut deep: FxHashSet<&UOp> = FxHashSet::default();
    for node in nodes.iter().rev() {
        if depths.get(node).is_some_and(|&depth| depth > MAX_CHOICES) || deep.contains(node) {
            stored.insert(node.clone());
            deep.extend(depths.get_key_value(same_memory(node.src(0))).map(|(base, _)| base));
        }
    }
}

/// The node whose row-major bytes this one has too.
pub(super) fn same_memory(node: &UOp) -> &UOp {
    let mut node = node;
    while matches!(
        node.op(),
        Op::Reshape | Op::Bitcast | Op::Mark | Op::Detach | Op::Vjp | Op::After
    ) {
        node = node.src(0);
    }
    node
}
