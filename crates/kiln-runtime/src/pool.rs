//! Freed blocks, kept for the next request of their size class. The pool is bounded; the block that was unused longest
//! is dropped first.

use crate::error::{Error, Result};
use crate::memory::{self, ALIGN, Memory};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// What the pool keeps at most by default. A training step of a mid-sized model recycles everything within it.
const DEFAULT_KEEP: usize = 2 << 30;

/// The memory of one device.
#[derive(Debug)]
pub struct Pool {
    free: Mutex<Free>,
    keep: usize,
    in_use: AtomicUsize,
    peak: AtomicUsize,
}

/// How much memory a device uses, in bytes as they were asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryUse {
    /// Allocated now.
    pub in_use: usize,
    /// The most that was allocated at once since the last reset.
    pub peak: usize,
    /// Kept for reuse.
    pub kept: usize,
}

/// Blocks by age; per class their ages, oldest first.
#[derive(Debug, Default)]
struct Free {
    by_age: BTreeMap<u64, Memory>,
    by_class: FxHashMap<usize, VecDeque<u64>>,
    bytes: usize,
    clock: u64,
}

impl Pool {
    /// A pool with the default bound.
    pub fn new() -> Arc<Pool> {
        Pool::with_keep(DEFAULT_KEEP)
    }

    /// A pool that keeps at most this many bytes of freed blocks.
    pub fn with_keep(keep: usize) -> Arc<Pool> {
        Arc::new(Pool {
            free: Mutex::default(),
            keep,
            in_use: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        })
    }

    /// A block of at least this size, and whether it is fresh and so full of zeros. It comes back by `give`, with the
    /// same number.
    pub(crate) fn take(&self, bytes: usize) -> Result<(Memory, bool)> {
        let class = size_class(bytes)?;
        let recycled = self.lock().take(class);
        let taken = match recycled {
            Some(memory) => (memory, false),
            None => (self.fresh(class)?, true),
        };
        let now = self.in_use.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(now, Relaxed);
        Ok(taken)
    }

    /// Refuses what the machine cannot have, even if everything that is kept were given back.
    pub(crate) fn check(&self, bytes: usize) -> Result<()> {
        memory::check_available(bytes).or_else(|_| {
            self.trim();
            memory::check_available(bytes)
        })
    }

    /// Takes back a block that was asked for with `bytes`.
    pub(crate) fn give(&self, memory: Memory, bytes: usize) {
        self.in_use.fetch_sub(bytes, Relaxed);
        let evicted = self.lock().give(memory, self.keep);
        // Unmapping is slow, so it happens outside the lock.
        drop(evicted);
    }

    /// Gives everything that is kept back to the system.
    pub fn trim(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }

    /// The counters.
    pub fn memory_use(&self) -> MemoryUse {
        let kept = self.lock().bytes;
        MemoryUse { in_use: self.in_use.load(Relaxed), peak: self.peak.load(Relaxed), kept }
    }

    /// Makes the present use the peak.
    pub fn reset_peak(&self) {
        self.peak.store(self.in_use.load(Relaxed), Relaxed);
    }

    /// From the system; if that has none left, after giving back what is kept.
    fn fresh(&self, class: usize) -> Result<Memory> {
        Memory::zeroed(class).or_else(|_| {
            self.trim();
            Memory::zeroed(class)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Free {
    /// The youngest block of a class: it is the likeliest to be in a processor's cache.
    fn take(&mut self, class: usize) -> Option<Memory> {
        let age = self.by_class.get_mut(&class)?.pop_back()?;
        let memory = self.by_age.remove(&age)?;
        self.bytes -= memory.len();
        Some(memory)
    }

    /// Keeps a block; returns the blocks that no longer fit.
    fn give(&mut self, memory: Memory, keep: usize) -> Vec<Memory> {
        if memory.len() > keep {
            return vec![memory];
        }
        self.clock += 1;
        self.bytes += memory.len();
        self.by_class.entry(memory.len()).or_default().push_back(self.clock);
        self.by_age.insert(self.clock, memory);
        let mut evicted = Vec::new();
        while self.bytes > keep {
            let Some((_, oldest)) = self.by_age.pop_first() else { break };
            self.bytes -= oldest.len();
            if let Some(ages) = self.by_class.get_mut(&oldest.len()) {
                ages.pop_front();
            }
            evicted.push(oldest);
        }
        evicted
    }
}

/// The size that a request is rounded up to: eight classes per power of two, so at most an eighth is lost.
fn size_class(bytes: usize) -> Result<usize> {
    let too_large = || Error::Memory { bytes, why: "more than can be addressed".into() };
    let step = (bytes.checked_next_power_of_two().ok_or_else(too_large)? / 16).max(ALIGN);
    bytes.max(1).checked_next_multiple_of(step).ok_or_else(too_large)
}
