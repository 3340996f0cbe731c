//! Families of kernels: those that are equal but for numbers, and do the same in graphs that are equal but for numbers.
//! From the third length on they share one general kernel, so that a loop in which lengths vary stops compiling.
//!
//! Kernels of one graph that differ in where they read and write are siblings. They share a general kernel at once. Other
//! kernels of one graph are no family, even if they are alike as those of two layers are: their places in it differ.
//!
//! What a kernel gets depends on the kernels that the program has made before, in their order, and on nothing else.

use super::device::Opened;
use super::env;
use super::generations::{Generations, locked};
use super::profitable::{Candidate, MOST_ITERATIONS};
use kiln_compile::optimize::{self, Skeleton, Work};
use kiln_ir::uop::Mixer;
use kiln_ir::{Const, DType, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::{Arc, LazyLock, Mutex};

/// Kernels with one skeleton.
struct Family {
    /// The first that was seen; before that, any.
    first: Arc<Skeleton>,
    /// The numbers of the kernels that were seen and had no general one.
    seen: Vec<Vec<Const>>,
    /// How many of those have code of their own.
    exact: usize,
    /// Oldest first.
    general: Vec<Arc<optimize::General>>,
    /// How many kernels found a general one that had been made for others.
    found: usize,
}

/// To specialize a general kernel (partial evaluation): it, and the kernel with the numbers of a run, made when they are needed.
pub(super) type Specialization = Arc<dyn Fn() -> Option<[UOp; 2]> + Send + Sync>;

/// A kernel with fewer iterations in a launch is not specialized: its code would not pay before a thousand launches, and each token of a
/// language model would remember the numbers of a hundred kernels.
pub(super) const LEAST_ITERATIONS: u64 = 8_000_000;

/// A general kernel for one run.
pub(super) struct Found {
    pub(super) ast: UOp,
    /// The number of its first scalar.
    pub(super) slot: usize,
    /// Its scalars.
    pub(super) numbers: Vec<(Const, DType)>,
    /// What this kernel does.
    pub(super) work: Work,
    /// It and this kernel. None for short kernels, and for siblings: their numbers cost nothing as scalars.
    pub(super) specialization: Option<Specialization>,
}

impl Found {
    /// Whether it takes about as long as the kernel that it stands for.
    fn is_profitable(&self, exact: &Skeleton, opened: &Opened) -> bool {
        let Found { ast, slot, numbers, work, .. } = self;
        let candidate = Candidate { ast, slot: *slot, numbers, iterations: work.iterations };
        candidate.is_profitable(|| Some(exact.kernel().clone()), opened)
    }
}

/// With so many lengths, each kernel gets code of its own. A third one says that lengths vary.
const EXACT_LENGTHS: usize = 2;

/// The same if only positions vary, which cost a kernel nothing.
const EXACT_POSITIONS: usize = 1;

/// So many siblings get code of their own.
const EXACT_SIBLINGS: usize = 2;

/// A family that needed more general kernels than this gets no other: its numbers have no pattern.
const MOST_SEEN: usize = 16;

/// How many kernels must find a general kernel before another one is made.
const WORTH: usize = 4;

/// About how much memory an entry takes: the nodes of a kernel or two, and lists of numbers.
const ENTRY: usize = 64 << 10;

type Known = Generations<u128, Arc<Mutex<Family>>>;
static FAMILIES: LazyLock<Mutex<Known>> =
    LazyLock::new(|| Mutex::new(Generations::new(env::cache_bytes() / 8)));

/// For each kernel of a graph, in order, a general kernel that computes the same, if its family or its siblings have one.
/// `outline` is a hash of the graph without numbers.
pub(super) fn general<'a>(
    outline: u128,
    kernels: impl Iterator<Item = &'a UOp> + Clone,
    opened: &Opened,
) -> Vec<Option<Found>> {
    let mode = env::LENGTHS.get();
    if mode == 0 {
        return kernels.map(|_| None).collect();
    }
    let skeletons: Vec<Skeleton> = kernels.map(Skeleton::of).collect();
    let of_siblings = of_siblings(&skeletons);
    let mut families = Families { outline, met: FxHashMap::default() };
    let mut of_family = |skeleton| {
        let found = locked(&families.family(skeleton)).general(skeleton, mode)?;
        found.is_profitable(skeleton, opened).then_some(found)
    };
    skeletons.iter().zip(of_siblings).map(|(s, of_siblings)| of_family(s).or(of_siblings)).collect()
}

/// The families of the kernels of one graph.
struct Families {
    outline: u128,
    /// How many kernels with a skeleton there have been.
    met: FxHashMap<u128, u128>,
}

