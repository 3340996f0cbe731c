//! Pass `merge` of stage `schedule`: horizontal fusion. Independent kernels over the same loops that share an input
//! become one kernel with several outputs. The input is read once, and launches are saved.
//!
//! Matrix products are not fused: a tile reads its operands a few times at most, and its sums fill all registers.

use super::assign::about;
use super::build::{Built, Source};
use super::told;
use kiln_ir::scope::{AxisSet, Ranges};
use kiln_ir::uop::{axis_of, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// A merged kernel stores at most this many outputs: registers run out, and reading the kernel becomes hard.
const MAX_OUTPUTS: usize = 8;

/// Merges what can be merged; the order of the kernels that stay is kept.
pub(super) fn merge(nodes: &[UOp], mut kernels: Vec<Built>) -> Vec<Built> {
    let mut by_shape: FxHashMap<(Vec<UOp>, Vec<Standing>), Vec<usize>> = FxHashMap::default();
    let mut gone = vec![false; kernels.len()];
    let tiled: Vec<bool> = kernels.iter().map(Built::is_tiled).collect();
    let outputs = kernels
        .iter()
        .enumerate()
        .flat_map(|(k, kernel)| kernel.outputs.iter().map(move |&o| (o, k)));
    let mut makers: Makers = outputs.collect();
    for k in 0..kernels.len() {
        if tiled[k] {
            tell(nodes, &kernels[k], None, || PRODUCT.to_owned());
            continue;
        }
        let peers =
            by_shape.entry((kernels[k].loops.clone(), kernels[k].reductions())).or_default();
        // a long program must not compare everything with everything
        let host = peers
            .iter()
            .rev()
            .take(TRIED)
            .copied()
            .find(|&j| refusal(&kernels, &makers, j, k).is_none());
        tell(nodes, &kernels[k], host.map(|j| &kernels[j]), || {
            why_alone(&kernels, &makers, peers, k)
        });
        match host {
            Some(j) => {
                let guest = kernels[k].clone();
                makers.extend(guest.outputs.iter().map(|&o| (o, j)));
                kernels[j].absorb(guest);
                gone[k] = true;
            }
            None => peers.push(k),
        }
    }
    kernels.into_iter().zip(gone).filter(|(_, gone)| !gone).map(|(k, _)| k).collect()
}

/// Only the latest few are tried.
const TRIED: usize = 8;

const PRODUCT: &str = "it is a product that will be tiled: its sums fill the registers, and a tile reads its operands few times";

/// Tells whether a kernel became one with a host, and if not, why.
fn tell(nodes: &[UOp], kernel: &Built, host: Option<&Built>, why: impl FnOnce() -> String) {
    let Some(&output) = kernel.outputs.first() else { return };
    let ways = [("a kernel of its own", None), ("one with others side by side", None)];
    told::kernel(&nodes[output], "merge", ways, host.is_some() as usize, || match host {
        Some(host) => format!("with {}", about(&nodes[host.outputs[0]])),
        None => why(),
    });
}

/// Why none of the kernels over the same loops takes it in: each reason, and how many kernels have it.
fn why_alone(kernels: &[Built], makers: &Makers, peers: &[usize], k: usize) -> String {
    let tried = peers.iter().rev().take(TRIED);
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for why in tried.filter_map(|&j| refusal(kernels, makers, j, k)) {
        *count.entry(why).or_default() += 1;
    }
    if count.is_empty() {
        return "no kernel before it has its loops".to_owned();
    }
    let reasons: Vec<String> = count.iter().map(|(why, n)| format!("{n}: {why}")).collect();
    format!("of the kernels before it over the same loops, {}", reasons.join("; "))
}

/// The loop of a reduction, and those around it, outermost first. Kernels that become one share the loops of their
/// reductions, so each must stand in the same place in both.
#[derive(PartialEq, Eq, Hash)]
struct Standing {
    range: UOp,
    around: Vec<UOp>,
}

/// The kernel that makes each stored node.
type Makers = FxHashMap<usize, usize>;

/// Why two kernels cannot be one; none if they can.
fn refusal(kernels: &[Built], makers: &Makers, a: usize, b: usize) -> Option<&'static str> {
    let (host, guest) = (&kernels[a], &kernels[b]);
    if host.starts_from.is_some() || guest.starts_from.is_some() {
        return Some("one of the two updates memory, and the loops of an update are its own");
    }
    if host.outputs.len() + guest.outputs.len() > MAX_OUTPUTS {
        return Some("together they would have more than 8 results");
    }
    if !host.shares_input(guest) {
        return Some("they read nothing in common");
    }
    if depends(kernels, makers, a, b) || depends(kernels, makers, b, a) {
        return Some("one needs what the other computes");
    }
    wait_for_each_other(host.waits(), guest.waits()).then_some(
        "a loop would have to end before another one in one of the two, and after it in the other",
    )
}

/// For the loops of reductions, by axis: those that end before they begin.
type Waits = BTreeMap<u32, AxisSet>;

