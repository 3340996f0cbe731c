//! The typed payloads of nodes, for every stage.

use crate::dtype::{Const, DType};
use smallvec::SmallVec;
use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Lengths of axes, outermost first.
pub type Shape = SmallVec<[usize; 4]>;

/// Axis numbers.
pub type Axes = SmallVec<[usize; 4]>;

/// What a node carries beside its sources. Which variant an op has is in the op table.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Arg {
    /// Nothing.
    #[default]
    None,
    /// `Const`.
    Const(Const),
    /// `Reshape`, `Expand`, `Iota`.
    Shape(Arc<Shape>),
    /// `Permute`.
    Axes(Axes),
    /// `Pad`, one entry per axis.
    Pad(SmallVec<[PadAxis; 2]>),
    /// `Window`, `Unwindow`.
    Window(WindowArg),
    /// `Slice`, one entry per axis.
    Slice(SmallVec<[SliceAxis; 2]>),
    /// `Reduce`; `axes` is empty in kernels, where ranges are sources. An `Update` that combines has no axes either.
    Reduce {
        /// How two elements combine.
        op: ReduceOp,
        /// The axes that are dropped, ascending.
        axes: Axes,
    },
    /// `Buffer`.
    Buffer {
        /// The version: unique in this process.
        id: u64,
        /// Its shape; row-major.
        shape: Shape,
        /// Where it lives.
        device: Arc<str>,
    },
    /// `Param`.
    Param {
        /// The position among the arguments.
        slot: usize,
        /// Its shape; in a kernel one axis, the length in elements.
        shape: Shape,
    },
    /// `Var`: a launch-time scalar with inclusive bounds (for integers).
    Var {
        /// The position among the launch-time scalars.
        slot: usize,
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// `Range`.
    Range {
        /// Names the range inside its kernel, and orders loops: a smaller number is further out.
        axis: u32,
        /// How it is executed.
        kind: RangeKind,
    },
    /// `Local`.
    Memory {
        /// Which memory.
        space: Space,
        /// Names the memory inside its kernel.
        id: u32,
        /// Length in elements (of `lanes` scalars each for `Space::Register`).
        len: usize,
    },
    /// `Lane`.
    Lane(u16),
    /// `Prefetch`: the element this many elements further on.
    Prefetch(usize),
    /// `Dot`: the narrow types of the first and the second operand.
    Parts([DType; 2]),
    /// `Mma`: as `Parts`, and three sizes: rows of the first operand, its columns (the rows of the second), columns of
    /// the second.
    Mma {
        /// The narrow types of the first and the second operand.
        parts: [DType; 2],
        /// Rows, depth, columns.
        shape: [u16; 3],
    },
    /// `Mark`: the storage that is read.
    Mark {
        /// Its identity.
        storage: u64,
        /// Whether a gradient ends here, instead of going on to what the storage's value was computed from.
        ends: bool,
    },
    /// `Vjp` whose gradients are made when they are asked for.
    Derivative(Derivative),
    /// `Composite`.
    Composite {
        /// What is computed of the sources.
        function: &'static Function,
        /// Axes of the first source that the function works along, if it is told some.
        axes: Axes,
        /// The result's shape.
        shape: Arc<Shape>,
    },
    /// `After`, of a tensor: its effect is a bool that must be false, and this is the error message if it is true.
    Check(Arc<str>),
    /// `Copy`: the destination.
    Device(Arc<str>),
    /// `Shuffle`: the bits in which the numbers of both items differ.
    Mask(u16),
    /// `Sink` of a kernel.
    Kernel {
        /// The kernel's name, such as `r_32_8`.
        name: Arc<str>,
    },
}

/// A rule for the gradients of one function. It replaces those that follow from the ops of the function's value. A
/// factorization is not computed by ops. A softmax is, but its own gradient `y * (g - sum(g * y))` needs its value `y` alone.
/// See [`derivative!`](crate::derivative!).
#[derive(Clone, Copy)]
pub struct Derivative {
    /// No other derivative has it: equal names are equal derivatives.
    pub name: &'static str,
    /// A `GradientRule`. Its type has nodes in it, and this module is below them.
    pub(crate) rule: &'static (dyn Any + Send + Sync),
}

