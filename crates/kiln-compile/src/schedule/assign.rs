//! Pass `assign` of stage `schedule`: decides which values are stored, and which kernel computes each value.
//!
//! It goes from the roots to the leaves and visits a node after all its users. So all demands for its value are known
//! then: which kernels need it, and at which index. (A demand is a `Request`.) Demands of one kernel at one index are
//! one demand; that is how a value that is used twice is computed once.

use super::addresses::addresses;
use super::choices::Choices;
use super::compared::compared;
use super::cones::Cones;
use super::cost::{self, Below, Price, Sum, Use};
use super::epilogue::epilogues;
use super::hazard::Hazards;
use super::index::Index;
use super::lookup::Lookups;
use super::writes::same_memory;
use crate::target::Costs;
use kiln_ir::arg::{RangeKind, ReduceOp};
use kiln_ir::observe::{self, Decision};
use kiln_ir::scope::AxisSet;
use kiln_ir::uop::{axis_of, toposort_all};
use kiln_ir::{Op, UOp, region};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A kernel with more demands than this takes no more values in: compilers slow down faster than kernels gain.
pub(super) const MAX_KERNEL_NODES: usize = 512;

/// How many kernels are looked at to find that one waits for another, where a miss costs little.
const NEAR: usize = 16;

/// Writes of at most this many elements become one kernel with their neighbours: they are not worth dividing among
/// threads.
const SMALL_WRITE: usize = 4096;

/// A demand: a kernel needs the value at an index.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) kernel: usize,
    pub(super) index: Index,
    /// If false, the element is not used, and the index may be out of bounds.
    pub(super) gate: UOp,
    /// The loops around the demand, outermost first.
    pub(super) nest: Rc<[UOp]>,
    /// The demands that this one makes of the node's sources: (source's position, number of its demand).
    pub(super) made: SmallVec<[(usize, usize); 3]>,
    /// Loops that a reduction opens here.
    pub(super) ranges: Index,
    /// For a padding: whether the index is inside its source.
    pub(super) valid: Option<UOp>,
}

impl Request {
    /// A demand that has not been passed on to sources yet.
    pub(super) fn new(kernel: usize, index: Index, gate: UOp, nest: Rc<[UOp]>) -> Request {
        let (made, ranges, valid) = Default::default();
        Request { kernel, index, gate, nest, made, ranges, valid }
    }
}

/// A kernel while it is being planned.
pub(super) struct Draft {
    /// One loop per output axis longer than 1.
    pub(super) loops: Rc<[UOp]>,
    /// Positions of the nodes that it stores.
    pub(super) outputs: Vec<usize>,
    /// Whether it changes memory that holds an old value.
    updates: bool,
    /// Whether two iterations may store one element. Then they run in order.
    in_order: bool,
    pub(super) next_axis: u32,
    pub(super) size: usize,
    /// Products in the reductions inside its own loops that will be tiled.
    pub(super) tiles: usize,
    /// Positions of those reductions.
    pub(super) tiled: Vec<usize>,
    /// Positions of the stored nodes that it reads.
    reads: FxHashSet<usize>,
    /// Positions of the stored nodes that it waits for and does not read.
    pub(super) after: BTreeSet<usize>,
}

/// How a node gets its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Placement {
    /// It is computed where it is needed.
    Inline,
    /// The kernel of this number computes and stores it, at its demand of this number. All other kernels load it.
    Stored { kernel: usize, request: usize },
}

/// The result: the graph's nodes with their requests and placements, and the kernels.
pub(super) struct Plan {
    pub(super) nodes: Vec<UOp>,
    pub(super) position: FxHashMap<UOp, usize>,
    pub(super) roots: Vec<usize>,
    pub(super) requests: Vec<Vec<Request>>,
    pub(super) placement: Vec<Placement>,
    pub(super) drafts: Vec<Draft>,
    pub(super) lookups: Lookups,
}

