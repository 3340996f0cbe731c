//! Computes nodes into leaves, in five steps: plan, claim, allocate, launch, commit.
//!
//! A short lock covers planning and binding: a thread looks for values that exist, claims the others, and takes
//! buffers. Scheduling, compiling and launching happen outside of it. An error before the first launch changes nothing.
//! After it, every value that was being overwritten becomes an error.

use super::bind::{self, Bound};
use super::cache::{self, Ready, ReadyKernel};
use super::capture::{Closed, Whole};
use super::crossing::{Crossing, cross};
use super::device::{self, Opened};
use super::file::{self, Pinned};
use super::history::has_gradient;
use super::launch::Launches;
use super::leaf::{self, Slot, Value};
use super::novel::Signature;
use super::parallel::in_parallel;
use super::partition::partition;
use super::planning::planning;
use super::record;
use super::sharded::Sharded;
use super::walk::Busy;
use super::walked::Walked;
use super::{Failure, Few, checks, debug, ready};
use crate::device::Device;
use kiln_compile::schedule::BufferRef;
use kiln_ir::uop::touch;
use kiln_ir::{Const, Op, UOp};
use rustc_hash::FxHashSet;
use std::ops::Range;
use std::sync::Arc;

/// Computes the nodes and gives the leaf of each. `last` are the ids of those that no gradient will go through.
pub(crate) fn realize(nodes: &[UOp], last: &[usize], device: &Device) -> Result<Few<UOp>, Failure> {
    realize_into(nodes, last, device, None)
}

/// Computes nodes on their devices, which compute at the same time, and gives the leaf of each.
pub(crate) fn realize_all(
    nodes: &[UOp],
    devices: &[&Device],
    last: &[usize],
) -> Result<Few<UOp>, Failure> {
    let Some(&first) = devices.first() else { return Ok(Few::new()) };
    if devices.iter().all(|&device| device == first) {
        return realize(nodes, last, first);
    }
    record::spoil("it computes on several devices");
    let groups = by_device(nodes, devices);
    cross_before(&groups)?;
    let computed = in_parallel(&groups, |group| realize(&group.nodes, last, group.device))?;
    let mut leaves: Vec<Option<UOp>> = vec![None; nodes.len()];
    for (group, computed) in groups.iter().zip(computed) {
        group.places.iter().zip(computed).for_each(|(&at, leaf)| leaves[at] = Some(leaf));
    }
    Ok(leaves.into_iter().map(|leaf| leaf.expect("each is in one group")).collect())
}

/// What one device computes of some nodes.
struct Group<'a> {
    device: &'a Device,
    nodes: Vec<UOp>,
    /// By node: where it stands among all.
    places: Vec<usize>,
}

fn by_device<'a>(nodes: &[UOp], devices: &[&'a Device]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (at, (node, &device)) in nodes.iter().zip(devices).enumerate() {
        let own = groups.iter().position(|group| group.device == device).unwrap_or(groups.len());
        if own == groups.len() {
            groups.push(Group { device, nodes: Vec::new(), places: Vec::new() });
        }
        groups[own].nodes.push(node.clone());
        groups[own].places.push(at);
    }
    groups
}

