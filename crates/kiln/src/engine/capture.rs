//! Captures a graph: leaves become numbered parameters, and the rest is hashed to a key, which the next step of a
//! training loop has too. (JAX and XLA: tracing.)
//!
//! The walk itself computes the key. So if the schedule is known, the closed graph is never built.

mod alike;

use super::measure::count;
use super::runs::{self, Upload};
use super::starts::{Sliced, Starts, well_formed};
use super::walk::{Busy, Reached, Walk};
use super::walked::Walked;
use super::{Few, number};
use kiln_ir::arg::{Arg, Shape};
use kiln_ir::uop::{Linear, Mixer, Number, Srcs, rebuild};
use kiln_ir::{Const, DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

/// The captured graph of one realize.
#[derive(Default)]
pub(super) struct Closed {
    /// Every node reached, sources before users. A computed node stands for its leaf.
    nodes: Vec<Reached>,
    /// The computed nodes (positions).
    computed: Vec<usize>,
    /// The leaves by parameter slot (positions).
    pub(super) leaves: SmallVec<[usize; 4]>,
    /// The constants in order of visit (positions), once for each use: two uses may have the same number today and
    /// different ones in the next step.
    constants: SmallVec<[usize; 4]>,
    /// The starts of slices: constants too, after the rest.
    starts: Starts,
    /// The numbers in order of visit (positions), after the starts: launch-time scalars from the first run on.
    numbers: Vec<usize>,
    /// The nodes to compute (positions), without repetition.
    pub(super) roots: Few<usize>,
    /// By node that was asked for: which of the roots it is.
    asked: Few<usize>,
    /// What stands in place of roots and what they need, if writes were combined.
    combined: Option<Combined>,
    /// Conditions that must be false, each with its error message.
    pub(super) checks: Vec<(UOp, Arc<str>)>,
    /// The key: a hash of everything except the identity of leaves and the value of constants.
    pub(super) key: u128,
    /// The same without lengths.
    pub(super) outline: u128,
    /// The lengths in order of visit.
    pub(super) lengths: Vec<usize>,
    /// Whether the program said what numbers were made from variables.
    pub(super) is_named: bool,
    /// Whether there are composites that are not written out. Only a schedule that is known computes such a graph.
    pub(super) has_whole: bool,
}

/// A graph with whole composites, of which no schedule is known.
pub(super) struct Whole {
    pub(super) key: u128,
    /// Its leaves and its roots, in order.
    nodes: Few<usize>,
    constants: Vec<Const>,
}

impl Whole {
    pub(super) fn of(closed: &Closed) -> Whole {
        let constants = closed.constants().collect();
        Whole { key: closed.key, nodes: closed.ends().collect(), constants }
    }

    /// Whether a schedule of `closed`, in which the composites are written out, computes this graph too: it has the same
    /// leaves, constants and roots, in the same order.
    pub(super) fn is(&self, closed: &Closed) -> bool {
        closed.ends().eq(self.nodes.iter().copied())
            && closed.constants().eq(self.constants.iter().copied())
    }
}

/// What is computed where writes were combined.
struct Combined {
    /// By root: the node that is computed for it (position).
    targets: Vec<usize>,
    /// By node: whether the targets need it; only these are scheduled.
    active: Vec<bool>,
}

/// Other lengths and other starts of slices, in the order of [`Closed::lengths`] and [`Closed::starts`].
pub(super) struct Changed<'a> {
    pub(super) lengths: &'a [usize],
    pub(super) starts: &'a [usize],
}

impl Closed {
    /// Captures what a walk has found, and combines runs of writes.
    pub(super) fn of(walked: Walked, upload: &Upload<'_>) -> Result<Closed, Busy> {
        let asked = walked.asked();
        let mut walk = walked.walk;
        let targets = match runs::collect(&walk, &asked, upload) {
            Some(new) => Some(new.iter().map(|new| walk.visit(new)).collect::<Result<_, _>>()?),
            None => None,
        };
        count(|c| c.visited += walk.nodes.len() as u64);
        Ok(Closed::new(walk, asked, targets))
    }

    /// If writes were combined, `targets` stand in place of the nodes that were `asked` for.
    fn new(walk: Walk, asked: Few<usize>, targets: Option<Vec<usize>>) -> Closed {
        let mut closed = Closed {
            nodes: walk.nodes,
            computed: walk.computed,
            has_whole: walk.has_whole,
            checks: walk.checks,
            ..Closed::default()
        };
        closed.ask(asked, targets);
        closed.number();
        closed
    }