impl Plan {
    /// Whether every root with elements is stored, and every stored node is an output of its kernel. An update may also
    /// be stored by a kernel whose output is a later update of the same memory.
    pub(super) fn check(&self) -> Result<(), String> {
        for &root in &self.roots {
            let needs = self.nodes[root].op() != Op::Param && self.nodes[root].numel() > 0;
            if self.placement[root] == Placement::Inline && needs {
                return Err(format!("root {:?} is not stored", self.nodes[root]));
            }
        }
        for (node, placement) in self.placement.iter().enumerate() {
            let Placement::Stored { kernel, .. } = *placement else { continue };
            let is_update = self.nodes[node].op() == Op::Update;
            let stores = |draft: &Draft| is_update || draft.outputs.contains(&node);
            if !self.drafts.get(kernel).is_some_and(stores) {
                return Err(format!("kernel {kernel} does not store {:?}", self.nodes[node]));
            }
        }
        Ok(())
    }
}

/// A value as decisions describe it: op, shape, method.
pub(super) fn about(node: &UOp) -> String {
    let origin = node.origin().unwrap_or("");
    format!("{} {:?} {origin}", node.op(), node.shape().as_slice())
}

/// Decides, for every node that the roots need, whether it is stored.
pub(super) fn assign(roots: &[UOp], costs: &Costs, choices: &Choices) -> Plan {
    let nodes = toposort_all(roots, |_| true);
    let position: FxHashMap<UOp, usize> =
        nodes.iter().cloned().enumerate().map(|(i, n)| (n, i)).collect();
    let roots = roots_in_memory(roots, &position);
    let mut planner = Planner {
        costs: *costs,
        choices,
        is_root: vec![false; nodes.len()],
        forced: rematerialized(&nodes, &position),
        addresses: addresses(&nodes, &position),
        compared: compared(&nodes, &position),
        storage: storages(&nodes, &position),
        overwritten: overwritten(&nodes, &position),
        hazards: FxHashMap::default(),
        waiting: FxHashMap::default(),
        only_summed: only_summed(&nodes, &position),
        all_tiles: Vec::new(),
        below: vec![SmallVec::new(); nodes.len()],
        epilogues: Vec::new(),
        seen: FxHashMap::default(),
        plan: Plan {
            requests: vec![Vec::new(); nodes.len()],
            placement: vec![Placement::Inline; nodes.len()],
            drafts: Vec::new(),
            lookups: Lookups::default(),
            nodes,
            position,
            roots,
        },
    };
    planner.run();
    planner.plan
}

pub(super) struct Planner<'a> {
    pub(super) costs: Costs,
    pub(super) choices: &'a Choices,
    pub(super) plan: Plan,
    is_root: Vec<bool>,
    /// Whether a node must be stored: an update writes to its memory, it must be read before an update writes, or others
    /// are computed from it again.
    forced: Vec<bool>,
    /// By node: whether it is arithmetic of addresses.
    addresses: Vec<bool>,
    /// Whether a node is a sum that comparisons need to be the same in all kernels.
    compared: Vec<bool>,
    /// By node: a number that is the same for an update and everything that may be the same memory.
    storage: Vec<usize>,
    /// By storage: what is known of the values that are written to it.
    hazards: FxHashMap<usize, Hazards>,
    /// By node: the kernels that wait for it and do not read it.
    waiting: FxHashMap<usize, Vec<usize>>,
    /// By node: the updates that start from it.
    overwritten: Vec<Users>,
    /// By node: how many products are tiled to compute it.
    pub(super) all_tiles: Vec<usize>,
    /// A node's distinct sources, by its position.
    pub(super) below: Vec<SmallVec<[Below; 3]>>,
    /// By node: the sums of which it is the epilogue.
    epilogues: Vec<SmallVec<[usize; 1]>>,
    /// Whether a node's value is only ever summed, as it is or padded with zeros. A sum there becomes part of those
    /// sums.
    only_summed: Vec<bool>,
    /// The number of each demand, found by its node and its content.
    pub(super) seen: FxHashMap<(usize, usize, Index, UOp), usize>,
}

