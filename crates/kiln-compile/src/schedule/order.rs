//! Pass `order` of stage `schedule`: orders the kernels. A value is written before it is read, and read before it is
//! overwritten.

use super::build::{Built, Source};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeSet, BinaryHeap};

/// The order in which kernels run.
pub(super) struct Order {
    /// Positions of the kernels.
    pub(super) steps: Vec<usize>,
    /// Updates that get memory of their own, because what they start from is read later.
    pub(super) separate: FxHashSet<usize>,
}

impl Order {
    /// Whether every kernel runs once, after those whose results it reads.
    pub(super) fn check(&self, kernels: &[Built]) -> Result<(), String> {
        let mut makers: FxHashMap<usize, usize> = FxHashMap::default();
        kernels.iter().enumerate().for_each(|(k, kernel)| {
            makers.extend(kernel.outputs.iter().map(|&output| (output, k)));
        });
        let mut done = vec![false; kernels.len()];
        for &k in &self.steps {
            for source in kernels[k].sources() {
                let maker =
                    if let Source::Stored(node) = source { makers.get(&node) } else { None };
                if maker.is_some_and(|&maker| maker != k && !done[maker]) {
                    return Err(format!("kernel {k} reads a value before it is written"));
                }
            }
            if std::mem::replace(&mut done[k], true) {
                return Err(format!("kernel {k} runs twice"));
            }
        }
        done.iter().position(|done| !done).map_or(Ok(()), |k| Err(format!("kernel {k} never runs")))
    }
}

/// A kernel waits for at most this many readers of memory that it might overwrite.
const MAX_READERS: usize = 16;

/// Kahn's algorithm. Of several kernels that are ready, the one that was planned last runs first: it is nearest to the
/// leaves. A kernel that overwrites memory, or might, waits for all readers of that memory, unless they wait for it.
pub(super) fn order(kernels: &[Built], roots: &[usize]) -> Order {
    let edges = Edges::of(kernels, roots);
    let (mut waits, mut spares) = (edges.waits.clone(), edges.spares.clone());
    let mut ready: BinaryHeap<usize> =
        (0..kernels.len()).filter(|&k| waits[k] == 0 && spares[k] == 0).collect();
    // kernels that wait only for readers of what they overwrite
    let mut held: BTreeSet<usize> =
        (0..kernels.len()).filter(|&k| waits[k] == 0 && spares[k] > 0).collect();
    let (mut steps, mut separate) = (Vec::with_capacity(kernels.len()), FxHashSet::default());
    while steps.len() < kernels.len() {
        let k = ready.pop().unwrap_or_else(|| {
            let k = held.pop_first().expect("kernels wait for each other in a circle");
            separate.insert(k);
            k
        });
        steps.push(k);
        for &user in &edges.users[k] {
            waits[user] -= 1;
            if waits[user] == 0 {
                if spares[user] == 0 { ready.push(user) } else { _ = held.insert(user) }
            }
        }
        for &writer in &edges.overwriters[k] {
            spares[writer] -= 1;
            if spares[writer] == 0 && held.remove(&writer) {
                ready.push(writer);
            }
        }
    }
    Order { steps, separate }
}

/// The dependencies between kernels.
struct Edges {
    /// How many values each kernel waits for.
    waits: Vec<usize>,
    /// How many other readers of the overwritten memory each update waits for.
    spares: Vec<usize>,
    users: Vec<Vec<usize>>,
    overwriters: Vec<Vec<usize>>,
}

impl Edges {
    fn of(kernels: &[Built], roots: &[usize]) -> Edges {
        let n = kernels.len();
        let mut edges = Edges {
            waits: vec![0; n],
            spares: vec![0; n],
            users: vec![Vec::new(); n],
            overwriters: vec![Vec::new(); n],
        };
        let roots: FxHashSet<usize> = roots.iter().copied().collect();
        let mut makers: FxHashMap<usize, usize> = FxHashMap::default();
        let mut readers: FxHashMap<Source, BTreeSet<usize>> = FxHashMap::default();
        for (k, kernel) in kernels.iter().enumerate() {
            makers.extend(kernel.outputs.iter().map(|&o| (o, k)));
            kernel.sources().for_each(|s| _ = readers.entry(s).or_default().insert(k));
        }
        for (k, kernel) in kernels.iter().enumerate() {
            for source in kernel.sources() {
                if let Source::Stored(node) = source {
                    edges.waits[k] += 1;
                    edges.users[makers[&node]].push(k);
                }
            }
            let might = overwritable(kernel, &roots);
            let might = might.iter().map(|s| &readers[s]).filter(|r| r.len() <= MAX_READERS);
            let does = kernel.starts_from.iter().map(|s| &readers[s]);
            let others: BTreeSet<usize> = does.chain(might).flatten().copied().collect();
            for reader in others.into_iter().filter(|&r| r != k) {
                edges.spares[k] += 1;
                edges.overwriters[reader].push(k);
            }
        }
        edges
    }
}

/// Parameters whose memory an output of the kernel may take.
pub(super) fn overwritable(kernel: &Built, roots: &FxHashSet<usize>) -> BTreeSet<Source> {
    let pairs = kernel.may_alias().into_iter();
    let kept = pairs.filter(|&(written, _)| roots.contains(&kernel.outputs[written]));
    let inputs = kept.map(|(_, read)| kernel.args[read]);
    inputs.filter(|s| matches!(s, Source::Param(_))).collect()
}