/// A function of tensors that is one node of a graph until the graph is scheduled or differentiated; then the node is written
/// out in other ops. (StableHLO: composite and its decomposition.) See [`function!`](crate::function!).
pub struct Function {
    /// No other function has it: equal names are equal functions.
    pub name: &'static str,
    /// A `Body`. Its type has nodes in it, and this module is below them.
    pub(crate) body: &'static (dyn Any + Send + Sync),
    /// An `OwnGradient`.
    pub(crate) own_gradient: &'static (dyn Any + Send + Sync),
}

/// What is equal if its name is, and is shown as its name.
macro_rules! known_by_name {
    ($($type:ty),*) => { $(
        impl PartialEq for $type {
            fn eq(&self, other: &$type) -> bool {
                self.name == other.name
            }
        }

        impl Eq for $type {}

        impl Hash for $type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.name.hash(state);
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name)
            }
        }
    )* };
}
known_by_name!(Derivative, Function);

/// The length of a `Param` in a kernel for arguments of any length. It is larger than any memory, and odd, so that no rule
/// finds it to be whole vectors.
pub const ANY_LEN: usize = (1 << 47) - 1;

/// Padding of one axis: zeros before, between neighbours and after.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PadAxis {
    /// Zeros before the first element.
    pub before: usize,
    /// Zeros between neighbours.
    pub between: usize,
    /// Zeros after the last element.
    pub after: usize,
}

impl PadAxis {
    /// The padded length of an axis of `n` elements.
    pub fn len(self, n: usize) -> usize {
        self.before + self.after + n + self.between * n.saturating_sub(1)
    }

    /// Whether nothing is added.
    pub fn is_empty(self) -> bool {
        self == PadAxis::default()
    }
}

/// Windows that slide along one axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WindowArg {
    /// The axis.
    pub axis: usize,
    /// Its length.
    pub len: usize,
    /// How many elements each window has.
    pub size: usize,
    /// How far apart windows start.
    pub stride: usize,
    /// How far apart the elements of a window are.
    pub dilation: usize,
}

impl WindowArg {
    /// How many windows fit.
    pub fn count(self) -> usize {
        match self.len.checked_sub(self.dilation * (self.size - 1) + 1) {
            Some(rest) => rest / self.stride + 1,
            None => 0,
        }
    }
}

/// The elements `start + step * i` for `i` in `0..len`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SliceAxis {
    /// The first element's index.
    pub start: usize,
    /// The distance between neighbours; may be negative, never 0.
    pub step: isize,
    /// How many elements.
    pub len: usize,
}

impl SliceAxis {
    /// All of an axis.
    pub fn full(len: usize) -> SliceAxis {
        SliceAxis { start: 0, step: 1, len }
    }

    /// The smallest and the largest start with which all elements are inside an axis of `n`. No elements have no choice.
    pub fn starts(self, n: usize) -> (usize, usize) {
        let reach = self.len.saturating_sub(1) * self.step.unsigned_abs();
        match self.step > 0 {
            _ if self.len == 0 => (self.start, self.start),
            true => (0, n - 1 - reach),
            false => (reach, n - 1),
        }
    }
}

/// How a reduction combines two elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum ReduceOp {
    /// Sum; "any" for bool.
    Add,
    /// Product; "all" for bool.
    Mul,
    /// Largest, NaN wins.
    Max,
    /// Smallest, NaN wins.
    Min,
}

impl ReduceOp {
    /// Every reduction.
    pub const ALL: [ReduceOp; 4] = [ReduceOp::Add, ReduceOp::Mul, ReduceOp::Max, ReduceOp::Min];

    /// The binary op that combines two elements.
    pub const fn alu(self) -> crate::op::Op {
        match self {
            ReduceOp::Add => crate::op::Op::Add,
            ReduceOp::Mul => crate::op::Op::Mul,
            ReduceOp::Max => crate::op::Op::Max,
            ReduceOp::Min => crate::op::Op::Min,
        }
    }

    /// The value of an empty reduction.
    pub fn identity(self, dtype: DType) -> Const {
        let (lo, hi) = dtype.int_bounds();
        let value = match self {
            ReduceOp::Add => Const::Int(0),
            ReduceOp::Mul => Const::Int(1),
            ReduceOp::Max if dtype.is_float() => Const::Float(f64::NEG_INFINITY),
            ReduceOp::Min if dtype.is_float() => Const::Float(f64::INFINITY),
            ReduceOp::Max => Const::Int(lo),
            ReduceOp::Min if dtype == DType::U64 => Const::UInt(u64::MAX),
            ReduceOp::Min => Const::Int(hi),
        };
        value.cast(dtype)
    }

