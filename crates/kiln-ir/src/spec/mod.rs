//! What a graph may contain at each stage, and the verifier that checks passes against it.
//!
//! Three specs are between stages: `TENSOR` is what users build, `KERNEL` what the scheduler makes of it and the
//! optimizer rewrites, `PROGRAM` the linear list that devices execute. The specs of `lowering` lie between the last
//! two: each pass of lowering removes a form, and the next passes do not know it. A stage or pass may rely on every
//! line of the spec that it is given, and on nothing else. Verifying is linear in the graph, except for the (few)
//! ranges of a kernel.

/// What must hold for a node to exist at all.
pub mod form;
mod kernel;
/// Between a kernel and a program: what each pass of lowering leaves.
pub mod lowering;
mod program;
mod tensor;
mod typing;

use crate::arg::{Arg, RangeKind};
use crate::dtype::DType;
use crate::op::{Group, Op};
use crate::text;
use crate::uop::{Srcs, UOp, toposort};
use std::fmt;

/// A node and what is wrong with it.
type Broken = (UOp, String);

/// What a graph may contain at one stage.
pub struct Spec {
    /// The stage, for messages.
    pub name: &'static str,
    /// The ops that may occur: a set of [`Op::bit`]s.
    pub ops: u128,
    /// Whether values may have this type.
    dtype: fn(DType) -> bool,
    /// Whether ranges may be of this kind.
    kind: fn(RangeKind) -> bool,
    /// Checks one node beyond op, form and elementwise types.
    node: fn(&UOp) -> Result<(), String>,
    /// Checks what only the whole graph shows, given in topological order.
    graph: fn(&[UOp]) -> Result<(), Broken>,
}

/// The graph that users build: no kernels, and indices only as the starts of slices.
pub static TENSOR: Spec = Spec {
    name: "TENSOR",
    ops: TENSOR_OPS,
    dtype: |d| d != DType::Void,
    kind: |_| false,
    node: tensor::node,
    graph: |_| Ok(()),
};

/// The same without `Composite`, and without `Mark`, `Detach`, `Vjp` and `After`, which only gradients and devices needed.
pub static PREPARED: Spec = Spec {
    name: "PREPARED",
    ops: TENSOR_OPS & !set(&[Op::Mark, Op::Detach, Op::Vjp, Op::After, Op::Composite]),
    node: tensor::prepared,
    ..TENSOR
};

const TENSOR_OPS: u128 = group(Group::Movement)
    | group(Group::Note)
    | (ARITHMETIC & !set(&[Op::TruncDiv, Op::TruncMod, Op::Dot]))
    | set(&[Op::Const, Op::Iota, Op::Buffer, Op::Param, Op::Var, Op::Reduce, Op::Update])
    | set(&[Op::Gather, Op::Vjp, Op::Remat, Op::Composite, Op::After, Op::Copy, Op::Sink]);

/// One kernel: effects over ranges, on scalars.
pub static KERNEL: Spec = Spec {
    name: "KERNEL",
    ops: ARITHMETIC
        | set(&[
            Op::Const,
            Op::Param,
            Op::Var,
            Op::Range,
            Op::Reduce,
            Op::Local,
            Op::Load,
            Op::Store,
        ])
        | set(&[Op::End, Op::After, Op::Barrier, Op::Shuffle, Op::Sink]),
    dtype: |d| d != DType::Void,
    kind: |_| true,
    node: kernel::node,
    graph: kernel::graph,
};

/// The linear list; check it with [`verify_program`].
pub static PROGRAM: Spec = Spec {
    name: "PROGRAM",
    ops: (ARITHMETIC & !set(&[Op::FloorDiv, Op::FloorMod]) & !TRANSCENDENTAL)
        | group(Group::Vector)
        | set(&[Op::Const, Op::Param, Op::Var, Op::Local, Op::Load, Op::Store, Op::Range, Op::End])
        | set(&[Op::If, Op::EndIf, Op::Barrier, Op::Prefetch]),
    dtype: |d| !matches!(d, DType::Index | DType::Void),
    kind: |kind| !kind.is_expanded(),
    node: program::node,
    graph: |_| Ok(()),
};