impl Planner<'_> {
    fn run(&mut self) {
        self.estimate_work();
        self.all_tiles = self.all_tiles();
        for &r in &self.plan.roots {
            self.is_root[r] =
                !matches!(self.plan.nodes[r].op(), Op::Param) && self.plan.nodes[r].numel() > 0;
        }
        for i in (0..self.plan.nodes.len()).rev() {
            self.place(i);
        }
    }

    fn estimate_work(&mut self) {
        let sources: Vec<SmallVec<[usize; 3]>> =
            self.plan.nodes.iter().map(|n| self.distinct(n)).collect();
        self.epilogues = epilogues(&self.plan.nodes, &sources, &self.plan.roots);
        let mut cones = Cones::new(sources.iter().map(|own| &own[..]));
        let mut known: Vec<Below> = Vec::with_capacity(self.plan.nodes.len());
        for (i, node) in self.plan.nodes.iter().enumerate() {
            let costs = &self.costs;
            let mut below: SmallVec<[Below; 3]> = sources[i].iter().map(|&s| known[s]).collect();
            // a view costs no more than the elements that are viewed
            let viewed = if node.op().is_movement() { below[0].numel } else { f64::INFINITY };
            let (numel, read) = (node.numel() as f64, cost::memory(costs, node.dtype()));
            let of =
                |work: f64| Below { work: work.min(costs.most_ns), numel: viewed.min(numel), read };
            let own = cost::own(costs, node);
            let all = if cost::is_elementwise(node) {
                let work = cones.push(own, &sources[i]);
                cost::divide(&mut below, work - own);
                of(work)
            } else {
                let all = of(own + cost::elsewhere(costs, node, &below));
                cones.push(all.demanded(costs, numel) / numel.max(1.0), &[]);
                all
            };
            known.push(all);
            self.below[i] = below;
        }
    }

    /// The positions of a node's sources, each once.
    fn distinct(&self, node: &UOp) -> SmallVec<[usize; 3]> {
        let mut distinct = SmallVec::new();
        for source in node.srcs().iter().map(|s| self.plan.position[s]) {
            if !distinct.contains(&source) {
                distinct.push(source);
            }
        }
        distinct
    }

    fn place(&mut self, i: usize) {
        let needed = self.is_root[i] || self.forced[i] || !self.plan.requests[i].is_empty();
        if !needed {
            return;
        }
        let node = self.plan.nodes[i].clone();
        if matches!(node.op(), Op::Param) {
            return;
        }
        if node.op() == Op::Update {
            self.store_update(i);
        } else if self.must_store(i) {
            self.store(i);
        } else {
            for r in 0..self.plan.requests[i].len() {
                self.note_tiles(i, r);
                self.demand_sources(i, r);
            }
        }
    }

    /// Whether a node is stored. Roots and `contiguous` are. A kernel that is full takes nothing in. For the rest the
    /// cost model decides.
    fn must_store(&mut self, i: usize) -> bool {
        let node = self.plan.nodes[i].clone();
        if self.is_root[i] || self.forced[i] || node.op() == Op::Contiguous {
            return true;
        }
        if self.compared[i] && self.plan.requests[i].len() > 1 {
            return true;
        }
        if node.op().is_movement() {
            return self.must_store_view(i);
        }
        // what costs nothing is never stored
        if node.srcs().is_empty() || node.op() == Op::Remat {
            return false;
        }
        if self.overfull(i) {
            observe::decision(|| Decision {
                about: self.about(i),
                node: Some(node.clone()),
                alternatives: vec![("memory".into(), None)],
                unit: "us",
                chosen: 0,
                note: "the kernel that uses it is full".to_string(),
            });
            return true;
        }
        if self.addresses[i] {
            return false;
        }
        let price = self.price(i);
        // the only kernel that needs it would also be the one that stores it
        let for_nobody = || self.plan.requests[i].len() == 1 && self.joinable(i).is_some();
        let for_nobody = !price.inline_wins() && for_nobody();
        if self.plan.requests[i].len() > 1 || node.op() == Op::Reduce {
            observe::decision(|| {
                let decision = price.decision(self.about(i), &node);
                let note = "only the kernel that would store it needs it".to_owned();
                if for_nobody { Decision { chosen: 0, note, ..decision } } else { decision }
            });
        }
        self.choices.choose(!price.inline_wins() && !for_nobody)
    }

    /// Whether a view is stored. If it is not, its source may be.
    fn must_store_view(&mut self, i: usize) -> bool {
        let price = self.price_of_view(i);
        if let Some(price) = &price {
            observe::decision(|| price.decision(self.about(i), &self.plan.nodes[i]));
        }
        let is_priced = self.plan.nodes[i].op() == Op::Reshape;
        is_priced && self.choices.choose(price.is_some_and(|price| !price.inline_wins()))
    }

    fn overfull(&self, i: usize) -> bool {
        let full = |r: &Request| self.plan.drafts[r.kernel].size > MAX_KERNEL_NODES;
        self.plan.requests[i].iter().any(full)
    }

    fn about(&self, i: usize) -> String {
        about(&self.plan.nodes[i])
    }

    fn price(&self, i: usize) -> Price {
        let uses: Vec<Use> = (0..self.plan.requests[i].len()).map(|r| self.usage(i, r)).collect();
        let sums: SmallVec<[Sum; 2]> = self.epilogues[i].iter().map(|&s| self.sum(s)).collect();
        let price = cost::price(&self.costs, &self.plan.nodes[i], &self.below[i], &sums, &uses);
        let matters = price.inline_wins() && !price.along().inline_wins();
        if matters && self.is_stored_along(i) { price.along() } else { price }
    }

    fn sum(&self, i: usize) -> Sum {
        let (node, numel) = (&self.plan.nodes[i], self.plan.nodes[i].numel() as f64);
        Sum {
            computed: cost::compute(&self.costs, node, &self.below[i], numel),
            read: numel * cost::memory(&self.costs, node.dtype()),
        }
    }

    /// Whether a kernel that runs anyway, and before all others that need the node, can store it. Example: an LSTM's cell `c`,
    /// beside `o * tanh(c)`, which the next cell waits for. If the others do not wait for it, they may become one kernel with
    /// it while they compute the node themselves.
    ///
    /// The kernel has no reduction. A mean that is stored beside a variance keeps rows from being vectors.
    fn is_stored_along(&self, i: usize) -> bool {
        let Some((kernel, _)) = self.joinable(i) else { return false };
        if !cost::is_elementwise(&self.plan.nodes[i]) || self.has_reductions(kernel) {
            return false;
        }
        let ends = FxHashSet::from_iter([kernel]);
        let users = self.plan.requests[i].iter().map(|r| r.kernel);
        users.filter(|&user| user != kernel).all(|user| self.waits_for(user, &ends, NEAR))
    }

    fn usage(&self, i: usize, r: usize) -> Use {
        let request = &self.plan.requests[i][r];
        let (axes, depth) = depth(request);
        let size = |r: &UOp| r.max() as f64 + 1.0;
        let outer = self.plan.drafts[request.kernel].loops.len();
        // threads can only share the loops, from the outside in, that the value depends on
        let shared = request.nest.iter().take(outer).take_while(|r| axes.contains(axis_of(r)));
        let parallel: f64 = shared.map(size).product();
        let serializes = parallel < 2.0 && self.is_long(i);
        Use {
            evaluations: request.nest[..depth].iter().map(size).product(),
            parallel,
            serialized: if serializes { self.work_of_outputs(request.kernel) } else { 0.0 },
            in_reduce: depth > outer,
            in_order: self.plan.drafts[request.kernel].in_order,
            in_sum: depth > outer && self.only_summed[i],
            beside: (depth <= outer).then(|| self.beside(i, r, request.kernel)).flatten(),
            apart: depth <= outer && self.is_apart(i, request.kernel),
            divided: depth <= outer && self.is_divided(i, r),
        }
    }

    /// The time to compute what a kernel stores: values, and the sums of which they are epilogues.
    fn work_of_outputs(&self, kernel: usize) -> f64 {
        let outputs = self.plan.drafts[kernel].outputs.iter();
        let computed = outputs.flat_map(|i| self.epilogues[*i].iter().chain([i]));
        computed.map(|&i| self.sum(i).computed).sum()
    }

    /// Stores the node: in a kernel that needs exactly its elements, or in a new kernel.
    fn store(&mut self, i: usize) {
        let (kernel, request) = match self.joinable(i) {
            Some(found) => found,
            None => self.open_kernel(i),
        };
        self.plan.drafts[kernel].outputs.push(i);
        self.plan.placement[i] = Placement::Stored { kernel, request };
        self.note_readers(i, kernel);
        self.note_tiles(i, request);
        self.demand_sources(i, request);
    }

    /// The kernel runs after those that compute the other sources of a `Remat`.
    pub(super) fn wait_for(&mut self, remat: &UOp, kernel: usize) {
        for other in remat.srcs()[1..].iter().filter_map(in_memory) {
            let position = self.plan.position[other];
            if self.plan.drafts[kernel].after.insert(position) {
                self.waiting.entry(position).or_default().push(kernel);
            }
            self.plan.drafts[kernel].reads.insert(position);
        }
    }

    /// Every other kernel that needs the stored node runs after its kernel.
    fn note_readers(&mut self, i: usize, kernel: usize) {
        let askers: Vec<usize> = self.plan.requests[i].iter().map(|r| r.kernel).collect();
        for k in askers {
            if k != kernel {
                self.plan.drafts[k].reads.insert(i);
            }
        }
    }

    /// Stores an update in a kernel whose loops run over the written elements, not over the whole storage.
    fn store_update(&mut self, i: usize) {
        let node = self.plan.nodes[i].clone();
        let (base, value, at) = (node.src(0), node.src(1), node.src(2));
        let storage = self.storage[i];
        for x in [value, at] {
            let (position, storages) = (&self.plan.position, &self.storage);
            let versions = |n: &UOp| storages[position[n]] == storage;
            let hazards = self.hazards.entry(storage).or_default();
            for first in hazards.needed_before(x, base, at, versions, self.choices) {
                self.forced[self.plan.position[&first]] = true;
            }
        }
        let held = self.plan.position[same_memory(base)];
        self.forced[held] = true;
        let next = self.next_update(i);
        let (kernel, index, loops) = match next {
            Some(kernel) => self.new_nest(kernel, at.shape()),
            None => self.new_draft(at.shape()),
        };
        let draft = &mut self.plan.drafts[kernel];
        draft.updates = true;
        draft.in_order |= !region::is_one_to_one(at, node.numel());
        draft.reads.insert(held);
        if next.is_none() {
            draft.outputs.push(i);
        }
        let request = self.plan.requests[i].len();
        self.plan.requests[i].push(Request::new(kernel, index, UOp::bool(true), loops));
        self.plan.placement[i] = Placement::Stored { kernel, request };
        self.note_readers(i, kernel);
        self.demand_written(i, request);
    }

    /// The kernel of the update that overwrites this one, if nothing else reads the version in between: a run of small
    /// writes is one kernel.
    fn next_update(&self, i: usize) -> Option<usize> {
        let Users::One(next) = self.overwritten[i] else { return None };
        let Placement::Stored { kernel, .. } = self.plan.placement[next] else { return None };
        let (this, that) = (&self.plan.nodes[i], &self.plan.nodes[next]);
        let alike = this.dtype() == that.dtype() && this.numel() == that.numel();
        let small = |u: &UOp| u.src(2).numel() <= SMALL_WRITE;
        let room = self.plan.drafts[kernel].size <= MAX_KERNEL_NODES / 2;
        let unseen = self.plan.requests[i].is_empty() && !self.is_root[i];
        (alike && room && unseen && self.choices.choose(small(this) && small(that)))
            .then_some(kernel)
    }

    /// The kernel that can store the node along the way: it needs the node at its own output index only, and does not
    /// wait for another kernel that needs the node too.
    fn joinable(&self, i: usize) -> Option<(usize, usize)> {
        let requests = &self.plan.requests[i];
        let fits = |r: &Request| {
            let draft = &self.plan.drafts[r.kernel];
            !draft.updates
                && visits(&draft.loops, &r.index)
                && r.gate.is_const(1)
                && covers(&r.index, self.plan.nodes[i].shape())
        };
        let alone = |k: usize| requests.iter().filter(|r| r.kernel == k).count() == 1;
        requests.iter().enumerate().find_map(|(n, r)| {
            let room = self.plan.drafts[r.kernel].size <= MAX_KERNEL_NODES
                && self.has_room_for_tiles(i, r.kernel);
            let apart = self.is_apart(i, r.kernel) || self.is_slowed(i, n, r.kernel);
            let suits = room && fits(r) && alone(r.kernel) && !apart;
            (suits && !self.waits_for_other_user(i, r.kernel)).then_some((r.kernel, n))
        })
    }

    /// Whether a kernel has more loops than those over its outputs.
    fn has_reductions(&self, kernel: usize) -> bool {
        let draft = &self.plan.drafts[kernel];
        let axes = |&output: &usize| self.plan.nodes[output].shape().len();
        draft.outputs.first().map(axes) != Some(draft.next_axis as usize)
    }

    /// Whether `kernel` reads, directly or not, what another user of node `i` computes.
    fn waits_for_other_user(&self, i: usize, kernel: usize) -> bool {
        let waiting = self.waiting.get(&i).into_iter().flatten().copied();
        let users = self.plan.requests[i].iter().map(|r| r.kernel).chain(waiting);
        let mut others: FxHashSet<usize> = users.filter(|&k| k != kernel).collect();
        // an update does not read what it overwrites; it finds that in memory
        match self.overwritten[i] {
            Users::None => {}
            Users::One(update) => match self.plan.placement[update] {
                Placement::Stored { kernel, .. } => _ = others.insert(kernel),
                Placement::Inline => {}
            },
            Users::Several => return true,
        }
        !others.is_empty() && self.waits_for(kernel, &others, usize::MAX)
    }

    /// Whether `kernel` reads, directly or through at most so many kernels, what one of `others` computes.
    fn waits_for(&self, kernel: usize, others: &FxHashSet<usize>, most: usize) -> bool {
        let (mut stack, mut seen) = (vec![kernel], FxHashSet::default());
        while let Some(k) = stack.pop() {
            if seen.len() > most {
                break;
            }
            for &read in &self.plan.drafts[k].reads {
                let Placement::Stored { kernel: source, .. } = self.plan.placement[read] else {
                    continue;
                };
                if others.contains(&source) {
                    return true;
                }
                if seen.insert(source) {
                    stack.push(source);
                }
            }
        }
        false
    }

    fn open_kernel(&mut self, i: usize) -> (usize, usize) {
        let shape = self.plan.nodes[i].shape().clone();
        let (kernel, identity, loops) = self.new_draft(&shape);
        (kernel, self.demand(i, kernel, identity, UOp::bool(true), loops))
    }

    /// Adds loops over `shape` to a kernel, beside those that it has.
    fn new_nest(&mut self, kernel: usize, shape: &[usize]) -> (usize, Index, Rc<[UOp]>) {
        let first = self.plan.drafts[kernel].next_axis;
        self.plan.drafts[kernel].next_axis += shape.len() as u32;
        let (identity, loops) = nest(shape, first);
        (kernel, identity, loops)
    }

    /// A new kernel with a loop for every axis of `shape`; its number, the index that the loops make, and the loops.
    fn new_draft(&mut self, shape: &[usize]) -> (usize, Index, Rc<[UOp]>) {
        let (identity, loops) = nest(shape, 0);
        let kernel = self.plan.drafts.len();
        self.plan.drafts.push(Draft {
            loops: loops.clone(),
            outputs: Vec::new(),
            updates: false,
            in_order: false,
            next_axis: shape.len() as u32,
            size: 0,
            tiles: 0,
            tiled: Vec::new(),
            reads: FxHashSet::default(),
            after: BTreeSet::new(),
        });
        (kernel, identity, loops)
    }
}

