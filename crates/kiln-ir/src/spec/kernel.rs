//! Kernels: what each source is for, and how ranges nest.
//!
//! A range is one loop at one place of the nest: whatever closes it is inside of the same other loops. A node is
//! *inside* the ranges of its scope; `End` and `Reduce` leave them. Three things follow. A node inside a loop does not
//! use a result of that loop. A loop does not end before the loops inside it. Two loops beside each other do not each
//! use a result of the other.

use super::form::ensure;
use super::typing::typed;
use crate::arg::{Arg, RangeKind, Space};
use crate::dtype::DType;
use crate::op::Op;
use crate::scope::{AxisSet, closed_ranges, inside};
use crate::uop::{UOp, axis_of, toposort};
use rustc_hash::FxHashMap;
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
            access(node)
        }
        Op::Store => {
            wants(node, 2, Role::Value)?;
            typed(node, 2, node.src(0).dtype())?;
            access(node)
        }
        Op::End => closes(node, Role::Effect),
        Op::Reduce => closes(node, Role::Value),
        Op::After => (1..node.srcs().len()).try_for_each(|i| effect_or_range(node, i)),
        Op::Range => {
            wants(node, 0, Role::Value)?;
            typed(node, 0, DType::Index)
        }
        Op::Barrier => (0..node.srcs().len()).try_for_each(|i| effect_or_range(node, i)),
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

fn effect_or_range(node: &UOp, i: usize) -> Result<(), String> {
    let src = node.src(i);
    ensure(src.op() == Op::Range || role(src) == Role::Effect, || {
        format!("source {i} is neither an effect nor a range")
    })
}

fn all(node: &UOp, role: Role) -> Result<(), String> {
    (0..node.srcs().len()).try_for_each(|i| wants(node, i, role))
}

fn wants(node: &UOp, i: usize, wanted: Role) -> Result<(), String> {
    let found = role(node.src(i));
    ensure(found == wanted, || format!("source {i} is {found:?}, wants {wanted:?}"))
}

fn memory(node: &UOp) -> Result<(), String> {
    let storage = node.dtype().is_storage();
    ensure(storage, || format!("{} cannot be the type of memory", node.dtype()))?;
    match node.arg() {
        Arg::Param { shape, .. } => {
            ensure(shape.len() == 1, || format!("memory has one axis, not {shape:?}"))
        }
        _ => Ok(()),
    }
}

/// Memory, index and gate of a load or store.
fn access(node: &UOp) -> Result<(), String> {
    wants(node, 0, Role::Memory)?;
    wants(node, 1, Role::Value)?;
    typed(node, 1, DType::Index)?;
    if node.gate().is_some() {
        wants(node, node.gate_source(), Role::Value)?;
        return typed(node, node.gate_source(), DType::Bool);
    }
    let (memory, index) = (node.src(0), node.src(1));
    let len = match memory.arg() {
        Arg::Memory { len, .. } => *len,
        _ => memory.numel(),
    };
    let is_inside = 0 <= index.max() && (index.min() as i128) < len as i128;
    ensure(is_inside || may_not_happen(index), || {
        format!("every index ({} to {}) is outside of {len} elements", index.min(), index.max())
    })
}

/// Whether an access at `index` is in a loop that may run no iteration.
fn may_not_happen(index: &UOp) -> bool {
    let is_it = |node: &UOp| node.op() == Op::Range && node.src(0).min() <= 0;
    toposort(index).iter().any(is_it)
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
        ensure(same, || "the initial value must be a value of the result's type".to_string())?;
    }
    ensure(!ranges.is_empty(), || "no range is closed".to_string())?;
    ensure(ranges.iter().all(|r| r.op() == Op::Range), || {
        "only ranges follow the first source".to_string()
    })?;
    ensure((1..ranges.len()).all(|i| !ranges[..i].contains(&ranges[i])), || {
        "a range is closed twice".to_string()
    })
}

/// Where a node stands.
struct Place {
    /// The loops that it runs in.
    open: AxisSet,
    /// The loops whose end it waits for.
    ended: AxisSet,
}

