//! Pass `order` of stage `schedule`: orders the kernels. A value is written before it is read, and read before it is
//! overwritten.

use super::assign::Plan;
use super::build::{Built, Source};
use super::choices::Choices;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

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

/// Kahn's algorithm. Of several kernels that are ready, one that frees more memory than it takes runs first: the gradient
/// of a weight, say, which is the last to read an activation. Otherwise the one that was planned last runs first: it is
/// nearest to the leaves. A kernel that overwrites memory, or might, waits for all readers of that memory, unless they wait
/// for it. Kernels that nothing waits for yet are [`Idle`].
pub(super) fn order(kernels: &[Built], plan: &Plan, choices: &Choices) -> Order {
    let edges = Edges::of(kernels, &plan.roots);
    let mut ready = Ready::of(kernels, plan);
    let mut idle = Idle::of(&edges);
    let (mut waits, mut spares) = (edges.waits.clone(), edges.spares.clone());
    let starts = (0..kernels.len()).filter(|&k| edges.can_start(k));
    starts.filter(|k| !idle.kernels.contains(k)).for_each(|k| ready.add(k));
    // kernels that wait only for readers of what they overwrite
    let mut held: BTreeSet<usize> =
        (0..kernels.len()).filter(|&k| waits[k] == 0 && spares[k] > 0).collect();
    let (mut steps, mut separate) = (Vec::with_capacity(kernels.len()), FxHashSet::default());
    while steps.len() < kernels.len() {
        let k = ready.pick(choices).unwrap_or_else(|| {
            let k = held.pop_first().expect("kernels wait for each other in a circle");
            separate.insert(k);
            k
        });
        steps.push(k);
        ready.run(k);
        idle.wanted_after(k, &edges).into_iter().for_each(|k| ready.add(k));
        for &user in &edges.users[k] {
            waits[user] -= 1;
            if waits[user] == 0 {
                match spares[user] {
                    0 => ready.add(user),
                    _ => _ = held.insert(user),
                }
            }
        }
        for &writer in &edges.overwriters[k] {
            spares[writer] -= 1;
            if spares[writer] == 0 && held.remove(&writer) {
                ready.add(writer);
            }
        }
    }
    Order { steps, separate }
}

/// Kernels that can run from the start, and whose users still wait for others: zeros for a gradient to be added to, say.
/// They run when a user waits for nothing else, so that their results do not take memory before.
struct Idle {
    kernels: FxHashSet<usize>,
    /// By kernel: those of its sources that can run from the start.
    before: Vec<Vec<usize>>,
    /// By kernel: how many values of other kernels it still waits for.
    others: Vec<usize>,
}

impl Idle {
    fn of(edges: &Edges) -> Idle {
        let n = edges.users.len();
        let (mut before, mut others) = (vec![Vec::new(); n], edges.waits.clone());
        for k in (0..n).filter(|&k| edges.can_start(k)) {
            for &user in &edges.users[k] {
                before[user].push(k);
                others[user] -= 1;
            }
        }
        let is_idle = |&k: &usize| {
            let (users, overwriters) = (&edges.users[k], &edges.overwriters[k]);
            // whoever overwrites what it reads waits for it, too
            let is_wanted = users.is_empty() || !overwriters.is_empty();
            edges.can_start(k) && !is_wanted && users.iter().all(|&user| others[user] > 0)
        };
        Idle { kernels: (0..n).filter(is_idle).collect(), before, others }
    }

    /// The kernels that are idle no more once `k` has run.
    fn wanted_after(&mut self, k: usize, edges: &Edges) -> Vec<usize> {
        if edges.can_start(k) {
            return Vec::new();
        }
        let mut wanted = Vec::new();
        for &user in &edges.users[k] {
            self.others[user] -= 1;
            if self.others[user] == 0 {
                let before = self.before[user].iter().copied();
                wanted.extend(before.filter(|k| self.kernels.remove(k)));
            }
        }
        wanted
    }
}

