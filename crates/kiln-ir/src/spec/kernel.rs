//! Kernels: what each source is for, and how ranges nest.
//!
//! A range is one loop, and stands in one place: whatever ends it does so inside of the same other loops. A node is
//! *inside* the ranges of its scope; `End` and `Reduce` leave them. Three things follow. A node inside a loop does not
//! use a result of that loop. A loop does not end before the loops inside it. Two loops beside each other do not each
//! use a result of the other.

use super::form::ensure;
use super::typing::typed;
use crate::arg::{Arg, RangeKind, Space};
use crate::dtype::DType;
use crate::op::Op;
use crate::uop::UOp;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What a node is to its users.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Role {
    Memory,
    Effect,
    Value,
}

fn role(node: &UOp) -> Role {
    match node.op() {
        Op::Param | Op::Local => Role::Memory,
        Op::Store | Op::End | Op::Barrier | Op::Sink => Role::Effect,
        // Of memory: a `Local`'s carries its argument, and only a `Param` has a shape inside a kernel.
        Op::After if *node.arg() != Arg::None || !node.shape().is_empty() => Role::Memory,
        _ => Role::Value,
    }
}

pub(super) fn node(node: &UOp) -> Result<(), String> {
    ensure(node.lanes() == 1, || "there are no vectors at this stage".to_string())?;
    match node.op() {
        Op::Load => {
            typed(node, 0, node.dtype())?;
            access(node, 2)
        }
        Op::Store => {
            wants(node, 2, Role::Value)?;
            typed(node, 2, node.src(0).dtype())?;
            access(node, 3)
        }
        Op::End => closes(node, Role::Effect),
        Op::Reduce => closes(node, Role::Value),
        Op::After => (1..node.srcs().len()).try_for_each(|i| {
            let src = node.src(i);
            ensure(src.op() == Op::Range || role(src) == Role::Effect, || {
                format!("source {i} is neither an effect nor a range")
            })
        }),
        Op::Range => {
            wants(node, 0, Role::Value)?;
            typed(node, 0, DType::Index)
        }
        Op::Barrier => all(node, Role::Effect),
        Op::Sink => {
            ensure(matches!(node.arg(), Arg::Kernel { .. }), || {
                "the kernel has no name".to_string()
            })?;
            all(node, Role::Effect)
        }
        Op::Param | Op::Local => memory(node),
        _ => all(node, Role::Value),
    }
}

fn all(node: &UOp, role: Role) -> Result<(), String> {
    (0..node.srcs().len()).try_for_each(|i| wants(node, i, role))
}

fn wants(node: &UOp, i: usize, wanted: Role) -> Result<(), String> {
    let found = role(node.src(i));
    ensure(found == wanted, || format!("source {i} is {found:?}, wants {wanted:?}"))
}

fn memory(node: &UOp) -> Result<(), String> {
    let storage = DType::STORAGE.contains(&node.dtype());
    ensure(storage, || format!("{} is no type of memory", node.dtype()))?;
    match node.arg() {
        Arg::Param { shape, .. } => {
            ensure(shape.len() == 1, || format!("memory has one axis, not {shape:?}"))
        }
        _ => Ok(()),
    }
}

/// Memory, index and gate of a load or store; `gate` is where the gate would be.
fn access(node: &UOp, gate: usize) -> Result<(), String> {
    wants(node, 0, Role::Memory)?;
    wants(node, 1, Role::Value)?;
    typed(node, 1, DType::Index)?;
    if node.srcs().len() > gate {
        wants(node, gate, Role::Value)?;
        return typed(node, gate, DType::Bool);
    }
    let (memory, index) = (node.src(0), node.src(1));
    let len = match memory.arg() {
        Arg::Memory { len, .. } => *len,
        _ => memory.numel(),
    };
    ensure(0 <= index.max() && (index.min() as i128) < len as i128, || {
        format!("every index ({} to {}) is outside of {len} elements", index.min(), index.max())
    })
}

/// An effect or value, then at least one range.
fn closes(node: &UOp, what: Role) -> Result<(), String> {
    wants(node, 0, what)?;
    if let Arg::Reduce { axes, .. } = node.arg() {
        ensure(axes.is_empty(), || "a kernel reduces over ranges, not along axes".to_string())?;
    }
    let mut ranges = &node.srcs()[1..];
    if let Some(initial) = node.initial() {
        ranges = &ranges[..ranges.len() - 1];
        let same = role(initial) == Role::Value && initial.dtype() == node.dtype();
        ensure(same, || "it goes on from something else than it gives".to_string())?;
    }
    ensure(!ranges.is_empty(), || "no range is closed".to_string())?;
    ensure(ranges.iter().all(|r| r.op() == Op::Range), || {
        "only ranges follow the first source".to_string()
    })?;
    ensure((1..ranges.len()).all(|i| !ranges[..i].contains(&ranges[i])), || {
        "a range is closed twice".to_string()
    })
}

/// Ranges by axis, ascending: the order in which loops nest.
type Axes = SmallVec<[u32; 8]>;

/// Where a node stands.
#[derive(Clone, Default)]
struct Place {
    /// The ranges that it is inside of.
    open: Axes,
    /// The ranges whose end it waits for.
    ended: Axes,
}

fn add(to: &mut Axes, axes: &[u32]) {
    for axis in axes {
        if let Err(at) = to.binary_search(axis) {
            to.insert(at, *axis);
        }
    }
}

