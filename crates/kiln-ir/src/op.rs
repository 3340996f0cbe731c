//! The closed set of operations, and the table of facts about each.

use crate::dtype::DType;
use std::fmt;

/// Where an op belongs; passes treat a whole group alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// A node without sources.
    Leaf,
    /// A view of its source: an index map, no arithmetic.
    Movement,
    /// One operand, elementwise.
    Unary,
    /// Two operands, elementwise.
    Binary,
    /// Three operands, elementwise.
    Ternary,
    /// Changes the element type, elementwise.
    Convert,
    /// Combines many elements.
    Reduce,
    /// Says something about its source's value without changing it.
    Note,
    /// Reads or writes memory, or orders such effects.
    Memory,
    /// Control flow of the linear program.
    Control,
    /// Builds or takes apart vectors.
    Vector,
}

macro_rules! ops {
    ($($(#[doc = $doc:literal])+ $name:ident $text:literal $group:ident;)*) => {
        /// An operation. What each means for scalars is in `eval`; what a graph of them may contain at each stage
        /// is in `spec`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Op { $($(#[doc = $doc])+ $name),* }

        impl Op {
            /// Every op, in declaration order.
            pub const ALL: &'static [Op] = &[$(Op::$name),*];

            /// The name in text forms.
            pub const fn name(self) -> &'static str {
                match self { $(Op::$name => $text),* }
            }

            /// The group that the op belongs to.
            pub const fn group(self) -> Group {
                match self { $(Op::$name => Group::$group),* }
            }
        }
    };
}

ops! {
    /// A constant; `Arg::Const`. Rank 0 everywhere.
    Const "const" Leaf;
    /// `0, 1, 2, ..` along one axis; `Arg::Shape([n])`.
    Iota "iota" Leaf;
    /// Materialised data, named by a unique version; `Arg::Buffer`. Its memory hangs on the node, outside identity.
    Buffer "buffer" Leaf;
    /// A numbered argument of a closed graph or kernel; `Arg::Param`.
    Param "param" Leaf;
    /// A scalar that is given at launch; `Arg::Var`.
    Var "var" Leaf;

    /// The same elements in row-major order under another shape; `Arg::Shape`.
    Reshape "reshape" Movement;
    /// Output axis `i` is input axis `axes[i]`; `Arg::Axes`.
    Permute "permute" Movement;
    /// Axes of length 1 repeated; same rank; `Arg::Shape` is the new shape.
    Expand "expand" Movement;
    /// Zeros before, between and after the elements of each axis; `Arg::Pad`.
    Pad "pad" Movement;
    /// One axis becomes two, `[windows, positions inside]`: windows that slide along it; `Arg::Window`.
    Window "window" Movement;
    /// The transpose of `Window`. From axes `[windows, positions]` it makes `[original, positions]`: element `h` at
    /// position `p` is that of the window whose position `p` is `h`, or 0 if there is none. Its sum over positions is
    /// the gradient of `Window`.
    Unwindow "unwindow" Movement;
    /// `start, start + step, ..` of each axis; negative steps too; `Arg::Slice`. More sources are the starts, an index
    /// for each axis.
    Slice "slice" Movement;

    /// `-x`: wraps for integers, flips the sign bit of floats.
    Neg "neg" Unary;
    /// Bitwise complement; logical not for bool.
    Not "not" Unary;
    /// Square root (floats), correctly rounded.
    Sqrt "sqrt" Unary;
    /// `e^x` (floats).
    Exp "exp" Unary;
    /// `2^x` (floats).
    Exp2 "exp2" Unary;
    /// Natural logarithm (floats).
    Log "log" Unary;
    /// Logarithm to base 2 (floats).
    Log2 "log2" Unary;
    /// Sine of radians (floats).
    Sin "sin" Unary;
    /// Cosine of radians (floats).
    Cos "cos" Unary;
    /// Hyperbolic tangent (floats).
    Tanh "tanh" Unary;
    /// Rounds toward zero (floats).
    Trunc "trunc" Unary;

    /// Addition; wraps for integers; "or" for bool.
    Add "add" Binary;
    /// Subtraction; wraps for integers.
    Sub "sub" Binary;
    /// Multiplication; wraps for integers; "and" for bool.
    Mul "mul" Binary;
    /// IEEE division (floats).
    Div "div" Binary;
    /// Quotient rounded down. Integers: 0 for a divisor of 0, and `MIN / -1` is `MIN`. Floats: as NumPy.
    FloorDiv "floordiv" Binary;
    /// Remainder with the divisor's sign. Integers: 0 for a divisor of 0. Floats: exact, except for the rounding that
    /// the sign needs.
    FloorMod "floormod" Binary;
    /// The machine's quotient rounded toward zero. Divisor is never 0, and never -1 with `MIN`.
    TruncDiv "truncdiv" Binary;
    /// The machine's remainder with the dividend's sign. Same preconditions as `TruncDiv`.
    TruncMod "truncmod" Binary;
    /// `x * 2^y` for integers; 0 where y is at least the width (or negative).
    Shl "shl" Binary;
    /// Integer shift right, filling with the sign; past the width all bits are the sign.
    Shr "shr" Binary;
    /// Bitwise and.
    And "and" Binary;
    /// Bitwise or.
    Or "or" Binary;
    /// Bitwise exclusive or.
    Xor "xor" Binary;
    /// The larger; NaN if either is NaN.
    Max "max" Binary;
    /// The smaller; NaN if either is NaN.
    Min "min" Binary;
    /// `a < b` as bool; false with NaN.
    CmpLt "cmplt" Binary;
    /// `a == b` as bool; false with NaN.
    CmpEq "cmpeq" Binary;
    /// `a != b` as bool; true with NaN.
    CmpNe "cmpne" Binary;

    /// `condition ? a : b`; the condition is bool.
    Where "where" Ternary;
    /// `a * b + c` rounded once (floats). Only sums make it (docs/rules.md).
    MulAdd "muladd" Ternary;

    /// Converts the value to the node's dtype.
    Cast "cast" Convert;
    /// Reads the same bits as the node's dtype. Between sizes the last axis grows or shrinks.
    Bitcast "bitcast" Convert;

    /// Tensor form: combines along axes and drops them; `Arg::Reduce` with axes, one source.
    /// Kernel form: combines over the ranges that follow the value; `Arg::Reduce` without axes. A last source that is
    /// no range is the initial value, which another loop has computed.
    Reduce "reduce" Reduce;

    /// Its value must be in memory of its own, row-major.
    Contiguous "contiguous" Note;
    /// No gradient passes.
    Detach "detach" Note;
    /// A read of a storage that wants a gradient; `Arg::Mark` says which.
    Mark "mark" Note;

    /// `update(base, value, at)`, a new version of a storage: `base` with element `k` of `value` written at the row-major
    /// position `at[k]`. Of equal positions the last wins; a position that the base does not have is skipped. With
    /// `Arg::Reduce` (no axes) the element is combined with what is there. A view is written by viewing the positions:
    /// `at` is then the view of an `Iota`.
    Update "update" Memory;
    /// `gather(x, at)`: element `k` is the one of `x` at the row-major position `at[k]`; 0 where `x` has none there.
    Gather "gather" Memory;
    /// The first source, ordered after the effects that follow it. In a tensor graph the effects are values that are
    /// computed whenever the first source is; with `Arg::Check` the effect is one bool, and true is an error.
    After "after" Memory;
    /// The value on a device, whose graph it belongs to from there on; `Arg::Device`.
    Copy "copy" Memory;

    /// A loop variable of dtype index counting from 0 to its source; `Arg::Range`.
    Range "range" Control;
    /// Closes the ranges that follow the effect.
    End "end" Control;
    /// The root of a kernel or graph: holds effects or values together.
    Sink "sink" Control;
    /// All work-items of a group wait for each other.
    Barrier "barrier" Control;
    /// Linear form only: the ops until `EndIf` run if the source is true.
    If "if" Control;
    /// Linear form only: ends an `If`.
    EndIf "endif" Control;

    /// Memory inside a kernel; `Arg::Memory` says which kind, its number and its length in elements.
    Local "local" Memory;
    /// `load(memory, index)` or `load(memory, index, gate)`: 0 where the gate is false. `lanes` consecutive elements.
    Load "load" Memory;
    /// `store(memory, index, value)` or `store(memory, index, value, gate)`.
    Store "store" Memory;

    /// A vector from scalars, one source per lane.
    Stack "stack" Vector;
    /// A vector with the same scalar in every lane.
    Splat "splat" Vector;
    /// One lane of a vector; `Arg::Lane`.
    Lane "lane" Vector;

    /// `dot(x, y, c)`: each u32 of `x` and `y` holds several narrow numbers, the first in the low bits. Adds the
    /// products of these to `c`; `Arg::Parts` are their types. Only sums make it, for targets that have it
    /// (docs/rules.md).
    Dot "dot" Ternary;
    /// `mma(x, y, c)`: `c` plus the matrix product of `x` and `y`. Their elements are u32, and the product of two
    /// elements is a `Dot`. Lanes are matrices in row-major order; `Arg::Mma` has their sizes and types. Only sums make
    /// it, for targets that have it (docs/rules.md).
    Mma "mma" Vector;

    // at the end, because the number of an op is part of hashes, by which operands are ordered and searches are noted

    /// `x^y` (floats), with IEEE's special cases.
    Pow "pow" Binary;
    /// `e^x - 1`, to the last places where `x` is small too (floats).
    Expm1 "expm1" Unary;
    /// `ln(1 + x)`, to the last places where `x` is small too (floats).
    Log1p "log1p" Unary;
    /// `1 / (1 + e^-x)` (floats).
    Sigmoid "sigmoid" Unary;
    /// `vjp(value, seed, x, dx, ..)`: the value, with a gradient of its own. The gradient of each source `x` is the source
    /// `dx` after it, in which `seed` stands for the gradient of the value. Or `vjp(value, x, ..)` with an
    /// `Arg::Derivative`, which makes the gradients of the sources `x`.
    Vjp "vjp" Memory;
    /// `remat(x, y, ..)`: the value of `x`, which is in memory. What is computed from it is computed after the values `y`,
    /// and shares nothing with what is computed from `x` (rematerialization).
    Remat "remat" Memory;
    /// `composite(x, ..)`: a function of its sources that is written out in other ops when the graph is scheduled or
    /// differentiated. `Arg::Composite` says which.
    Composite "composite" Memory;
    /// `shuffle(x)`: the value of `x` that another item of the subgroup has. The numbers of both items differ in the bits of
    /// `Arg::Mask`. All items of a group compute it at the same time. (CUDA: `__shfl_xor_sync`; OpenCL:
    /// `sub_group_shuffle_xor`.)
    Shuffle "shuffle" Vector;
    /// `prefetch(memory, index)`: a later load will read the element `Arg::Prefetch` further on than the index. Linear form only. A hint
    /// to the target, without a meaning: it may name an element past the end. (LLVM: `llvm.prefetch`.)
    Prefetch "prefetch" Memory;
}

impl Op {
    /// Computes each output element from the same element of every source.
    pub const fn is_elementwise(self) -> bool {
        matches!(self.group(), Group::Unary | Group::Binary | Group::Ternary | Group::Convert)
    }

    /// Elementwise arithmetic: unary, binary or ternary.
    pub const fn is_alu(self) -> bool {
        matches!(self.group(), Group::Unary | Group::Binary | Group::Ternary)
    }

    /// A view of its source.
    pub const fn is_movement(self) -> bool {
        matches!(self.group(), Group::Movement)
    }

    /// Gives bool whatever its operands are.
    pub const fn is_comparison(self) -> bool {
        matches!(self, Op::CmpLt | Op::CmpEq | Op::CmpNe)
    }

    /// `a op b` equals `b op a`, to the last bit, on every dtype. `Max` and `Min` are not here: with zeros of both
    /// signs they give their first operand.
    pub const fn is_commutative(self) -> bool {
        matches!(self, Op::Add | Op::Mul | Op::And | Op::Or | Op::Xor | Op::CmpEq | Op::CmpNe)
    }

    /// Associative on integers and bool.
    pub const fn is_associative(self) -> bool {
        matches!(self, Op::Add | Op::Mul | Op::And | Op::Or | Op::Xor | Op::Max | Op::Min)
    }

    /// Has no value: it changes something, or orders what does. Its type is void.
    pub const fn is_effect(self) -> bool {
        matches!(
            self,
            Op::Store | Op::Prefetch | Op::End | Op::Sink | Op::Barrier | Op::If | Op::EndIf
        )
    }

    /// Costs tens of machine operations: decomposed into polynomials before rendering.
    pub const fn is_transcendental(self) -> bool {
        matches!(self, Op::Exp | Op::Exp2 | Op::Log | Op::Log2 | Op::Sin | Op::Cos | Op::Tanh)
            || matches!(self, Op::Expm1 | Op::Log1p | Op::Sigmoid | Op::Pow)
    }

    /// What arithmetic on one element of this type takes, in additions. A division or square root takes several times as
    /// long as an addition on current processors (Agner Fog's instruction tables: 5 to 8 times per vector). A
    /// transcendental function is a polynomial of about a dozen multiply-adds, twice that where it is computed in f64 or
    /// in steps.
    pub fn additions(self, dtype: DType) -> f64 {
        match self {
            Op::FloorDiv | Op::FloorMod if dtype.is_float() => 25.0,
            Op::Pow => 25.0,
            _ if self.is_transcendental() => 12.5,
            Op::Div | Op::Sqrt | Op::FloorDiv | Op::FloorMod => 7.5,
            _ => 1.0,
        }
    }

    /// The op with this [`name`](Op::name).
    pub fn parse(name: &str) -> Option<Op> {
        Op::ALL.iter().copied().find(|op| op.name() == name)
    }

    /// The bit of this op in a set of ops.
    pub const fn bit(self) -> u128 {
        1 << self as u8
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
