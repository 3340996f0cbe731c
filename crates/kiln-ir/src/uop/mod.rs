//! The one data structure: an immutable, interned graph node.
//!
//! Two nodes with the same op, type, argument and sources are the same node: [`UOp`] equality is pointer equality.
//! Facts that follow from those (shape, integer bounds, scope, content hash) are computed when the node is made.

mod build;
mod composite;
mod derive;
mod hash;
mod intern;
mod join;
mod named;
mod origin;
mod power;
mod scope;
mod seen;
mod table;
mod walk;

pub use composite::{Body, GradientRule, Gradients, OwnGradient, named as function_named};
pub use hash::Mixer;
pub use intern::touch;
pub use named::{Linear, Named, Number, Variable, VariableId};
pub use origin::{Origin, name_lines};
pub use scope::{closed_ranges, inside};
pub(crate) use seen::Seen;
pub use walk::{
    axis_of, device_of, find_all, free_local, kind_of, mapped, reaches, rebuild, remade,
    remade_all, substitute, substitute_within, toposort, toposort_all, trip_count,
};

use crate::arg::{ANY_LEN, Arg, Shape};
use crate::axis_set::AxisSet;
use crate::dtype::{Const, DType};
use crate::op::Op;
use smallvec::SmallVec;
use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// A node's sources.
pub type Srcs = SmallVec<[UOp; 3]>;

/// Something that a node holds without being part of what the node is: a buffer's memory, or the materialised value
/// of a computed node.
pub type Payload = Arc<dyn Any + Send + Sync>;

/// A reference to an interned node.
#[derive(Clone)]
pub struct UOp(Arc<Node>);

/// The node itself; read it through [`UOp`]'s methods. What the rewriter looks at comes first: a visit to a node that
/// does not change touches the first 88 bytes of its allocation's 264.
#[repr(C)]
pub struct Node {
    op: Op,
    dtype: DType,
    lanes: u16,
    /// See [`UOp::depth`].
    depth: u16,
    /// The number of a name, or 0.
    origin: AtomicU16,
    /// Rule sets under which the node is normal, one bit each. A lost bit costs a visit, nothing else.
    normal: AtomicU64,
    /// A summary of the sources, for early rejects; see [`below`].
    below: u64,
    /// The constants one level down and two, for early rejects; see [`values`].
    values: [u64; 2],
    srcs: Srcs,
    /// Whether there may be a payload: most nodes never have one, and a lock costs more than a look.
    is_loaded: AtomicBool,
    /// See [`UOp::set_seen`].
    is_seen: AtomicBool,
    /// The number of a list of named numbers, or 0.
    named: AtomicU16,
    /// See [`UOp::position`].
    position: AtomicU32,
    hash: u128,
    bounds: (i64, i64),
    /// `None` for rank 0, which everything inside a kernel has.
    shape: Option<Arc<Shape>>,
    scope: AxisSet,
    payload: Mutex<Option<Payload>>,
    arg: Arg,
}

static RANK_0: Shape = Shape::new_const();

/// A reference to a node that does not keep it alive.
#[derive(Clone)]
pub struct WeakUOp(Weak<Node>);

impl WeakUOp {
    /// The node, if somebody else keeps it alive.
    pub fn upgrade(&self) -> Option<UOp> {
        self.0.upgrade().map(UOp)
    }
}

impl UOp {
    /// About how much memory a node takes: itself, its entry in the table, a shape.
    pub const SIZE: usize = size_of::<Node>() + 160;

    /// What the node does.
    pub fn op(&self) -> Op {
        self.0.op
    }

    /// The type of one element.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// How many scalars the value holds: 1 but for vectors in a lowered kernel.
    pub fn lanes(&self) -> u16 {
        self.0.lanes
    }

    /// The typed payload.
    pub fn arg(&self) -> &Arg {
        &self.0.arg
    }

    /// The nodes that this one is computed from.
    pub fn srcs(&self) -> &[UOp] {
        &self.0.srcs
    }

