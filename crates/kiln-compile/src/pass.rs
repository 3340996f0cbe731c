//! What a pass is, and the one function that runs a list of them.
//!
//! A pass may panic, or break its spec. Both become a `Bug`: an error with the name of the pass, the rule and the
//! graph. The program that needs the kernel goes on.

use crate::optimize::Opt;
use kiln_ir::observe::{self, Event, Kind};
use kiln_ir::{UOp, rewrite, text};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One step of a stage. `S` is the state that the passes change, `C` what they only read: the target, for example.
pub struct Pass<S: 'static, C: 'static> {
    /// Its name, which is also the name of its module.
    pub name: &'static str,
    /// What holds after it, as text for people.
    pub leaves: &'static str,
    /// The pass itself.
    pub run: fn(&mut S, &C),
    /// Checks what holds after it.
    pub spec: fn(&S, &C) -> Result<(), String>,
}

/// A list of passes.
pub struct Stage<S: 'static, C: 'static> {
    /// Its name.
    pub name: &'static str,
    /// In the order in which they run.
    pub passes: &'static [Pass<S, C>],
}

/// The state that the passes of a stage change.
pub trait State {
    /// The graph as it is now, for errors and observers.
    fn graph(&self) -> Vec<UOp>;

    /// Puts a node into the graph that no spec allows.
    fn spoil(&mut self);
}

/// How passes are run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checks {
    /// Whether to verify what each pass leaves.
    pub verify: bool,
    /// For tests: this pass leaves a graph that breaks its spec.
    pub spoiled: Option<&'static str>,
}

impl<S: State, C> Stage<S, C> {
    /// Runs all passes on the state that `start` makes. If one of them panics, the state is made again to find the
    /// rule.
    ///
    /// # Errors
    /// A pass that panics, or breaks its spec: the compiler's own fault.
    pub fn run(&self, start: impl Fn() -> S, told: &C, checks: Checks) -> Result<S, Bug> {
        let mut state = start();
        for pass in self.passes {
            let before = observe::is_wanted(Kind::Steps).then(|| state.graph());
            let run = AssertUnwindSafe(|| (pass.run)(&mut state, told));
            if let Err(panic) = catch_unwind(run) {
                return Err(self.panicked(pass.name, &*panic, start, told));
            }
            if checks.spoiled == Some(pass.name) {
                state.spoil();
            }
            if let Some(before) = before {
                let (stage, pass, after) = (self.name, pass.name, &state.graph()[..]);
                observe::see(&Event::Pass { stage, pass, before: &before, after });
            }
            if checks.verify {
                (pass.spec)(&state, told)
                    .map_err(|why| Bug::left(pass.name, &why, &state.graph()))?;
            }
        }
        Ok(state)
    }

    /// Runs the stage once more, tracked, to find the rule in which it panics.
    fn panicked(
        &self,
        pass: &'static str,
        panic: &(dyn Any + Send),
        start: impl Fn() -> S,
        told: &C,
    ) -> Bug {
        let again = || {
            let mut state = start();
            self.passes.iter().for_each(|pass| (pass.run)(&mut state, told));
        };
        let (what, graph) = (message(panic), start().graph());
        Bug { rule: rewrite::blame(again), ..Bug::new(pass, what, &graph) }
    }

    /// The stage in words: its name, and for each pass the name and what holds after it.
    pub fn listed(&self) -> Listed {
        let passes = self.passes.iter().map(|pass| (pass.name, pass.leaves)).collect();
        Listed { name: self.name, passes }
    }
}

/// A stage in words.
pub struct Listed {
    /// Its name.
    pub name: &'static str,
    /// For each pass, the name and what holds after it.
    pub passes: Vec<(&'static str, &'static str)>,
}

/// A bug of the compiler, with the pass, the rewrite rule if one failed, and the graph.
#[derive(Clone, Debug)]
pub struct Bug {
    /// The pass that failed.
    pub pass: &'static str,
    /// Its message.
    pub what: String,
    /// The rewrite rule that failed, with file and line.
    pub rule: Option<String>,
    /// The options that had been chosen.
    pub options: Vec<Opt>,
    /// The graph as text that parses back.
    pub graph: String,
}

impl Bug {
    pub(crate) fn new(pass: &'static str, what: String, graph: &[UOp]) -> Bug {
        let graph = graph.iter().map(text::print).collect();
        Bug { pass, what, rule: None, options: Vec::new(), graph }
    }

    /// A pass that broke its spec.
    pub(crate) fn left(pass: &'static str, why: &str, graph: &[UOp]) -> Bug {
        Bug::new(pass, format!("left a broken graph: {why}"), graph)
    }

    /// The same bug, with the options that were chosen.
    pub(crate) fn with(self, options: &[Opt]) -> Bug {
        Bug { options: options.to_vec(), ..self }
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bug in kiln: pass `{}`: {}", self.pass, self.what)?;
        if let Some(rule) = &self.rule {
            write!(f, "\nin rule {rule}")?;
        }
        if !self.options.is_empty() {
            let options: Vec<String> = self.options.iter().map(ToString::to_string).collect();
            write!(f, "\nwith options [{}]", options.join(", "))?;
        }
        write!(f, "\non the graph\n{}", self.graph)
    }
}

impl std::error::Error for Bug {}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "panicked without a message".to_owned())
}
