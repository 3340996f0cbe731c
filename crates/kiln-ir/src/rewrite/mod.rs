//! Applies rule sets to graphs.
//!
//! A graph is rewritten to fixpoint: the sources of a node first, then the node until no rule applies, then whatever
//! new nodes that made. Every node is visited once per call, and for sets without state once per life: a node that
//! was found to be normal remembers it.

mod fast;
mod matcher;
mod tracked;

pub use fast::{REWRITES_PER_NODE, RULES_IN_TRACE};
pub(crate) use matcher::{Compiled, compile, is_offered};
pub use tracked::{Ruled, Stats, blame, report, set_tracking, stats, totals};

use crate::observe::{self, Event};
use crate::rule::RuleSet;
use crate::uop::UOp;
use fast::{Driver, Untracked};
use tracked::Tracker;

/// The normal form of a graph under a rule set.
pub fn graph_rewrite(root: &UOp, set: &RuleSet) -> UOp {
    let compiled = set.compiled();
    if root.normal_bits() & compiled.normal_bit != 0 {
        return root.clone();
    }
    if !tracked::is_tracking() {
        return Driver::new(compiled, &mut (), &mut Untracked).run(root);
    }
    graph_rewrite_with(std::slice::from_ref(root), set, &mut ()).pop().expect("one root")
}

/// The normal forms of graphs that share nodes.
pub fn graph_rewrite_all(roots: &[UOp], set: &RuleSet) -> Vec<UOp> {
    graph_rewrite_with(roots, set, &mut ())
}

/// As [`graph_rewrite_all`], for a stateful pass: rules see `ctx`, each node is given to them once.
pub fn graph_rewrite_with<C>(roots: &[UOp], set: &RuleSet<C>, ctx: &mut C) -> Vec<UOp> {
    let compiled = set.compiled();
    if !tracked::is_tracking() {
        let mut untracked = Untracked;
        let mut driver = Driver::new(compiled, ctx, &mut untracked);
        return roots.iter().map(|root| driver.run(root)).collect();
    }
    let mut tracker = Tracker::new(&compiled.places);
    let mut driver = Driver::new(compiled, ctx, &mut tracker);
    observe::see(&Event::Rules { set: compiled.name, roots });
    let new: Vec<UOp> = roots.iter().map(|root| driver.run(root)).collect();
    observe::see(&Event::RulesDone { set: compiled.name, roots: &new });
    tracker.publish();
    new
}
