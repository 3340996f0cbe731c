//! Freed blocks, kept for the next request of their size class. The pool is bounded; the block that was unused longest
//! is dropped first.

use crate::error::{Error, Result};
use crate::memory::{self, ALIGN, Memory};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// What the pool keeps at most by default.
pub const DEFAULT_KEEP: usize = 2 << 30;

/// One in so many bytes that the machine has left may be kept.
const SHARE_KEPT: usize = 4;

/// What a pool of the host's memory should keep: a part of what is available now. A training step frees all its
/// temporaries at its end, often as one block; if that is not kept, each step waits for as many new pages.
///
/// ```
/// assert!(kiln_runtime::pool::keep_of_host() >= kiln_runtime::pool::DEFAULT_KEEP);
/// ```
pub fn keep_of_host() -> usize {
    memory::available().map_or(0, |left| left / SHARE_KEPT).max(DEFAULT_KEEP)
}

/// The memory of one device.
pub struct Pool {
    /// The device, as programs name it.
    device: OnceLock<String>,
    state: Mutex<State>,
    /// How much freed memory is kept.
    keep: usize,
    /// How much may be in use.
    limit: usize,
    /// Where blocks come from.
    source: Source,
}

/// Gives blocks of memory.
type Allocate = dyn Fn(usize) -> Result<Memory> + Send + Sync;

enum Source {
    /// The system's memory, full of zeros.
    Host,
    /// A device.
    Device(Box<Allocate>),
}

#[derive(Default)]
struct State {
    free: Free,
    /// Blocks in use by number: how much was asked for, and what for. None if the number is free.
    used: Vec<Option<(usize, &'static str)>>,
    /// Numbers that are free.
    unused: Vec<usize>,
    now: usize,
    peak: usize,
}

/// How much memory a device uses, in bytes as they were asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MemoryUse {
    /// In use now.
    pub used: usize,
    /// The most that was in use at once since the last reset.
    pub peak: usize,
    /// Freed, and kept for reuse.
    pub pooled: usize,
    /// How much may be in use, if there is a limit.
    pub limit: Option<usize>,
}

/// A block of a pool.
pub(crate) struct Taken {
    pub(crate) memory: Memory,
    /// Its number, with which it comes back.
    pub(crate) entry: usize,
    /// Whether it is full of zeros.
    pub(crate) is_zero: bool,
    /// Whether it was freed before, and kept.
    pub(crate) is_reused: bool,
}

/// Blocks by age; per class their ages, oldest first.
#[derive(Default)]
struct Free {
    by_age: BTreeMap<u64, Memory>,
    by_class: FxHashMap<usize, VecDeque<u64>>,
    bytes: usize,
    clock: u64,
}

impl Pool {
    /// A pool of the host's memory, with the default bounds.
    pub fn new() -> Arc<Pool> {
        Arc::default()
    }

    /// A pool that keeps at most this many bytes of freed blocks.
    pub fn with_keep(keep: usize) -> Arc<Pool> {
        Pool::bounded(keep, usize::MAX)
    }

    /// A pool of the host's memory that keeps at most `keep` bytes of freed blocks, and of which at most `limit` bytes are
    /// in use.
    pub fn bounded(keep: usize, limit: usize) -> Arc<Pool> {
        Arc::new(Pool { keep, limit, ..Pool::default() })
    }

    /// A pool of another kind of memory.
    pub fn of_device(
        keep: usize,
        limit: usize,
        allocate: impl Fn(usize) -> Result<Memory> + Send + Sync + 'static,
    ) -> Arc<Pool> {
        let source = Source::Device(Box::new(allocate));
        Arc::new(Pool { device: OnceLock::new(), state: Mutex::default(), keep, limit, source })
    }

    /// Names the device that it is the memory of, for observers. The first name stays.
    pub fn belongs_to(&self, device: &str) {
        self.device.get_or_init(|| device.to_owned());
    }

    /// The device's name, once it has one.
    pub(crate) fn device(&self) -> &str {
        self.device.get().map_or("", String::as_str)
    }

    /// An empty pool of the host's memory with the same bounds.
    pub fn another(&self) -> Arc<Pool> {
        Pool::bounded(self.keep, self.limit)
    }

    /// A block of at least this size. It comes back by `give`, with its number.
    pub(crate) fn take(&self, bytes: usize, purpose: &'static str) -> Result<Taken> {
        let class = size_class(bytes)?;
        let mut state = self.lock();
        state.check(bytes, self.limit)?;
        if let Some(memory) = state.free.take(class) {
            let entry = state.enter(bytes, purpose);
            return Ok(Taken { memory, entry, is_zero: false, is_reused: true });
        }
        drop(state);
        let (memory, is_zero) = (self.fresh(class)?, matches!(self.source, Source::Host));
        let entry = self.lock().enter(bytes, purpose);
        Ok(Taken { memory, entry, is_zero, is_reused: false })
    }