/// The axes that a demand depends on, and how many of the loops around it are around what it computes: all down to the
/// deepest of those axes.
pub(super) fn depth(request: &Request) -> (AxisSet, usize) {
    let mut axes = AxisSet::default();
    for x in request.index.iter().chain([&request.gate]) {
        axes.union_with(x.scope());
    }
    let depth = request.nest.iter().rposition(|r| axes.contains(axis_of(r))).map_or(0, |d| d + 1);
    (axes, depth)
}

/// A loop for every axis that is longer than 1: the index that they make, and the loops.
fn nest(shape: &[usize], first: u32) -> (Index, Rc<[UOp]>) {
    let axis = |(a, &n): (usize, &usize)| match n {
        1 => UOp::index(0),
        n => UOp::range(first + a as u32, RangeKind::Loop, n),
    };
    let identity: Index = shape.iter().enumerate().map(axis).collect();
    let loops = identity.iter().filter(|r| r.op() == Op::Range).cloned().collect();
    (identity, loops)
}

/// The node below views that must be stored, so that a value is in memory. None if it costs nothing or is there already.
fn in_memory(value: &UOp) -> Option<&UOp> {
    let mut node = value;
    while node.op().is_movement() || node.op() == Op::Remat {
        node = node.src(0);
    }
    let is_there = matches!(node.op(), Op::Param | Op::Const | Op::Iota | Op::Var);
    (!is_there && node.numel() > 0).then_some(node)
}

