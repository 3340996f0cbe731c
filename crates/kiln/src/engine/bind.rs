//! Chooses the memory of every argument of every kernel, and which old buffers are donated.
//!
//! A schedule never assumes that something happens in place. Here, under the planning lock, reference counts say
//! whether anybody can still need an old value. If nobody can, its buffer is donated to the new value.

use super::cache::Ready;
use super::capture::Closed;
use super::device::Opened;
use super::donated::{Donated, StandIn};
use super::file::{self, Access, Pinned};
use super::{Failure, leaf, testing};
use kiln_compile::schedule::BufferRef;
use kiln_ir::{Op, UOp};
use kiln_runtime::Buffer;
use rustc_hash::FxHashSet;
use std::ops::Range;

/// The memory of one run of a schedule.
pub(super) struct Bound {
    /// By parameter slot.
    inputs: Vec<Buffer>,
    /// By root.
    pub(super) outputs: Vec<Buffer>,
    arena: Buffer,
    /// The donated leaves.
    pub(super) donated: Donated,
    /// A lock on files: for reading, or for this launch alone. None if no file is involved.
    pub(super) access: Option<Access>,
    /// The root that is written to a file.
    pub(super) file: Option<FileRoot>,
}

/// A root that is written to a file.
pub(super) struct FileRoot {
    pub(super) root: usize,
    /// Its memory until then, if it is computed elsewhere.
    elsewhere: Option<Buffer>,
    /// The bytes that change.
    changed: Range<usize>,
}

impl Bound {
    /// The old value of a kernel that changes its first argument, if it is in other memory and must be copied first.
    pub(super) fn copied_first(
        &self,
        ready: &Ready,
        kernel: usize,
    ) -> Result<Option<Buffer>, Failure> {
        let plan = &ready.kernels[kernel].plan;
        let Some(base) = &plan.starts_from else { return Ok(None) };
        let (old, new) = (self.buffer(ready, base)?, self.buffer(ready, &plan.args[0])?);
        Ok((!old.overlaps(&new)).then_some(old))
    }

    /// Copies a computed value to its file.
    pub(super) fn write_back(&self) -> Result<(), Failure> {
        let Some(FileRoot { root, elsewhere, changed }) = &self.file else { return Ok(()) };
        file::bring(&self.outputs[*root], elsewhere.as_ref(), changed)
    }

    /// The buffer of an argument.
    pub(super) fn buffer(&self, ready: &Ready, which: &BufferRef) -> Result<Buffer, Failure> {
        match *which {
            BufferRef::Param(slot) => Ok(self.inputs[slot].clone()),
            BufferRef::Output(root) => match &self.file {
                Some(FileRoot { root: at, elsewhere: Some(elsewhere), .. }) if *at == root => {
                    Ok(elsewhere.clone())
                }
                Some(_) | None => Ok(self.outputs[root].clone()),
            },
            BufferRef::Temp(temp) => {
                let temp = &ready.schedule.temps[temp];
                let bytes = temp.len * temp.dtype.size();
                self.arena.view(temp.offset, bytes).map_err(|e| e.to_string())
            }
        }
    }
}

/// Chooses all buffers. `last` are the ids of roots that no gradient will go through.
pub(super) fn bind(
    closed: &Closed,
    ready: &Ready,
    opened: &Opened,
    last: &[usize],
    pinned: Option<&Pinned>,
) -> Result<Bound, Failure> {
    let is_file = |&at: &usize| leaf::buffer(&closed.nodes[at]).is_ok_and(|b| b.is_file());
    let access = match pinned {
        Some(_) => Some(file::writing()),
        None => closed.leaves.iter().any(is_file).then(file::reading),
    };
    let root = pinned.and_then(|p| closed.roots.iter().position(|&r| closed.nodes[r] == p.version));
    let pinned = pinned.zip(root);
    let reusable = reusable(closed, ready, last, pinned);
    let mut found = Released {
        closed,
        stand_ins: closed.stand_ins(),
        references: closed.references(),
        slots: Vec::new(),
        is_taken: vec![false; closed.leaves.len()],
    };
    // a failure must leave every leaf as it was: allocate first, donate afterwards
    let arena = alloc(opened, ready.schedule.arena_bytes, "temporaries")?;
    let inputs: Vec<Buffer> = closed
        .leaves
        .iter()
        .map(|&at| input(&closed.nodes[at], opened))
        .collect::<Result<_, _>>()?;
    let direct = pinned.filter(|&(p, root)| is_direct(closed, p, reusable[root]));
    let mut memory = |root: usize| match direct.filter(|&(_, at)| at == root) {
        Some((pinned, _)) => Ok(pinned.memory.clone()),
        None => match reusable[root].filter(|&slot| found.release(slot, root)) {
            Some(slot) => Ok(inputs[slot].clone()),
            None => alloc(opened, bytes_of(ready, root)?, origin(closed, root)),
        },
    };
    let mut outputs: Vec<Buffer> = Vec::with_capacity(ready.roots.len());
    for (root, place) in ready.schedule.outputs.iter().enumerate() {
        outputs.push(match *place {
            BufferRef::Param(slot) => inputs[slot].clone(),
            BufferRef::Output(first) if first < root => outputs[first].clone(),
            _ => memory(root)?,
        });
    }
    let file = pinned.map(|(pinned, root)| {
        let elsewhere = std::mem::replace(&mut outputs[root], pinned.memory.clone());
        let elsewhere = Some(elsewhere).filter(|b| !b.overlaps(&pinned.memory));
        FileRoot { root, elsewhere, changed: changed(closed, ready, pinned, root) }
    });
    if let (Some(file), Some((pinned, _))) = (&file, pinned) {
        pinned.memory.reserve(file.changed.clone()).map_err(|e| e.to_string())?;
    }
    let spent = match pinned {
        Some((pinned, root)) => overwritten(closed, pinned, root, opened)?,
        None => None,
    };
    let mut donated = found.take();
    if let Some((leaf, root, stand_ins)) = spent {
        donated.take(&leaf, root, stand_ins);
    }
    Ok(Bound { inputs, outputs, arena, donated, access, file })
}