impl Families {
    fn family(&mut self, skeleton: &Skeleton) -> Arc<Mutex<Family>> {
        let met = self.met.entry(skeleton.key).or_default();
        *met += 1;
        let mut key = Mixer::default();
        [self.outline, skeleton.key, *met].into_iter().for_each(|word| key.add(word));
        let key = key.finish128();
        let mut families = locked(&FAMILIES);
        let known = families.get(&key).cloned();
        known.unwrap_or_else(|| {
            let family = Arc::new(Mutex::new(Family::new(skeleton)));
            families.insert(key, family.clone(), ENTRY);
            family
        })
    }
}

impl Family {
    fn new(first: &Skeleton) -> Family {
        Family {
            first: Arc::new(first.clone()),
            seen: Vec::new(),
            exact: 0,
            general: Vec::new(),
            found: 0,
        }
    }

    fn general(&mut self, skeleton: &Skeleton, mode: i64) -> Option<Found> {
        let numbers = &skeleton.numbers;
        if self.seen[..self.exact].contains(numbers) || !self.first.is_like(skeleton) {
            return None;
        }
        let work = skeleton.work();
        if work.iterations > MOST_ITERATIONS {
            return None;
        }
        if let Some(found) = self.general.iter().find_map(|g| found(g, numbers, work)) {
            self.found += 1;
            return Some(self.with_specialization(found, numbers));
        }
        if self.seen.len() >= MOST_SEEN || self.seen.contains(numbers) {
            return None;
        }
        if self.seen.is_empty() {
            // the one before was too large, and is not among those that were seen
            self.first = Arc::new(skeleton.clone());
        }
        self.seen.push(numbers.clone());
        if self.seen.len() <= self.most_exact(mode) {
            self.exact = self.seen.len();
            return None;
        }
        if mode == 1 && !self.pays() {
            return None;
        }
        let general = Arc::new(optimize::General::of(&self.first, &self.seen)?);
        self.general.push(general.clone());
        found(&general, numbers, work).map(|found| self.with_specialization(found, numbers))
    }

    fn with_specialization(&self, found: Found, numbers: &[Const]) -> Found {
        if found.work.iterations < LEAST_ITERATIONS {
            return found;
        }
        let (first, general, numbers) = (self.first.clone(), found.ast.clone(), numbers.to_vec());
        let both = move || Some([general.clone(), first.with(&numbers)?]);
        Found { specialization: Some(Arc::new(both)), ..found }
    }

    /// Whether another general kernel is worth its compilation: the ones before were found often enough, or much more
    /// numbers have been seen since the last one was guessed from too few.
    fn pays(&self) -> bool {
        let made = self.general.len();
        self.found >= made * WORTH || self.seen.len() > EXACT_LENGTHS << made
    }

    fn most_exact(&self, mode: i64) -> usize {
        match mode {
            1 if self.first.lengths_vary(&self.seen) => EXACT_LENGTHS,
            1 => EXACT_POSITIONS,
            _ => 0,
        }
    }
}

fn found(general: &optimize::General, numbers: &[Const], work: Work) -> Option<Found> {
    let numbers = general.fits(numbers)?;
    Some(Found {
        ast: general.ast.clone(),
        slot: general.slot,
        numbers,
        work,
        specialization: None,
    })
}

/// By kernel of a graph, the general kernel that it shares with its siblings. They do the same at other places of memory, or with
/// other numbers that cost nothing as scalars. Example: the steps of a loop that the program unrolls; each reads its row of a
/// matrix.
fn of_siblings(skeletons: &[Skeleton]) -> Vec<Option<Found>> {
    let mut with_key: FxHashMap<u128, usize> = FxHashMap::default();
    skeletons.iter().for_each(|s| *with_key.entry(s.key).or_default() += 1);
    let mut siblings: FxHashMap<(u128, Vec<Const>), Vec<usize>> = FxHashMap::default();
    for (at, skeleton) in skeletons.iter().enumerate() {
        if with_key[&skeleton.key] > EXACT_SIBLINGS {
            siblings.entry((skeleton.key, skeleton.costly())).or_default().push(at);
        }
    }
    let mut all: Vec<Option<Found>> = skeletons.iter().map(|_| None).collect();
    for mut group in siblings.into_values() {
        let first = &skeletons[group[0]];
        group.retain(|&at| first.is_like(&skeletons[at]));
        let Some(general) = shared(group.iter().map(|&at| &skeletons[at])) else { continue };
        for at in group {
            all[at] = found(&general, &skeletons[at].numbers, skeletons[at].work());
        }
    }
    all
}

/// A kernel for all of these, if enough of them differ.
fn shared<'a>(siblings: impl Iterator<Item = &'a Skeleton>) -> Option<optimize::General> {
    let mut kernels = FxHashSet::default();
    let distinct: Vec<_> = siblings.filter(|s| kernels.insert(s.kernel())).collect();
    if distinct.len() <= EXACT_SIBLINGS || distinct[0].work().iterations > MOST_ITERATIONS {
        return None;
    }
    let seen: Vec<Vec<Const>> = distinct.iter().map(|s| s.numbers.clone()).collect();
    optimize::General::of(distinct[0], &seen)
}
