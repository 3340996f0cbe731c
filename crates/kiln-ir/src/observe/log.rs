//! An observer that keeps passes, rewrites and decisions, and the replay of rewrites from them.

use super::{Event, Kind, Observer};
use crate::arg::Shape;
use crate::dtype::DType;
use crate::uop::{UOp, mapped, rebuild};
use rustc_hash::FxHashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{ThreadId, current};

/// One event of the compiler, kept.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A pass has run.
    Pass {
        /// Its name.
        name: &'static str,
        /// The graph before it.
        before: Vec<UOp>,
        /// The graph after it.
        after: Vec<UOp>,
    },
    /// A set of rules begins with these graphs.
    Rules {
        /// What it is given.
        roots: Vec<UOp>,
    },
    /// It is done.
    RulesDone {
        /// The normal forms.
        roots: Vec<UOp>,
    },
    /// A rule of it has rewritten a node.
    Rewrite {
        /// The rule's name.
        rule: &'static str,
        /// The node before.
        before: UOp,
        /// What it became.
        after: UOp,
    },
    /// A decision as text.
    Decision(String),
}

/// Keeps what the compiler does, on an observed thread and on those that work for it.
#[derive(Default, Debug)]
pub struct Log(Mutex<Vec<(ThreadId, Seen)>>);

/// What a log was replayed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replay {
    /// Sets of rules that were run.
    pub sets: usize,
    /// Rewrites that they made.
    pub rewrites: usize,
}

/// A set of rules that is not done: what it was given, and its rewrites.
type Open<'a> = (&'a [UOp], FxHashMap<UOp, UOp>);

impl Log {
    /// The events so far, thread by thread, each in its order.
    pub fn seen(&self) -> Vec<Seen> {
        let mut all = self.lock().clone();
        let mut threads: Vec<ThreadId> = Vec::new();
        let mut number = |thread: ThreadId| match threads.iter().position(|t| *t == thread) {
            Some(known) => known,
            None => {
                threads.push(thread);
                threads.len() - 1
            }
        };
        all.sort_by_cached_key(|(thread, _)| number(*thread));
        all.into_iter().map(|(_, seen)| seen).collect()
    }

    /// Replays every set of rules from its recorded rewrites alone, and compares with the recorded result.
    ///
    /// # Errors
    /// A rewrite changes a node's type, lanes or shape; the rewrites lead to another graph than the recorded one; a set is
    /// not done.
    pub fn replay(&self) -> Result<Replay, String> {
        let seen = self.seen();
        let mut open: Vec<Open<'_>> = Vec::new();
        let mut all = Replay { sets: 0, rewrites: 0 };
        for event in &seen {
            match event {
                Seen::Rules { roots } => open.push((roots, FxHashMap::default())),
                Seen::Rewrite { rule, before, after } => {
                    let (_, known) = open.last_mut().ok_or("a rewrite outside of all sets")?;
                    if facts(before) != facts(after) {
                        return Err(format!("rule {rule} turns {before:?} into {after:?}"));
                    }
                    known.insert(before.clone(), after.clone());
                    all.rewrites += 1;
                }
                Seen::RulesDone { roots } => {
                    let (before, known) = open.pop().ok_or("a set that did not begin is done")?;
                    if replayed(before, &known) != *roots {
                        return Err(format!("rewrites of {before:?} do not give {roots:?}"));
                    }
                    all.sets += 1;
                }
                Seen::Pass { .. } | Seen::Decision(_) => {}
            }
        }
        if open.is_empty() { Ok(all) } else { Err(format!("{} sets are not done", open.len())) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(ThreadId, Seen)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What no rewrite may change.
fn facts(node: &UOp) -> (DType, u16, &Shape) {
    (node.dtype(), node.lanes(), node.shape())
}

impl Observer for Log {
    fn see(&self, event: &Event<'_>) {
        let seen = match *event {
            Event::Pass { pass, before, after, .. } => {
                Seen::Pass { name: pass, before: before.to_vec(), after: after.to_vec() }
            }
            Event::Rules { roots, .. } => Seen::Rules { roots: roots.to_vec() },
            Event::RulesDone { roots, .. } => Seen::RulesDone { roots: roots.to_vec() },
            Event::Rewrite { rule, before, after, .. } => {
                Seen::Rewrite { rule, before: before.clone(), after: after.clone() }
            }
            Event::Decision(decision) => Seen::Decision(decision.to_string()),
            _ => return,
        };
        self.lock().push((current().id(), seen));
    }

    fn wants(&self, kind: Kind) -> bool {
        matches!(kind, Kind::Steps | Kind::Decisions)
    }
}

/// The graphs that rules leave of `roots`, by rewrites alone: sources first, each node until nothing is known of it.
pub fn replayed(roots: &[UOp], rewrites: &FxHashMap<UOp, UOp>) -> Vec<UOp> {
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut todo: Vec<UOp> = roots.to_vec();
    while let Some(node) = todo.last().cloned() {
        let missing: Vec<UOp> =
            node.srcs().iter().filter(|s| !done.contains_key(*s)).cloned().collect();
        if !missing.is_empty() {
            todo.extend(missing);
            continue;
        }
        let rebuilt = rebuild(&node, mapped(&node, &done));
        let next = if rebuilt == node { rewrites.get(&node) } else { Some(&rebuilt) };
        match next {
            None => _ = done.insert(node, rebuilt),
            Some(next) => match done.get(next).cloned() {
                Some(normal) => _ = done.insert(node, normal),
                None => {
                    todo.push(next.clone());
                    continue;
                }
            },
        }
        todo.pop();
    }
    roots.iter().map(|root| done[root].clone()).collect()
}