    /// Notes the roots, each once.
    fn ask(&mut self, mut asked: Few<usize>, targets: Option<Vec<usize>>) {
        self.roots.reserve(asked.len());
        let mut combined = targets.as_ref().map(|_| Vec::with_capacity(asked.len()));
        for (nth, at) in asked.iter_mut().enumerate() {
            let (position, next) = (*at, self.roots.len());
            *at = *self.nodes[position].root.get_or_insert(next as u32) as usize;
            if *at == next {
                self.roots.push(position);
                combined.iter_mut().zip(&targets).for_each(|(new, all)| new.push(all[nth]));
            }
        }
        self.asked = asked;
        self.combined = combined.map(|targets| self.needed_by(targets));
    }

    /// A graph of which only the memory is known: `inputs` by parameter slot, and so many roots.
    pub(super) fn over(inputs: Vec<UOp>, roots: usize) -> Closed {
        let leaves = inputs.len();
        let unknown = std::iter::repeat_with(|| UOp::index(0)).take(roots);
        let nodes = inputs.into_iter().chain(unknown).enumerate().map(|(at, node)| Reached {
            root: at.checked_sub(leaves).map(|root| root as u32),
            ..Reached::new(node)
        });
        let (nodes, leaves, roots) =
            (nodes.collect(), (0..leaves).collect(), leaves..leaves + roots);
        Closed { nodes, leaves, roots: roots.collect(), ..Closed::default() }
    }

    /// The node at a position.
    pub(super) fn node(&self, at: usize) -> &UOp {
        &self.nodes[at].node
    }

    /// Every node reached, sources before users.
    pub(super) fn nodes(&self) -> impl ExactSizeIterator<Item = &UOp> + DoubleEndedIterator {
        self.nodes.iter().map(|reached| &reached.node)
    }

    /// The leaf of a parameter slot.
    pub(super) fn leaf(&self, slot: usize) -> &UOp {
        self.node(self.leaves[slot])
    }