/// Whether each node is stored because a `Remat` has it as a source.
fn rematerialized(nodes: &[UOp], position: &FxHashMap<UOp, usize>) -> Vec<bool> {
    let mut forced = vec![false; nodes.len()];
    for remat in nodes.iter().filter(|n| n.op() == Op::Remat) {
        remat.srcs().iter().filter_map(in_memory).for_each(|n| forced[position[n]] = true);
    }
    forced
}

/// The updates that overwrite a node's memory.
#[derive(Clone, Copy)]
enum Users {
    None,
    One(usize),
    Several,
}

fn overwritten(nodes: &[UOp], position: &FxHashMap<UOp, usize>) -> Vec<Users> {
    let mut users = vec![Users::None; nodes.len()];
    for (i, node) in nodes.iter().enumerate().filter(|(_, n)| n.op() == Op::Update) {
        let base = &mut users[position[same_memory(node.src(0))]];
        *base = match base {
            Users::None => Users::One(i),
            Users::One(_) | Users::Several => Users::Several,
        };
    }
    users
}

/// The positions of the roots. A root that is a view of a whole update is that update, if no other root is.
fn roots_in_memory(roots: &[UOp], position: &FxHashMap<UOp, usize>) -> Vec<usize> {
    let mut times: FxHashMap<&UOp, usize> = FxHashMap::default();
    roots.iter().collect::<FxHashSet<_>>().into_iter().for_each(|r| {
        *times.entry(same_memory(r)).or_default() += 1;
    });
    let place = |r: &UOp| {
        let memory = same_memory(r);
        let shown = memory.op() == Op::Update && times[memory] == 1;
        position[if shown { memory } else { r }]
    };
    roots.iter().map(place).collect()
}

