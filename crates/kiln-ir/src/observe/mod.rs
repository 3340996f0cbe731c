//! Observers: they receive each pass, rewrite, decision and launch as it happens, in order to show, count or replay it.
//!
//! An observer belongs to one thread, so programs that run at the same time see only their own work. Others may
//! belong to the process. Nothing is made that no observer wants: whoever makes an event first calls `is_wanted`, which reads
//! two flags.

mod event;
mod log;

pub use event::{Compilation, Decision, Event, Kind, MachineCode, Planned, Speed, Temporary};
pub use log::{Log, Replay, Seen, replayed};

use std::cell::RefCell;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Sees what happens.
pub trait Observer: Send + Sync {
    /// Sees one event. It must not compile anything itself.
    fn see(&self, event: &Event<'_>);

    /// Whether it wants events of this kind; always the same answer.
    fn wants(&self, _: Kind) -> bool {
        true
    }
}

/// Threads that have an observer of their own: with none, no thread has to look for it.
static OBSERVED: AtomicUsize = AtomicUsize::new(0);

/// The process's observers, and the kinds that one of them wants, a bit each.
static OF_PROCESS: OnceLock<Vec<Arc<dyn Observer>>> = OnceLock::new();
static WANTED: AtomicU8 = AtomicU8::new(0);

thread_local! {
    static OWN: RefCell<Option<Arc<dyn Observer>>> = const { RefCell::new(None) };
}

/// This thread's observer, to be taken along by threads that work for it.
pub fn own() -> Option<Arc<dyn Observer>> {
    // memory may be freed by a thread that ends, which has no observer any more
    if OBSERVED.load(Relaxed) == 0 {
        None
    } else {
        OWN.try_with(|own| own.borrow().clone()).ok()?
    }
}

/// Runs `f` with an observer for this thread, or with none.
pub fn with<R>(observer: Option<Arc<dyn Observer>>, f: impl FnOnce() -> R) -> R {
    /// Puts back what was before, also after a panic.
    struct Before(Option<Arc<dyn Observer>>, usize);
    impl Drop for Before {
        fn drop(&mut self) {
            OWN.set(self.0.take());
            OBSERVED.fetch_sub(self.1, Relaxed);
        }
    }
    let more = observer.is_some() as usize;
    OBSERVED.fetch_add(more, Relaxed);
    let _before = Before(OWN.replace(observer), more);
    f()
}

/// Gives the process observers, for all threads and for good. Those of a second call are not taken.
pub fn for_process(observers: Vec<Arc<dyn Observer>>) {
    let is_wanted = |kind: &Kind| observers.iter().any(|observer| observer.wants(*kind));
    let bits = Kind::ALL.into_iter().filter(is_wanted).fold(0, |bits, kind| bits | bit(kind));
    if OF_PROCESS.set(observers).is_ok() {
        WANTED.store(bits, Relaxed);
    }
}

fn bit(kind: Kind) -> u8 {
    1 << kind as u8
}

/// Whether somebody wants events of this kind on this thread.
#[inline]
pub fn is_wanted(kind: Kind) -> bool {
    WANTED.load(Relaxed) & bit(kind) != 0
        || OBSERVED.load(Relaxed) > 0 && own().is_some_and(|own| own.wants(kind))
}

/// Shows an event to all observers that want it.
pub fn see(event: &Event<'_>) {
    let kind = event.kind();
    if WANTED.load(Relaxed) & bit(kind) != 0
        && let Some(observers) = OF_PROCESS.get()
    {
        let wanting = observers.iter().filter(|observer| observer.wants(kind));
        wanting.for_each(|observer| observer.see(event));
    }
    if let Some(observer) = own().filter(|own| own.wants(kind)) {
        observer.see(event);
    }
}

/// So many alternatives of a decision are told: the one that is taken, and the cheapest others.
pub const MOST_ALTERNATIVES: usize = 6;

/// Shows a decision, which is made only if somebody wants it.
pub fn decision(decide: impl FnOnce() -> Decision) {
    if is_wanted(Kind::Decisions) {
        see(&Event::Decision(&decide()));
    }
}