    /// The leaves, and what is computed (ids).
    fn ends(&self) -> impl Iterator<Item = usize> + '_ {
        self.leaves.iter().chain(&self.roots).chain(self.targets()).map(|&at| self.node(at).id())
    }

    /// Whether the node only stands for a leaf.
    pub(super) fn is_computed(&self, at: usize) -> bool {
        self.nodes[at].computed.is_some()
    }

    /// Whether the node stands for a leaf that it is computed from.
    pub(super) fn shares(&self, at: usize) -> bool {
        self.nodes[at].computed.is_some_and(|c| c.shares)
    }

    /// Whether the node is to be computed.
    pub(super) fn is_root(&self, at: usize) -> bool {
        self.nodes[at].root.is_some()
    }

    /// By node that was asked for: which of the roots it is. Effects come last.
    pub(super) fn asked(&self) -> &[usize] {
        &self.asked
    }

    /// The last node to compute.
    pub(super) fn last_root(&self) -> Option<&UOp> {
        self.roots.last().map(|&root| self.node(root))
    }

    /// Positions of a node's sources.
    pub(super) fn sources(&self, at: usize) -> &[usize] {
        &self.nodes[at].edges
    }

    /// Whether the node is made of constants and positions alone.
    pub(super) fn is_filler(&self, at: usize) -> bool {
        self.nodes[at].is_filler
    }

    /// Whether a gradient could go through the node.
    pub(super) fn is_differentiable(&self, at: usize) -> bool {
        self.nodes[at].differentiable
    }

    /// Whether the node is referred to from outside this walk, by reference counts. This is meaningful under the planning
    /// lock, while only `self` holds the walk's nodes.
    pub(super) fn is_held(&self, at: usize) -> bool {
        self.nodes[at].is_held()
    }

    /// How many references the walk itself holds to a node.
    pub(super) fn references(&self, at: usize) -> usize {
        self.nodes[at].inside as usize
    }

    /// For every leaf, the computed nodes that stand for it.
    pub(super) fn stand_ins(&self) -> Vec<Vec<usize>> {
        let mut slots = FxHashMap::default();
        self.leaves.iter().enumerate().for_each(|(slot, &at)| _ = slots.insert(at, slot));
        let mut found = vec![Vec::new(); self.leaves.len()];
        for &at in &self.computed {
            if let Some(&slot) = slots.get(&self.sources(at)[0]) {
                found[slot].push(at);
            }
        }
        found
    }

    /// The values of the constants, in order.
    pub(super) fn constants(&self) -> impl Iterator<Item = Const> + '_ {
        let constant = |&at: &usize| self.node(at).as_const().expect("a constant");
        let number = |&at: &usize| number::value_of(self.node(at)).expect("a number has a value");
        let numbers = self.numbers.iter().map(number);
        self.constants.iter().map(constant).chain(self.starts.constants()).chain(numbers)
    }

    /// Which nodes the numbers are: of the last constants, in order.
    pub(super) fn numbers(&self) -> impl ExactSizeIterator<Item = &UOp> {
        self.numbers.iter().map(|&at| self.node(at))
    }

    /// The dtypes of the constants, in order.
    pub(super) fn constant_dtypes(&self) -> impl Iterator<Item = DType> + '_ {
        let starts = self.starts.constants().map(|_| DType::Index);
        let dtype = |&at: &usize| self.node(at).dtype();
        self.constants.iter().map(dtype).chain(starts).chain(self.numbers.iter().map(dtype))
    }

    /// What these targets need.
    fn needed_by(&self, targets: Vec<usize>) -> Combined {
        let mut active = vec![false; self.nodes.len()];
        targets.iter().for_each(|&target| active[target] = true);
        for at in (0..self.nodes.len()).rev() {
            if active[at] {
                self.sources(at).iter().for_each(|&s| active[s] = true);
            }
        }
        Combined { targets, active }
    }

    /// The nodes that are computed for the roots (positions).
    fn targets(&self) -> &[usize] {
        self.combined.as_ref().map_or(&self.roots, |combined| &combined.targets)
    }

    /// Whether the targets need a node.
    pub(super) fn is_active(&self, at: usize) -> bool {
        self.combined.as_ref().is_none_or(|combined| combined.active[at])
    }

    /// Numbers leaves and constants by first visit, and hashes the rest.
    fn number(&mut self) {
        let (mut h, mut lengths) = (Mixer::default(), Vec::with_capacity(2 * self.nodes.len()));
        // 0 and 1 decide what is empty and what is repeated
        let mut length = |n: usize, h: &mut Mixer| {
            lengths.push(n);
            n.min(2).hash(h);
        };
        let (mut number, mut count) = (Vec::with_capacity(self.nodes.len()), 0usize);
        for at in 0..self.nodes.len() {
            let Reached { node, edges, computed, is_positions, is_written_out, is_inner, .. } =
                &self.nodes[at];
            // a computed node counts as the leaf that it stands for, and a composite as its value
            if computed.is_some() || *is_written_out {
                number.push(number[*edges.last().expect("a leaf or a value")]);
                continue;
            }
            number.push(count);
            // a constant counts where it is used
            if !self.is_active(at) || node.op() == Op::Const {
                continue;
            }
            count += 1;
            h.add(form(node, edges.len()));
            if let Some(named) = node.named_key() {
                named.hash(&mut h);
                self.is_named = true;
            }
            match node.arg() {
                // the identity of a storage changes no result, and neither does the message of a check
                Arg::None | Arg::Mark { .. } | Arg::Check(_) => {}
                Arg::Slice(axes) => {
                    let of = self.sliced(*is_positions, edges[0]);
                    let axes = axes.iter().zip(node.src(0).shape());
                    self.starts.visit(axes, at, of, &mut h, &mut length);
                }
                Arg::Var { .. } => self.numbers.push(at),
                arg => {
                    arg.hash_without_lengths(&mut h);
                    arg.lengths(|n| length(n, &mut h));
                }
            }
            if node.op() == Op::Buffer {
                self.leaves.push(at);
            }
            for &s in edges {
                let source = &self.nodes[s].node;
                match source.as_const().filter(|_| *is_inner) {
                    // a number of the function, the same in every step
                    Some(number) => number.hash(&mut h),
                    None => use_of(source, s, &number, &mut self.constants, &mut h),
                }
            }
        }
        let targets = self.combined.as_ref().map_or(&self.roots[..], |combined| &combined.targets);
        for &r in targets {
            use_of(&self.nodes[r].node, r, &number, &mut self.constants, &mut h);
        }
        self.outline = h.clone().finish128();
        lengths.hash(&mut h);
        (self.key, self.lengths) = (h.finish128(), lengths);
    }

    /// What a slice is of: of positions, or else of the node at `source`.
    fn sliced(&self, is_positions: bool, source: usize) -> Sliced {
        let source = &self.nodes[source];
        match source.is_filler && source.computed.is_none() {
            _ if is_positions => Sliced::Positions,
            true => Sliced::Filler,
            false => Sliced::Value,
        }
    }

    /// Which of the constants are starts of slices.
    pub(super) fn starts(&self) -> Range<usize> {
        self.constants.len()..self.constants.len() + self.starts.constants().count()
    }

    /// For every constant, whether it is a launch-time scalar from the first run on: a start that varies, and what
    /// [`Closed::differing`] says.
    pub(super) fn scalars(&self) -> Vec<bool> {
        let (mut all, first) = (self.differing(), self.constants.len());
        if !self.is_named {
            return all;
        }
        for (at, node) in self.nodes().enumerate() {
            let varies = |axis: usize| {
                let is_it = |(number, from): &(Number, Linear)| {
                    *number == Number::Start(axis) && from.variable.is_some()
                };
                node.named().iter().any(is_it)
            };
            let starts = self.start_numbers(at).filter(|(axis, _)| varies(*axis));
            starts.for_each(|(_, number)| all[first + number] = true);
        }
        all
    }

    /// The axes of the slice at a position whose start is a constant, with the numbers of these starts.
    pub(super) fn start_numbers(&self, at: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.starts.numbers(at)
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
        let mut used = |node: &UOp, built: &UOp, is_inner: bool| {
            let is_numbered = node.op() == Op::Const && !is_inner;
            let var = if is_numbered { *uses.next().expect("numbered") } else { None };
            var.map_or_else(|| built.clone(), |slot| scalar(slot, node.dtype()))
        };
        let mut built: Vec<UOp> = Vec::with_capacity(self.nodes.len());
        for (at, node) in self.nodes().enumerate() {
            if !self.is_active(at) {
                built.push(node.clone());
                continue;
            }
            if self.nodes[at].is_written_out {
                built.push(built[*self.sources(at).last().expect("a value")].clone());
                continue;
            }
            let sources = self.sources(at).iter();
            let is_inner = self.nodes[at].is_inner;
            let srcs: Srcs = sources.map(|&s| used(self.node(s), &built[s], is_inner)).collect();
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
        Some(self.targets().iter().map(|&r| used(self.node(r), &built[r], false)).collect())
    }
}