/// By node, the number of the memory that it may be in: an update has the number of its base.
fn storages(nodes: &[UOp], position: &FxHashMap<UOp, usize>) -> Vec<usize> {
    let mut storage: Vec<usize> = (0..nodes.len()).collect();
    for (i, node) in nodes.iter().enumerate() {
        if node.op() == Op::Update {
            storage[i] = storage[position[same_memory(node.src(0))]];
        }
    }
    storage
}

/// For each node, whether all its users are sums, or views of it that are only summed.
fn only_summed(nodes: &[UOp], position: &FxHashMap<UOp, usize>) -> Vec<bool> {
    let mut summed = vec![true; nodes.len()];
    for (i, node) in nodes.iter().enumerate().rev() {
        let is_sum = node.op() == Op::Reduce && node.arg().reduce_op() == Some(ReduceOp::Add);
        let sums = is_sum || node.op().is_movement() && summed[i];
        if !sums {
            node.srcs().iter().for_each(|s| summed[position[s]] = false);
        }
    }
    summed
}

/// Whether an index is made of all the loops, each alone, in order: every element once, as the kernel's own outputs.
fn visits(loops: &[UOp], index: &Index) -> bool {
    let moving = index.iter().filter(|i| !i.is_const(0));
    moving.eq(loops)
}

/// Whether the loops of `index` visit every element of `shape`.
fn covers(index: &Index, shape: &[usize]) -> bool {
    index.len() == shape.len() && index.iter().zip(shape).all(|(i, &n)| i.max() + 1 == n as i64)
}