    /// The `i`-th source. Panics where there is none: an op's arity is fixed by the spec.
    pub fn src(&self, i: usize) -> &UOp {
        &self.0.srcs[i]
    }

    /// The shape of a tensor node; rank 0 for everything inside a kernel.
    pub fn shape(&self) -> &Shape {
        self.0.shape.as_deref().unwrap_or(&RANK_0)
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.shape().iter().product()
    }

    /// The length of a memory in a kernel, unless it may be of any length.
    pub fn known_len(&self) -> Option<usize> {
        let len = self.arg().memory().map_or(self.numel(), |(_, _, len)| len);
        (len != ANY_LEN).then_some(len)
    }

    /// A hash of the content, the same in every process. Different nodes have different hashes but for a collision of 128
    /// bits, which keys of caches accept.
    pub fn hash(&self) -> u128 {
        self.0.hash
    }

    /// The smallest value that an integer or bool node can have, as far as it is known.
    pub fn min(&self) -> i64 {
        self.0.bounds.0
    }

    /// The largest value that an integer or bool node can have, as far as it is known.
    pub fn max(&self) -> i64 {
        self.0.bounds.1
    }

    /// The loops that the node varies over: see [`crate::scope`].
    pub fn scope(&self) -> &AxisSet {
        &self.0.scope
    }

    /// The constant's value, if the node is one.
    pub fn as_const(&self) -> Option<Const> {
        match &self.0.arg {
            Arg::Const(c) if self.0.op == Op::Const => Some(*c),
            _ => None,
        }
    }

    /// The value of an integer or bool constant that fits i64.
    pub fn as_int(&self) -> Option<i64> {
        self.as_const()?.as_i128()?.try_into().ok()
    }

    /// Whether the node is the integer, bool or float constant `value` (-0.0 is not 0).
    pub fn is_const(&self, value: i64) -> bool {
        match self.as_const() {
            Some(Const::Float(f)) => f.to_bits() == (value as f64).to_bits(),
            Some(c) => c.as_i128() == Some(value as i128),
            None => false,
        }
    }

    /// The scalar that every lane holds, as far as that can be seen: the source of a `Splat`, else the node itself.
    pub fn uniform(&self) -> &UOp {
        if self.op() == Op::Splat { self.src(0) } else { self }
    }

    /// A summary of the sources; see [`below`].
    pub(crate) fn below(&self) -> u64 {
        self.0.below
    }

    /// The [`value_mark`]s of the constants one and two levels down; of a constant, its own.
    pub(crate) fn values(&self) -> u64 {
        self.0.values[0] | self.0.values[1]
    }

    /// How many nodes the longest chain of elementwise nodes has that ends here, what it starts from included: a
    /// lower bound for the size of an expression. Stops at the largest u16.
    pub(crate) fn depth(&self) -> u16 {
        self.0.depth
    }

    /// The rule sets under which the node is known to be normal.
    pub(crate) fn normal_bits(&self) -> u64 {
        self.0.normal.load(Ordering::Relaxed)
    }

    /// Remembers that the node is normal. Load and store rather than one atomic step: see the field.
    pub(crate) fn add_normal_bits(&self, bits: u64) {
        self.0.normal.store(self.normal_bits() | bits, Ordering::Relaxed);
    }

    /// Address equality in the form of a number: unique among the living nodes, different in every run. Good for
    /// maps inside a pass; never for anything that reaches the output.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// A reference that does not keep the node alive.
    pub fn downgrade(&self) -> WeakUOp {
        WeakUOp(Arc::downgrade(&self.0))
    }

