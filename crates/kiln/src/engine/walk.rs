//! The walk from live nodes down to leaves: every node once, sources before users.

use super::leaf::{self, Latch, Slot, Value};
use kiln_ir::arg::Arg;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Positions of a node's sources: as many as most nodes have without an allocation.
pub(super) type Edges = SmallVec<[usize; 3]>;

/// How a computed node stands for its leaf.
#[derive(Clone, Copy)]
pub(super) struct StandsFor {
    /// It keeps the leaf alive.
    pub(super) keeps: bool,
    /// See [`Value::shares`].
    pub(super) shares: bool,
}

/// Another thread computes something that this graph needs.
pub(super) struct Busy(pub(super) Arc<Latch>);

/// A walk from roots to leaves.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) position: FxHashMap<usize, usize>,
    /// Sources before users.
    pub(super) nodes: Vec<UOp>,
    /// Positions of each node's sources; of a computed node, its leaf.
    pub(super) edges: Vec<Edges>,
    /// Which nodes stand for their leaf.
    pub(super) computed: Vec<Option<StandsFor>>,
    /// Which nodes a gradient could go through.
    pub(super) differentiable: Vec<bool>,
    /// The nodes above the one that is being walked. Empty between visits, but for its room.
    above: Vec<Open>,
    pub(super) effects: Vec<UOp>,
    pub(super) checks: Vec<(UOp, Arc<str>)>,
    /// Copies that are not computed (positions).
    pub(super) copies: Vec<usize>,
}

impl Walk {
    /// Whether the node only stands for a leaf.
    pub(super) fn is_computed(&self, at: usize) -> bool {
        self.computed[at].is_some()
    }

    pub(super) fn with_room(nodes: usize) -> Walk {
        let mut walk = Walk::default();
        walk.position.reserve(nodes);
        walk.nodes.reserve(nodes);
        walk.edges.reserve(nodes);
        walk.computed.reserve(nodes);
        walk.differentiable.reserve(nodes);
        walk
    }

    pub(super) fn visit(&mut self, root: &UOp) -> Result<(), Busy> {
        if self.position.contains_key(&root.id()) {
            return Ok(());
        }
        let mut stack = std::mem::take(&mut self.above);
        stack.push(Open::new(root.clone())?);
        while let Some(open) = stack.last_mut() {
            match open.next_source() {
                Some((src, edges)) => match self.position.get(&src.id()) {
                    Some(&at) => edges.push(at),
                    None => {
                        let src = src.clone();
                        stack.push(Open::new(src)?);
                    }
                },
                None => {
                    let open = stack.pop().expect("just looked at");
                    let at = self.leave(open);
                    stack.last_mut().into_iter().for_each(|user| user.edges.push(at));
                }
            }
        }
        self.above = stack;
        Ok(())
    }

    /// Gives a node its position, after all its sources.
    fn leave(&mut self, open: Open) -> usize {
        let at = self.nodes.len();
        if matches!(open.below, Below::First) && open.node.op() == Op::After {
            self.effects.extend(open.node.srcs()[1..].iter().cloned());
            if let Arg::Check(text) = open.node.arg() {
                self.checks.push((open.node.src(1).clone(), text.clone()));
            }
        }
        self.computed.push(match &open.below {
            Below::Value { value, keeps } => {
                Some(StandsFor { keeps: *keeps, shares: value.shares })
            }
            Below::First | Below::All => None,
        });
        if open.node.op() == Op::Copy && !matches!(open.below, Below::Value { .. }) {
            self.copies.push(at);
        }
        self.differentiable.push(self.leads_on(&open));
        self.edges.push(open.edges);
        self.position.insert(open.node.id(), at);
        self.nodes.push(open.node);
        at
    }

    /// Whether a gradient could go through the node, whose sources have their edges.
    fn leads_on(&self, open: &Open) -> bool {
        match (open.node.op(), &open.below) {
            (Op::Detach, _) => false,
            (Op::Mark | Op::Vjp, _) => true,
            (Op::Buffer, _) => leaf::history(&open.node).is_some(),
            (_, Below::Value { value, .. }) => value.differentiable,
            _ => open.edges.iter().any(|&s| self.differentiable[s]),
        }
    }
}

/// A node whose sources are being walked.
struct Open {
    node: UOp,
    below: Below,
    /// Positions of the sources that have been walked.
    edges: Edges,
}

/// What a node is computed from.
enum Below {
    /// It has been computed, and keeps its leaf alive or not.
    Value { value: Value, keeps: bool },
    /// The first source. The others of an `After` are effects, which become roots of their own.
    First,
    /// Its sources.
    All,
}

impl Open {
    fn new(node: UOp) -> Result<Open, Busy> {
        let below = match leaf::slot(&node).as_deref() {
            Some(Slot::Pending(latch)) => return Err(Busy(latch.clone())),
            slot => match slot.and_then(Slot::value) {
                Some(value) => Below::Value { value, keeps: slot.is_some_and(Slot::keeps) },
                None if matches!(node.op(), Op::After | Op::Vjp) => Below::First,
                None => Below::All,
            },
        };
        Ok(Open { node, below, edges: Edges::new() })
    }

    /// The first source that has not been walked, and where its position goes.
    fn next_source(&mut self) -> Option<(&UOp, &mut Edges)> {
        let sources = match &self.below {
            Below::Value { value, .. } => std::slice::from_ref(&value.leaf),
            Below::First => &self.node.srcs()[..1],
            Below::All => self.node.srcs(),
        };
        Some((sources.get(self.edges.len())?, &mut self.edges))
    }
}