pub(super) fn graph(nodes: &[UOp]) -> Result<(), (UOp, String)> {
    let mut ended: FxHashMap<usize, AxisSet> = FxHashMap::default();
    let (mut names, mut loops) = (Names::default(), Loops::default());
    for node in nodes {
        let fail = |reason| (node.clone(), reason);
        names.add(node).map_err(fail)?;
        let mut place = Place { open: inside(node), ended: AxisSet::default() };
        node.srcs().iter().for_each(|s| place.ended.union_with(&ended[&s.id()]));
        step(node, &mut place, node.scope(), (&names, &mut loops)).map_err(fail)?;
        ended.insert(node.id(), place.ended);
    }
    Ok(())
}

/// How the loops lie to each other.
#[derive(Default)]
struct Loops {
    /// For each that something ends, the loops around it.
    around: BTreeMap<u32, AxisSet>,
    /// For each, those whose end something inside it waits for, directly or not.
    waits: BTreeMap<u32, AxisSet>,
}

impl Loops {
    /// Something ends `closed` and leaves `open`.
    fn end(&mut self, closed: &AxisSet, open: &AxisSet, names: &Names) -> Result<(), String> {
        let mut around = names.loops(open);
        for axis in names.loops(closed).iter() {
            let known = self.around.entry(axis).or_insert_with(|| around.clone());
            ensure(*known == around, || {
                format!("r{axis} is closed inside of {around:?} here and of {known:?} elsewhere")
            })?;
            around.insert(axis);
        }
        Ok(())
    }

    /// Something stands at `place`.
    fn wait(&mut self, place: &Place, names: &Names) -> Result<(), String> {
        let ended = names.loops(&place.ended);
        for axis in names.loops(&place.open).iter() {
            let mut new = ended.clone();
            new.retain(|e| self.waits.get(&axis).is_none_or(|known| !known.contains(e)));
            if !new.is_empty() {
                self.follow(axis, new)?;
            }
        }
        Ok(())
    }

    /// A loop waits for others, and so does every loop that waits for it.
    fn follow(&mut self, axis: u32, mut new: AxisSet) -> Result<(), String> {
        for further in new.clone().iter() {
            self.waits.get(&further).into_iter().for_each(|w| new.union_with(w));
        }
        let waiting = self.waits.iter().filter(|(_, w)| w.contains(axis));
        let mut waiting: AxisSet = waiting.map(|(a, _)| *a).collect();
        waiting.insert(axis);
        for user in waiting.iter() {
            ensure(!new.contains(user), || format!("r{user} can only run after its own end"))?;
            self.waits.entry(user).or_default().union_with(&new);
        }
        Ok(())
    }
}

/// Checks a node at its place; `left` are the loops that it varies over, without those that it closes.
fn step(
    node: &UOp,
    place: &mut Place,
    left: &AxisSet,
    (names, loops): (&Names, &mut Loops),
) -> Result<(), String> {
    let both = place.open.iter().find(|&axis| place.ended.contains(axis)).unwrap_or(0);
    ensure(!place.open.intersects(&place.ended), || {
        format!("it is inside r{both} and uses a result of r{both}")
    })?;
    loops.wait(place, names)?;
    match node.op() {
        Op::Range => ensure(place.open.iter().all(|inner| inner <= axis_of(node)), || {
            "the bound depends on a loop further in".to_string()
        }),
        Op::End | Op::Reduce => {
            let closed: AxisSet = closed_ranges(node).map(axis_of).collect();
            let outermost = names.loops(&closed).iter().next();
            let further_in =
                names.loops(left).iter().find(|&axis| outermost.is_some_and(|o| axis > o));
            ensure(further_in.is_none(), || {
                let number = |axis: Option<u32>| axis.unwrap_or_default();
                format!(
                    "r{} ends while r{} further in is open",
                    number(outermost),
                    number(further_in)
                )
            })?;
            place.ended.union_with(&closed);
            loops.end(&closed, left, names)
        }
        Op::Sink => match left.iter().next() {
            Some(open) => Err(format!("r{open} is never closed")),
            None => Ok(()),
        },
        _ => Ok(()),
    }
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

    /// Those ranges that become loops; replicated ones nest freely.
    fn loops(&self, axes: &AxisSet) -> AxisSet {
        let mut loops = axes.clone();
        loops.retain(|a| self.ranges.get(&a).is_some_and(|(_, kind)| !kind.is_expanded()));
        loops
    }
}