/// Kernels that can run, and those of them that free more memory than they take. A kernel frees a temporary if it is the
/// last to read it.
#[derive(Default)]
struct Ready {
    all: BTreeSet<usize>,
    /// Those that free more than they take.
    gaining: BTreeSet<usize>,
    /// By kernel: the temporaries that it reads.
    reads: Vec<Vec<usize>>,
    /// By temporary: its bytes, and the kernels that have not read it yet.
    temporaries: FxHashMap<usize, (usize, BTreeSet<usize>)>,
    /// By kernel: the bytes that it frees less those that it takes, as it stands now.
    gains: Vec<i64>,
}

impl Ready {
    /// Before any kernel can run.
    fn of(kernels: &[Built], plan: &Plan) -> Ready {
        let roots: FxHashSet<usize> = plan.roots.iter().copied().collect();
        let temporary = |source: &Source| match *source {
            Source::Stored(node) => Some(node).filter(|node| !roots.contains(node)),
            Source::Param(_) => None,
        };
        let bytes = |node: usize| plan.nodes[node].numel() * plan.nodes[node].dtype().size();
        let mut ready = Ready::default();
        for (k, kernel) in kernels.iter().enumerate() {
            let (outputs, inputs) = kernel.args.split_at(kernel.outputs.len());
            let taken: usize = outputs.iter().filter_map(temporary).map(bytes).sum();
            ready.gains.push(-(taken as i64));
            let reads: BTreeSet<usize> = inputs.iter().filter_map(temporary).collect();
            for &node in &reads {
                let none = || (bytes(node), BTreeSet::new());
                ready.temporaries.entry(node).or_insert_with(none).1.insert(k);
            }
            ready.reads.push(reads.into_iter().collect());
        }
        let nodes: Vec<usize> = ready.temporaries.keys().copied().collect();
        nodes.into_iter().for_each(|node| ready.note_last(node));
        ready
    }

    /// The kernel that runs next; none if none can.
    fn pick(&self, choices: &Choices) -> Option<usize> {
        let best = *self.gaining.last().or(self.all.last())?;
        let chosen = choices.pick(best);
        Some(if self.all.contains(&chosen) { chosen } else { best })
    }

    /// The only kernel that has still to read a temporary frees it.
    fn note_last(&mut self, node: usize) {
        let (bytes, readers) = &self.temporaries[&node];
        if readers.len() == 1
            && let Some(&last) = readers.first()
        {
            self.gains[last] += *bytes as i64;
            self.note_gain(last);
        }
    }

    fn note_gain(&mut self, k: usize) {
        if self.gains[k] > 0 && self.all.contains(&k) {
            self.gaining.insert(k);
        }
    }

    /// The kernel can run.
    fn add(&mut self, k: usize) {
        self.all.insert(k);
        self.note_gain(k);
    }

    /// The kernel has run.
    fn run(&mut self, k: usize) {
        self.all.remove(&k);
        self.gaining.remove(&k);
        for node in std::mem::take(&mut self.reads[k]) {
            if let Some((_, readers)) = self.temporaries.get_mut(&node) {
                readers.remove(&k);
            }
            self.note_last(node);
        }
    }
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

    /// Whether a kernel waits for no other.
    fn can_start(&self, k: usize) -> bool {
        self.waits[k] == 0 && self.spares[k] == 0
    }
}

/// Parameters whose memory an output of the kernel may take.
pub(super) fn overwritable(kernel: &Built, roots: &FxHashSet<usize>) -> BTreeSet<Source> {
    let is_kept = |output: &usize| roots.contains(output);
    let is_param = |source: &Source| matches!(source, Source::Param(_));
    if !kernel.outputs.iter().any(is_kept) || !kernel.args.iter().any(is_param) {
        return BTreeSet::new();
    }
    let pairs = kernel.may_alias().into_iter();
    let kept = pairs.filter(|&(written, _)| is_kept(&kernel.outputs[written]));
    kept.map(|(_, read)| kernel.args[read]).filter(is_param).collect()
}