const ARITHMETIC: u128 =
    group(Group::Unary) | group(Group::Binary) | group(Group::Ternary) | group(Group::Convert);

const TRANSCENDENTAL: u128 = {
    let (mut bits, mut i) = (0, 0);
    while i < Op::ALL.len() {
        if Op::ALL[i].is_transcendental() {
            bits |= Op::ALL[i].bit();
        }
        i += 1;
    }
    bits
};

const fn set(ops: &[Op]) -> u128 {
    let (mut bits, mut i) = (0, 0);
    while i < ops.len() {
        bits |= ops[i].bit();
        i += 1;
    }
    bits
}

const fn group(of: Group) -> u128 {
    let (mut bits, mut i) = (0, 0);
    while i < Op::ALL.len() {
        if Op::ALL[i].group() as u8 == of as u8 {
            bits |= Op::ALL[i].bit();
        }
        i += 1;
    }
    bits
}

/// Which node breaks a spec, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecError {
    /// The name of the spec.
    pub stage: &'static str,
    /// The op of the node.
    pub op: Op,
    /// The node as text.
    pub node: String,
    /// What is wrong with it.
    pub reason: String,
}

impl SpecError {
    fn new(stage: &'static str, node: &UOp, reason: String) -> SpecError {
        SpecError { stage, op: node.op(), node: text::describe(node), reason }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {} in `{}`", self.stage, self.op, self.reason, self.node)
    }
}

impl std::error::Error for SpecError {}

/// A node that no spec allows, to see that one is found: a store of nothing to nowhere.
pub fn nonsense() -> UOp {
    UOp::new(Op::Store, DType::Void, 1, Srcs::new(), Arg::None)
}

/// Whether the graph under `root` satisfies `spec`; the first broken node in topological order.
pub fn verify(spec: &Spec, root: &UOp) -> Result<(), SpecError> {
    let nodes = toposort(root);
    for node in &nodes {
        spec.check(node).map_err(|reason| SpecError::new(spec.name, node, reason))?;
    }
    (spec.graph)(&nodes).map_err(|(node, reason)| SpecError::new(spec.name, &node, reason))
}

/// Whether the list is a program; the first broken entry in order.
pub fn verify_program(ops: &[UOp]) -> Result<(), SpecError> {
    let mut walk = program::Walk::default();
    for op in ops {
        let checked = PROGRAM.check(op).and_then(|()| walk.entry(op));
        checked.map_err(|reason| SpecError::new(PROGRAM.name, op, reason))?;
    }
    match walk.open_block() {
        Some(open) => {
            Err(SpecError::new(PROGRAM.name, open, "the block is never closed".to_string()))
        }
        None => Ok(()),
    }
}

impl Spec {
    /// Whether the op may occur.
    pub fn allows(&self, op: Op) -> bool {
        self.ops & op.bit() != 0
    }

    /// One node by itself.
    fn check(&self, node: &UOp) -> Result<(), String> {
        let (op, dtype) = (node.op(), node.dtype());
        if !self.allows(op) {
            return Err("the op is not allowed at this stage".to_string());
        }
        form::check(op, dtype, node.lanes(), node.srcs(), node.arg())?;
        if let Arg::Range { kind, .. } = node.arg()
            && !(self.kind)(*kind)
        {
            return Err(format!("no {} range may be left", kind.name()));
        }
        let effect = op.is_effect();
        if effect != (dtype == DType::Void) || !(effect || (self.dtype)(dtype)) {
            return Err(format!("the type {dtype} is not allowed at this stage"));
        }
        typing::check(node)?;
        (self.node)(node)
    }
}
