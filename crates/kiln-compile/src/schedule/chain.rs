//! Pass `chain` of stage `schedule`: vertical fusion with scratch. If one kernel writes rows and only one other kernel
//! reads them, row by row, both become loop nests of one kernel, inside the loops over rows. One row is kept in
//! scratch. So the scores of attention never go to memory.

use super::assign::Plan;
use super::build::{Built, Source};
use super::choices::Choices;
use super::cost::Between;
use super::index::{flatten, simplify};
use super::told;
use crate::target::{NS_PER_US, Target};
use kiln_ir::affine::strides;
use kiln_ir::arg::Space;
use kiln_ir::uop::{axis_of, free_local, substitute, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};

/// A kernel has at most this many nests, and each nest at most this many nodes: compilers slow down faster than kernels
/// gain.
const MAX_NESTS: usize = 4;
const MAX_NODES: usize = 256;
/// Rows of fewer elements are not worth a nest of their own.
const SHORTEST: usize = 16;

/// Joins all pairs that can be joined, and notes each decision. The other kernels keep their order.
pub(super) fn chain(
    plan: &mut Plan,
    mut kernels: Vec<Built>,
    target: &Target,
    choices: &Choices,
) -> Vec<Built> {
    let roots: FxHashSet<usize> = plan.roots.iter().copied().collect();
    let readers = only_readers(&kernels);
    let mut gone = vec![false; kernels.len()];
    for k in (0..kernels.len()).rev() {
        let [output] = kernels[k].outputs[..] else {
            let outputs = kernels[k].outputs.iter();
            outputs.for_each(|&output| tell(&plan.nodes[output], &Refused::Never(SEVERAL)));
            continue;
        };
        let node = &plan.nodes[output];
        let joined = match readers.get(&output) {
            // nobody reads it here
            None => continue,
            Some(_) if roots.contains(&output) => {
                Err(Refused::Never("the program holds it, so it has to be in memory"))
            }
            Some(Some(reader)) if *reader == k || gone[*reader] => continue,
            Some(None) => Err(Refused::Never("several kernels read it")),
            Some(Some(reader)) => join(&kernels[k], &kernels[*reader], output, (target, choices))
                .map(|joined| (joined, *reader)),
        };
        match joined {
            Ok((joined, reader)) => {
                let (row, rows) = (joined.row, node.numel() / joined.row);
                told::kernel(node, "chain", ways(joined.prices), 1, || {
                    format!("{row} elements for each of {rows} rows")
                });
                kernels[reader] = joined.kernel;
                gone[k] = true;
            }
            Err(why) => tell(node, &why),
        }
    }
    kernels.into_iter().zip(gone).filter(|(_, gone)| !gone).map(|(k, _)| k).collect()
}

/// By stored node, the kernel that reads it if there is just one.
fn only_readers(kernels: &[Built]) -> FxHashMap<usize, Option<usize>> {
    let mut readers: FxHashMap<usize, Option<usize>> = FxHashMap::default();
    for (k, kernel) in kernels.iter().enumerate() {
        let sources: FxHashSet<Source> = kernel.sources().collect();
        for source in sources {
            if let Source::Stored(node) = source {
                readers.entry(node).and_modify(|r| *r = None).or_insert(Some(k));
            }
        }
    }
    readers
}

