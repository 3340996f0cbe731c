//! The walk from live nodes down to leaves: every node once, sources before users.

use super::filler;
use super::leaf::{self, Slot, Value};
use super::planning::Planning;
use crate::device::Device;
use kiln_ir::arg::Arg;
use kiln_ir::uop::Srcs;
use kiln_ir::{Op, UOp};
use smallvec::SmallVec;
use std::sync::Arc;

/// Positions of a node's sources: as many as most nodes have without an allocation.
pub(super) type Edges = SmallVec<[usize; 3]>;

/// Room for the nodes above one: what a small graph needs.
const DEPTH: usize = 16;

/// How a computed node stands for its leaf.
#[derive(Clone, Copy)]
pub(super) struct StandsFor {
    /// See [`Value::shares`].
    pub(super) shares: bool,
}

/// Another thread computes something that this graph needs.
pub(super) struct Busy(pub(super) Arc<Slot>);

/// A node that a walk has reached.
pub(super) struct Reached {
    pub(super) node: UOp,
    /// Positions of its sources; of a computed node, its leaf.
    pub(super) edges: Edges,
    /// How it stands for its leaf, if it has been computed. Another thread may have computed more since.
    pub(super) computed: Option<StandsFor>,
    /// How many references the walk itself holds: the list of nodes, and its users. A node that is a source twice is
    /// held twice. Computed users do not count: they can be cut off from their leaves.
    pub(super) inside: u32,
    /// How many computed nodes keep it alive.
    pub(super) kept: u32,
    /// Whether a gradient could go through it: it is computed from a value that wants one.
    pub(super) differentiable: bool,
    /// Whether it is a filler: made of constants and positions alone, and of no device. It may have been computed.
    pub(super) is_filler: bool,
    /// The time to compute an element of a filler, in nanoseconds.
    pub(super) time: f32,
    /// Whether it is a view of row-major positions.
    pub(super) is_positions: bool,
    /// Which root it is, if it is to be computed.
    pub(super) root: Option<u32>,
    /// Whether it is a part of what a composite is written out as. The walk met it there first.
    pub(super) is_inner: bool,
    /// Whether it is a composite that is written out. Then its last edge goes to the value.
    pub(super) is_written_out: bool,
}

impl Reached {
    /// A node of which nothing is known.
    pub(super) fn new(node: UOp) -> Reached {
        Reached {
            node,
            edges: Edges::new(),
            computed: None,
            inside: 1,
            kept: 0,
            differentiable: false,
            is_filler: false,
            time: 0.0,
            is_positions: false,
            root: None,
            is_inner: false,
            is_written_out: false,
        }
    }

    /// The positions of its sources alone, or of its leaf: without the value that a composite is written out as.
    pub(super) fn sources(&self) -> &[usize] {
        &self.edges[..self.edges.len() - usize::from(self.is_written_out)]
    }

    /// Whether the node is referred to from outside the walk, by reference counts. This is meaningful under the planning
    /// lock, while only the walk holds its nodes.
    pub(super) fn is_held(&self) -> bool {
        self.node.ref_count() > (self.inside + self.kept) as usize
    }
}

/// A walk from roots to leaves. A node knows its position itself, so only one thread walks at a time.
pub(super) struct Walk {
    /// Where the roots are computed. A filler that was computed on another device counts as not computed.
    device: Device,
    /// Sources before users.
    pub(super) nodes: Vec<Reached>,
    pub(super) effects: Vec<UOp>,
    pub(super) checks: Vec<(UOp, Arc<str>)>,
    /// How many copies are not computed.
    pub(super) copies: usize,
    /// Computed nodes (positions).
    pub(super) computed: Vec<usize>,
    /// Whether there are versions that are not computed.
    pub(super) has_versions: bool,
    /// Whether there are composites that are not written out.
    pub(super) has_whole: bool,
    /// Whether composites are written out.
    writes_out: bool,
    /// In how many composites, one within the other, the walk is.
    within: usize,
}

impl Walk {
    pub(super) fn node(&self, at: usize) -> &UOp {
        &self.nodes[at].node
    }

    /// Whether the node only stands for a leaf.
    pub(super) fn is_computed(&self, at: usize) -> bool {
        self.nodes[at].computed.is_some()
    }

    pub(super) fn with_room(
        nodes: usize,
        writes_out: bool,
        device: &Device,
        _alone: &Planning,
    ) -> Walk {
        Walk {
            device: device.clone(),
            nodes: Vec::with_capacity(nodes),
            effects: Vec::new(),
            checks: Vec::new(),
            copies: 0,
            computed: Vec::new(),
            has_versions: false,
            has_whole: false,
            writes_out,
            within: 0,
        }
    }

    /// The position of a node that has been walked.
    fn position(&self, node: &UOp) -> Option<usize> {
        let at = node.position();
        self.nodes.get(at).is_some_and(|reached| reached.node == *node).then_some(at)
    }

    /// Walks down from a node. Returns its position.
    pub(super) fn visit(&mut self, root: &UOp) -> Result<usize, Busy> {
        if let Some(at) = self.reach(root)? {
            return Ok(at);
        }
        let mut stack = Vec::with_capacity(DEPTH);
        stack.push(Open::new(root));
        loop {
            let open = stack.last_mut().expect("the root is there until it is left");
            if let Some(source) = open.next_source() {
                match self.reach(source)? {
                    Some(at) => open.edges.push(at),
                    None => stack.push(Open::new(source)),
                }
                continue;
            }
            let Some(Open { node, edges, .. }) = stack.pop() else { unreachable!("looked at") };
            let at = match node.op() {
                Op::Composite => self.leave_composite(node, edges)?,
                _ => self.leave(node, edges),
            };
            match stack.last_mut() {
                Some(user) => user.edges.push(at),
                None => return Ok(at),
            }
        }
    }

