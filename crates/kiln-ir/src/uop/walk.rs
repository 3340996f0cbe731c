//! Walks over graphs, none of them recursive.

use super::seen::Seen;
use super::{Srcs, UOp};
use crate::arg::{Arg, RangeKind};
use crate::op::Op;
use rustc_hash::FxHashMap;
use std::slice::Iter;
use std::sync::Arc;

/// How deep walks go as a rule.
const FEW: usize = 64;

/// Every node that `root` reaches, sources before users, `root` last. The order depends on structure alone.
pub fn toposort(root: &UOp) -> Vec<UOp> {
    toposort_all(std::slice::from_ref(root), |_| true)
}

/// Every node that the roots reach, sources before users. Sources of a node for which `enter` is false are left out
/// (unless reached otherwise).
pub fn toposort_all(roots: &[UOp], enter: impl Fn(&UOp) -> bool) -> Vec<UOp> {
    let mut seen = Seen::new();
    let mut order = Vec::with_capacity(seen.expected());
    let mut stack: Vec<(&UOp, Iter<'_, UOp>)> = Vec::with_capacity(FEW);
    let below = |node| if enter(node) { node.srcs().iter() } else { [].iter() };
    for root in roots {
        if is_new(&mut seen, root) {
            stack.push((root, below(root)));
        }
        while let Some((node, srcs)) = stack.last_mut() {
            match srcs.next() {
                Some(src) if !is_new(&mut seen, src) => {}
                Some(src) if src.srcs().is_empty() => order.push(src.clone()),
                Some(src) => stack.push((src, below(src))),
                None => {
                    order.push((*node).clone());
                    stack.pop();
                }
            }
        }
    }
    order
}

/// Whether the walk meets the node for the first time. A node that is referred to once is met once.
fn is_new(seen: &mut Seen, node: &UOp) -> bool {
    node.ref_count() == 1 || seen.insert(node.id())
}

/// The device of a value, which the nearest copies and buffers under it say.
pub fn device_of(x: &UOp) -> Option<Arc<str>> {
    let all = toposort_all(std::slice::from_ref(x), |n| n.arg().device().is_none());
    all.iter().find_map(|n| n.arg().device())
}

/// Whether the root reaches a node for which `is_wanted` holds. Sources of a node for which `enter` is false are not
/// looked at (unless reached otherwise).
pub fn reaches(root: &UOp, enter: impl Fn(&UOp) -> bool, is_wanted: impl Fn(&UOp) -> bool) -> bool {
    let mut seen = Seen::new();
    let mut stack = Vec::with_capacity(FEW);
    stack.push(std::slice::from_ref(root).iter());
    while let Some(nodes) = stack.last_mut() {
        match nodes.next() {
            None => _ = stack.pop(),
            Some(node) if !is_new(&mut seen, node) => {}
            Some(node) if is_wanted(node) => return true,
            Some(node) if enter(node) => stack.push(node.srcs().iter()),
            Some(_) => {}
        }
    }
    false
}

/// The nodes that `root` reaches for which `is_wanted` holds, in no order that means anything.
pub fn find_all(root: &UOp, is_wanted: impl Fn(&UOp) -> bool) -> Vec<UOp> {
    let (mut seen, mut found) = (Seen::new(), Vec::new());
    let mut stack = Vec::with_capacity(FEW);
    stack.push(std::slice::from_ref(root).iter().rev());
    while let Some(nodes) = stack.last_mut() {
        match nodes.next() {
            None => _ = stack.pop(),
            Some(node) if !is_new(&mut seen, node) => {}
            Some(node) => {
                found.extend(is_wanted(node).then(|| node.clone()));
                if !node.srcs().is_empty() {
                    stack.push(node.srcs().iter().rev());
                }
            }
        }
    }
    found
}

/// The first number that no local memory among the nodes has.
pub fn free_local(nodes: &[UOp]) -> u32 {
    let memories = nodes.iter().filter(|n| n.op() == Op::Local).filter_map(|n| n.arg().memory());
    memories.map(|(_, id, _)| id + 1).max().unwrap_or(0)
}

/// A node's sources, each as it is in `done`.
pub fn mapped(node: &UOp, done: &FxHashMap<UOp, UOp>) -> Srcs {
    let mut srcs = Srcs::new();
    // one by one: collecting costs several times as much
    node.srcs().iter().for_each(|s| srcs.push(done[s].clone()));
    srcs
}

/// The graph made again, sources first: `make` gets each node once, and what its sources have become.
pub fn remade(root: &UOp, mut make: impl FnMut(&UOp, Srcs) -> UOp) -> UOp {
    remade_all(std::slice::from_ref(root), |_| None, &mut make).pop().expect("one root")
}

/// The same for graphs that share nodes. If `end` gives a new node for a node, the walk takes it and does not enter the sources.
///
/// A walk meets the sources of a node one after the other, and keeps what they have become on a stack until the node
/// itself is made of them. So nothing is looked up twice.
pub fn remade_all(
    roots: &[UOp],
    end: impl Fn(&UOp) -> Option<UOp>,
    mut make: impl FnMut(&UOp, Srcs) -> UOp,
) -> Vec<UOp> {
    let (mut made, mut stack) = (Made::new(), Vec::with_capacity(FEW));
    for root in roots {
        let mut next = Some(root);
        loop {
            if let Some(node) = next.filter(|node| !made.is_known(node)) {
                match end(node) {
                    Some(new) => made.note(node, new),
                    None => stack.push((node, node.srcs().iter())),
                }
            }
            let Some((node, srcs)) = stack.last_mut() else { break };
            next = srcs.next();
            if next.is_none() {
                let new = make(node, made.sources_of(node));
                made.note(node, new);
                stack.pop();
            }
        }
    }
    made.last(roots.len()).collect()
}

/// What a walk has made so far.
struct Made {
    /// By old node: the place of its new node in `all`.
    places: Seen,
    all: Vec<UOp>,
    /// Places of the sources of unfinished nodes, as on a stack.
    met: Vec<u32>,
}

impl Made {
    fn new() -> Made {
        let places = Seen::new();
        Made { all: Vec::with_capacity(places.expected()), places, met: Vec::with_capacity(FEW) }
    }

    /// Whether a node was made before; if so, it is met once more.
    fn is_known(&mut self, node: &UOp) -> bool {
        // a node that is referred to once is met once
        let place = if node.ref_count() == 1 { None } else { self.places.note(node.id()) };
        self.met.extend(place);
        place.is_some()
    }

    fn note(&mut self, node: &UOp, new: UOp) {
        let place = self.all.len() as u32;
        if node.ref_count() > 1 {
            self.places.insert_with(node.id(), place);
        }
        self.met.push(place);
        self.all.push(new);
    }

    /// What has been met last.
    fn last(&mut self, n: usize) -> impl Iterator<Item = UOp> {
        let first = self.met.len() - n;
        self.met.drain(first..).map(|place| self.all[place as usize].clone())
    }

    fn sources_of(&mut self, node: &UOp) -> Srcs {
        let mut srcs = Srcs::new();
        // one by one: collecting costs several times as much
        self.last(node.srcs().len()).for_each(|src| srcs.push(src));
        srcs
    }
}

/// The node with other sources (itself, where they are the same). Binary arithmetic is canonicalized again.
pub fn rebuild(node: &UOp, srcs: Srcs) -> UOp {
    if node.srcs() == srcs.as_slice() {
        return node.clone();
    }
    if srcs.len() == 2 && node.op().is_commutative() {
        let mut srcs = srcs.into_iter();
        let (a, b) = (srcs.next().expect("two sources"), srcs.next().expect("two sources"));
        return UOp::binary_typed(node.op(), node.dtype(), a, b);
    }
    if node.op() == Op::Composite {
        return UOp::composite_as(node.dtype(), srcs, node.arg().clone());
    }
    if node.op() == Op::After && !matches!(node.arg(), Arg::Check(_)) {
        // its argument is the memory's, which may be another now
        return srcs[0].after(srcs[1..].iter().cloned());
    }
    UOp::new(node.op(), node.dtype(), node.lanes(), srcs, node.arg().clone())
}

/// The graphs with every node in `map` replaced; replacements are not looked into again. Origins are kept.
pub fn substitute(roots: &[UOp], map: &FxHashMap<UOp, UOp>) -> Vec<UOp> {
    substitute_within(roots, map, |_| true)
}

/// The same inside of nodes for which `enter` is true; all others stay as they are.
pub fn substitute_within(
    roots: &[UOp],
    map: &FxHashMap<UOp, UOp>,
    enter: impl Fn(&UOp) -> bool,
) -> Vec<UOp> {
    let end = |node: &UOp| map.get(node).cloned().or_else(|| (!enter(node)).then(|| node.clone()));
    remade_all(roots, end, |node, srcs| {
        let new = rebuild(node, srcs);
        new.copy_origin(node);
        new
    })
}

/// A range's axis number.
pub fn axis_of(range: &UOp) -> u32 {
    range.arg().range().expect("a range has a range argument").0
}

/// How often the loop body of a range runs, at most.
pub fn trip_count(range: &UOp) -> u64 {
    range.src(0).max().max(0) as u64
}

/// A range's kind.
pub fn kind_of(range: &UOp) -> RangeKind {
    range.arg().range().expect("a range has a range argument").1
}
