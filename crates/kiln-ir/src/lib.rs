//! The one data structure of kiln, and how it is rewritten. Modules in reading order:

/// Scalar types, promotion, constants.
pub mod dtype;
/// Types by their names.
mod dtype_name;
/// Floats of eight bits.
pub mod fp8;
/// The closed set of ops: the one table of facts about each.
pub mod op;
/// Typed payloads that nodes of any stage carry.
pub mod arg;
/// How nodes come by gradients that do not follow from ops.
pub mod derivative;
/// The lengths among those payloads.
mod lengths;
/// Sets of loops.
mod axis_set;
/// Interned nodes, their constructors, derived facts and walks.
pub mod uop;
/// Index arithmetic as sums of multiples: how an index moves along each loop.
pub mod affine;
/// Which loops each node of a kernel is inside of.
pub mod scope;
/// Positions that `Update` and `Gather` take: which of them are views, and where those lie.
pub mod region;
/// The meaning of every scalar op, in plain Rust.
pub mod eval;
/// The meaning of tensor graphs, element by element: the slow truth for tests.
pub mod reference;
/// Left sides of rules.
pub mod pattern;
/// Rules and sets of them.
pub mod rule;
/// Applies rule sets to graphs.
pub mod rewrite;
/// What the compiler does, for those who watch.
pub mod observe;
/// Identities that hold at every stage.
pub mod rules;
/// What a graph may contain at each stage.
pub mod spec;
/// Graphs as text that parses back.
pub mod text;
/// What every rule is tested for.
pub mod check;
/// What the compiler hands to a device.
pub mod program;

pub use arg::Arg;
pub use dtype::{Const, DType};
pub use dtype_name::UnknownDType;
pub use op::Op;
pub use rewrite::{graph_rewrite, graph_rewrite_all, graph_rewrite_with};
pub use rule::{Rule, RuleSet};
pub use uop::{UOp, WeakUOp};
