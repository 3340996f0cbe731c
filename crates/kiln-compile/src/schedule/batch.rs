//! Pass `batch` of stage `schedule`: small kernels that are equal except for their arguments, and independent, become
//! one launch with a loop nest for each. An optimizer's step over 200 small parameters is 13 launches.
//!
//! Groups have few sizes (1, 2, 4, 8, 16), so one compiled program serves all groups of a size, in every model.

use super::assign::Plan;
use super::build::{Built, Source};
use super::choices::Choices;
use super::cost;
use super::memory::number_vars;
use super::order::overwritable;
use super::told;
use crate::target::Costs;
use kiln_ir::uop::{substitute, toposort};
use kiln_ir::{Arg, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// A group has at most this many kernels and nodes: compilers slow down faster than launches gain.
const MAX_KERNELS: usize = 16;
const MAX_NODES: usize = 1024;

/// Forms groups; a group takes the place of its first kernel. The other kernels keep their order.
pub(super) fn batch(
    plan: &Plan,
    kernels: Vec<Built>,
    costs: &Costs,
    choices: &Choices,
) -> Vec<Built> {
    let alike = alike(plan, &kernels, costs, choices);
    let mut kernels: Vec<Option<Built>> = kernels.into_iter().map(Some).collect();
    for alike in alike {
        let nodes = kernels[alike[0]].as_ref().map_or(1, |k| k.nodes().len());
        let mut rest = &alike[..];
        while !rest.is_empty() {
            let (group, others) = rest.split_at(group_size(rest.len(), MAX_NODES / nodes));
            let taken: Vec<Built> = group.iter().filter_map(|&k| kernels[k].take()).collect();
            taken
                .iter()
                .for_each(|kernel| tell(plan, kernel, group.len(), &|| why_alone(alike.len())));
            kernels[group[0]] = Some(joined(taken));
            rest = others;
        }
    }
    kernels.into_iter().flatten().collect()
}

/// Tells of a kernel with how many it shares a launch, and if with none, why.
fn tell(plan: &Plan, kernel: &Built, group: usize, why: &dyn Fn() -> String) {
    let Some(&output) = kernel.outputs.first() else { return };
    let ways = [("a launch of its own", None), ("one launch with equal kernels", None)];
    told::kernel(&plan.nodes[output], "batch", ways, (group > 1) as usize, || match group {
        0 | 1 => why(),
        _ => format!("{group} kernels in all"),
    });
}

/// Why a small kernel is alone, of so many that are equal.
fn why_alone(alike: usize) -> String {
    match alike {
        0 | 1 => "no other small kernel that it does not wait for is equal to it".to_owned(),
        _ => format!("groups have 2, 4, 8 or 16 kernels, and it is left over of {alike}"),
    }
}

/// The largest power of two, up to the number of kernels and the room for them.
fn group_size(kernels: usize, room: usize) -> usize {
    1 << kernels.min(room).clamp(1, MAX_KERNELS).ilog2()
}

/// One kernel that does the work of all, one after the other. Its outputs come first.
fn joined(group: Vec<Built>) -> Built {
    let (mut args, mut slots) = (Vec::new(), FxHashMap::default());
    let outputs = group.iter().flat_map(|k| &k.args[..k.outputs.len()]);
    let inputs = group.iter().flat_map(|k| &k.args[k.outputs.len()..]);
    for &arg in outputs.chain(inputs) {
        slots.entry(arg).or_insert_with(|| {
            args.push(arg);
            args.len() - 1
        });
    }
    let mut axis = 0;
    let group = group.into_iter().map(|kernel| kernel.placed(&slots, &mut axis));
    let joined = group.reduce(|mut all, next| {
        all.stores.extend(next.stores);
        all.outputs.extend(next.outputs);
        all.add_origins(next.origins);
        all
    });
    Built { args, ..joined.expect("a group has kernels") }
}

/// Groups of independent small kernels that are equal except for their arguments, in order.
fn alike(plan: &Plan, kernels: &[Built], costs: &Costs, choices: &Choices) -> Vec<Vec<usize>> {
    let (levels, overwritten) = (levels(kernels), Overwritten::of(&plan.roots, kernels));
    let mut numbers: FxHashMap<(usize, UOp), usize> = FxHashMap::default();
    let mut found: Vec<Vec<usize>> = Vec::new();
    for (k, kernel) in kernels.iter().enumerate() {
        let refusal = kernel.refusal(costs);
        if !choices.choose(refusal.is_none()) {
            tell(plan, kernel, 1, &|| refusal.unwrap_or(told::AT_ANOTHER_LENGTH).to_owned());
            continue;
        }
        if overwritten.by_others(k, kernel) {
            tell(plan, kernel, 1, &|| "another kernel overwrites what it reads".to_owned());
            continue;
        }
        let (stores, _) = number_vars(&kernel.stores);
        let number = *numbers.entry((levels[k], UOp::sink(stores))).or_insert(found.len());
        if number == found.len() {
            found.push(Vec::new());
        }
        found[number].push(k);
    }
    found
}

/// For each kernel, the length of the longest chain of kernels that wait for it. Kernels of one level do not wait for
/// each other, so they may become one.
fn levels(kernels: &[Built]) -> Vec<usize> {
    let makers: FxHashMap<usize, usize> = kernels
        .iter()
        .enumerate()
        .flat_map(|(k, kernel)| kernel.outputs.iter().map(move |&o| (o, k)))
        .collect();
    let makers_of = |kernel: &Built| -> Vec<usize> {
        let stored = kernel.sources().filter_map(|s| match s {
            Source::Stored(node) => makers.get(&node).copied(),
            Source::Param(_) => None,
        });
        stored.collect()
    };
    let edges: Vec<Vec<usize>> = kernels.iter().map(makers_of).collect();
    let mut waiting = vec![0; kernels.len()];
    edges.iter().flatten().for_each(|&maker| waiting[maker] += 1);
    let mut ready: Vec<usize> = (0..kernels.len()).filter(|&k| waiting[k] == 0).collect();
    let mut levels = vec![0; kernels.len()];
    while let Some(k) = ready.pop() {
        for &maker in &edges[k] {
            levels[maker] = levels[maker].max(levels[k] + 1);
            waiting[maker] -= 1;
            if waiting[maker] == 0 {
                ready.push(maker);
            }
        }
    }
    levels
}

/// The memory that kernels might overwrite.
struct Overwritten(BTreeMap<Source, FxHashSet<usize>>);

impl Overwritten {
    fn of(roots: &[usize], kernels: &[Built]) -> Overwritten {
        let roots: FxHashSet<usize> = roots.iter().copied().collect();
        let mut by: BTreeMap<Source, FxHashSet<usize>> = BTreeMap::new();
        for (k, kernel) in kernels.iter().enumerate() {
            for source in overwritable(kernel, &roots).into_iter().chain(kernel.starts_from) {
                by.entry(source).or_default().insert(k);
            }
        }
        Overwritten(by)
    }

    /// Whether another kernel might overwrite what this one reads: it waits for this one, and should wait for nothing
    /// else.
    fn by_others(&self, k: usize, kernel: &Built) -> bool {
        let others = |s: Source| self.0.get(&s).is_some_and(|by| by.iter().any(|&b| b != k));
        kernel.sources().any(others)
    }
}

impl Built {
    fn nodes(&self) -> Vec<UOp> {
        toposort(&UOp::sink(self.stores.iter().cloned()))
    }

    /// The kernel with its arguments in these slots, and its loops numbered from `axis` on, which is then the next number.
    fn placed(mut self, slots: &FxHashMap<Source, usize>, axis: &mut u32) -> Built {
        let (first, mut map) = (*axis, FxHashMap::default());
        for node in self.nodes() {
            let new = match node.arg() {
                Arg::Param { slot, shape } => {
                    UOp::param(slots[&self.args[*slot]], node.dtype(), shape.clone())
                }
                Arg::Range { axis: number, kind } => {
                    *axis = (*axis).max(first + number + 1);
                    UOp::range(first + number, *kind, node.max() as usize + 1)
                }
                _ => continue,
            };
            map.insert(node, new);
        }
        self.stores = substitute(&self.stores, &map);
        self
    }

    /// Why the kernel gets a launch of its own; none if starting it takes longer than its work, which is all elementwise.
    fn refusal(&self, costs: &Costs) -> Option<&'static str> {
        if self.starts_from.is_some() || self.shared.is_some() {
            return Some("it updates memory, or has several loop nests");
        }
        let nodes = self.nodes();
        let plain = |n: &UOp| !matches!(n.op(), Op::Reduce | Op::Local | Op::After);
        if !nodes.iter().all(plain) {
            return Some("it has a reduction, and only elementwise kernels share a launch");
        }
        let iterations: f64 = self.loops.iter().map(|r| r.max() as f64 + 1.0).product();
        let is_small = cost::is_small(costs, &nodes, iterations);
        (!is_small).then_some("its work takes longer than starting it")
    }
}