/// The memory of a leaf, which must be the device's.
fn input(node: &UOp, opened: &Opened) -> Result<Buffer, Failure> {
    let buffer = leaf::buffer(node)?;
    match opened.backend.reaches(&buffer) {
        true => Ok(buffer),
        false => Err(format!("{node:?} is in another device's memory")),
    }
}

/// The method that made a root.
fn origin(closed: &Closed, root: usize) -> &'static str {
    closed.nodes[closed.roots[root]].origin().unwrap_or("values")
}

fn bytes_of(ready: &Ready, root: usize) -> Result<usize, Failure> {
    let (dtype, shape) = &ready.roots[root];
    leaf::bytes_of(*dtype, shape)
}

/// The bytes of a file that kernels change: those that they store, if they start from the file's content.
fn changed(closed: &Closed, ready: &Ready, pinned: &Pinned, root: usize) -> Range<usize> {
    let whole = 0..pinned.memory.len();
    let is_old = |slot: usize| closed.nodes[closed.leaves[slot]] == pinned.old;
    let mut all: Option<Range<usize>> = None;
    for kernel in &ready.kernels {
        if !kernel.plan.args.contains(&BufferRef::Output(root)) {
            continue;
        }
        let stored = match kernel.plan.starts_from {
            Some(BufferRef::Param(slot)) if is_old(slot) => &kernel.stored,
            Some(BufferRef::Output(of)) if of == root => &kernel.stored,
            _ => return whole,
        };
        all = Some(match all {
            Some(all) => all.start.min(stored.start)..all.end.max(stored.end),
            None => stored.clone(),
        });
    }
    all.map_or(whole.clone(), |all| all.start.min(whole.end)..all.end.min(whole.end))
}

/// Whether kernels may write a new version straight into its file: nothing reads the old one there, or only kernels
/// that may overwrite what they read.
fn is_direct(closed: &Closed, pinned: &Pinned, reusable: Option<usize>) -> bool {
    let is_old = |&at: &usize| closed.nodes[at] == pinned.old;
    match closed.leaves.iter().position(is_old) {
        Some(slot) => reusable == Some(slot) || !pinned.is_old_there(),
        None => true,
    }
}

/// The old version of a file and its stand-ins, if nothing needs it any more. Otherwise it is copied to memory.
fn overwritten(
    closed: &Closed,
    pinned: &Pinned,
    root: usize,
    opened: &Opened,
) -> Result<Option<(UOp, usize, Vec<StandIn>)>, Failure> {
    if !pinned.is_old_there() {
        return Ok(None);
    }
    let at = closed.nodes.iter().position(|n| *n == pinned.old);
    let stand_ins: Vec<StandIn> = (0..closed.nodes.len())
        .filter(|&i| closed.is_computed(i) && Some(closed.sources(i)[0]) == at)
        .map(|i| StandIn::of(closed, i))
        .collect();
    stand_ins.iter().for_each(StandIn::forget);
    let inside = at.map_or(0, |at| closed.references()[at]);
    let held = pinned.old.ref_count() > inside + pinned.own;
    if !held && !at.is_some_and(|at| wanted(closed, &[], Some(at))[at]) {
        return Ok(Some((pinned.old.clone(), root, stand_ins)));
    }
    stand_ins.iter().for_each(|n| n.remember(&pinned.old));
    testing::step()?;
    pinned.keep_old(opened.backend.as_ref())?;
    Ok(None)
}

/// Leaves that will be donated, unless something fails before that.
struct Released<'a> {
    closed: &'a Closed,
    /// By parameter slot: the computed nodes that refer to the leaf.
    stand_ins: Vec<Vec<usize>>,
    /// By node: how many references the walk itself holds.
    references: Vec<usize>,
    /// The donated slots, and the roots that get their buffers.
    slots: Vec<(usize, usize)>,
    /// By slot: whether it is donated.
    is_taken: Vec<bool>,
}