    /// The name in text forms.
    pub const fn name(self) -> &'static str {
        self.alu().name()
    }
}

/// How a range is executed. Order of declaration is the order of nesting that optimize produces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum RangeKind {
    /// Work-groups of a grid.
    Global,
    /// Divided among threads by the caller: a loop from `lo` to `hi` that the launch gives.
    Thread,
    /// Work-items of a group, which share scratch and meet at barriers.
    Local,
    /// A plain loop over outputs.
    Loop,
    /// A loop that a `Reduce` closes.
    Reduce,
    /// Replicated at compile time, over outputs (a register tile).
    Upcast,
    /// Replicated at compile time, inside a reduction.
    Unroll,
    /// The lanes of vectors; at most one per expression.
    Vector,
    /// A side of the matrices that a matrix unit multiplies. Of the two over outputs that meet in a product, the first by
    /// axis number counts rows, the second columns; the third is closed by the `Reduce`.
    Matrix,
}

impl RangeKind {
    /// Every kind.
    pub const ALL: [RangeKind; 9] = [
        RangeKind::Global,
        RangeKind::Thread,
        RangeKind::Local,
        RangeKind::Loop,
        RangeKind::Reduce,
        RangeKind::Upcast,
        RangeKind::Unroll,
        RangeKind::Vector,
        RangeKind::Matrix,
    ];

    /// The name in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            RangeKind::Global => "global",
            RangeKind::Thread => "thread",
            RangeKind::Local => "local",
            RangeKind::Loop => "loop",
            RangeKind::Reduce => "reduce",
            RangeKind::Upcast => "upcast",
            RangeKind::Unroll => "unroll",
            RangeKind::Vector => "vector",
            RangeKind::Matrix => "matrix",
        }
    }

    /// Is no loop of the program: lower writes it out, or makes it lanes.
    pub const fn is_expanded(self) -> bool {
        use RangeKind::{Matrix, Unroll, Upcast, Vector};
        matches!(self, Upcast | Unroll | Vector | Matrix)
    }
}

/// Memory inside a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Space {
    /// Shared by a work-group (on a CPU: private to the thread, in memory that the launch brings).
    Scratch,
    /// Registers of one work-item; indices are constants once expanded.
    Register,
}

impl Space {
    /// The name in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            Space::Scratch => "scratch",
            Space::Register => "register",
        }
    }
}

impl Arg {
    /// Whether there is no payload.
    pub fn is_none(&self) -> bool {
        matches!(self, Arg::None)
    }
}

macro_rules! arg_accessors {
    ($($name:ident -> $t:ty { $pat:pat => $value:expr })*) => {
        impl Arg { $(
            #[doc = concat!("The payload, if it is a `", stringify!($name), "`.")]
            pub fn $name(&self) -> Option<$t> {
                match self { $pat => Some($value), _ => None }
            }
        )* }
    };
}
arg_accessors! {
    constant -> Const { Arg::Const(c) => *c }
    shape -> &Shape { Arg::Shape(s) => s }
    axes -> &Axes { Arg::Axes(a) => a }
    pad -> &[PadAxis] { Arg::Pad(p) => p }
    window -> WindowArg { Arg::Window(w) => *w }
    slice -> &[SliceAxis] { Arg::Slice(s) => s }
    reduce_op -> ReduceOp { Arg::Reduce { op, .. } => *op }
    device -> Arc<str> { Arg::Device(device) | Arg::Buffer { device, .. } => device.clone() }
    slot -> usize { Arg::Param { slot, .. } | Arg::Var { slot, .. } => *slot }
    range -> (u32, RangeKind) { Arg::Range { axis, kind } => (*axis, *kind) }
    memory -> (Space, u32, usize) { Arg::Memory { space, id, len } => (*space, *id, *len) }
    lane -> u16 { Arg::Lane(i) => *i }
    mask -> u16 { Arg::Mask(bits) => *bits }
    prefetch -> usize { Arg::Prefetch(n) => *n }
    parts -> [DType; 2] { Arg::Parts(of) | Arg::Mma { parts: of, .. } => *of }
    mma -> [u16; 3] { Arg::Mma { shape, .. } => *shape }
}
