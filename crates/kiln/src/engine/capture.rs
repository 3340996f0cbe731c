//! Captures a graph: leaves become numbered parameters, and the rest is hashed to a key, which the next step of a
//! training loop has too. (JAX and XLA: tracing.)
//!
//! The walk itself computes the key. So if the schedule is known, the closed graph is never built.

mod alike;

use super::measure::count;
use super::number;
use super::runs::{self, Upload};
use super::starts::{Starts, well_formed};
use super::walk::{Busy, Edges, StandsFor, Walk};
use kiln_ir::arg::{Arg, Shape};
use kiln_ir::uop::{Mixer, Srcs, rebuild};
use kiln_ir::{Const, DType, Op, UOp};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

/// The captured graph of one realize.
pub(super) struct Closed {
    /// Every node reached, sources before users. A computed node stands for its leaf.
    pub(super) nodes: Vec<UOp>,
    /// Positions of each node's sources: of the nodes as they are, and after looking through computed ones.
    edges: Vec<Edges>,
    /// Which nodes stood for their leaf during the walk. Another thread may have computed more since.
    computed: Vec<Option<StandsFor>>,
    /// Which nodes a gradient could go through: they are computed from a value that wants one.
    differentiable: Vec<bool>,
    /// The leaves by parameter slot (positions).
    pub(super) leaves: Vec<usize>,
    /// The constants in order of visit (positions), once for each use: two uses may have the same number today and
    /// different ones in the next step.
    constants: Vec<usize>,
    /// The starts of slices: constants too, after the rest.
    starts: Starts,
    /// The numbers in order of visit (positions), after the starts: launch-time scalars from the first run on.
    numbers: Vec<usize>,
    /// The nodes to compute (positions), without repetition.
    pub(super) roots: Vec<usize>,
    /// Whether a node is among them.
    is_root: Vec<bool>,
    /// Which nodes are fillers: made without any leaf, and of no device.
    filler: Vec<bool>,
    /// The node that is computed for each root (position): the root itself, or what its combined writes became.
    targets: Vec<usize>,
    /// The nodes that the targets need; only these are scheduled.
    active: Vec<bool>,
    /// Conditions that must be false, each with its error message.
    pub(super) checks: Vec<(UOp, Arc<str>)>,
    /// Copies that are not computed (positions).
    pub(super) copies: Vec<usize>,
    /// The key: a hash of everything except the identity of leaves and the value of constants.
    pub(super) key: u128,
    /// The same without lengths.
    pub(super) outline: u128,
    /// The lengths in order of visit.
    pub(super) lengths: Vec<usize>,
}

/// Other lengths and other starts of slices, in the order of [`Closed::lengths`] and [`Closed::starts`].
pub(super) struct Changed<'a> {
    pub(super) lengths: &'a [usize],
    pub(super) starts: &'a [usize],
}