/// A launch-time scalar of any value.
fn scalar(slot: usize, dtype: DType) -> UOp {
    let (min, max) = dtype.int_bounds();
    UOp::var(slot, dtype, min, max)
}

/// What a node is, in a word: its op, dtype, how many sources it has, and whether it has an argument.
fn form(node: &UOp, sources: usize) -> u128 {
    let kind = node.op() as u128 | (node.dtype() as u128) << 8;
    kind | (node.arg().is_none() as u128) << 16 | (sources as u128) << 32
}

/// Hashes that the node at `s` is used, and notes which constant it is.
fn use_of(
    node: &UOp,
    s: usize,
    number: &[usize],
    constants: &mut SmallVec<[usize; 4]>,
    h: &mut Mixer,
) {
    match node.op() {
        Op::Const => {
            constants.push(s);
            h.add(1 << 64 | node.dtype() as u128);
        }
        _ => number[s].hash(h),
    }
}

#[cfg(test)]
mod tests {
    use super::super::leaf::{self, Slot, Value};
    use super::super::planning::planning;
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
        let walked = Walked::from(std::slice::from_ref(&root), true, &device, &planning());
        let closed = walked.and_then(|walked| Closed::of(walked, &|_, _, _| None));
        let closed = closed.unwrap_or_else(|_| panic!("nobody is busy"));
        let before = closed.build(&[false, false]);
        let value = Value { leaf: upload(3), differentiable: false, shares: false };
        leaf::set_slot(&inner, Some(Arc::new(Slot::Computed(value))));
        assert_eq!(closed.build(&[false, false]), before);
    }
}