    /// Refuses what the machine cannot have, even if everything that is kept were given back.
    pub(crate) fn check(&self, bytes: usize) -> Result<()> {
        self.lock().check(bytes, self.limit)?;
        if let Source::Device(_) = self.source {
            return Ok(());
        }
        memory::check_available(bytes).or_else(|_| {
            self.trim();
            memory::check_available(bytes)
        })
    }

    /// Takes back a block.
    pub(crate) fn give(&self, memory: Memory, entry: usize) {
        let mut state = self.lock();
        state.leave(entry);
        let evicted = state.free.give(memory, self.keep);
        drop(state);
        // Unmapping is slow, so it happens outside the lock.
        drop(evicted);
    }

    /// Gives everything that is kept back to the system.
    pub fn trim(&self) {
        let all = std::mem::take(&mut self.lock().free);
        drop(all);
    }

    /// The counters.
    pub fn memory_use(&self) -> MemoryUse {
        let state = self.lock();
        let limit = Some(self.limit).filter(|limit| *limit < usize::MAX);
        MemoryUse { used: state.now, peak: state.peak, pooled: state.free.bytes, limit }
    }

    /// Makes the present use the peak.
    pub fn reset_peak(&self) {
        let mut state = self.lock();
        state.peak = state.now;
    }

    /// A new block; if there is none left, after giving back what is kept.
    fn fresh(&self, class: usize) -> Result<Memory> {
        let allocate = || match &self.source {
            Source::Host => Memory::zeroed(class),
            Source::Device(allocate) => allocate(class),
        };
        let again = |_| {
            self.trim();
            allocate()
        };
        allocate().or_else(again).map_err(|error| match error {
            Error::Memory { bytes, why } => {
                let state = self.lock();
                let why = format!("{why}; {} bytes are in use: {}", state.now, state.holders());
                Error::Memory { bytes, why }
            }
            other => other,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Default for Pool {
    fn default() -> Pool {
        let (state, source) = (Mutex::default(), Source::Host);
        Pool { device: OnceLock::new(), state, keep: DEFAULT_KEEP, limit: usize::MAX, source }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({:?})", self.memory_use())
    }
}

/// How many purposes an error lists.
const LISTED: usize = 4;

impl State {
    /// Notes a block in use; its number.
    fn enter(&mut self, bytes: usize, purpose: &'static str) -> usize {
        self.now += bytes;
        self.peak = self.peak.max(self.now);
        match self.unused.pop() {
            Some(entry) => {
                self.used[entry] = Some((bytes, purpose));
                entry
            }
            None => {
                self.used.push(Some((bytes, purpose)));
                self.used.len() - 1
            }
        }
    }

    /// A block is no longer in use.
    fn leave(&mut self, entry: usize) {
        if let Some((bytes, _)) = self.used[entry].take() {
            self.now -= bytes;
            self.unused.push(entry);
        }
    }

    /// Refuses what goes beyond a limit, and says what has the memory.
    fn check(&self, bytes: usize, limit: usize) -> Result<()> {
        if bytes <= limit.saturating_sub(self.now) {
            return Ok(());
        }
        let (now, holders) = (self.now, self.holders());
        let why = format!("{now} of at most {limit} bytes are in use: {holders}");
        Err(Error::Memory { bytes, why })
    }

    /// What has most of the memory.
    fn holders(&self) -> String {
        let mut by_purpose: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (bytes, purpose) in self.used.iter().flatten().copied() {
            let (count, sum) = by_purpose.entry(purpose).or_default();
            (*count, *sum) = (*count + 1, *sum + bytes);
        }
        let mut all: Vec<_> = by_purpose.into_iter().collect();
        all.sort_by_key(|&(_, (_, bytes))| std::cmp::Reverse(bytes));
        let more = all.len().saturating_sub(LISTED);
        all.truncate(LISTED);
        let text = |(purpose, (count, bytes))| {
            format!(
                "{bytes} by {purpose} ({count} {})",
                if count == 1 { "block" } else { "blocks" }
            )
        };
        let mut texts: Vec<String> = all.into_iter().map(text).collect();
        texts.extend((more > 0).then(|| format!("and {more} more")));
        if texts.is_empty() { "nothing".into() } else { texts.join(", ") }
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