thread_local! {
    /// How many nodes the last captured graph had: in a loop the next graph needs as much room.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// Walks from the roots down to the leaves, and combines runs of writes.
pub(super) fn close(roots: &[UOp], upload: &Upload<'_>) -> Result<Closed, Busy> {
    let mut walk = Walk::with_room(LAST.get());
    let mut wanted: Vec<UOp> = roots.to_vec();
    let mut next = 0;
    while next < wanted.len() {
        walk.visit(&wanted[next])?;
        next += 1;
        // an effect is computed whenever the value that carries it is
        wanted.append(&mut walk.effects);
    }
    let roots: Vec<usize> = wanted.iter().map(|r| walk.position[&r.id()]).collect();
    let collected = runs::collect(&walk, &roots, upload);
    for target in collected.iter().flatten() {
        walk.visit(target)?;
    }
    count(|c| c.visited += walk.nodes.len() as u64);
    LAST.set(walk.nodes.len());
    Ok(Closed::new(walk, &wanted, collected.as_deref()))
}

impl Closed {
    /// Captures what a walk has visited. `collected` is what the `wanted` nodes became by combining writes.
    fn new(walk: Walk, wanted: &[UOp], collected: Option<&[UOp]>) -> Closed {
        let position = walk.position;
        let mut closed = Closed {
            computed: walk.computed,
            differentiable: walk.differentiable,
            nodes: walk.nodes,
            edges: walk.edges,
            leaves: Vec::new(),
            constants: Vec::new(),
            starts: Starts::default(),
            numbers: Vec::new(),
            is_root: vec![false; position.len()],
            filler: Vec::new(),
            roots: Vec::new(),
            targets: Vec::new(),
            active: vec![false; position.len()],
            checks: walk.checks,
            copies: walk.copies,
            key: 0,
            outline: 0,
            lengths: Vec::new(),
        };
        for (root, target) in wanted.iter().zip(collected.unwrap_or(wanted)) {
            let at = position[&root.id()];
            if !std::mem::replace(&mut closed.is_root[at], true) {
                closed.roots.push(at);
                closed.targets.push(position[&target.id()]);
            }
        }
        closed.fill();
        closed.activate();
        closed.number();
        closed
    }

    /// A graph of which only the memory is known: `inputs` by parameter slot, and so many roots.
    pub(super) fn over(inputs: Vec<UOp>, roots: usize) -> Closed {
        let leaves = inputs.len();
        let count = leaves + roots;
        let mut nodes = inputs;
        nodes.resize(count, UOp::index(0));
        Closed {
            nodes,
            edges: vec![Edges::new(); count],
            computed: vec![None; count],
            differentiable: vec![false; count],
            leaves: (0..leaves).collect(),
            constants: Vec::new(),
            starts: Starts::default(),
            numbers: Vec::new(),
            roots: (leaves..count).collect(),
            is_root: (0..count).map(|at| at >= leaves).collect(),
            filler: vec![false; count],
            targets: (leaves..count).collect(),
            active: vec![true; count],
            checks: Vec::new(),
            copies: Vec::new(),
            key: 0,
            outline: 0,
            lengths: Vec::new(),
        }
    }

    /// Whether the node only stands for a leaf.
    pub(super) fn is_computed(&self, at: usize) -> bool {
        self.computed[at].is_some()
    }

    /// Whether the node stands for a leaf that it is computed from.
    pub(super) fn shares(&self, at: usize) -> bool {
        self.computed[at].is_some_and(|c| c.shares)
    }

    /// Whether the node is to be computed.
    pub(super) fn is_root(&self, at: usize) -> bool {
        self.is_root[at]
    }

    /// The last node to compute.
    pub(super) fn last_root(&self) -> Option<&UOp> {
        self.roots.last().map(|&root| &self.nodes[root])
    }

    /// Positions of a node's sources.
    pub(super) fn sources(&self, at: usize) -> &[usize] {
        &self.edges[at]
    }

    /// Which nodes are made without any leaf.
    pub(super) fn fillers(&self) -> &[bool] {
        &self.filler
    }

    /// Whether a gradient could go through the node.
    pub(super) fn is_differentiable(&self, at: usize) -> bool {
        self.differentiable[at]
    }

    /// Which nodes are referred to from outside this walk, by reference counts. This is meaningful under the planning
    /// lock, while only `self` holds the walk's nodes.
    pub(super) fn held(&self) -> Vec<bool> {
        let mut inside = self.references();
        let keeping =
            (0..self.nodes.len()).filter(|&at| self.computed[at].is_some_and(|c| c.keeps));
        keeping.for_each(|at| inside[self.edges[at][0]] += 1);
        self.nodes.iter().zip(inside).map(|(node, inside)| node.ref_count() > inside).collect()
    }

    /// How many references the walk itself holds to each node: the list of nodes, and its users. A node that is a
    /// source twice is held twice. Computed nodes do not count: they can be cut off from their leaves.
    pub(super) fn references(&self) -> Vec<usize> {
        let mut inside = vec![1; self.nodes.len()];
        let users =
            self.edges.iter().zip(&self.computed).filter(|(_, computed)| computed.is_none());
        users.flat_map(|(sources, _)| sources).for_each(|&s| inside[s] += 1);
        inside
    }

    /// For every leaf, the computed nodes that stand for it.
    pub(super) fn stand_ins(&self) -> Vec<Vec<usize>> {
        let mut slots = FxHashMap::default();
        self.leaves.iter().enumerate().for_each(|(slot, &at)| _ = slots.insert(at, slot));
        let mut found = vec![Vec::new(); self.leaves.len()];
        for at in (0..self.nodes.len()).filter(|&at| self.is_computed(at)) {
            if let Some(&slot) = slots.get(&self.edges[at][0]) {
                found[slot].push(at);
            }
        }
        found
    }

    /// The values of the constants, in order.
    pub(super) fn constants(&self) -> Vec<Const> {
        let constant = |&at: &usize| self.nodes[at].as_const().expect("a constant");
        let number = |&at: &usize| number::value_of(&self.nodes[at]).expect("a number has a value");
        let numbers = self.numbers.iter().map(number);
        self.constants.iter().map(constant).chain(self.starts.constants()).chain(numbers).collect()
    }

    /// Which nodes the numbers are: of the last constants, in order.
    pub(super) fn numbers(&self) -> impl ExactSizeIterator<Item = &UOp> {
        self.numbers.iter().map(|&at| &self.nodes[at])
    }

    /// The dtypes of the constants, in order.
    pub(super) fn constant_dtypes(&self) -> impl Iterator<Item = DType> + '_ {
        let starts = self.starts.constants().map(|_| DType::Index);
        let dtype = |&at: &usize| self.nodes[at].dtype();
        self.constants.iter().map(dtype).chain(starts).chain(self.numbers.iter().map(dtype))
    }

    /// Finds the fillers: nodes that are made without any leaf.
    fn fill(&mut self) {
        self.filler = vec![false; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            let everywhere = !matches!(node.op(), Op::Buffer | Op::Copy);
            self.filler[at] = everywhere && self.edges[at].iter().all(|&s| self.filler[s]);
        }
    }

    /// Finds what the targets need.
    fn activate(&mut self) {
        self.targets.iter().for_each(|&t| self.active[t] = true);
        for at in (0..self.nodes.len()).rev() {
            if self.active[at] {
                self.edges[at].iter().for_each(|&s| self.active[s] = true);
            }
        }
    }

    /// Numbers leaves and constants by first visit, and hashes the rest.
    fn number(&mut self) {
        let (mut h, mut lengths) = (Mixer::default(), Vec::new());
        // 0 and 1 decide what is empty and what is repeated
        let mut length = |n: usize, h: &mut Mixer| {
            lengths.push(n);
            n.min(2).hash(h);
        };
        // a computed node counts as the leaf that it stands for
        let (mut number, mut count) = (Vec::with_capacity(self.nodes.len()), 0usize);
        for (at, node) in self.nodes.iter().enumerate() {
            if self.is_computed(at) {
                number.push(number[self.edges[at][0]]);
                self.starts.skip();
                continue;
            }
            number.push(count);
            if !self.active[at] {
                self.starts.skip();
                continue;
            }
            self.starts.visit(node, &self.edges[at], &mut h, &mut length);
            if node.op() == Op::Const {
                continue; // counted where it is used
            }
            count += 1;
            (node.op(), node.dtype()).hash(&mut h);
            match node.arg() {
                // the identity of a storage changes no result, and neither does the message of a check
                Arg::Mark { .. } | Arg::Check(_) => {}
                // hashed by the visit
                Arg::Slice(_) => {}
                Arg::Var { .. } => self.numbers.push(at),
                arg => {
                    arg.hash_without_lengths(&mut h);
                    arg.lengths(|n| length(n, &mut h));
                }
            }
            if node.op() == Op::Buffer {
                self.leaves.push(at);
            }
            for &s in &self.edges[at] {
                use_of(&self.nodes, s, &number, &mut self.constants, &mut h);
            }
        }
        for &r in &self.targets {
            use_of(&self.nodes, r, &number, &mut self.constants, &mut h);
        }
        self.outline = h.clone().finish128();
        lengths.hash(&mut h);
        (self.key, self.lengths) = (h.finish128(), lengths);
    }

    /// Which of the constants are starts of slices.
    pub(super) fn starts(&self) -> Range<usize> {
        self.constants.len()..self.constants.len() + self.starts.constants().count()
    }

    /// The closed graph: the roots over `Param`s. Constants that are `variable` become launch-time scalars, numbered in
    /// order.
    pub(super) fn build(&self, variable: &[bool]) -> Vec<UOp> {
        self.built(variable, None).expect("the graph has its own lengths")
    }

    /// The same with other lengths; none if no graph has those.
    pub(super) fn build_with(&self, variable: &[bool], changed: &Changed<'_>) -> Option<Vec<UOp>> {
        self.built(variable, Some(changed))
    }

    fn built(&self, variable: &[bool], changed: Option<&Changed<'_>>) -> Option<Vec<UOp>> {
        let mut lengths = changed.map(|c| c.lengths.iter().copied());
        let mut next = || lengths.as_mut().and_then(Iterator::next).expect("a length for each");
        let mut slots = self
            .leaves
            .iter()
            .enumerate()
            .map(|(slot, &at)| (at, slot))
            .collect::<FxHashMap<_, _>>();
        let mut count = 0..;
        let vars: Vec<_> = variable.iter().map(|&v| v.then(|| count.next()).flatten()).collect();
        let (uses, vars) = vars.split_at(self.constants.len());
        let (starts, numbers) = vars.split_at(vars.len() - self.numbers.len());
        let (mut uses, mut numbers) = (uses.iter(), numbers.iter());
        let mut used = |node: &UOp, built: &UOp| {
            let var = if node.op() == Op::Const { *uses.next().expect("numbered") } else { None };
            var.map_or_else(|| built.clone(), |slot| scalar(slot, node.dtype()))
        };
        let mut built: Vec<UOp> = Vec::with_capacity(self.nodes.len());
        for (at, node) in self.nodes.iter().enumerate() {
            if !self.active[at] {
                built.push(node.clone());
                continue;
            }
            let edges = self.edges[at].iter();
            let srcs: Srcs = edges.map(|&s| used(&self.nodes[s], &built[s])).collect();
            let new = match slots.remove(&at) {
                Some(slot) if changed.is_some() && !self.is_computed(at) => {
                    let mut shape = Shape::new();
                    node.arg().lengths(|_| shape.push(next()));
                    UOp::param(slot, node.dtype(), shape)
                }
                Some(slot) => UOp::param(slot, node.dtype(), node.shape().clone()),
                None if node.op() == Op::Var => {
                    let slot = numbers.next().copied().flatten().expect("a launch-time scalar");
                    scalar(slot, node.dtype())
                }
                None if self.is_computed(at)
                    || matches!(node.op(), Op::Mark | Op::Vjp | Op::After | Op::Copy) =>
                {
                    srcs[0].clone()
                }
                None => {
                    let new = match changed {
                        _ if node.op() == Op::Slice => {
                            let changed =
                                changed.map(|c| (c.starts, &mut next as &mut dyn FnMut() -> usize));
                            self.starts.build(at, node, srcs, starts, changed)?
                        }
                        Some(_) => well_formed(node, srcs, node.arg().with_lengths(&mut next))?,
                        None => rebuild(node, srcs),
                    };
                    new.copy_origin(node);
                    new
                }
            };
            built.push(new);
        }
        Some(self.targets.iter().map(|&r| used(&self.nodes[r], &built[r])).collect())
    }
}