/// Why two kernels are not joined.
enum Refused {
    Never(&'static str),
    /// What the value costs in memory, and in scratch.
    Price([f64; 2]),
}

const SEVERAL: &str = "the kernel that stores it has several results";

/// The two ways of a value between two kernels, with prices in nanoseconds.
fn ways(prices: [f64; 2]) -> [(&'static str, Option<f64>); 2] {
    let [memory, scratch] = prices.map(|ns| Some(ns / NS_PER_US));
    [("memory", memory), ("scratch", scratch)]
}

/// Tells that a value stays in memory.
fn tell(node: &UOp, why: &Refused) {
    match *why {
        Refused::Never(why) => {
            let ways = [("memory", None), ("scratch", None)];
            told::kernel(node, "chain", ways, 0, || why.to_owned());
        }
        Refused::Price(prices) => told::kernel(node, "chain", ways(prices), 0, String::new),
    }
}

struct Joined {
    kernel: Built,
    /// What the value would cost in memory, and costs in scratch.
    prices: [f64; 2],
    /// Elements between the nests for each iteration of the loops around both.
    row: usize,
}

/// One kernel of two, if every iteration of some outer loops of `reader` reads only what the same iteration of `maker`
/// stores, and if the cost model is for it.
fn join(
    maker: &Built,
    reader: &Built,
    output: usize,
    (target, choices): (&Target, &Choices),
) -> Result<Joined, Refused> {
    let suits = |k: &Built| k.starts_from.is_none() && k.stores.len() == 1;
    if !suits(maker) || !suits(reader) {
        return Err(Refused::Never("one of the two kernels updates memory or has several results"));
    }
    if maker.nests() + reader.nests() > MAX_NESTS {
        return Err(Refused::Never("one kernel of both would have more than 4 loop nests"));
    }
    let slot = reader.args.iter().position(|a| *a == Source::Stored(output));
    let slot = slot.ok_or(Refused::Never("the other kernel does not read it"))?;
    let nodes = toposort(&reader.stores[0]);
    if nodes.len() + toposort(&maker.stores[0]).len() > MAX_NODES * (maker.nests() + reader.nests())
    {
        return Err(Refused::Never("one kernel of both would be too long to compile"));
    }
    let of_it = |n: &&UOp| n.op() == Op::Load && n.src(0).arg().slot() == Some(slot);
    let loads: Vec<UOp> = nodes.iter().filter(of_it).cloned().collect();
    let shared = shared_loops(maker, reader, &loads);
    let shared = shared.ok_or(Refused::Never(
        "no loop can be around both: its iterations would read what other iterations store",
    ))?;
    if reader.stores_across(shared) {
        return Err(Refused::Never(
            "its results are neighbours in memory across rows, so rows of their own would have no vectors",
        ));
    }
    let row = size(&maker.loops[shared..]);
    let between = between(maker, reader, shared);
    let prices = between.prices(target);
    let refusal = match row < SHORTEST {
        true => Some(Refused::Never("a row between the two has less than 16 elements")),
        false if !between.fits(target) => Some(Refused::Never(
            "there are too few rows for threads, or a row does not fit a cache",
        )),
        false => (prices[0] <= prices[1]).then_some(Refused::Price(prices)),
    };
    if !choices.choose(refusal.is_none()) {
        return Err(refusal.unwrap_or(Refused::Never(told::AT_ANOTHER_LENGTH)));
    }
    Ok(Joined { kernel: joined(maker, reader, output, shared), row, prices })
}

/// The most loops that can be around both.
fn shared_loops(maker: &Built, reader: &Built, loads: &[UOp]) -> Option<usize> {
    let alike = maker.loops.iter().zip(&reader.loops).take_while(|(a, b)| a.max() == b.max());
    let most = maker.shared.unwrap_or(maker.loops.len().saturating_sub(1)).min(alike.count());
    let most = most.min(reader.shared.unwrap_or(most));
    let least = maker.shared.max(reader.shared).unwrap_or(1);
    let made = |n: &usize| place_in_row(maker.stores[0].src(0), maker, maker, *n).is_some();
    let read = |n: &usize| loads.iter().all(|l| place_in_row(l, maker, reader, *n).is_some());
    let fits = |n: &usize| made(n) && read(n);
    (least..=most).rev().find(fits)
}

/// The place of an access in the row of its iteration; none if it may be in another row.
fn place_in_row(access: &UOp, maker: &Built, reader: &Built, shared: usize) -> Option<UOp> {
    let row = size(&maker.loops[shared..]);
    let place = simplify(&(access.src(1) - first_of_row(&reader.loops[..shared], row)));
    let inside = place.min() >= 0 && place.max() < row as i64;
    let gate = access.gate();
    let looked_up = |x: &UOp| toposort(x).iter().any(|n| n.op() == Op::Load);
    let known = ![access.src(1)].into_iter().chain(gate).any(looked_up);
    let apart = toposort(&place).iter().all(|n| !reader.loops[..shared].contains(n));
    (inside && known && apart).then_some(place)
}

/// The position of the first element of the iteration's row.
fn first_of_row(shared: &[UOp], row: usize) -> UOp {
    let shape: Vec<usize> = shared.iter().map(|r| size(std::slice::from_ref(r))).collect();
    flatten(&shared.iter().cloned().collect(), &shape) * row as i64
}

fn size(loops: &[UOp]) -> usize {
    loops.iter().map(|r| r.max() as usize + 1).product()
}

/// The numbers that the cost model needs of two kernels that may be joined.
fn between(maker: &Built, reader: &Built, shared: usize) -> Between {
    let row = size(&maker.loops[shared..]);
    let bytes = maker.stores[0].src(0).src(2).dtype().size();
    let (outer, last) = (&maker.loops[..shared - 1], &maker.loops[shared - 1]);
    Between {
        row: (row * bytes) as f64,
        rows: (last.max() + 1) as f64,
        times: size(outer) as f64,
        again: maker.still(shared) + reader.still(shared),
        others: maker.argument_bytes() + reader.argument_bytes()
            - 2.0 * (bytes * size(&maker.loops)) as f64,
    }
}

/// The reader with the maker's nest before its own.
fn joined(maker: &Built, reader: &Built, output: usize, shared: usize) -> Built {
    let row = size(&maker.loops[shared..]);
    let (mut maker, mut reader) = (maker.clone(), reader.clone());
    let mut args: Vec<Source> =
        reader.args.iter().copied().filter(|a| *a != Source::Stored(output)).collect();
    let inputs = maker.args[1..].iter().filter(|a| !reader.args.contains(a));
    args.extend(inputs.copied());
    let gap = args.len();
    let slot = |a: &Source| args.iter().position(|b| a == b).unwrap_or(gap);
    maker.remap(&maker.args.iter().map(slot).collect::<Vec<_>>());
    reader.remap(&reader.args.iter().map(slot).collect::<Vec<_>>());

    maker.move_apart(&reader, shared);
    let (store, around) = (maker.stores[0].src(0), &reader.loops[..shared]);
    let nodes = toposort(&reader.stores[0]);
    let of_it = |n: &&UOp| n.op() == Op::Load && n.src(0).arg().slot() == Some(gap);
    let loads: Vec<&UOp> = nodes.iter().filter(of_it).collect();
    let first = first_of_row(around, row);
    let place = |index: &UOp| simplify(&(index - &first));
    let gate = Gate::of_all(&nodes, &loads, around, place, &place(store.src(1)));
    let value = gate.as_ref().map_or_else(|| store.src(2).clone(), |gate| gate.on(store.src(2)));
    let memory =
        UOp::local(Space::Scratch, free_scratch(&[&maker, &reader]), row, value.dtype(), 1);
    let target = memory.after(around.iter().cloned());
    let filled = UOp::store(&target, &place(store.src(1)), &value, None)
        .end(maker.loops[shared..].iter().cloned());
    let memory = memory.after([filled]);
    let staged = |l: &UOp| UOp::load_lanes(&memory, &place(l.src(1)), l.gate(), 1);
    let mut map: FxHashMap<UOp, UOp> = loads.iter().map(|&l| (l.clone(), staged(l))).collect();
    if gate.is_some() {
        let gated = nodes.iter().filter(|n| n.srcs().iter().any(|s| loads.contains(&s)));
        let gated: Vec<_> = gated.map(|n| (n.clone(), staged(n.src(1)))).collect();
        map.extend(gated);
    }
    reader.stores = substitute(&reader.stores, &map);
    reader.args = args;
    reader.shared = Some(shared);
    reader.wait_for(maker.after);
    reader.after.remove(&output);
    reader.add_origins(maker.origins);
    reader
}

/// A predicate that all readers put on the elements of a row. The elements are stored under it too, so that loops may
/// end by it.
struct Gate {
    condition: UOp,
    nothing: UOp,
}

impl Gate {
    /// The gate that every load of a row has, for the element at `at` of it. `around` are the loops around the row.
    fn of_all(
        nodes: &[UOp],
        loads: &[&UOp],
        around: &[UOp],
        place: impl Fn(&UOp) -> UOp,
        at: &UOp,
    ) -> Option<Gate> {
        let mut gates = nodes.iter().flat_map(|reader| {
            let read = reader.srcs().iter().filter(|s| loads.contains(s));
            read.map(|load| Gate::of(reader, load, around, &place(load.src(1)), at))
        });
        let first = gates.next()??;
        let alike = |g: Option<Gate>| {
            g.is_some_and(|g| g.condition == first.condition && g.nothing == first.nothing)
        };
        gates.all(alike).then_some(first)
    }

    /// The gate of `load` in `reader`, if it depends on nothing but the place in the row and the loops around.
    fn of(reader: &UOp, load: &UOp, around: &[UOp], place: &UOp, at: &UOp) -> Option<Gate> {
        let [condition, value, nothing] = reader.srcs() else { return None };
        let is_gate = reader.op() == Op::Where && value == load && nothing.as_const().is_some();
        let known = |n: &UOp| match n.op() {
            Op::Range => n == place || around.contains(n),
            op => op != Op::Load,
        };
        let plain = place.op() == Op::Range && toposort(condition).iter().all(known);
        let map = FxHashMap::from_iter([(place.clone(), at.clone())]);
        let condition = || substitute(std::slice::from_ref(condition), &map).swap_remove(0);
        (is_gate && plain)
            .then(|| Gate { condition: simplify(&condition()), nothing: nothing.clone() })
    }

    fn on(&self, value: &UOp) -> UOp {
        self.condition.where_(value, &self.nothing)
    }
}

/// The first number that no scratch of the kernels has.
fn free_scratch(kernels: &[&Built]) -> u32 {
    free_local(&toposort(&UOp::sink(kernels.iter().flat_map(|k| k.stores.iter().cloned()))))
}

impl Built {
    /// How many nests are in its shared loops.
    fn nests(&self) -> usize {
        let nodes = toposort(&UOp::sink(self.stores.iter().cloned()));
        nodes.iter().filter(|n| n.op() == Op::Store).count()
    }

    /// Whether neighbours along the innermost shared loop are neighbours in memory. Example: channels that are last in memory,
    /// since the next kernel reads windows of them.
    fn stores_across(&self, shared: usize) -> bool {
        let strides = strides(self.stores[0].src(0).src(1));
        self.loops[shared..].iter().any(|r| strides.contains_key(&axis_of(r)))
            && strides.get(&axis_of(&self.loops[shared - 1])) == Some(&Some(1))
    }

    fn argument_bytes(&self) -> f64 {
        let nodes = toposort(&UOp::sink(self.stores.iter().cloned()));
        let arguments = nodes.iter().filter(|n| n.op() == Op::Param);
        arguments.map(|n| (n.numel() * n.dtype().size()) as f64).sum()
    }

    /// Bytes of arguments that are read again for other rows.
    fn still(&self, shared: usize) -> f64 {
        let nodes = toposort(&UOp::sink(self.stores.iter().cloned()));
        let loads = nodes.iter().filter(|n| n.op() == Op::Load && n.src(0).op() == Op::Param);
        let (shared, mut bytes) = (&self.loops[..shared], 0.0);
        for load in loads {
            let ranges = toposort(load.src(1)).into_iter().filter(|n| n.op() == Op::Range);
            let ranges: Vec<UOp> = ranges.collect();
            if shared.last().is_some_and(|last| !ranges.contains(last)) {
                let own = ranges.into_iter().filter(|r| !shared.contains(r));
                let elements = own.map(|r| r.max() as f64 + 1.0).product::<f64>();
                bytes += elements.min(load.src(0).numel() as f64) * load.dtype().size() as f64;
            }
        }
        bytes
    }

    /// The same kernel with ranges and scratch that `other` does not have, but for the shared loops, which are those of
    /// `other`.
    fn move_apart(&mut self, other: &Built, shared: usize) {
        let ranges = |k: &Built| {
            let nodes = toposort(&UOp::sink(k.stores.iter().cloned()));
            nodes.into_iter().filter(|n| n.op() == Op::Range).collect::<Vec<_>>()
        };
        let first = ranges(other).iter().map(|r| axis_of(r) + 1).max().unwrap_or(0);
        let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
        for range in ranges(self) {
            let (number, kind) = range.arg().range().expect("a range");
            let new = match self.loops[..shared].iter().position(|r| *r == range) {
                Some(i) => other.loops[i].clone(),
                None => UOp::range(first + number, kind, range.max() as usize + 1),
            };
            map.insert(range, new);
        }
        let scratch = free_scratch(&[other]);
        for node in toposort(&UOp::sink(self.stores.iter().cloned())) {
            if let Some((space, id, len)) = node.arg().memory().filter(|_| node.op() == Op::Local) {
                let new = UOp::local(space, scratch + id, len, node.dtype(), node.lanes());
                map.insert(node, new);
            }
        }
        self.stores = substitute(&self.stores, &map);
        self.loops = self.loops.iter().map(|r| map.get(r).unwrap_or(r).clone()).collect();
    }
}
