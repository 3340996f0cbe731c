//! Pass `memory` of stage `schedule`: decides which memory is an output and which is temporary. Temporaries share one
//! arena; two that are never alive together share the same bytes.

use super::assign::{Placement, Plan};
use super::build::{Built, Source};
use super::choices::Reason;
use super::order::Order;
use super::scheduled::{BufferRef, Schedule, ScheduledKernel, Temp};
use kiln_ir::uop::{substitute, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// Temporaries start at multiples of this: a cache line, and the widest vector.
pub const ARENA_ALIGN: usize = 64;

/// Puts the pieces together.
pub(super) fn finish(
    plan: Plan,
    kernels: Vec<Built>,
    order: &Order,
    reasons: Vec<Reason>,
) -> Schedule {
    let mut places: FxHashMap<usize, BufferRef> = FxHashMap::default();
    for (root, &node) in plan.roots.iter().enumerate() {
        places.entry(node).or_insert(BufferRef::Output(root));
    }
    let mut temps = Vec::new();
    let mut arena = Arena::default();
    let homes = homes(&plan, &kernels, order);
    let home = |node: usize| homes.get(&node).copied().unwrap_or(node);
    let last = last_uses(&kernels, &order.steps, home);
    let numbers = numbers(&plan, &kernels, order);
    for (step, &k) in order.steps.iter().enumerate() {
        for &node in &kernels[k].outputs {
            let place = *places.entry(home(node)).or_insert_with(|| {
                let (dtype, len) = (plan.nodes[node].dtype(), plan.nodes[node].numel());
                let until = last.get(&home(node)).copied().unwrap_or(step);
                let offset = arena.take(dtype.size() * len, step, until);
                let (value, used) = (plan.nodes[node].hash(), (numbers[step], numbers[until]));
                temps.push(Temp { offset, dtype, len, value, used });
                BufferRef::Temp(temps.len() - 1)
            });
            places.insert(node, place);
        }
    }
    let stored = |node: usize| places[&node];
    // what has no elements needs no kernel
    let has_work = |k: &&usize| kernels[**k].has_work(&plan);
    let kernels =
        order.steps.iter().filter(has_work).map(|&k| scheduled(&kernels[k], &stored)).collect();
    let outputs = plan.roots.iter().map(|&node| root_place(&plan, node, &places)).collect();
    Schedule { kernels, outputs, temps, arena_bytes: arena.bytes, reasons }
}

/// Gives temporaries that have other lengths new places in the arena. Returns the bytes of the arena.
pub(crate) fn lay_out(temps: &mut [Temp]) -> usize {
    let mut arena = Arena::default();
    for temp in temps {
        let (from, until) = temp.used;
        temp.offset = arena.take(temp.dtype.size() * temp.len, from, until);
    }
    arena.bytes
}

/// By step, the number of its kernel among those that run.
fn numbers(plan: &Plan, kernels: &[Built], order: &Order) -> Vec<usize> {
    let runs = order.steps.iter().map(|&k| kernels[k].has_work(plan) as usize);
    let next = |next: &mut usize, runs| Some(std::mem::replace(next, *next + runs));
    runs.scan(0, next).collect()
}

/// For each node that an update overwrites, the node that their common memory belongs to: the last of the updates.
fn homes(plan: &Plan, kernels: &[Built], order: &Order) -> FxHashMap<usize, usize> {
    let mut homes: FxHashMap<usize, usize> = FxHashMap::default();
    let roots: FxHashSet<usize> = plan.roots.iter().copied().collect();
    for &k in order.steps.iter().rev().filter(|k| !order.separate.contains(k)) {
        match kernels[k].starts_from {
            Some(Source::Stored(base)) if !roots.contains(&base) => {
                let update = kernels[k].outputs[0];
                let home = homes.get(&update).copied().unwrap_or(update);
                homes.insert(base, home);
            }
            _ => {}
        }
    }
    homes
}

/// Several roots that are one node share one memory; a root that is a parameter needs none.
fn root_place(plan: &Plan, node: usize, places: &FxHashMap<usize, BufferRef>) -> BufferRef {
    match (plan.placement[node], plan.nodes[node].arg().slot()) {
        (Placement::Inline, Some(slot)) if plan.nodes[node].op() == Op::Param => {
            BufferRef::Param(slot)
        }
        _ => places[&node],
    }
}

/// By the node that the memory belongs to, the last step that needs it.
fn last_uses(
    kernels: &[Built],
    steps: &[usize],
    home: impl Fn(usize) -> usize,
) -> FxHashMap<usize, usize> {
    let mut last = FxHashMap::default();
    for (step, &k) in steps.iter().enumerate() {
        for source in kernels[k].args.iter().copied().chain(kernels[k].starts_from) {
            if let Source::Stored(node) = source {
                last.insert(home(node), step);
            }
        }
    }
    last
}

fn scheduled(kernel: &Built, stored: &impl Fn(usize) -> BufferRef) -> ScheduledKernel {
    let (stores, vars) = number_vars(&kernel.stores);
    let ast = UOp::kernel(stores, "");
    ScheduledKernel {
        vars,
        may_alias: kernel.may_alias(),
        starts_from: kernel.starts_from.map(|s| s.resolve(stored)),
        args: kernel.args.iter().map(|a| a.resolve(stored)).collect(),
        origins: kernel.origins.clone(),
        ast,
    }
}

/// Each kernel numbers its launch-time scalars from 0, so that equal kernels are equal graphs.
pub(super) fn number_vars(stores: &[UOp]) -> (Vec<UOp>, Vec<usize>) {
    let nodes = toposort(&UOp::sink(stores.iter().cloned()));
    let vars: Vec<UOp> = nodes.into_iter().filter(|n| n.op() == Op::Var).collect();
    if vars.is_empty() {
        return (stores.to_vec(), Vec::new());
    }
    let number =
        |(new, var): (usize, &UOp)| (var.clone(), UOp::var(new, var.dtype(), var.min(), var.max()));
    let map = vars.iter().enumerate().map(number).collect();
    let slots = vars.iter().map(|v| v.arg().slot().expect("a var has a slot")).collect();
    (substitute(stores, &map), slots)
}

/// First fit over time: a block is free at a step if no live temporary has it.
#[derive(Default)]
struct Arena {
    /// What is held, offset and size, by the last step that needs it.
    held: BTreeMap<usize, Vec<(usize, usize)>>,
    /// What is free below `bytes`: size by offset. No two blocks touch.
    free: BTreeMap<usize, usize>,
    bytes: usize,
}

impl Arena {
    fn take(&mut self, bytes: usize, from: usize, until: usize) -> usize {
        let size = bytes.next_multiple_of(ARENA_ALIGN);
        let still = self.held.split_off(&from);
        let over = std::mem::replace(&mut self.held, still);
        over.into_values().flatten().for_each(|(offset, size)| self.release(offset, size));
        let offset = self.first_fit(size);
        self.held.entry(until).or_default().push((offset, size));
        offset
    }

    /// The start of the first free block that is large enough; the last one may grow.
    fn first_fit(&mut self, size: usize) -> usize {
        let fits = |&(&start, &len): &(&usize, &usize)| len >= size || start + len == self.bytes;
        let found = self.free.iter().find(fits).map(|(&start, &len)| (start, len));
        let (start, len) = found.unwrap_or((self.bytes, 0));
        self.free.remove(&start);
        if len > size {
            self.free.insert(start + size, len - size);
        }
        self.bytes = self.bytes.max(start + size);
        start
    }

    /// Gives a block back, as one with the free blocks that it touches.
    fn release(&mut self, offset: usize, size: usize) {
        let (mut start, mut end) = (offset, offset + size);
        if let Some(len) = self.free.remove(&end) {
            end += len;
        }
        if let Some((&before, &len)) = self.free.range(..start).next_back()
            && before + len == start
        {
            start = before;
        }
        self.free.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lives_together_does_not_overlap() {
        let mut arena = Arena::default();
        let mut all: Vec<(usize, usize, usize)> = Vec::new();
        let mut dice = 1u64;
        let mut below = |n: u64| {
            dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((dice >> 33) % n) as usize
        };
        let mut most = 0;
        for step in 0..2000 {
            let (bytes, until) = (1 + below(5) * below(300), step + below(40));
            let start = arena.take(bytes, step, until);
            all.retain(|&(.., last)| last >= step);
            for &(other, end, _) in &all {
                assert!(start + bytes <= other || end <= start, "step {step}");
            }
            all.push((start, start + bytes, until));
            most = most.max(all.iter().map(|(start, end, _)| end - start).sum::<usize>());
            let free = arena.free.iter().map(|(start, len)| start + len);
            assert!(free.zip(arena.free.keys().skip(1)).all(|(end, next)| end < *next));
        }
        assert!(arena.bytes >= most && arena.bytes < 2 * most, "{} for {most}", arena.bytes);
    }
}