    /// The position of a node that has been walked, or where the walk ends: it has a value, or no sources.
    fn reach(&mut self, node: &UOp) -> Result<Option<usize>, Busy> {
        if let Some(at) = self.position(node) {
            return Ok(Some(at));
        }
        match leaf::slot(node) {
            Some(slot) if slot.is_pending() => return Err(Busy(slot)),
            Some(slot) => {
                if let Some(value) = slot.value_on(&self.device) {
                    return self.leave_computed(node, &value, &slot).map(Some);
                }
            }
            None => {}
        }
        Ok(node.srcs().is_empty().then(|| self.leave(node, Edges::new())))
    }

    /// Gives a computed node its position, after its leaf.
    fn leave_computed(&mut self, node: &UOp, value: &Value, slot: &Slot) -> Result<usize, Busy> {
        let leaf = self.reach(&value.leaf)?.expect("a leaf has no sources");
        self.nodes[leaf].kept += slot.keeps() as u32;
        let reached = Reached {
            edges: Edges::from_slice(&[leaf]),
            computed: Some(StandsFor { shares: value.shares }),
            is_filler: slot.is_filler(),
            time: filler::read(),
            differentiable: leads_on(node, value.differentiable),
            ..Reached::new(node.clone())
        };
        self.computed.push(self.nodes.len());
        Ok(self.add(reached))
    }

    /// Gives a node its position, after all its sources.
    fn leave(&mut self, node: &UOp, edges: Edges) -> usize {
        let op = node.op();
        match op {
            Op::After => self.effect(node),
            Op::Copy => self.copies += 1,
            Op::Update => self.has_versions = true,
            Op::Vjp => self.inputs(node),
            _ => {}
        }
        let mut is_filler = !matches!(op, Op::Buffer | Op::Copy);
        let mut differentiable = op == Op::Buffer && leaf::history(node).is_some();
        for &source in &edges {
            let source = &mut self.nodes[source];
            source.inside += 1;
            is_filler &= source.is_filler;
            differentiable |= source.differentiable;
        }
        let on_positions = || op.is_movement() && self.nodes[edges[0]].is_positions;
        let sources = || edges.iter().map(|&at| (&self.nodes[at].node, self.nodes[at].time));
        self.add(Reached {
            differentiable: leads_on(node, differentiable),
            is_filler,
            time: if is_filler { filler::time(node, sources()) } else { 0.0 },
            is_positions: op == Op::Iota || on_positions(),
            edges,
            ..Reached::new(node.clone())
        })
    }

    /// Gives a composite its position, after its sources. If composites are written out, the walk goes on through what it is
    /// written out as: of the memory of sources that have been computed.
    fn leave_composite(&mut self, node: &UOp, edges: Edges) -> Result<usize, Busy> {
        if !self.writes_out {
            self.has_whole = true;
            return Ok(self.leave(node, edges));
        }
        let source = |&at: &usize| match self.is_computed(at) {
            true => self.node(self.nodes[at].edges[0]).clone(),
            false => self.node(at).clone(),
        };
        let sources: Srcs = edges.iter().map(source).collect();
        let value = node.decomposition(&sources).expect("a composite");
        self.within += 1;
        let value = self.visit(&value);
        self.within -= 1;
        let at = self.leave(node, edges);
        self.nodes[at].edges.push(value?);
        self.nodes[at].is_written_out = true;
        Ok(at)
    }

    fn add(&mut self, mut reached: Reached) -> usize {
        let at = self.nodes.len();
        reached.is_inner = self.within > 0;
        reached.node.set_position(at);
        self.nodes.push(reached);
        at
    }

    /// Counts the references to what a value has its derivative by, if that was reached on the way to the value.
    fn inputs(&mut self, vjp: &UOp) {
        for input in &vjp.srcs()[1..] {
            if let Some(at) = self.position(input) {
                self.nodes[at].inside += 1;
            }
        }
    }

    /// Notes the effects of an `After`, which become roots of their own.
    fn effect(&mut self, after: &UOp) {
        self.effects.extend(after.srcs()[1..].iter().cloned());
        if let Arg::Check(text) = after.arg() {
            self.checks.push((after.src(1).clone(), text.clone()));
        }
    }
}

/// Whether a gradient could go through a node, if it could go through what it is computed from or not. One that a program
/// gives itself may go anywhere.
fn leads_on(node: &UOp, below: bool) -> bool {
    match node.op() {
        Op::Detach => false,
        Op::Mark => true,
        Op::Vjp => below || node.arg().is_none(),
        _ => below,
    }
}

/// A node whose sources are being walked.
struct Open<'a> {
    node: &'a UOp,
    /// What is walked of its sources. Those of an `After` but the first are effects, which become roots of their own.
    sources: &'a [UOp],
    /// Positions of the sources that have been walked.
    edges: Edges,
}

impl<'a> Open<'a> {
    fn new(node: &'a UOp) -> Open<'a> {
        let sources = match node.op() {
            Op::After | Op::Vjp => &node.srcs()[..1],
            _ => node.srcs(),
        };
        Open { node, sources, edges: Edges::new() }
    }

    /// The first source that has not been walked.
    fn next_source(&self) -> Option<&'a UOp> {
        self.sources.get(self.edges.len())
    }
}