impl Released<'_> {
    /// Cuts the leaf off from the computed nodes that refer to it. Such a node may outlive its last reader inside a
    /// graph, and writing the same expression down finds it again. Unless another thread holds the leaf by then, it can
    /// be donated.
    fn release(&mut self, slot: usize, root: usize) -> bool {
        if self.is_taken[slot] {
            return false;
        }
        self.forget(slot);
        let leaf = &self.closed.nodes[self.closed.leaves[slot]];
        if leaf::history(leaf).is_some() {
            // a node that the leaf remembers refers to it without holding it, and a gradient may need the leaf
            self.remember(slot);
            return false;
        }
        let inside = self.references[self.closed.leaves[slot]];
        if leaf.ref_count() > inside {
            self.remember(slot);
            return false;
        }
        self.slots.push((slot, root));
        self.is_taken[slot] = true;
        true
    }

    fn forget(&self, slot: usize) {
        self.stand_ins[slot].iter().for_each(|&at| StandIn::of(self.closed, at).forget());
    }

    fn remember(&self, slot: usize) {
        let leaf = &self.closed.nodes[self.closed.leaves[slot]];
        for &at in &self.stand_ins[slot] {
            StandIn::of(self.closed, at).remember(leaf);
        }
    }

    /// Donates the leaves.
    fn take(mut self) -> Donated {
        let mut donated = Donated::default();
        for (slot, root) in std::mem::take(&mut self.slots) {
            let stand_ins = self.stand_ins[slot].iter().map(|&at| StandIn::of(self.closed, at));
            let leaf = &self.closed.nodes[self.closed.leaves[slot]];
            donated.take(leaf, root, stand_ins.collect());
        }
        donated
    }
}

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.slots.iter().for_each(|&(slot, _)| self.remember(slot));
    }
}

fn alloc(opened: &Opened, bytes: usize, purpose: &'static str) -> Result<Buffer, Failure> {
    testing::step()?;
    opened.alloc(bytes, purpose)
}

/// For each root, a parameter slot whose buffer it may get.
fn reusable(
    closed: &Closed,
    ready: &Ready,
    last: &[usize],
    pinned: Option<(&Pinned, usize)>,
) -> Vec<Option<usize>> {
    let mut found = vec![None; ready.roots.len()];
    let mut last_read = vec![0; closed.leaves.len()];
    for (step, kernel) in ready.kernels.iter().enumerate() {
        for arg in kernel.plan.args.iter().chain(&kernel.plan.starts_from) {
            if let BufferRef::Param(slot) = arg {
                last_read[*slot] = step;
            }
        }
    }
    let mut free = free_leaves(closed, last);
    // a root that has a leaf's value unchanged shares its memory
    for place in &ready.schedule.outputs {
        if let BufferRef::Param(slot) = place {
            free[*slot] = false;
        }
    }
    for (step, kernel) in ready.kernels.iter().enumerate() {
        let plan = &kernel.plan;
        let whole = plan.may_alias.iter().map(|&(new, old)| (plan.args[new], plan.args[old]));
        let partly = plan.starts_from.map(|old| (plan.args[0], old));
        for pair in whole.chain(partly) {
            let (BufferRef::Output(root), BufferRef::Param(slot)) = pair else { continue };
            let leaf = &closed.nodes[closed.leaves[slot]];
            // only a file's own storage writes to it, and needs no permission for that
            let own = pinned.is_some_and(|(p, at)| at == root && p.old == *leaf);
            if found[root].is_some() || last_read[slot] != step || !(own || free[slot]) {
                continue;
            }
            let (dtype, shape) = &ready.roots[root];
            let bytes = shape.iter().product::<usize>() * dtype.size();
            // memory that is not read may be of any size
            let fits = |b: Buffer| b.is_writable() && b.offset() == 0 && b.len() == bytes;
            if own || leaf::buffer(leaf).is_ok_and(|b| !b.is_file() && fits(b)) {
                found[root] = Some(slot);
                free[slot] = false;
            }
        }
    }
    found
}

/// The leaves that nothing can need once the roots are computed: nothing outside this walk refers to them, or to an
/// uncomputed node between them and the roots. `last` are the ids of roots that no gradient will go through.
fn free_leaves(closed: &Closed, last: &[usize]) -> Vec<bool> {
    let wanted = wanted(closed, last, None);
    closed.leaves.iter().map(|&at| !wanted[at]).collect()
}

/// The nodes that can still be needed once the roots are computed. References to `except` itself do not count.
fn wanted(closed: &Closed, last: &[usize], except: Option<usize>) -> Vec<bool> {
    let mut wanted = closed.held();
    except.into_iter().for_each(|at| wanted[at] = false);
    let last: FxHashSet<usize> = last.iter().copied().collect();
    for at in (0..closed.nodes.len()).rev() {
        let node = &closed.nodes[at];
        // whoever holds a root finds its leaf; but other views look through a view, and gradients through every node
        let looked_through =
            node.op().is_movement() || (closed.is_differentiable(at) && !last.contains(&node.id()));
        if closed.is_root(at) && node.op() != Op::Buffer && !looked_through {
            wanted[at] = false;
        } else if wanted[at] {
            closed.sources(at).iter().for_each(|&s| wanted[s] = true);
        }
    }
    wanted
}
