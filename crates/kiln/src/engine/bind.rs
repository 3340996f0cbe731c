//! Chooses the memory of every argument of every kernel, and which old buffers are donated.
//!
//! A schedule never assumes that something happens in place. Here, under the planning lock, reference counts say
//! whether anybody can still need an old value. If nobody can, its buffer is donated to the new value.

use super::cache::{Overwrite, Ready};
use super::capture::Closed;
use super::device::Opened;
use super::donated::{Donated, StandIn};
use super::file::{self, Access, Pinned};
use super::{Failure, Few, leaf, testing};
use kiln_compile::schedule::BufferRef;
use kiln_ir::{Op, UOp};
use kiln_runtime::Buffer;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::cell::{LazyCell, OnceCell};
use std::ops::Range;

/// The memory of one run of a schedule.
pub(super) struct Bound {
    /// By parameter slot.
    inputs: SmallVec<[Buffer; 4]>,
    /// By root.
    pub(super) outputs: Few<Buffer>,
    /// Memory of temporaries, if there are any.
    arena: Option<Buffer>,
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

    /// Whether a root is written to a file.
    pub(super) fn is_file(&self, root: usize) -> bool {
        self.file.as_ref().is_some_and(|file| file.root == root)
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
                let arena = self.arena.as_ref().expect("there are temporaries");
                arena.view(temp.offset, bytes).map_err(|e| e.to_string())
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
    let inputs = closed.leaves.iter().map(|&at| input(closed.node(at), opened));
    let inputs: SmallVec<[Buffer; 4]> = inputs.collect::<Result<_, _>>()?;
    let access = match pinned {
        Some(_) => Some(file::writing()),
        None => inputs.iter().any(Buffer::is_file).then(file::reading),
    };
    let root = pinned.and_then(|p| closed.roots.iter().position(|&r| *closed.node(r) == p.version));
    let pinned = pinned.zip(root);
    let overwritten_by = overwrites(closed, ready, &inputs, last, pinned);
    let reusable = |root: usize| overwritten_by.get(root).copied().flatten();
    let mut found = Released::new(closed);
    // a failure must leave every leaf as it was: allocate first, donate afterwards
    let temporaries = ready.schedule.temps.first();
    let arena = temporaries.map(|_| alloc(opened, ready.schedule.arena_bytes, "temporaries"));
    let arena = arena.transpose()?;
    let direct = pinned.filter(|&(p, root)| is_direct(closed, p, reusable(root)));
    let mut memory = |root: usize| match direct.filter(|&(_, at)| at == root) {
        Some((pinned, _)) => Ok(pinned.memory.clone()),
        None => match reusable(root).filter(|&slot| found.release(slot, root)) {
            Some(slot) => Ok(inputs[slot].clone()),
            None => alloc(opened, bytes_of(ready, root)?, origin(closed, root)),
        },
    };
    let mut outputs: Few<Buffer> = Few::with_capacity(ready.roots.len());
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
    closed.node(closed.roots[root]).origin().unwrap_or("values")
}

fn bytes_of(ready: &Ready, root: usize) -> Result<usize, Failure> {
    let (dtype, shape) = &ready.roots[root];
    leaf::bytes_of(*dtype, shape)
}

/// The bytes of a file that kernels change: those that they store, if they start from the file's content.
fn changed(closed: &Closed, ready: &Ready, pinned: &Pinned, root: usize) -> Range<usize> {
    let whole = 0..pinned.memory.len();
    let is_old = |slot: usize| *closed.leaf(slot) == pinned.old;
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
    let is_old = |&at: &usize| *closed.node(at) == pinned.old;
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
    let at = closed.nodes().position(|n| *n == pinned.old);
    let stand_ins: Vec<StandIn> = (0..closed.nodes().len())
        .filter(|&i| closed.is_computed(i) && Some(closed.sources(i)[0]) == at)
        .map(|i| StandIn::of(closed, i))
        .collect();
    stand_ins.iter().for_each(StandIn::forget);
    let inside = at.map_or(0, |at| closed.references(at));
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
    stand_ins: OnceCell<Vec<Vec<usize>>>,
    /// The donated slots, and the roots that get their buffers.
    slots: Vec<(usize, usize)>,
    taken: FxHashSet<usize>,
}

impl Released<'_> {
    fn new(closed: &Closed) -> Released<'_> {
        let (stand_ins, slots, taken) = Default::default();
        Released { closed, stand_ins, slots, taken }
    }

    /// The computed nodes that refer to a leaf.
    fn stand_ins(&self, slot: usize) -> impl Iterator<Item = StandIn> + '_ {
        let all = self.stand_ins.get_or_init(|| self.closed.stand_ins());
        all[slot].iter().map(|&at| StandIn::of(self.closed, at))
    }

    /// Cuts the leaf off from the computed nodes that refer to it. Such a node may outlive its last reader inside a
    /// graph, and writing the same expression down finds it again. Unless another thread holds the leaf by then, it can
    /// be donated.
    fn release(&mut self, slot: usize, root: usize) -> bool {
        if self.taken.contains(&slot) {
            return false;
        }
        self.forget(slot);
        let leaf = self.closed.leaf(slot);
        if leaf::history(leaf).is_some() {
            // a node that the leaf remembers refers to it without holding it, and a gradient may need the leaf
            self.remember(slot);
            return false;
        }
        let inside = self.closed.references(self.closed.leaves[slot]);
        if leaf.ref_count() > inside {
            self.remember(slot);
            return false;
        }
        self.slots.push((slot, root));
        self.taken.insert(slot);
        true
    }

    fn forget(&self, slot: usize) {
        self.stand_ins(slot).for_each(|stand_in| stand_in.forget());
    }

    fn remember(&self, slot: usize) {
        let leaf = self.closed.leaf(slot);
        self.stand_ins(slot).for_each(|stand_in| stand_in.remember(leaf));
    }

    /// Donates the leaves.
    fn take(mut self) -> Donated {
        let mut donated = Donated::default();
        for (slot, root) in std::mem::take(&mut self.slots) {
            donated.take(self.closed.leaf(slot), root, self.stand_ins(slot).collect());
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

/// For each root, a parameter slot whose buffer it may get; an empty list if no root may get one. Such a leaf is not needed
/// once the roots are computed: only this walk refers to it, and to the uncomputed nodes between it and the roots. `last`
/// are the ids of roots that no gradient will go through.
fn overwrites(
    closed: &Closed,
    ready: &Ready,
    inputs: &[Buffer],
    last: &[usize],
    pinned: Option<(&Pinned, usize)>,
) -> Vec<Option<usize>> {
    let (mut found, mut taken) = (Vec::new(), FxHashSet::default());
    let wanted = LazyCell::new(|| wanted(closed, last, None));
    for &Overwrite { root, slot, is_shared } in &ready.overwrites {
        let at = closed.leaves[slot];
        // only a file's own storage writes to it, and needs no permission for that
        let own = pinned.is_some_and(|(p, at)| at == root && p.old == *closed.leaf(slot));
        let is_fit = || !is_shared && fits(&inputs[slot], ready, root) && !taken.contains(&slot);
        if own || is_fit() && !closed.is_held(at) && !wanted[at] {
            found.resize(ready.roots.len(), None);
            if found[root].is_none() {
                found[root] = Some(slot);
                taken.insert(slot);
            }
        }
    }
    found
}

/// Whether a root can be in this memory. Memory that is not read may be of any size.
fn fits(memory: &Buffer, ready: &Ready, root: usize) -> bool {
    let bytes = bytes_of(ready, root);
    let is_whole = memory.offset() == 0 && bytes == Ok(memory.len());
    is_whole && memory.is_writable() && !memory.is_file()
}

/// The nodes that can still be needed once the roots are computed. References to `except` itself do not count.
fn wanted(closed: &Closed, last: &[usize], except: Option<usize>) -> Vec<bool> {
    let mut wanted: Vec<bool> = (0..closed.nodes().len()).map(|at| closed.is_held(at)).collect();
    except.into_iter().for_each(|at| wanted[at] = false);
    let last: FxHashSet<usize> = last.iter().copied().collect();
    for at in (0..wanted.len()).rev() {
        let node = closed.node(at);
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