    /// How many references to this node exist.
    pub fn ref_count(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// What hangs on the node outside its identity.
    pub fn payload(&self) -> Option<Payload> {
        let is_loaded = self.0.is_loaded.load(Ordering::Acquire);
        if is_loaded { self.0.payload.lock().expect("payload lock").clone() } else { None }
    }

    /// Notes whether a walk has seen the node and left it uncomputed. Returns the note from before.
    pub fn set_seen(&self, is_seen: bool) -> bool {
        // a note that another thread overwrites costs one more computation
        let was_seen = self.0.is_seen.load(Ordering::Relaxed);
        self.0.is_seen.store(is_seen, Ordering::Relaxed);
        was_seen
    }

    /// Where the node may stand in the list of a walk that [put](UOp::set_position) it there. The list has the last word: an
    /// earlier walk may have left the number (a sparse set; Briggs and Torczon, *An efficient representation for sparse
    /// sets*, 1993). So a walk looks nothing up and cleans nothing up, but two walks at once would hide nodes from each
    /// other: a lock must let in one at a time.
    pub fn position(&self) -> usize {
        self.0.position.load(Ordering::Relaxed) as usize
    }

    /// Notes the node's position in the list of a walk.
    pub fn set_position(&self, position: usize) {
        self.0.position.store(position as u32, Ordering::Relaxed);
    }

    /// Hangs something on the node, or takes it off; returns what was there.
    pub fn set_payload(&self, payload: Option<Payload>) -> Option<Payload> {
        let mut current = self.0.payload.lock().expect("payload lock");
        self.0.is_loaded.store(payload.is_some(), Ordering::Release);
        std::mem::replace(&mut *current, payload)
    }
}

/// A set of what a node has for sources: the [`op_bit`] of each, or the bit of a constant's value. A vector whose lanes
/// all hold one constant looks like that constant, and to its users like both a `Splat` and a `Const`.
fn below(op: Op, srcs: &[UOp], arg: &Arg) -> u64 {
    match (op, arg, srcs) {
        (Op::Const, Arg::Const(c), _) => value_bit(*c),
        (Op::Splat, _, [src]) if src.op() == Op::Const => src.below() | op_bit(Op::Const),
        _ => srcs.iter().fold(0, |set, s| set | op_bit(s.op()) | op_bit(s.uniform().op())),
    }
}

/// The [`value_mark`]s of the constants among the sources, and of those among the sources' sources. A constant, also one
/// in all lanes of a vector, has its own mark for the first.
fn values(op: Op, srcs: &[UOp], arg: &Arg) -> [u64; 2] {
    if let (Op::Const, Arg::Const(c)) = (op, arg) {
        return [value_mark(*c), 0];
    }
    srcs.iter().fold([0; 2], |[near, far], src| match src.uniform().op() {
        Op::Const => [near | src.0.values[0], far],
        _ => [near, far | src.0.values[0]],
    })
}

/// See [`UOp::depth`].
fn depth(op: Op, srcs: &[UOp]) -> u16 {
    let deepest = || srcs.iter().map(UOp::depth).max().unwrap_or(0);
    if op.is_elementwise() { deepest().saturating_add(1) } else { 1 }
}

/// The bit of an op in a summary. Some ops share one.
pub(crate) fn op_bit(op: Op) -> u64 {
    1 << (op as u8 % 64)
}

/// The bit of a constant's value in a summary, the same for equal numbers of any dtype.
pub(crate) fn value_bit(value: Const) -> u64 {
    let (_, bits) = Const::Float(value.as_f64()).key();
    1 << (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

/// Two bits for a constant's value, the same for equal numbers of any dtype.
pub(crate) fn value_mark(value: Const) -> u64 {
    let (_, bits) = Const::Float(value.as_f64()).key();
    let mixed = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    1u64 << (mixed >> 58) | 1 << (mixed >> 52 & 63)
}

impl PartialEq for UOp {
    fn eq(&self, other: &UOp) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for UOp {}
impl Hash for UOp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.id());
    }
}

impl fmt::Debug for UOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.op(), self.dtype())?;
        if self.lanes() > 1 {
            write!(f, "x{}", self.lanes())?;
        }
        if !self.shape().is_empty() {
            write!(f, "{:?}", self.shape().as_slice())?;
        }
        match self.arg() {
            Arg::None => write!(f, "({} srcs)", self.srcs().len()),
            arg => write!(f, "({arg:?}, {} srcs)", self.srcs().len()),
        }
    }
}
