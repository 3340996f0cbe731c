//! The driver: rewrites to fixpoint, sources first, without recursion.

use super::matcher::{Compiled, Track};
use crate::uop::{Srcs, UOp, rebuild};
use rustc_hash::FxHashMap;

/// Nested rewrites of one node and its replacements. Sums of thousands of terms sort themselves in as many steps.
/// Beyond this limit the rules are assumed to undo each other.
pub const REWRITES_PER_NODE: u32 = 20_000;

/// How many rules are named when that limit trips.
pub const RULES_IN_TRACE: usize = 10;

/// Tracks nothing, at no cost.
pub(crate) struct Untracked;

impl Track for Untracked {
    type Started = ();
    #[inline]
    fn start(&self, _: usize) {}
    #[inline]
    fn stop(&mut self, _: usize, (): (), _: &UOp, _: Option<&UOp>) {}
}

/// A node on its way to its normal form.
struct Frame {
    node: UOp,
    /// What this node was before; all of it has the same normal form.
    before: Vec<UOp>,
    /// The next source to look at.
    next: u32,
    /// Rewrites that led here.
    rewrites: u32,
    /// A source has a normal form other than itself.
    changed: bool,
}

/// Normal forms. Nodes that remember by a bit that they are normal are not in it.
#[derive(Default)]
struct Done {
    /// Where in `pairs` a node's is, by the node's id.
    places: FxHashMap<usize, u32>,
    /// Nodes and their normal forms, which are freed in the order in which they were made: memory likes that.
    pairs: Vec<(UOp, UOp)>,
}

impl Done {
    #[inline]
    fn get(&self, node: &UOp) -> Option<&UOp> {
        let place = self.places.get(&node.id())?;
        Some(&self.pairs[*place as usize].1)
    }

    fn insert(&mut self, node: UOp, normal: UOp) {
        self.places.insert(node.id(), self.pairs.len() as u32);
        self.pairs.push((node, normal));
    }
}

/// One call's state: what is being rewritten, and what has been.
pub(crate) struct Driver<'a, C: 'static, T> {
    set: &'a Compiled<C>,
    ctx: &'a mut C,
    track: &'a mut T,
    done: Done,
    stack: Vec<Frame>,
    fired: [usize; RULES_IN_TRACE],
    n_fired: usize,
}

impl<'a, C, T: Track> Driver<'a, C, T> {
    pub(crate) fn new(set: &'a Compiled<C>, ctx: &'a mut C, track: &'a mut T) -> Self {
        let (done, stack) = (Done::default(), Vec::new());
        Driver { set, ctx, track, done, stack, fired: [0; RULES_IN_TRACE], n_fired: 0 }
    }

    /// The normal form of `root`.
    pub(crate) fn run(&mut self, root: &UOp) -> UOp {
        if !self.is_done(root) {
            self.push(root.clone(), 0);
        }
        while let Some(frame) = self.stack.last_mut() {
            match unfinished_source(frame, &self.done, self.set.normal_bit) {
                Some(src) => {
                    let rewrites = frame.rewrites;
                    self.push(src, rewrites);
                }
                None => self.advance(),
            }
        }
        self.normal_form(root).clone()
    }

    fn push(&mut self, node: UOp, rewrites: u32) {
        self.stack.push(Frame { node, before: Vec::new(), next: 0, changed: false, rewrites });
    }

    fn is_normal(&self, node: &UOp) -> bool {
        node.normal_bits() & self.set.normal_bit != 0
    }

    fn is_done(&self, node: &UOp) -> bool {
        self.is_normal(node) || self.done.get(node).is_some()
    }

    fn normal_form<'n>(&'n self, node: &'n UOp) -> &'n UOp {
        if self.is_normal(node) {
            return node;
        }
        self.done.get(node).expect("a node that is done")
    }

    /// All sources of the top node are normal: takes them over, or rewrites the node, or is finished with it.
    fn advance(&mut self) {
        let frame = self.stack.last().expect("a node to advance");
        let new = if frame.changed {
            let node = &frame.node;
            let mut srcs = Srcs::new();
            node.srcs().iter().for_each(|s| srcs.push(self.normal_form(s).clone()));
            rebuild(node, srcs)
        } else if let Some((new, rule)) = self.set.apply(&frame.node, self.ctx, self.track) {
            self.count(rule);
            new
        } else {
            return self.finish(None);
        };
        if self.is_done(&new) {
            return self.finish(Some(new));
        }
        let frame = self.stack.last_mut().expect("still there");
        (frame.next, frame.changed) = (0, false);
        if new != frame.node {
            frame.before.push(std::mem::replace(&mut frame.node, new));
        }
    }

    /// The top node is normal, or `became` a node whose normal form is known.
    fn finish(&mut self, became: Option<UOp>) {
        let Frame { node, mut before, .. } = self.stack.pop().expect("a node to finish");
        let normal = match became {
            None => {
                node.add_normal_bits(self.set.normal_bit);
                if self.set.normal_bit == 0 {
                    self.done.insert(node.clone(), node.clone());
                }
                node
            }
            Some(new) => {
                before.push(node);
                self.normal_form(&new).clone()
            }
        };
        for node in before {
            if node != normal {
                self.done.insert(node, normal.clone());
            }
        }
    }

    fn count(&mut self, rule: usize) {
        self.fired[self.n_fired % RULES_IN_TRACE] = rule;
        self.n_fired += 1;
        let frame = self.stack.last_mut().expect("a node that was rewritten");
        frame.rewrites += 1;
        if frame.rewrites > REWRITES_PER_NODE {
            let node = frame.node.clone();
            self.give_up(&node);
        }
    }

    fn give_up(&self, node: &UOp) -> ! {
        let first = self.n_fired.saturating_sub(RULES_IN_TRACE);
        let names = (first..self.n_fired).map(|i| {
            let place = &self.set.places[self.fired[i % RULES_IN_TRACE]];
            format!("  {} ({}:{})\n", place.name, place.file, place.line)
        });
        panic!(
            "kiln bug: `{}` rewrites {node:?} more than {REWRITES_PER_NODE} times; the last rules were\n{}",
            self.set.name,
            names.collect::<String>()
        );
    }
}

/// The next source that is not normal yet.
#[inline]
fn unfinished_source(frame: &mut Frame, done: &Done, bit: u64) -> Option<UOp> {
    for src in &frame.node.srcs()[frame.next as usize..] {
        if src.normal_bits() & bit == 0 {
            match done.get(src) {
                None => return Some(src.clone()),
                Some(normal) => frame.changed |= normal != src,
            }
        }
        frame.next += 1;
    }
    None
}
