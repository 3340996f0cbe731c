//! Counts what a run does to memory, as a device sees it that executes neighbouring work-items at the same time.
//!
//! Neighbours that execute the same load are served together: global memory in whole lines, scratch in one step if no bank
//! has to give two words. Items of the interpreter run one after another, so accesses are gathered until a run of
//! neighbours has reached the next barrier. The nth time that each of them executes a load is one access.

use super::code::{Access, Place};
use kiln_ir::{DType, Op};
use rustc_hash::{FxHashMap, FxHashSet};

/// How a device serves the accesses of neighbouring work-items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbours {
    /// How many items of a group execute a step at the same time: a warp, a wavefront, a subgroup.
    pub items: usize,
    /// Bytes of a line of global memory.
    pub line_bytes: usize,
    /// Banks of scratch. Neighbouring words are in neighbouring banks.
    pub banks: usize,
    /// Bytes of a word of a bank.
    pub bank_bytes: usize,
}

/// What a run has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Elements and bytes that items have loaded from global memory.
    pub loads: Traffic,
    /// Elements and bytes that items have stored to global memory.
    pub stores: Traffic,
    /// Operations on floats; a multiply-add is two.
    pub flops: u64,
    /// Lines of global memory that neighbours have accessed, together.
    pub lines: u64,
    /// In how many lines all this could lie.
    pub least_lines: u64,
    /// Steps in which neighbours wait for each other at a bank of scratch.
    pub bank_conflicts: u64,
    /// Barriers that groups have passed.
    pub barriers: u64,
}

/// Accesses of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Elements.
    pub elements: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Counts {
    /// Lines that neighbours did not share as well as they could.
    pub fn unshared_lines(&self) -> u64 {
        self.lines - self.least_lines
    }
}

/// Elements that neighbours access at the same time.
#[derive(Default)]
struct Together {
    is_scratch: bool,
    /// Bytes of an element.
    size: usize,
    /// Where each element begins.
    places: Vec<usize>,
}

/// Counts while a program runs.
pub(super) struct Counter {
    neighbours: Neighbours,
    counts: Counts,
    /// How often the current item has executed each step since the last barrier.
    executed: FxHashMap<usize, usize>,
    /// The accesses of the current neighbours, by step and time.
    together: FxHashMap<(usize, usize), Together>,
}

impl Counter {
    pub(super) fn new(neighbours: Neighbours) -> Counter {
        let (executed, together) = (FxHashMap::default(), FxHashMap::default());
        Counter { neighbours, counts: Counts::default(), executed, together }
    }

    /// The item with this number in its group goes on after a barrier, or starts.
    pub(super) fn goes_on(&mut self, item: usize) {
        if item.is_multiple_of(self.neighbours.items) {
            self.serve();
        }
        self.executed.clear();
    }

    /// The current item executes the load or store that is step `at`, in some lanes or none.
    pub(super) fn executes(&mut self, at: usize) {
        *self.executed.entry(at).or_default() += 1;
    }

    /// The current item accesses scalar `i` of a memory in step `at`.
    pub(super) fn accesses(&mut self, access: &Access, i: usize, (op, at): (Op, usize)) {
        let size = access.memory.dtype.size();
        let base = match access.memory.place {
            Place::Param(_) => 0,
            Place::Scratch(offset) => offset,
            Place::Register(_) => return,
        };
        let is_scratch = matches!(access.memory.place, Place::Scratch(_));
        if !is_scratch {
            let traffic = match op {
                Op::Load => &mut self.counts.loads,
                _ => &mut self.counts.stores,
            };
            traffic.elements += 1;
            traffic.bytes += size as u64;
        }
        let time = self.executed.get(&at).copied().unwrap_or_default();
        let together = self.together.entry((at, time)).or_default();
        (together.is_scratch, together.size) = (is_scratch, size);
        together.places.push(base + i * size);
    }

    /// The current item computes so many values by `op`.
    pub(super) fn computes(&mut self, op: Op, dtype: DType, values: usize) {
        self.counts.flops += flops(op, dtype) * values as u64;
    }

    /// All items of a group have reached a barrier.
    pub(super) fn passes_barrier(&mut self) {
        self.counts.barriers += 1;
    }

    pub(super) fn counts(mut self) -> Counts {
        self.serve();
        self.counts
    }

    /// Serves what neighbours have accessed.
    fn serve(&mut self) {
        for (_, mut together) in self.together.drain() {
            together.places.sort_unstable();
            together.places.dedup();
            if together.is_scratch {
                self.counts.bank_conflicts += together.waits(&self.neighbours);
            } else {
                self.counts.lines += together.lines(self.neighbours.line_bytes);
                let bytes = together.places.len() * together.size;
                self.counts.least_lines += bytes.div_ceil(self.neighbours.line_bytes) as u64;
            }
        }
    }
}

impl Together {
    /// The pieces of so many bytes in which the elements lie, in order.
    fn pieces(&self, bytes: usize) -> impl Iterator<Item = usize> {
        let of = move |place: &usize| place / bytes..=(place + self.size - 1) / bytes;
        self.places.iter().flat_map(of)
    }

    fn lines(&self, bytes: usize) -> u64 {
        self.pieces(bytes).collect::<FxHashSet<usize>>().len() as u64
    }

    /// How many words the busiest bank gives after its first.
    fn waits(&self, neighbours: &Neighbours) -> u64 {
        let words: FxHashSet<usize> = self.pieces(neighbours.bank_bytes).collect();
        let mut busy = vec![0u64; neighbours.banks];
        words.into_iter().for_each(|word| busy[word % neighbours.banks] += 1);
        busy.into_iter().max().unwrap_or(0).saturating_sub(1)
    }
}

/// Operations on floats that compute one value.
fn flops(op: Op, dtype: DType) -> u64 {
    match op {
        _ if !dtype.is_float() => 0,
        Op::MulAdd => 2,
        Op::Where | Op::Cast | Op::Bitcast => 0,
        _ => 1,
    }
}
