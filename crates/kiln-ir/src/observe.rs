//! Observers: they receive each pass, rewrite and decision as the compiler makes it, in order to show, count or replay
//! it.
//!
//! An observer belongs to one thread, so programs that run at the same time see only their own compiler. Without one,
//! nothing is recorded: passes and rewrites first call `is_on`, which reads a flag.

use crate::uop::UOp;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Something that happens in the compiler.
#[derive(Debug)]
pub enum Event<'a> {
    /// A pass has run.
    Pass {
        /// The stage that it belongs to.
        stage: &'static str,
        /// Its name.
        pass: &'static str,
        /// The graph before it: roots, or a list of ops.
        before: &'a [UOp],
        /// The graph after it.
        after: &'a [UOp],
    },
    /// A set of rules begins with these graphs. Rules of a set may rewrite with other sets on the way.
    Rules {
        /// The set's name.
        set: &'static str,
        /// What it is given.
        roots: &'a [UOp],
    },
    /// The set that began last and is not done is done.
    RulesDone {
        /// The set's name.
        set: &'static str,
        /// The normal forms.
        roots: &'a [UOp],
    },
    /// A rule of that set has rewritten a node whose sources were normal.
    Rewrite {
        /// The rule's name.
        rule: &'static str,
        /// Where it is written.
        place: (&'static str, u32),
        /// The node before.
        before: &'a UOp,
        /// What it became.
        after: &'a UOp,
    },
    /// A stage has chosen between alternatives.
    Decision(&'a Decision),
}

/// A choice between alternatives, by price.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// What is decided about: `reduce [64, 10] sum`, say.
    pub about: String,
    /// The alternatives, each with its price; none where the price did not matter.
    pub alternatives: Vec<(&'static str, Option<f64>)>,
    /// What prices are counted in.
    pub unit: &'static str,
    /// Which of them is taken.
    pub chosen: usize,
    /// Why, or what follows from it; may be empty.
    pub note: String,
}

impl std::fmt::Display for Decision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.about, self.alternatives[self.chosen].0)?;
        let mut prices =
            self.alternatives.iter().filter_map(|(name, price)| Some((name, (*price)?)));
        if let Some((name, price)) = prices.next() {
            let unit = self.unit;
            write!(f, " ({name} {price:.1} {unit}")?;
            prices.try_for_each(|(name, price)| write!(f, ", {name} {price:.1} {unit}"))?;
            write!(f, ")")?;
        }
        if self.note.is_empty() { Ok(()) } else { write!(f, ": {}", self.note) }
    }
}

/// Sees what happens.
pub trait Observer: Send + Sync {
    /// Sees one event. It must not compile anything itself.
    fn see(&self, event: &Event<'_>);
}

/// Observers in the process: with none, no thread has to look for its own.
static OBSERVERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: RefCell<Option<Arc<dyn Observer>>> = const { RefCell::new(None) };
}

/// This thread's observer, to be taken along by threads that work for it.
pub fn own() -> Option<Arc<dyn Observer>> {
    if OBSERVERS.load(Relaxed) == 0 { None } else { OWN.with_borrow(Clone::clone) }
}

/// Runs `f` with an observer for this thread, or with none.
pub fn with<R>(observer: Option<Arc<dyn Observer>>, f: impl FnOnce() -> R) -> R {
    /// Puts back what was before, also after a panic.
    struct Before(Option<Arc<dyn Observer>>, usize);
    impl Drop for Before {
        fn drop(&mut self) {
            OWN.set(self.0.take());
            OBSERVERS.fetch_sub(self.1, Relaxed);
        }
    }
    let more = observer.is_some() as usize;
    OBSERVERS.fetch_add(more, Relaxed);
    let _before = Before(OWN.replace(observer), more);
    f()
}

/// Whether this thread is observed.
#[inline]
pub fn is_on() -> bool {
    OBSERVERS.load(Relaxed) > 0 && OWN.with_borrow(Option::is_some)
}

fn see(event: &Event<'_>) {
    if let Some(observer) = own() {
        observer.see(event);
    }
}

/// A pass has run.
pub fn pass(stage: &'static str, pass: &'static str, before: &[UOp], after: &[UOp]) {
    see(&Event::Pass { stage, pass, before, after });
}

/// A set of rules begins.
pub(crate) fn rules(set: &'static str, roots: &[UOp]) {
    see(&Event::Rules { set, roots });
}

/// A set of rules is done.
pub(crate) fn rules_done(set: &'static str, roots: &[UOp]) {
    see(&Event::RulesDone { set, roots });
}

/// A rule has rewritten a node.
pub(crate) fn rewrite(rule: &'static str, place: (&'static str, u32), before: &UOp, after: &UOp) {
    see(&Event::Rewrite { rule, place, before, after });
}

/// A stage has chosen.
pub fn decision(decision: &Decision) {
    see(&Event::Decision(decision));
}