/// Makes all copies that the groups need, before any of them computes. If each group made its own on the way, which part
/// of a graph is computed for a copy and which for the device itself would depend on who is first, and with it the order
/// of sums.
fn cross_before(groups: &[Group<'_>]) -> Result<(), Failure> {
    let (mut copies, mut known) = (Vec::new(), FxHashSet::default());
    for group in groups {
        copies.extend(lacking_copies(&group.nodes, group.device));
    }
    copies.retain(|crossing| known.insert(crossing.copy_id()));
    cross(copies, &|nodes, device| realize(nodes, &[], device))
}

/// The copies that nodes need and that are not made.
fn lacking_copies(nodes: &[UOp], device: &Device) -> Vec<Crossing> {
    loop {
        let copies = {
            let planning = planning();
            Walked::from(nodes, false, device, &planning).map(|walked| walked.crossings())
        };
        match copies {
            Ok(copies) => return copies,
            Err(Busy(other)) => other.wait(),
        }
    }
}

/// Captures what a walk has found.
fn close(walked: Walked, device: &Device) -> Result<Closed, Busy> {
    let upload = |values: &[Const], dtype, shape| {
        let table = leaf::table(values, dtype, shape, device).ok()?;
        record::made(&table);
        Some(table)
    };
    Closed::of(walked, &upload)
}

/// Computes a version into its file, and returns the leaf of the file's new content.
pub(crate) fn write(pinned: &Pinned, device: &Device) -> Result<UOp, Failure> {
    let version = std::slice::from_ref(&pinned.version);
    let leaf = realize_into(version, &[], device, Some(pinned))?.remove(0);
    if pinned.is_there(&leaf) {
        return Ok(leaf);
    }
    // it was computed before, for another reader
    let (opened, new) = (device::open(device)?, leaf::buffer(&leaf)?);
    let _access = file::writing();
    if pinned.is_old_there() {
        pinned.keep_old(opened.backend.as_ref())?;
    }
    let whole = 0..new.len();
    pinned.memory.reserve(whole.clone()).map_err(|e| e.to_string())?;
    file::bring(&pinned.memory, Some(&new), &whole)?;
    Ok(pinned.leaf(device))
}

fn realize_into(
    nodes: &[UOp],
    last: &[usize],
    device: &Device,
    pinned: Option<&Pinned>,
) -> Result<Few<UOp>, Failure> {
    if let Some(devices) = device.members() {
        return realize_sharded(nodes, last, device, &devices);
    }
    loop {
        // held from here on: some nodes refer to their leaf without holding it
        let mut found: Few<Option<UOp>> = nodes.iter().map(leaf::of).collect();
        let lacks = |(node, leaf): (&UOp, &Option<UOp>)| leaf.is_none().then(|| node.clone());
        let missing: Few<UOp> = nodes.iter().zip(&found).filter_map(lacks).collect();
        if missing.is_empty() {
            return checks::sound(found.into_iter().flatten().collect());
        }
        match claim(&missing, device) {
            Ok((closed, known, promise)) => {
                drop(missing);
                let computed = compute(&closed, known, promise, last, device, pinned)?;
                let lacking = found.iter_mut().filter(|leaf| leaf.is_none());
                lacking.zip(computed).for_each(|(lacking, leaf)| *lacking = Some(leaf));
                let leaf = |leaf: Option<UOp>| leaf.expect("computed above");
                return checks::sound(found.into_iter().map(leaf).collect());
            }
            Err(Blocked::Busy(Busy(other))) => other.wait(),
            Err(Blocked::Crossings(copies)) => {
                record::spoil("it copies from another device");
                // what is computed for the copies may donate memory that only this graph holds
                drop(missing);
                cross(copies, &|nodes, device| realize(nodes, &[], device))?;
            }
        }
    }
}

/// Computes values of a set of devices: each device its parts.
fn realize_sharded(
    nodes: &[UOp],
    last: &[usize],
    set: &Device,
    devices: &[Device],
) -> Result<Few<UOp>, Failure> {
    record::spoil("it computes on several devices");
    let missing: Vec<UOp> = nodes.iter().filter(|n| leaf::of(n).is_none()).cloned().collect();
    let values = partition(&missing, devices);
    let parts: Vec<UOp> = values.iter().flat_map(|v| v.parts.iter().cloned()).collect();
    let places: Vec<&Device> = values.iter().flat_map(|_| devices).collect();
    let ends = missing.iter().zip(&values).filter(|(node, _)| last.contains(&node.id()));
    let ends: Vec<usize> = ends.flat_map(|(_, v)| v.parts.iter().map(UOp::id)).collect();
    let mut leaves = realize_all(&parts, &places, &ends)?.into_iter();
    for (node, value) in missing.iter().zip(values) {
        let parts: Vec<UOp> = leaves.by_ref().take(devices.len()).collect();
        let sharded = Sharded { parts, split: value.split };
        let leaf = leaf::sharded(sharded, node.dtype(), node.shape().clone(), set);
        let differentiable = has_gradient(node, None);
        leaf::set_computed(node, Value { leaf, differentiable, shares: false });
    }
    Ok(nodes.iter().map(|node| leaf::of(node).expect("computed above")).collect())
}

/// Why a graph cannot be computed yet.
enum Blocked {
    Busy(Busy),
    /// Values of other devices must be copied first.
    Crossings(Vec<Crossing>),
}

/// The roots that remember their own leaf. Other threads may wait for them. Equal fillers (constants, `arange`) are one node in
/// all programs. A program that asks for a filler has the leaf itself, so only fillers that are stored `beside` remember theirs.
fn promised(closed: &Closed, beside: Range<usize>) -> Few<Option<Promised>> {
    let root = |(root, &at): (usize, &usize)| {
        let (node, is_filler) = (closed.node(at), closed.is_filler(at));
        let is_asked = is_filler && !beside.contains(&root);
        let own = node.op() != Op::Buffer && !closed.is_computed(at) && !is_asked;
        let differentiable = closed.is_differentiable(at);
        own.then(|| Promised { node: node.clone(), differentiable, is_filler, value: None })
    };
    closed.roots.iter().enumerate().map(root).collect()
}

/// What is known of a captured graph's schedule.
struct Known {
    signature: Signature,
    ready: Option<Arc<Ready>>,
    /// What the graph was while its composites were whole, if they had to be written out.
    whole: Option<Box<Whole>>,
}

impl Known {
    /// If a graph has whole composites and no schedule is known for it, it is captured again.
    fn of(
        signature: Signature,
        closed: &mut Closed,
        device: &Device,
        write_out: impl FnOnce() -> Result<Closed, Busy>,
    ) -> Result<Known, Busy> {
        let mut known = Known { signature, ready: None, whole: None };
        if !closed.has_whole {
            return Ok(known);
        }
        known.ready = ready::found(closed, device);
        if known.ready.is_none() {
            known.whole = Some(Box::new(Whole::of(closed)));
            // its references to nodes must not count in the next one
            *closed = Closed::default();
            *closed = write_out()?;
        }
        Ok(known)
    }

    /// The graph's schedule, which is remembered by the key of the graph with whole composites too.
    fn ready(
        self,
        closed: &Closed,
        device: &Device,
        opened: &Opened,
    ) -> Result<Arc<Ready>, Failure> {
        if let Some(ready) = self.ready {
            return Ok(ready);
        }
        let (ready, is_new) = ready::ready(closed, device, opened)?;
        self.signature.note(is_new);
        if let Some(whole) = self.whole.filter(|whole| whole.is(closed)) {
            cache::keep_as(whole.key, device, &ready);
        }
        Ok(ready)
    }
}

/// Captures the graph and claims its roots.
fn claim(nodes: &[UOp], device: &Device) -> Result<(Closed, Known, Promise), Blocked> {
    let planning = planning();
    let signature = Signature::of(nodes);
    let mut walked =
        Walked::from(nodes, signature.is_novel(), device, &planning).map_err(Blocked::Busy)?;
    let crossings = walked.crossings();
    if !crossings.is_empty() {
        return Err(Blocked::Crossings(crossings));
    }
    let also = walked.store_also();
    let mut closed = close(walked, device).map_err(Blocked::Busy)?;
    let write_out = || {
        let walked = Walked::from(&[nodes, &also].concat(), true, device, &planning)?;
        close(walked, device)
    };
    let known = Known::of(signature, &mut closed, device, write_out).map_err(Blocked::Busy)?;
    // equal nodes are one root
    let beside = closed.asked()[..nodes.len()].iter().max().map_or(0, |last| last + 1);
    let roots = promised(&closed, beside..beside + also.len());
    let promise = Promise { roots, pending: Slot::pending() };
    for root in promise.roots.iter().flatten() {
        leaf::set_slot(&root.node, Some(promise.pending.clone()));
    }
    Ok((closed, known, promise))
}

/// Roots that this thread has claimed. However the computation ends, no other thread waits for ever.
struct Promise {
    /// By root of the graph; none if no thread may wait for it.
    roots: Few<Option<Promised>>,
    pending: Arc<Slot>,
}

/// A root that is claimed.
struct Promised {
    node: UOp,
    /// Whether a gradient could go through it.
    differentiable: bool,
    is_filler: bool,
    /// The payload that it will get.
    value: Option<Arc<Slot>>,
}

impl Promise {
    /// Notes the leaves that the roots will be computed into, and whether a root shares its leaf.
    fn prepare(&mut self, leaves: &[UOp], shares: impl Fn(usize) -> bool) {
        for (root, (promised, leaf)) in self.roots.iter_mut().zip(leaves).enumerate() {
            if let Some(Promised { differentiable, is_filler, value, .. }) = promised {
                let (leaf, differentiable) = (leaf.clone(), *differentiable);
                let new = Value { leaf, differentiable, shares: shares(root) };
                let slot = if *is_filler { Slot::Filler } else { Slot::Computed };
                *value = Some(Arc::new(slot(new)));
            }
        }
    }

    /// They have been computed.
    fn keep(mut self) {
        for Promised { node, value, .. } in self.roots.drain(..).flatten() {
            leaf::set_slot(&node, value);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        for Promised { node, .. } in self.roots.iter().flatten() {
            if leaf::slot(node).is_some_and(|slot| slot.is_pending()) {
                leaf::set_slot(node, None);
            }
        }
        self.pending.open();
    }
}

/// Computes a graph, and gives the leaf of each node that was asked for.
fn compute(
    closed: &Closed,
    known: Known,
    mut promise: Promise,
    last: &[usize],
    device: &Device,
    pinned: Option<&Pinned>,
) -> Result<Few<UOp>, Failure> {
    checks::inputs(closed)?;
    let opened = device::open(device)?;
    let ready = known.ready(closed, device, &opened)?;
    let scalars = ready.scalars(closed.constants());
    record::begins(closed);
    let bound = {
        let _planning = planning();
        bind::bind(closed, &ready, &opened, last, pinned)?
    };
    // what follows the launches is prepared before them as well: see `launch`
    let computing = Computing { closed, ready: &ready, opened: &opened, device };
    let leaves = computing.leaves(&bound);
    promise.prepare(&leaves, |root| computing.shares(&bound, root));
    computing.launch(bound, &scalars)?;
    let checked = checks::outputs(closed, &leaves);
    promise.keep();
    checked?;
    match pinned {
        Some(_) => record::spoil("it writes to a file"),
        None => record::computed(closed, &leaves, device),
    }
    Ok(closed.asked().iter().map(|&root| leaves[root].clone()).collect())
}

/// A graph with its schedule, on its device.
pub(super) struct Computing<'a> {
    pub(super) closed: &'a Closed,
    pub(super) ready: &'a Ready,
    pub(super) opened: &'a Opened,
    pub(super) device: &'a Device,
}

impl Computing<'_> {
    /// Launches the kernels. If one fails, what they were overwriting is lost.
    pub(super) fn launch(&self, mut bound: Bound, scalars: &[i64]) -> Result<(), Failure> {
        let (ready, device) = (self.ready, self.device);
        let launches = Launches::new(ready, &bound, scalars);
        let launched = launches.is_ok();
        let done = launches.and_then(|launches| launches.run(device, self.opened));
        debug::warnings();
        let done = done.and_then(|()| bound.write_back().map_err(|why| (ready.kernels.len(), why)));
        touch(self.closed.nodes());
        // without the planning lock: a thread that waits for this access may hold it
        bound.access = None;
        if let Err((step, why)) = done {
            let what = ready.kernels.get(step).map_or("the copy to the file", ReadyKernel::name);
            let why = format!("{what} on {device} failed: {why}");
            let _planning = planning();
            bound.donated.fail(ready, launched.then_some(step), &why);
            return Err(why);
        }
        bound.donated.spend();
        Ok(())
    }

    /// New leaves for the roots. A root that has a leaf's value unchanged shares that leaf.
    pub(super) fn leaves(&self, bound: &Bound) -> Few<UOp> {
        let Computing { closed, ready, device, .. } = self;
        let mut leaves: Few<UOp> = Few::with_capacity(ready.roots.len());
        for (root, ((dtype, shape), buffer)) in ready.roots.iter().zip(&bound.outputs).enumerate() {
            let new = || {
                let new = leaf::new(buffer.clone(), *dtype, shape.clone(), device);
                new.name_lengths_of(closed.node(closed.roots[root]));
                new
            };
            leaves.push(match ready.schedule.outputs[root] {
                _ if bound.is_file(root) => new(),
                BufferRef::Param(slot) => closed.leaf(slot).clone(),
                BufferRef::Output(first) if first < root => leaves[first].clone(),
                _ => new(),
            });
        }
        leaves
    }

    /// Whether a root shares a leaf that it is computed from.
    fn shares(&self, bound: &Bound, root: usize) -> bool {
        match self.ready.schedule.outputs[root] {
            _ if bound.is_file(root) => false,
            BufferRef::Param(_) => true,
            BufferRef::Output(first) => first < root && self.shares(bound, first),
            BufferRef::Temp(_) => false,
        }
    }
}