/// A launch-time scalar of any value.
fn scalar(slot: usize, dtype: DType) -> UOp {
    let (min, max) = dtype.int_bounds();
    UOp::var(slot, dtype, min, max)
}

/// Hashes that the node at `s` is used, and notes which constant it is.
fn use_of(nodes: &[UOp], s: usize, number: &[usize], constants: &mut Vec<usize>, h: &mut Mixer) {
    match nodes[s].op() {
        Op::Const => {
            constants.push(s);
            (usize::MAX, nodes[s].dtype()).hash(h);
        }
        _ => number[s].hash(h),
    }
}

#[cfg(test)]
mod tests {
    use super::super::leaf::{self, Slot, Value};
    use super::*;
    use crate::device::Device;
    use kiln_ir::arg::Shape;

    /// The closed graph is built without the planning lock: another thread may have computed a node by then.
    #[test]
    fn what_is_computed_after_the_walk_stays_as_it_was_walked() {
        let device = Device::parse("INTERP").expect("a device");
        let upload = |x: i32| {
            leaf::table(&[Const::Int(x.into())], DType::I32, Shape::from_slice(&[1]), &device)
                .expect("memory")
        };
        let inner = upload(1) + 2;
        let root = &inner * 5;
        let closed = close(std::slice::from_ref(&root), &|_, _, _| None)
            .unwrap_or_else(|_| panic!("nobody is busy"));
        let before = closed.build(&[false, false]);
        let value = Value { leaf: upload(3), differentiable: false, shares: false };
        leaf::set_slot(&inner, Some(Arc::new(Slot::Computed(value))));
        assert_eq!(closed.build(&[false, false]), before);
    }
}