pub(super) fn graph(nodes: &[UOp]) -> Result<(), (UOp, String)> {
    let mut places: FxHashMap<usize, Place> = FxHashMap::default();
    let (mut names, mut loops) = (Names::default(), Loops::default());
    for node in nodes {
        let fail = |reason| (node.clone(), reason);
        names.add(node).map_err(fail)?;
        let mut place = Place::default();
        for src in node.srcs() {
            add(&mut place.open, &places[&src.id()].open);
            add(&mut place.ended, &places[&src.id()].ended);
        }
        step(node, &mut place, &names, &mut loops).map_err(fail)?;
        places.insert(node.id(), place);
    }
    Ok(())
}

/// How the loops lie to each other.
#[derive(Default)]
struct Loops {
    /// For each that something ends, the loops around it.
    around: BTreeMap<u32, Axes>,
    /// For each, those whose end something inside it waits for, directly or not.
    waits: BTreeMap<u32, Axes>,
}

impl Loops {
    /// Something ends `closed` and leaves `open`.
    fn end(&mut self, closed: &Axes, open: &Axes, names: &Names) -> Result<(), String> {
        let loops = |axes: &Axes| axes.iter().copied().filter(|a| names.is_loop(*a)).collect();
        let (closed, mut around): (Axes, Axes) = (loops(closed), loops(open));
        for axis in closed {
            let known = self.around.entry(axis).or_insert_with(|| around.clone());
            ensure(*known == around, || {
                format!("r{axis} ends inside of {around:?} here and of {known:?} elsewhere")
            })?;
            add(&mut around, &[axis]);
        }
        Ok(())
    }

    /// Something stands at `place`.
    fn wait(&mut self, place: &Place, names: &Names) -> Result<(), String> {
        let ended = || place.ended.iter().filter(|e| names.is_loop(**e));
        for &axis in place.open.iter().filter(|a| names.is_loop(**a)) {
            let known = self.waits.get(&axis);
            let new = ended().filter(|e| known.is_none_or(|k| k.binary_search(e).is_err()));
            let new: Axes = new.copied().collect();
            if !new.is_empty() {
                self.follow(axis, new)?;
            }
        }
        Ok(())
    }

    /// A loop waits for others, and whoever waits for it does so, too.
    fn follow(&mut self, axis: u32, mut new: Axes) -> Result<(), String> {
        for further in new.clone() {
            add(&mut new, self.waits.get(&further).map_or(&[], |w| w));
        }
        let waiting = self.waits.iter().filter(|(_, w)| w.binary_search(&axis).is_ok());
        let mut waiting: Axes = waiting.map(|(a, _)| *a).collect();
        add(&mut waiting, &[axis]);
        for user in waiting {
            ensure(new.binary_search(&user).is_err(), || format!("r{user} waits for its own end"))?;
            add(self.waits.entry(user).or_default(), &new);
        }
        Ok(())
    }
}

fn step(node: &UOp, place: &mut Place, names: &Names, loops: &mut Loops) -> Result<(), String> {
    let both = place.open.iter().find(|a| place.ended.contains(a));
    ensure(both.is_none(), || {
        format!("it is inside r{0} and waits for the end of r{0}", both.copied().unwrap_or(0))
    })?;
    loops.wait(place, names)?;
    match (node.op(), node.arg()) {
        (Op::Range, Arg::Range { axis, .. }) => {
            let inner = place.open.iter().find(|a| *a >= axis);
            ensure(inner.is_none(), || "the bound depends on a loop further in".to_string())?;
            place.open.push(*axis);
        }
        (Op::End | Op::Reduce, _) => {
            let mut closed = Axes::default();
            let ranges = node.srcs()[1..].iter().filter(|s| s.op() == Op::Range);
            ranges.for_each(|r| add(&mut closed, &[axis(r)]));
            place.open.retain(|a| !closed.contains(a));
            let outermost = closed.iter().filter(|a| names.is_loop(**a)).min();
            let left = place.open.iter().filter(|a| names.is_loop(**a)).max();
            ensure(left.is_none() || outermost.is_none() || left < outermost, || {
                format!("r{} ends while r{} further in is open", number(outermost), number(left))
            })?;
            add(&mut place.ended, &closed);
            loops.end(&closed, &place.open, names)?;
        }
        (Op::Sink, _) => {
            let open = place.open.first();
            ensure(open.is_none(), || format!("r{} is never closed", number(open)))?;
        }
        _ => {}
    }
    Ok(())
}

fn number(axis: Option<&u32>) -> u32 {
    axis.copied().unwrap_or_default()
}

fn axis(range: &UOp) -> u32 {
    range.arg().range().map_or(0, |(axis, _)| axis)
}

/// Numbers that name one thing each: axes, slots, memories.
#[derive(Default)]
struct Names {
    ranges: FxHashMap<u32, (usize, RangeKind)>,
    params: FxHashMap<usize, usize>,
    vars: FxHashMap<usize, usize>,
    locals: FxHashMap<(Space, u32), usize>,
}

impl Names {
    fn add(&mut self, node: &UOp) -> Result<(), String> {
        let id = node.id();
        let known = match *node.arg() {
            Arg::Range { axis, kind } => self.ranges.insert(axis, (id, kind)).map(|(id, _)| id),
            Arg::Param { slot, .. } => self.params.insert(slot, id),
            Arg::Var { slot, .. } => self.vars.insert(slot, id),
            Arg::Memory { space, id: number, .. } if node.op() == Op::Local => {
                self.locals.insert((space, number), id)
            }
            _ => None,
        };
        ensure(known.is_none(), || "another node has this number".to_string())
    }

    /// Whether the range becomes a loop; replicated ones nest freely.
    fn is_loop(&self, axis: u32) -> bool {
        self.ranges.get(&axis).is_some_and(|(_, kind)| !kind.is_expanded())
    }
}