/// Whether loops of two kernels wait for each other if they are the same. Example: one looks up `x[argmax(y)]` and sums over
/// `x` afterwards, the other one sums over `x` first.
fn wait_for_each_other(mut all: Waits, more: Waits) -> bool {
    for (axis, before) in more {
        all.entry(axis).or_default().union_with(&before);
    }
    let mut left = all.len() + 1;
    while all.len() < left {
        left = all.len();
        let open: AxisSet = all.keys().copied().collect();
        all.retain(|_, before| before.intersects(&open));
    }
    !all.is_empty()
}

/// Whether `user` needs `source`'s outputs, directly or not.
fn depends(kernels: &[Built], makers: &Makers, user: usize, source: usize) -> bool {
    let (mut stack, mut seen) = (vec![user], FxHashSet::default());
    while let Some(k) = stack.pop() {
        for needed in kernels[k].sources() {
            let Source::Stored(node) = needed else { continue };
            let Some(&maker) = makers.get(&node) else { continue };
            if maker == source {
                return true;
            }
            if seen.insert(maker) {
                stack.push(maker);
            }
        }
    }
    false
}

impl Built {
    fn inputs(&self) -> &[Source] {
        &self.args[self.outputs.len()..]
    }

    fn shares_input(&self, other: &Built) -> bool {
        self.inputs().iter().any(|a| other.inputs().contains(a))
    }

    /// The loops of reductions, in order of axis.
    fn reductions(&self) -> Vec<Standing> {
        let nodes = toposort(&UOp::sink(self.stores.iter().cloned()));
        let reduces = || nodes.iter().filter(|n| n.op() == Op::Reduce);
        if reduces().next().is_none() {
            return Vec::new();
        }
        let ranges = Ranges::among(&nodes);
        let mut standings: Vec<Standing> = Vec::new();
        for reduce in reduces() {
            let mut around: Vec<UOp> = ranges.of(reduce.scope()).cloned().collect();
            let mut ranges = reduce.srcs()[1..].to_vec();
            ranges.sort_by_key(axis_of);
            for range in ranges {
                standings.push(Standing { range: range.clone(), around: around.clone() });
                around.push(range);
            }
        }
        standings.sort_by_key(|s| axis_of(&s.range));
        standings.dedup();
        standings
    }

    /// Which loops of reductions wait for which.
    fn waits(&self) -> Waits {
        let mut waits = Waits::new();
        let mut ended: FxHashMap<UOp, AxisSet> = FxHashMap::default();
        for node in toposort(&UOp::sink(self.stores.iter().cloned())) {
            let mut below = AxisSet::default();
            node.srcs().iter().for_each(|src| below.union_with(&ended[src]));
            if node.op() == Op::Reduce {
                let own: AxisSet = node.srcs()[1..].iter().map(axis_of).collect();
                own.iter().for_each(|axis| waits.entry(axis).or_default().union_with(&below));
                below.union_with(&own);
            }
            ended.insert(node, below);
        }
        waits
    }

    /// Whether it reduces products whose two operands move along different loops, so that each is used again along the
    /// other's: such a reduction will be tiled.
    fn is_tiled(&self) -> bool {
        let nodes = toposort(&UOp::sink(self.stores.iter().cloned()));
        let reduced = |n: &UOp| n.op() == Op::Reduce && self.crosses(&n.srcs()[1..], n.src(0));
        nodes.iter().any(reduced)
    }

    /// Whether of the loads in a value that some of `ranges` move, two move along different loops over outputs.
    fn crosses(&self, ranges: &[UOp], value: &UOp) -> bool {
        let moves = |load: UOp| -> Option<Vec<bool>> {
            let moves = |range: &UOp| load.src(1).scope().contains(axis_of(range));
            ranges.iter().any(moves).then(|| self.loops.iter().map(moves).collect())
        };
        let loads = toposort(value).into_iter().filter(|n| n.op() == Op::Load);
        let loads: FxHashSet<Vec<bool>> = loads.filter_map(moves).collect();
        let only = |a: &Vec<bool>, b: &Vec<bool>| a.iter().zip(b).any(|(a, b)| *a && !*b);
        loads.iter().any(|a| loads.iter().any(|b| only(a, b) && only(b, a)))
    }

    /// Takes over another kernel's outputs, which come after its own and before the inputs.
    fn absorb(&mut self, mut guest: Built) {
        let (mine, theirs) = (self.outputs.len(), guest.outputs.len());
        let shift = |slot: usize| if slot < mine { slot } else { slot + theirs };
        let slots: Vec<usize> = (0..self.args.len()).map(shift).collect();
        self.remap(&slots);
        let mut args = self.args.clone();
        args.splice(mine..mine, guest.args[..theirs].iter().copied());
        let slot_of = |args: &mut Vec<Source>, source: Source| {
            args.iter().position(|a| *a == source).unwrap_or_else(|| {
                args.push(source);
                args.len() - 1
            })
        };
        let slots: Vec<usize> = guest.args.iter().map(|&a| slot_of(&mut args, a)).collect();
        guest.remap(&slots);
        self.args = args;
        self.outputs.extend(guest.outputs);
        self.wait_for(guest.after);
        self.stores.extend(guest.stores);
        self.add_origins(guest.origins);
    }
}
